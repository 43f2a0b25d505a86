"""Score rows with a published model.

Section ``score`` of the configuration: model, data, keep (input columns to copy), contributions
(how many of a row), threshold, evaluation, handleInvalid, drift, output. Publishes ``scores``,
Parquet files with these columns, the score, the prediction and, of a calibrated model, the
probability; or commits these rows to a table of Delta Lake or Iceberg. The rows need the columns of
the model's features, and no label.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import pyarrow as pa

from spark_auc.app.config.scoring import Score
from spark_auc.app.jobs.drift import drift_of, log_unknown, warn_of_new_tokens
from spark_auc.app.jobs.engines import Engine, Needs
from spark_auc.app.jobs.lake_output import opened, written
from spark_auc.app.jobs.operating_point import threshold_of
from spark_auc.app.jobs.published_model import (
    KIND,
    check_contributions,
    check_model,
    model_of,
    rows_for,
)
from spark_auc.pipeline.models import PipelineModel
from spark_auc.publication.directory import Directory
from spark_auc.publication.publish import check_free, publication
from spark_auc.publication.versions import current
from spark_auc.tables.names import check_names_free
from spark_auc.tables.table import Table, fields_named
from spark_auc.tables.tally import row_count

_log = logging.getLogger(__name__)


def check(config: Score) -> None:
    """Check the configuration before Spark starts.

    Raises
    ------
    ConfigError
        A setting, a path or an output location is invalid.
    """
    if config.contributions:
        check_contributions(config.model)
    else:
        check_model(config.model)
    outputs = _outputs(config, _model(config, current(config.model, KIND)))
    config.data.check(*config.keep, new=outputs)
    _check_kept(config, outputs)
    threshold_of(config)
    if config.output.format == "parquet":
        check_free(config.output.place, config.output.replace)
    else:
        opened(config.output)


def needs(config: Score) -> Needs:
    """The source of the job."""
    return Needs([config.data])


def run(engine: Engine, config: Score) -> dict[str, Any]:
    """Run the job, and return its result for standard output.

    Raises
    ------
    SparkAUCError
        The job failed; nothing is published.
    """
    output, run_id = config.output, uuid.uuid4().hex
    target = None if output.format == "parquet" else opened(output)
    published = current(config.model, KIND)
    model, name = _model(config, published), published.path.rpartition("/")[-1]
    ranker = model.ranker.with_values(handleInvalid=config.handleInvalid or "error")
    if (threshold := threshold_of(config)) is not None:
        ranker = ranker.with_values(threshold=threshold)
    model = model.with_ranker(ranker)
    constants = (output.modelVersionCol, name), (output.runIdCol, run_id)
    new = {name: text for name, text in constants if name}
    with (
        rows_for(
            engine, config.data, model, config.keep, labelled=False, invalid=config.handleInvalid
        ) as (table, left_out),
        publication(output.place, output.replace, "scores")
        if target is None
        else nullcontext() as version,
    ):
        scored, columns = _scored(model, table, config, new)
        # Before the scores: a commit to a table cannot be taken back.
        drift = drift_of(model.fitted_recipe, table) if config.drift else {}
        log_unknown(drift)
        if config.drift:
            warn_of_new_tokens(model, table)
        if version is None:
            assert target is not None
            place, rows = output.place, written(target, scored, columns, output, run_id)
        else:
            scores = version / "scores"
            place, rows = scores.uri, scored.write(scores, columns, output.partitionBy)
            _log.info("wrote the scores of %d rows", rows)
        skipped = left_out + (row_count(table) - rows if config.handleInvalid == "skip" else 0)
    ids = {"modelVersion": name, "runId": run_id} if target or output.runIdCol else {}
    return {"scores": place, "rows": rows, "skipped": skipped, "columns": columns} | ids | drift


def _model(config: Score, version: Directory) -> PipelineModel:
    """The published model with the names of columns that the configuration sets."""
    model = model_of(version)
    return model.with_outputs({name: getattr(config.output, name) for name in model.outputs()})


def _outputs(config: Score, model: PipelineModel) -> dict[str, str | None]:
    """Names of the columns that the model adds, by the keys that set them."""
    names: dict[str, str | None] = {**model.outputs()}
    if config.contributions:
        names["contributionsCol"] = config.output.contributionsCol
    return {f"score.output.{key}": name for key, name in names.items()}


def _check_kept(config: Score, outputs: Mapping[str, str | None]) -> None:
    """`ConfigError` if two columns of the scores have one name."""
    keys = "modelVersionCol", "runIdCol"
    constants = {f"score.output.{key}": getattr(config.output, key) for key in keys}
    check_names_free(config.keep, {**outputs, **constants})


def _scored(
    model: PipelineModel, table: Table, config: Score, new: Mapping[str, str]
) -> tuple[Table, list[str]]:
    """The scored rows, and the columns to write; ``new`` has constant columns."""
    outputs = _outputs(config, model)
    check_names_free(table.schema.names, outputs, exact=table.exact_names)
    _check_kept(config, outputs)
    keep = [field.name for field in fields_named(table, config.keep)]
    explained = (config.output.contributionsCol, config.contributions)
    scored = model.scored(table, explained if config.contributions else None)
    if new:
        first = scored.schema.names[-1]
        fields = [pa.field(name, pa.string()) for name in new]
        scored = scored.extended(
            [first], lambda arrays: [pa.repeat(t, len(arrays[0])) for t in new.values()], fields
        )
    return scored, [*keep, *filter(None, outputs.values()), *new]
