"""Parameters that the estimator and its model share."""

from __future__ import annotations

from typing import Any

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import (
    HasElasticNetParam,
    HasLabelCol,
    HasMaxIter,
    HasPredictionCol,
    HasRawPredictionCol,
    HasRegParam,
    HasSeed,
    HasStandardization,
    HasTol,
    HasWeightCol,
)

from spark_auc.core.objective import ElasticNet
from spark_auc.errors import ConfigError
from spark_auc.solvers.solution import OnFailure


def _to_columns(value: Any) -> str | list[str]:
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and value and all(isinstance(v, str) for v in value):
        return list(value)
    raise TypeError(f"found featuresCol {value!r}, expected a column's name or a list of names")


def _to_label(value: Any) -> float | str | bool:
    if isinstance(value, str | bool):
        return value
    return TypeConverters.toFloat(value)


def _to_choice(value: Any) -> str:
    if value in {"raise", "warn"}:
        return str(value)
    raise TypeError(f"found whenNotConverged {value!r}, expected 'raise' or 'warn'")


class HasPositiveLabel(Params):
    """Which of two label values is positive."""

    positiveLabel: Param[Any] = Param(
        Params._dummy(),
        "positiveLabel",
        "label of the positive class; not needed for labels 0/1 and -1/+1.",
        typeConverter=_to_label,
    )

    def optional(self, param: Param[Any]) -> Any:
        """The param's value, None where it has neither a value nor a default."""
        return self.getOrDefault(param) if self.isDefined(param) else None


class MBAParams(
    HasPositiveLabel,
    HasLabelCol,
    HasWeightCol,
    HasRawPredictionCol,
    HasPredictionCol,
    HasRegParam,
    HasElasticNetParam,
    HasStandardization,
    HasTol,
    HasMaxIter,
    HasSeed,
):
    """Params of `MBAClassifier` and `MBAModel`; `explainParams()` describes each."""

    featuresCol: Param[Any] = Param(
        Params._dummy(),
        "featuresCol",
        "features: a vector or array column, a list of two array columns (indices, values), "
        "or a list of numeric columns.",
        typeConverter=_to_columns,
    )
    numFeatures: Param[int] = Param(
        Params._dummy(),
        "numFeatures",
        "number of features; needed for (indices, values) columns, else found in the data.",
        typeConverter=TypeConverters.toInt,
    )
    whenNotConverged: Param[str] = Param(
        Params._dummy(),
        "whenNotConverged",
        "what to do when tol is not reached within maxIter: 'raise' or 'warn'.",
        typeConverter=_to_choice,
    )
    keepMoments: Param[bool] = Param(
        Params._dummy(),
        "keepMoments",
        "whether the fitted model holds the pair moments it was made from.",
        typeConverter=TypeConverters.toBoolean,
    )

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(
            featuresCol="features",
            regParam=0.1,
            elasticNetParam=0.0,
            standardization=True,
            tol=1e-6,
            maxIter=1000,
            seed=0,
            whenNotConverged="raise",
            keepMoments=False,
        )

    def onFailure(self) -> OnFailure:
        """What whenNotConverged says."""
        return "warn" if self.getOrDefault(self.whenNotConverged) == "warn" else "raise"

    def penalty(self) -> ElasticNet:
        """The elastic net of regParam and elasticNetParam; `ConfigError` if out of range."""
        reg, mix = self.getRegParam(), self.getElasticNetParam()
        if not (0 <= reg < float("inf") and 0 <= mix <= 1):
            raise ConfigError(
                f"found regParam {reg} and elasticNetParam {mix}, expected regParam >= 0 and "
                "elasticNetParam in [0, 1]; set them so"
            )
        return ElasticNet.of(reg, mix)

    def check_stopping(self) -> None:
        """`ConfigError` where tol or maxIter are out of range."""
        if not (self.getTol() > 0 and self.getMaxIter() >= 1):
            raise ConfigError(
                f"found tol {self.getTol()} and maxIter {self.getMaxIter()}, expected tol > 0 "
                "and maxIter >= 1; set them so"
            )
