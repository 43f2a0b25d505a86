"""Parameters that the estimator and its model share."""

from __future__ import annotations

from collections.abc import Callable
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

from spark_auc.errors import ConfigError
from spark_auc.solvers.solution import OnFailure


def to_columns(value: Any) -> str | list[str]:
    """The converter of a Param that takes a column's name or a list of names."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and value and all(isinstance(v, str) for v in value):
        return list(value)
    raise TypeError(f"found columns {value!r}, expected a column's name or a list of names")


def _to_label(value: Any) -> float | str | bool:
    if isinstance(value, str | bool):
        return value
    return TypeConverters.toFloat(value)


def one_of(name: str, *choices: str) -> Callable[[Any], str]:
    """The converter of a Param that takes one of some words."""

    def convert(value: Any) -> str:
        if value in choices:
            return str(value)
        expected = " or ".join(map(repr, choices))
        raise TypeError(f"found {name} {value!r}, expected {expected}")

    return convert


def _to_pairs(value: Any) -> int | str:
    if value == "auto":
        return "auto"
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise TypeError(f"found numPairs {value!r}, expected a whole number > 0 or 'auto'")


class Optionals(Params):
    """Params of which some have neither a value nor a default."""

    def optional(self, param: Param[Any]) -> Any:
        """The param's value, None where it has neither a value nor a default."""
        return self.getOrDefault(param) if self.isDefined(param) else None


class HasPositiveLabel(Optionals):
    """Which of two label values is positive."""

    positiveLabel: Param[Any] = Param(
        Params._dummy(),
        "positiveLabel",
        "label of the positive class; not needed for labels 0/1 and -1/+1.",
        typeConverter=_to_label,
    )


class HasNumFeatures(Optionals):
    """How many features there are, where columns do not tell it."""

    numFeatures: Param[int] = Param(
        Params._dummy(),
        "numFeatures",
        "number of features; needed for (indices, values) columns, else found in the data.",
        typeConverter=TypeConverters.toInt,
    )


class HasSampling(Params):
    """Which pairs to train on."""

    estimator: Param[str] = Param(
        Params._dummy(),
        "estimator",
        "pairs to train on: 'exact' (all), 'paired' (the k-th positive with the k-th negative "
        "draw) or 'complete' (all pairs of the same draws).",
        typeConverter=one_of("estimator", "exact", "paired", "complete"),
    )
    numPairs: Param[Any] = Param(
        Params._dummy(),
        "numPairs",
        "number of rows to draw from each class, or 'auto' to draw until the estimated cost of "
        "sampling is below pairTol.",
        typeConverter=_to_pairs,
    )
    batchSize: Param[int] = Param(
        Params._dummy(),
        "batchSize",
        "rows of each class drawn in one round; numPairs is rounded up to whole rounds.",
        typeConverter=TypeConverters.toInt,
    )
    pairTol: Param[float] = Param(
        Params._dummy(),
        "pairTol",
        "what numPairs='auto' may cost the objective.",
        typeConverter=TypeConverters.toFloat,
    )
    keyCol: Param[str] = Param(
        Params._dummy(),
        "keyCol",
        "column that tells equal rows apart where rows are drawn, and whose values keep rows "
        "together in a fold; by default rows equal in features are.",
        typeConverter=TypeConverters.toString,
    )


class RankerParams(
    HasPositiveLabel,
    HasNumFeatures,
    HasLabelCol,
    HasWeightCol,
    HasRawPredictionCol,
    HasPredictionCol,
    HasStandardization,
    HasSeed,
):
    """Params of all that trains an `LinearRankerModel`."""

    featuresCol: Param[Any] = Param(
        Params._dummy(),
        "featuresCol",
        "features: a vector or array column, a list of two array columns (indices, values), "
        "or a list of numeric columns.",
        typeConverter=to_columns,
    )

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(featuresCol="features", standardization=True, seed=0)


class HasWhenNotConverged(Params):
    """What to do where a tolerance is not reached."""

    whenNotConverged: Param[str] = Param(
        Params._dummy(),
        "whenNotConverged",
        "what to do when tol is not reached within maxIter: 'raise' or 'warn'.",
        typeConverter=one_of("whenNotConverged", "raise", "warn"),
    )

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(whenNotConverged="raise")

    def onFailure(self) -> OnFailure:
        """What whenNotConverged says."""
        return "warn" if self.getOrDefault(self.whenNotConverged) == "warn" else "raise"


class TrainingParams(RankerParams, HasSampling, HasWhenNotConverged, HasTol, HasMaxIter):
    """Params of all that trains an `LinearRankerModel` on pair moments, and of the model itself."""

    keepMoments: Param[bool] = Param(
        Params._dummy(),
        "keepMoments",
        "whether the fitted model holds the pair moments it was made from.",
        typeConverter=TypeConverters.toBoolean,
    )

    numFolds: Param[int] = Param(
        Params._dummy(),
        "numFolds",
        "number of folds by which a penalty is chosen, >= 2; fewer are made where a class has "
        "fewer groups of rows.",
        typeConverter=TypeConverters.toInt,
    )
    foldCol: Param[str] = Param(
        Params._dummy(),
        "foldCol",
        "column of folds of your own, whole numbers or strings, instead of numFolds.",
        typeConverter=TypeConverters.toString,
    )
    selectionRule: Param[str] = Param(
        Params._dummy(),
        "selectionRule",
        "penalty to choose: 'best' by mean held-out AUC, or the strongest within "
        "'oneStandardError' of it.",
        typeConverter=one_of("selectionRule", "best", "oneStandardError"),
    )

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(
            estimator="exact",
            numPairs="auto",
            batchSize=1024,
            pairTol=1e-3,
            numFolds=5,
            selectionRule="best",
            tol=1e-6,
            maxIter=1000,
            keepMoments=False,
        )

    def check_folds(self) -> None:
        """`ConfigError` where folds are given twice."""
        if self.isDefined(self.foldCol) and self.isSet(self.numFolds):
            raise ConfigError(
                f"found foldCol {self.getOrDefault(self.foldCol)!r} and numFolds "
                f"{self.getOrDefault(self.numFolds)}, expected one of them; leave out numFolds "
                "where folds are your own"
            )


class MBAParams(TrainingParams, HasRegParam, HasElasticNetParam):
    """Params of `MBAClassifier` and `LinearRankerModel`; `explainParams()` describes each."""

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(elasticNetParam=0.0)
