"""The estimator: exact all-pairs AUC training in one pass (Gultekin et al., MBA)."""

from __future__ import annotations

from typing import Any

from pyspark import keyword_only

from spark_auc.spark.estimators.pair_moments import PairMomentsEstimator
from spark_auc.spark.params import MBAParams


class MBAClassifier(PairMomentsEstimator, MBAParams):
    """Trains a linear ranker for AUC on all pairs of a positive and a negative row.

    Minimises the squared loss over every pair, ``1/2 E[(1 - w'(x+ - x-))^2]``, with an elastic
    net (MBA, Eq. 8-14), exactly: one pass over the data makes pair moments, and the solver's
    result carries a certificate of optimality.

    Parameters
    ----------
    featuresCol
        Vector or array column, or list of columns (two arrays: indices and values; else
        numbers). Default "features".
    labelCol, weightCol
        Label (0/1, -1/+1, or any two values with positiveLabel) and row weight > 0.
    positiveLabel
        The positive label, where it is not 1.
    regParam, elasticNetParam
        l1 factor ``regParam * elasticNetParam``, l2 factor ``regParam * (1 - elasticNetParam)``.
        Without regParam it is chosen from a grid by the AUC of held-out folds; `MBASelector`
        does so for a grid of yours. elasticNetParam is 0 by default: ridge.
    numFolds, selectionRule
        How regParam is chosen where it is not given: by 5 folds, and the "best" mean AUC on
        them, or the strongest penalty within "oneStandardError" of it. Rows that are equal in
        features, or in keyCol, are of one fold, and each class is balanced over the folds; there
        are fewer where a class has fewer such groups.
    foldCol
        Column of folds of your own (by time, by user) instead: whole numbers or strings, from 2 to
        100 values, and rows of both classes with each.
    estimator
        Pairs to train on: "exact" (default), all of them; "paired", those of the k-th positive
        with the k-th negative draw (MBA, Algorithm 1); "complete", all pairs of the same draws,
        whose moments never vary more. Draws are with replacement from all rows, in proportion
        to their weights.
    numPairs
        Number of draws of each class; "auto" (default) draws until the estimated cost of
        sampling to the objective is below pairTol.
    batchSize, pairTol
        Draws in a round, by which numPairs is rounded up (default 1024); see numPairs (default
        1e-3).
    keyCol
        Column whose values keep rows together in a fold, and tell equal rows apart where rows are
        drawn. Without it, which copies of a row are drawn depends on the partition or row group
        that they are read from; draws of other rows never depend on how Spark arranges the rows.
    standardization
        Whether the penalty applies to columns of unit variance. Default True. The weights are
        those of the raw columns in either case.
    tol
        KKT residual to reach, relative to that of ``w = 0``. A coordinate's residual counts in
        the unit ``sqrt(Sigma_jj + l2)``, so that units of columns do not matter. Default 1e-6.
    maxIter
        Most solver iterations. Default 1000.
    whenNotConverged
        "raise" (default) or "warn". Where a penalty is chosen, one that is not solved to tol is
        left out with its reason, and only if none is solved the fit fails.
    numFeatures
        Dimension, where the columns do not tell it.
    seed
        Of draws and folds.
    keepMoments
        Whether the model holds the pair moments that it was made from.

    Raises
    ------
    ConfigError
        By ``fit``: a Param or column cannot serve.
    DataError
        By ``fit``: a value cannot be used, or there are not two classes.
    ResourceError
        By ``fit``: memory does not suffice.
    ConvergenceError
        By ``fit``: tol or pairTol was not reached and whenNotConverged is "raise".

    Notes
    -----
    Where a matrix of all features does not fit in memory, none is formed: ridge goes by conjugate
    gradients and an elastic net by screening, on rows gathered in the driver's memory where they
    fit there, else by a pass over the DataFrame for each step. The log says which.

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
        regParam: float | None = None,
        elasticNetParam: float = 0.0,
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
        given: dict[str, Any] = self._input_kwargs  # type: ignore[attr-defined]
        self.setParams(**given)

    def penalties(self) -> tuple[tuple[float, ...] | None, tuple[float, ...]]:
        """See `PairMomentsEstimator.penalties`."""
        given = self.optional(self.regParam)
        return None if given is None else (given,), (self.getElasticNetParam(),)
