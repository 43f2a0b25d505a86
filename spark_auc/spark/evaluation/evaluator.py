"""The measures as a Spark ML Evaluator, for CrossValidator and its like."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Unpack, cast

from pyspark.ml.evaluation import Evaluator
from pyspark.sql import DataFrame

from spark_auc.core.evaluation.measures import MEASURES
from spark_auc.core.evaluation.report import AUCReport
from spark_auc.pipeline.settings import LabelSettings, Range, Setting
from spark_auc.spark.evaluation.evaluate import evaluate
from spark_auc.spark.persistence import Stage

# Measures whose larger values are better, by metricName: their titles and keys in a report.
METRICS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"areaUnderROC": ("AUC", "auc")}
    | {m.metric: (m.title, name) for name, m in MEASURES.items() if m.metric is not None}
)


class EvaluatorSettings(LabelSettings, total=False):
    """Settings of `AUCEvaluator`."""

    metricName: Annotated[
        str,
        Setting(
            "Measure: "
            + "; ".join(f"'{name}' ({title})" for name, (title, _) in METRICS.items())
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
    settings=EvaluatorSettings,
):
    """An exact measure of scored rows, such as the AUC, with ties and weights.

    Raises
    ------
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
        _, key = METRICS[values["metricName"]]
        return cast(float, report.auc if key == "auc" else report.measures[key])

    def isLargerBetter(self) -> bool:
        """True: larger values of each measure are better."""
        return True
