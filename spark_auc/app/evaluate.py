"""Exact AUC of a published model on rows, with its confidence interval and ROC curve.

Section ``evaluate`` of the configuration: model, data, output. Publishes ``evaluation.json`` and
``roc.png``. Label and weight columns are those that the model was trained with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spark_auc.app.config import Evaluate
from spark_auc.app.publish import check_free, publication
from spark_auc.app.read import check_model, check_path, read_model, reading
from spark_auc.app.report import check_matplotlib, roc_picture
from spark_auc.core.delong import auc_interval
from spark_auc.core.roc import auc, average_precision, roc_curve

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POINTS = 200


def check(config: Evaluate) -> None:
    """What can be known to be wrong before Spark starts; `ConfigError`."""
    check_matplotlib()
    check_model(config.model)
    check_path(config.data.path)
    check_free(config.output.path, config.output.replace)


def run(spark: SparkSession, config: Evaluate) -> dict[str, Any]:
    """Run the job; the result for standard output."""
    from spark_auc.spark.evaluate import score_table

    model = read_model(config.model)
    with reading(spark, config.data) as rows:
        table, labels = score_table(
            model.transform(rows),
            model.getRawPredictionCol(),
            model.getLabelCol(),
            model.scorer.positive,
            model.optional(model.weightCol),
        )
    area, interval = auc(table), auc_interval(table)
    fpr, tpr, _ = roc_curve(table, _POINTS)
    result = {
        "auc": area,
        "interval": {
            "level": interval.level,
            "lower": interval.lower,
            "upper": interval.upper,
        },
        "averagePrecision": average_precision(table),
        "rows": {str(value): rows for value, rows in labels.rows.items()},
    }
    with publication(config.output.path, config.output.replace, "evaluation") as version:
        curve = {"fpr": np.round(fpr, 6).tolist(), "tpr": np.round(tpr, 6).tolist()}
        version.write_json("evaluation.json", result | {"model": config.model, "roc": curve})
        version.write("roc.png", roc_picture(table, area, interval))
    return result | {"report": f"{version.uri}/roc.png"}
