"""The measures as a Spark ML Evaluator, for CrossValidator and its like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, NamedTuple, Unpack

from pyspark.ml.evaluation import Evaluator
from pyspark.ml.param.shared import HasLabelCol, HasRawPredictionCol, HasWeightCol
from pyspark.sql import DataFrame

from spark_auc.core.evaluation.report import AUCReport
from spark_auc.spark.evaluation.evaluate import evaluate
from spark_auc.spark.persistence import Stage
from spark_auc.spark.settings import LabelSettings, Range, Setting


class Metric(NamedTuple):
    """A measure for model selection; larger values are better.

    Parameters
    ----------
    description
        Its line in the documentation of metricName.
    value
        The measure of a report.
    """

    description: str
    value: Callable[[AUCReport], float]


METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        "areaUnderROC": Metric("AUC", lambda report: report.auc),
        "areaUnderPR": Metric(
            "average precision, without interpolation", lambda report: report.average_precision
        ),
        "partialAUC": Metric("standardized area up to maxFPR", lambda report: report.partial_auc),
    }
)


class EvaluatorSettings(LabelSettings, total=False):
    """Settings of `AUCEvaluator`."""

    metricName: Annotated[
        str,
        Setting(
            "Measure: "
            + "; ".join(f"'{name}' ({metric.description})" for name, metric in METRICS.items())
            + ".",
            "areaUnderROC",
            choices=tuple(METRICS),
        ),
    ]
    rawPredictionCol: Annotated[
        str, Setting("The score: a number, or a vector of two.", "rawPrediction")
    ]
    weightCol: Annotated[str | None, Setting("Sampling weights >= 0; by default 1 for each row.")]
    maxFPR: Annotated[
        float, Setting("Greatest false positive rate of partialAUC.", 0.1, Range(gt=0, le=1))
    ]


class AUCEvaluator(
    Stage,
    Evaluator,
    HasRawPredictionCol,
    HasLabelCol,
    HasWeightCol,
    settings=EvaluatorSettings,
):
    """An exact measure of scored rows, such as the AUC, with ties and weights.

    Raises
    ------
    TypeError
        A Param is unknown or of another type.
    ConfigError
        A Param is out of range; by ``evaluate``, a Param or column cannot serve, or has no effect.
    DataError
        By ``evaluate``; see `spark_auc.evaluate`.

    Examples
    --------
    >>> from spark_auc import AUCEvaluator
    >>> evaluator = AUCEvaluator(rawPredictionCol="age")
    >>> round(evaluator.evaluate(rows), 2)
    0.65
    >>> evaluator.isLargerBetter()
    True
    """

    def __init__(self, **params: Unpack[EvaluatorSettings]) -> None:
        super().__init__(**params)

    def check(self) -> None:
        """See `Configured.check`."""
        if (name := self.values()["metricName"]) != "partialAUC":
            self.refuse(f"metricName {name!r}", "maxFPR")

    def _evaluate(self, dataset: DataFrame) -> float:
        self.check()
        values: EvaluatorSettings = self.values()
        report: AUCReport = evaluate(
            dataset,
            scoreCol=values["rawPredictionCol"],
            labelCol=values["labelCol"],
            positiveLabel=values["positiveLabel"],
            weightCol=values["weightCol"],
            maxFPR=values["maxFPR"],
        )
        return float(METRICS[values["metricName"]].value(report))

    def isLargerBetter(self) -> bool:
        """True: larger values of each measure are better."""
        return True
