"""Measure the exact AUC of a published model, and publish a report.

Section ``evaluate`` of the configuration: model, data, output and measures. Publishes
``report.html`` (self-contained), ``evaluation.json``, a PNG file of each figure of the evaluation,
with ``measures.groupCol`` ``groups.parquet``: the AUC of every group, and of a model of raw columns
``shapes.json``: its curves of columns and surfaces of pairs. The label and weight columns are those
of the training.
"""

from __future__ import annotations

from typing import Any

from spark_auc.app.config.jobs import Evaluate
from spark_auc.app.jobs.engines import Engine, Needs
from spark_auc.app.jobs.evaluation import drift_of_evaluated, evaluation, write_evaluation
from spark_auc.app.jobs.published_model import check_model, read_model, rows_for
from spark_auc.app.report.pictures import check_packages
from spark_auc.core.evaluation.measures import MEASURES
from spark_auc.publication.publish import check_free, publication

# Measures in the result on standard output.
_RESULT = (
    "auc",
    "interval",
    "bounds",
    "maxFPR",
    *MEASURES,
    "calibrationError",
    "classes",
    "thresholds",
)


def check(config: Evaluate) -> None:
    """Check the configuration before Spark starts; see `spark_auc.app.jobs`."""
    check_packages()
    check_model(config.model)
    config.data.check()
    check_free(config.output.path, config.output.replace)


def needs(config: Evaluate) -> Needs:
    """The source of the job."""
    return Needs([config.data])


def run(engine: Engine, config: Evaluate) -> dict[str, Any]:
    """Run the job; see `spark_auc.app.jobs`."""
    model = read_model(config.model)
    names = [config.measures.groupCol] if config.measures.groupCol else []
    with (
        rows_for(engine, config.data, model, names, labelled=True) as (table, _),
        publication(config.output.path, config.output.replace, "evaluation") as version,
    ):
        data = config.data.model_dump(mode="json", exclude_none=True)
        result, groups = evaluation(model, table, config.measures, config.model, data)
        drift = drift_of_evaluated(model, table) if config.drift else {}
        report = write_evaluation(
            version,
            result | drift,
            model.ranker.scorer.w,
            model.recipe,
            groups=groups,
            embedded=bool(model.embeddings),
        )
    return {name: result[name] for name in _RESULT} | {"report": report} | drift
