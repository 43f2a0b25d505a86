"""The estimator of RankSVM as a stage of Spark ML."""

from __future__ import annotations

from typing import Unpack

from spark_auc.pipeline.hinge_fit import HingeFit, RankSVMSettings
from spark_auc.spark.estimators.ranker import FoldsEstimator


class RankSVMClassifier(
    HingeFit,
    FoldsEstimator,
    settings=RankSVMSettings,
):
    """Trains a linear ranker by the squared hinge over all pairs (PRSVM+, Khalid et al., 2018).

    Minimises ``regParam/2 |w|^2 + 1/2 E[max(0, 1 - w'(x+ - x-))^2]`` over every pair of a positive
    and a negative row: `MBAClassifier`'s loss without its cost for pairs whose margin exceeds 1.
    Exact, by truncated Newton steps from `MBAClassifier`'s solution, with a certificate. Behind an
    embedding such as `NystroemEmbedding` it is NBAUC; set standardization to False if the
    embedding's features have a scale of their own.

    Features stay in the tasks, which read them again in every pass: up to 2,048 features some
    fifteen passes, of which half form a matrix of them; above, fifty and more by conjugate
    gradients. The rows are cached meanwhile, as far as Spark's memory goes, unless they are a
    plain Parquet source or cached already. Scores of all rows come to the driver, and sorted
    tables of them go back, 24 bytes a row; above 8 million rows, or what the driver can gather,
    sums of the rows in ranges of scores do, and the certificate bounds their error.

    Raises
    ------
    ConfigError
        A Param is out of range; by ``fit``, a Param or column cannot serve.
    DataError
        By ``fit``: a value cannot be used, or there are not two classes.
    ResourceError
        By ``fit``: the ranges of scores do not fit in memory, or neither the moments nor the rows
        do where folds choose regParam.
    ConvergenceError
        By ``fit``: tol was not reached and whenNotConverged is "raise".

    Examples
    --------
    >>> from spark_auc import RankSVMClassifier
    >>> ranker = RankSVMClassifier(featuresCol=["position", "age"], regParam=0.1)
    >>> model = ranker.fit(rows)
    >>> model.summary.certificate["reason"]
    'converged'
    """

    def __init__(self, **params: Unpack[RankSVMSettings]) -> None:
        super().__init__(**params)
