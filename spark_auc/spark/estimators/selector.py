"""The estimator that tries a grid of penalties on held-out folds without reading rows again."""

from __future__ import annotations

from typing import Any

from pyspark import keyword_only
from pyspark.ml.param import Param, Params, TypeConverters

from spark_auc.spark.estimators.pair_moments import PairMomentsEstimator


class MBASelector(PairMomentsEstimator):
    """Chooses the penalty of an `LinearRankerModel` by K-fold cross-validation, and trains with it.

    One pass over the data makes the moments of all folds, from which every penalty is solved for
    every fold; one more ranks all held-out rows with all of them. The model is that of all rows
    with the penalty chosen, and its ``summary.selection`` is the table of AUCs.

    Parameters
    ----------
    regParams
        Values of regParam to try; by default 25 that suit the data.
    elasticNetParams
        Values of elasticNetParam to combine them with. Default [0.0], ridge.
    numFolds
        Number of folds. Default 5; fewer where a class has fewer groups of rows.
    foldCol
        Column of folds of your own, instead of numFolds.
    selectionRule
        "best" (default): the best mean AUC; "oneStandardError": the strongest penalty within one
        standard error of it.

    The others are those of `MBAClassifier`, and so are the errors raised.

    Examples
    --------
    >>> from spark_auc import MBASelector
    >>> ranker = MBASelector(featuresCol=["position", "age"], regParams=[0.01, 1.0], numFolds=3)
    >>> model = ranker.fit(rows)
    >>> len(model.summary.selection["candidates"])
    2
    >>> model.summary.reg_param in (0.01, 1.0)
    True
    """

    regParams: Param[Any] = Param(
        Params._dummy(),
        "regParams",
        "values of regParam to try; by default a grid that suits the data.",
        typeConverter=TypeConverters.toListFloat,
    )
    elasticNetParams: Param[Any] = Param(
        Params._dummy(),
        "elasticNetParams",
        "values of elasticNetParam to combine them with.",
        typeConverter=TypeConverters.toListFloat,
    )

    @keyword_only
    def __init__(
        self,
        *,
        featuresCol: str | list[str] = "features",
        labelCol: str = "label",
        positiveLabel: float | str | bool | None = None,
        weightCol: str | None = None,
        rawPredictionCol: str = "rawPrediction",
        predictionCol: str = "prediction",
        regParams: list[float] | None = None,
        elasticNetParams: list[float] | None = None,
        numFolds: int = 5,
        foldCol: str | None = None,
        selectionRule: str = "best",
        estimator: str = "exact",
        numPairs: int | str = "auto",
        batchSize: int = 1024,
        pairTol: float = 1e-3,
        keyCol: str | None = None,
        standardization: bool = True,
        tol: float = 1e-6,
        maxIter: int = 1000,
        whenNotConverged: str = "raise",
        numFeatures: int | None = None,
        seed: int | None = None,
        keepMoments: bool = False,
    ) -> None:
        super().__init__()
        self._setDefault(elasticNetParams=[0.0])
        given: dict[str, Any] = self._input_kwargs  # type: ignore[attr-defined]
        self.setParams(**given)

    def penalties(self) -> tuple[tuple[float, ...] | None, tuple[float, ...]]:
        """See `PairMomentsEstimator.penalties`."""
        regs = self.optional(self.regParams)
        return None if regs is None else tuple(regs), tuple(
            self.getOrDefault(self.elasticNetParams)
        )
