"""What a run shows of a ranker: params, metrics, curves and the report."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from spark_auc import __version__
from spark_auc.core.evaluation.measures import MEASURES
from spark_auc.core.evaluation.report import AUCReport
from spark_auc.features.recipe import Recipe
from spark_auc.publication.directory import Directory
from spark_auc.publication.redaction import redacted
from spark_auc.serving.ranker import ServedRanker

# MLflow's own limit is 6,000; longer lists of names are cut.
_LONGEST = 1_000
_EVALUATION = "evaluation.json"
_CERTIFICATE = ("objective", "kkt", "gap", "iterations", "tolerance")


def params_of(ranker: ServedRanker) -> dict[str, str]:
    """Settings of the training as text, without secrets: those of the ranker and of the recipe.

    ``regParam`` and ``elasticNetParam`` are those that were chosen. Params without a value are left
    out.
    """
    stage, summary = _trained(ranker), _summary(ranker)
    scorer, certificate = ranker.scorer, summary["certificate"] or {}
    found = {
        **stage.params,
        "regParam": summary["reg_param"],
        "elasticNetParam": summary["elastic_net_param"],
        "estimator": summary["estimator"],
        "numPairs": summary["pairs"],
        "numFeatures": scorer.w.size,
        "threshold": scorer.threshold,
        "positiveLabel": scorer.positive,
        "negativeLabel": scorer.negative,
        "stopReason": certificate.get("reason"),
        "embeddings": len(ranker.embeddings) or None,
        "calibration": type(ranker.curve).__name__ if ranker.curve else None,
        "segmentCol": (summary.get("segments") or {}).get("column"),
        "recipe": _recipe(ranker.recipe) if ranker.recipe else {},
    }
    return {
        name: text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
        for name, value in _flat(redacted(found))
        if value is not None
        for text in [str(value)]
    }


def metrics_of(ranker: ServedRanker, evaluation: Mapping[str, Any] | None) -> dict[str, float]:
    """Numbers of the training, and of an evaluation; those that are not defined are left out.

    Parameters
    ----------
    ranker
        The ranker.
    evaluation
        Content of ``evaluation.json``, if there is one.
    """
    summary = _summary(ranker)
    certificate = summary["certificate"] or {}
    found = {name: certificate.get(name) for name in _CERTIFICATE}
    found |= {"estimatedAUC": summary["estimated_auc"], "nonzeros": summary["nonzeros"]}
    found["rows"] = sum(summary["rows"].values())
    found |= {f"seconds_{phase}": seconds for phase, seconds in summary["seconds"].items()}
    if evaluation is not None:
        interval = evaluation["interval"]
        found |= {f"auc_{bound}": interval[bound] for bound in ("lower", "upper")}
        found |= {name: evaluation[name] for name in ("auc", *MEASURES, "calibrationError")}
    return {
        name: float(value)
        for name, value in found.items()
        if value is not None and math.isfinite(value)
    }


def write_files(
    directory: Directory,
    name: str,
    ranker: ServedRanker,
    version: Directory | None,
    report: AUCReport | None,
) -> dict[str, Any] | None:
    """Write the files of a run, and return the content of ``evaluation.json`` if there is one.

    These are the reports, pictures and figures of a publication, without data; else the summary and
    the choice of the penalty. A report is drawn as the job ``evaluate`` draws it, and replaces that
    of the publication.

    Parameters
    ----------
    directory
        Directory of the files.
    name
        Name of the model, for the report.
    ranker
        The ranker.
    version
        Directory of the publication's version, if the ranker is published.
    report
        An evaluation, if there is one.
    """
    summary, evaluation = _summary(ranker), None
    if version is not None:
        evaluation = _copy(version, directory)
    else:
        directory.write_json("summary.json", summary)
        if selection := summary["selection"]:
            from spark_auc.app.report.penalties import penalties
            from spark_auc.app.report.pictures import check_packages, png

            check_packages()
            directory.write_json("selection.json", selection)
            directory.write("selection.png", png(penalties(selection)))
    if report is not None:
        # Drawing needs the extra `report`; a publication has its pictures.
        from spark_auc.app.jobs.evaluation import model_facts, write_evaluation
        from spark_auc.app.report.pictures import check_packages

        check_packages()
        model = model_facts(name, ranker.scorer.w.size, summary)
        evaluation = report.as_dict() | {"model": model, "data": {}, "version": __version__}
        embedded = bool(ranker.embeddings)
        write_evaluation(directory, evaluation, ranker.scorer.w, ranker.recipe, embedded=embedded)
    return evaluation


def _copy(version: Directory, directory: Directory) -> dict[str, Any] | None:
    """Copy the files of a version that people read; returns the evaluation, if there is one."""
    evaluation = None
    for name in sorted(version.files()):
        if "/" in name or not name.endswith((".html", ".png", ".json")):
            continue
        content = version.read(name)
        if not name.endswith(".json"):
            directory.write(name, content)
            continue
        values = json.loads(content)
        directory.write_json(name, values)
        if name == _EVALUATION:
            evaluation = values
    return evaluation


def _trained(ranker: ServedRanker) -> Any:
    """The saved stage of the linear ranker."""
    assert ranker.stage is not None, "a ranker with a record of its training"
    return ranker.stage.parts.get("ranker", ranker.stage)


def _summary(ranker: ServedRanker) -> dict[str, Any]:
    summary: dict[str, Any] = _trained(ranker).facts["summary"]
    return summary


def _recipe(recipe: Recipe) -> dict[str, Any]:
    """The settings of a recipe: columns by their kind, and the sizes of its blocks."""
    kinds: dict[str, list[str]] = {}
    for column in recipe.own_columns:
        kinds.setdefault(column.kind, []).append(column.name)
    return kinds | {
        "missing": recipe.missing,
        "unit": recipe.unit,
        "dimension": recipe.dimension if recipe.hashed else None,
        "pairs": len(recipe.pairs) or None,
        "crosses": len(recipe.slot_pairs) or None,
        "trees": recipe.trees and recipe.trees.forest.trees,
        "leaves": recipe.trees and recipe.trees.size,
    }


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested mappings by their names, joined by points."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value
