"""The measures as a Spark ML Evaluator, for CrossValidator and its like."""

from __future__ import annotations

from typing import Any

from pyspark import keyword_only
from pyspark.ml.evaluation import Evaluator
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasLabelCol, HasRawPredictionCol, HasWeightCol
from pyspark.sql import DataFrame

from spark_auc.core.evaluation.report import AUCReport
from spark_auc.errors import ConfigError
from spark_auc.spark.evaluation.evaluate import evaluate
from spark_auc.spark.params import HasPositiveLabel
from spark_auc.spark.persistence import Stage

_METRICS = {
    "areaUnderROC": lambda report: report.auc,
    "areaUnderPR": lambda report: report.average_precision,
    "partialAUC": lambda report: report.partial_auc,
}


class AUCEvaluator(
    Evaluator,
    HasRawPredictionCol,
    HasLabelCol,
    HasWeightCol,
    HasPositiveLabel,
    Stage,
):
    """Exact AUC, average precision or partial AUC of scored rows, with ties and weights.

    Parameters
    ----------
    metricName
        "areaUnderROC" (default), "areaUnderPR" (average precision, without interpolation) or
        "partialAUC" (standardized area up to maxFPR).
    rawPredictionCol
        The score: a number, or a vector of two. Default "rawPrediction".
    labelCol, positiveLabel, weightCol
        Label (0/1, -1/+1, or any two values with positiveLabel) and sampling weight >= 0.
    maxFPR
        Greatest false positive rate of partialAUC, in (0, 1]. Default 0.1.

    Raises
    ------
    ConfigError, DataError
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

    metricName: Param[str] = Param(
        Params._dummy(),
        "metricName",
        "what to measure: 'areaUnderROC', 'areaUnderPR' or 'partialAUC'.",
        typeConverter=TypeConverters.toString,
    )
    maxFPR: Param[float] = Param(
        Params._dummy(),
        "maxFPR",
        "greatest false positive rate of partialAUC, in (0, 1].",
        typeConverter=TypeConverters.toFloat,
    )

    @keyword_only
    def __init__(
        self,
        *,
        rawPredictionCol: str = "rawPrediction",
        labelCol: str = "label",
        positiveLabel: float | str | bool | None = None,
        weightCol: str | None = None,
        metricName: str = "areaUnderROC",
        maxFPR: float = 0.1,
    ) -> None:
        super().__init__()
        self._setDefault(metricName="areaUnderROC", maxFPR=0.1)
        given: dict[str, Any] = self._input_kwargs  # type: ignore[attr-defined]
        self.setParams(**given)

    def _evaluate(self, dataset: DataFrame) -> float:
        name = self.getOrDefault(self.metricName)
        if name not in _METRICS:
            raise ConfigError(
                f"found metricName {name!r}, expected one of {', '.join(_METRICS)}; set it so"
            )
        report: AUCReport = evaluate(
            dataset,
            scoreCol=self.getRawPredictionCol(),
            labelCol=self.getLabelCol(),
            positiveLabel=self.optional(self.positiveLabel),
            weightCol=self.optional(self.weightCol),
            maxFPR=self.getOrDefault(self.maxFPR),
        )
        return float(_METRICS[name](report))

    def isLargerBetter(self) -> bool:
        """True: of each measure, more is better."""
        return True
