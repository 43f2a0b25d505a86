"""Measure the exact AUC of a published model, and publish a report.

Section ``evaluate`` of the configuration: model, data, output and measures. Publishes
``report.html`` (self-contained), ``evaluation.json`` and a PNG file of each figure. The label and
weight columns are those of the training.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_auc import __version__
from spark_auc.app.config.jobs import Evaluate
from spark_auc.app.jobs.published_model import check_model, read_model
from spark_auc.app.publish import check_free, publication
from spark_auc.app.redaction import redacted
from spark_auc.app.report.page import page
from spark_auc.app.report.pictures import check_packages, pictures, png
from spark_auc.core.evaluation.measures import MEASURES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
_OF_PROBABILITIES = (
    *(name for name, measure in MEASURES.items() if measure.probabilities),
    "calibrationError",
    "reliability",
)


def check(config: Evaluate) -> None:
    """Check the configuration before Spark starts.

    Raises
    ------
    ConfigError
        A setting, a path or an output location is invalid.
    """
    check_packages()
    check_model(config.model)
    config.data.check()
    check_free(config.output.path, config.output.replace)


def run(spark: SparkSession, config: Evaluate) -> dict[str, Any]:
    """Run the job, and return its result for standard output.

    Raises
    ------
    SparkAUCError
        The job failed; nothing is published.
    """
    from spark_auc.spark.evaluation.evaluate import evaluate

    model, calibration = read_model(config.model)
    columns = {
        "labelCol": model.getLabelCol(),
        "positiveLabel": model.scorer.positive,
        "weightCol": model.values()["weightCol"],
    }
    with config.data.read(spark) as rows:
        scored = model.transform(rows)
        measures = evaluate(
            scored,
            scoreCol=model.getRawPredictionCol(),
            **columns,
            **config.measures.model_dump(),
        ).as_dict()
        if calibration:
            # A calibration may tie scores, so the AUC is that of the uncalibrated scores.
            calibrated = evaluate(
                calibration.transform(scored),
                scoreCol=calibration.getProbabilityCol(),
                probabilities=True,
                **columns,
            ).as_dict()
            measures |= {name: calibrated[name] for name in _OF_PROBABILITIES}
    summary = model.summary.as_dict()
    result = measures | {
        "model": {
            "path": config.model,
            "features": model.numFeatures,
            "nonzeros": summary["nonzeros"],
            "certificate": summary["certificate"],
            "largestWeights": summary["largest_weights"],
        },
        "data": redacted(config.data.model_dump(exclude_none=True)),
        "version": __version__,
    }
    figures = pictures(result)
    with publication(config.output.path, config.output.replace, "evaluation") as version:
        version.write_json("evaluation.json", result)
        version.write("report.html", page(result, figures).encode())
        for name, figure in figures.items():
            version.write(f"{name}.png", png(figure))
    return {name: result[name] for name in _RESULT} | {"report": f"{version.uri}/report.html"}
