"""The estimator of exact all-pairs AUC training in one pass (Gultekin et al., MBA)."""

from __future__ import annotations

from typing import Unpack

from spark_auc.pipeline.ranker_settings import MBAClassifierSettings
from spark_auc.spark.estimators.ranker import PairMomentsEstimator


class MBAClassifier(PairMomentsEstimator, settings=MBAClassifierSettings):
    """Trains a linear ranker for AUC on all pairs of a positive and a negative row.

    Minimises the squared loss over every pair, ``1/2 E[(1 - w'(x+ - x-))^2]``, with an elastic
    net (MBA, Eq. 8-14), exactly: one pass over the data makes pair moments, and the solver's
    result carries a certificate of optimality.

    Raises
    ------
    ConfigError
        A Param is out of range; by ``fit``, a Param or column cannot serve.
    DataError
        By ``fit``: a value cannot be used, or there are not two classes.
    ResourceError
        By ``fit``: memory does not suffice.
    ConvergenceError
        By ``fit``: tol or pairTol was not reached and whenNotConverged is "raise". A penalty that
        is not solved to tol is left out of a choice; the fit fails if none is solved.

    Notes
    -----
    Where a matrix of all features does not fit in memory, none is formed: ridge is solved by
    conjugate gradients and an elastic net by screening, on rows gathered in the driver's memory if
    they fit there, else by a pass over the DataFrame for each step. The log says which.

    Examples
    --------
    >>> from spark_auc import MBAClassifier
    >>> ranker = MBAClassifier(featuresCol=["position", "age"], regParam=0.1)
    >>> model = ranker.fit(rows)
    >>> model.numFeatures
    2
    >>> model.summary.certificate["reason"]
    'converged'
    """

    def __init__(self, **params: Unpack[MBAClassifierSettings]) -> None:
        super().__init__(**params)
