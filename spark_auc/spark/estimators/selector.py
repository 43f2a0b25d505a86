"""The estimator that chooses a penalty on held-out folds without further passes over the rows."""

from __future__ import annotations

from typing import Unpack

from spark_auc.pipeline.ranker_settings import MBASelectorSettings
from spark_auc.spark.estimators.ranker import PairMomentsEstimator


class MBASelector(PairMomentsEstimator, settings=MBASelectorSettings):
    """Chooses the penalty of a `LinearRankerModel` by K-fold cross-validation, and trains with it.

    One pass over the data makes the moments of all folds, from which every penalty is solved for
    every fold; one more pass ranks all held-out rows with all solutions. The model is trained on
    all rows with the chosen penalty; its ``summary.selection`` is the table of AUCs.

    Raises
    ------
    TypeError, ConfigError, DataError, ResourceError, ConvergenceError
        As by `MBAClassifier`.

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

    def __init__(self, **params: Unpack[MBASelectorSettings]) -> None:
        super().__init__(**params)
