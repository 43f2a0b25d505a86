"""Evaluations as the jobs publish them: measures, report and pictures of scored rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_auc import __version__
from spark_auc.app.config.jobs import Measures
from spark_auc.app.jobs.drift import drift_of, log_unknown
from spark_auc.app.report.page import page
from spark_auc.app.report.pictures import pictures, png
from spark_auc.app.report.shapes import shape_pictures
from spark_auc.app.report.weights import weights_picture
from spark_auc.core.evaluation.groups import Groups
from spark_auc.core.evaluation.measures import MEASURES
from spark_auc.core.types import Float
from spark_auc.features.recipe import Recipe
from spark_auc.features.shapes import shapes
from spark_auc.publication.directory import Directory
from spark_auc.publication.redaction import redacted

if TYPE_CHECKING:
    from spark_auc.pipeline.models import PipelineModel
    from spark_auc.tables.segments import SegmentColumn
    from spark_auc.tables.table import Table

_OF_PROBABILITIES = (
    *(name for name, measure in MEASURES.items() if measure.probabilities),
    "calibrationError",
    "reliability",
)


def evaluation(
    model: PipelineModel,
    table: Table,
    measures: Measures,
    path: str,
    data: Mapping[str, Any],
    segments: SegmentColumn | None = None,
) -> tuple[dict[str, Any], Groups | None]:
    """Score labelled rows and measure the scores.

    Parameters
    ----------
    model
        The model.
    table
        The rows.
    measures
        What to measure.
    path
        Where the model is published, for the report.
    data
        The keys of the rows' source, for the report.
    segments
        Segments by which to measure, in place of the values of their column.

    Returns
    -------
    dict
        The content of ``evaluation.json``.
    Groups
        AUC by group, if a group column is set.
    """
    # No scored rows are published: the names of their columns are free.
    model = model.beside(table)
    scored = model.scored(table, only=model.measured_columns(measures.groupCol))
    if segments is not None:
        listed = pa.field(segments.column, pa.string())
        scored = scored.cast({segments.column: (listed, segments.listed)})
    report = model.measured(scored, **measures.model_dump())
    measured = report.as_dict() | facts_of(model, path, data)
    if model.calibration:
        # A calibration may tie scores, so the AUC is that of the uncalibrated scores.
        probability = model.calibration.probabilityCol
        calibrated = model.measured(scored, probability, probabilities=True).as_dict()
        measured |= {name: calibrated[name] for name in _OF_PROBABILITIES}
    return measured, report.groups


def facts_of(model: PipelineModel, path: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """What ``evaluation.json`` says beside the measures; arguments as of `evaluation`."""
    ranker = model.ranker
    return {
        "model": model_facts(path, ranker.numFeatures, ranker.summary.as_dict()),
        "data": redacted(data),
        "version": __version__,
    }


def model_facts(path: str, features: int, summary: Mapping[str, Any]) -> dict[str, Any]:
    """The key ``model`` of ``evaluation.json``.

    Parameters
    ----------
    path
        Where the model is, for the report.
    features
        Number of its features.
    summary
        Its `TrainingSummary.as_dict`.
    """
    return {
        "path": path,
        "features": features,
        "nonzeros": summary["nonzeros"],
        "certificate": summary["certificate"],
        "largestWeights": summary["largest_weights"],
        "smoothness": summary.get("smoothness"),
        "methods": (summary["selection"] or {}).get("methods"),
    }


def drift_of_evaluated(model: PipelineModel, table: Table) -> dict[str, Any]:
    """The key ``drift`` of evaluated rows; see `spark_auc.app.jobs.drift`."""
    values = model.ranker.values()
    drift = drift_of(model.fitted_recipe, table, (values["labelCol"], values["weightCol"]))
    log_unknown(drift)
    return drift


def write_evaluation(
    version: Directory,
    result: dict[str, Any],
    w: Float,
    recipe: Recipe | None,
    *,
    groups: Groups | None = None,
    embedded: bool = False,
    columns: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Write ``evaluation.json``, ``report.html`` and the pictures; returns the report's URI.

    ``groups.parquet`` has a row for each group, with the fields of `GroupAUC`.
    Of a model of a recipe with numeric columns and no embeddings, ``shapes.json`` has its curves
    and surfaces, and the report plots of the most important ones.

    Parameters
    ----------
    version
        Directory of the files.
    result
        See `evaluation`.
    w : (d,)
        Weights of the model.
    recipe
        Its recipe, if there is one.
    groups
        AUC by group, if a group column is set.
    embedded
        Whether it has embeddings.
    columns
        What each column of the training became; see `spark_auc.app.jobs.columns`.
    """
    figures = pictures(result)
    version.write_json("evaluation.json", result)
    if groups is not None:
        version.write("groups.parquet", _groups_table(groups))
    found = shapes(recipe, w) if recipe and not embedded else []
    if found:
        version.write_json("shapes.json", {"shapes": [shape.as_dict() for shape in found]})
    unit = recipe is not None and recipe.unit
    drawn = shape_pictures(found)
    weights = weights_picture(result["model"]["largestWeights"])
    version.write("report.html", page(result, figures, drawn, weights, columns, unit=unit).encode())
    for name, figure in figures.items():
        version.write(f"{name}.png", png(figure))
    return f"{version.uri}/report.html"


def _groups_table(groups: Groups) -> bytes:
    columns = {name: pa.array(v, from_pandas=True) for name, v in groups.arrays().items()}
    columns["value"] = columns["value"].cast(pa.string())
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, compression="zstd")
    return bytes(sink.getvalue())
