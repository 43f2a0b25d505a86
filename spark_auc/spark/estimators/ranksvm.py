"""The estimator of RankSVM: the all-pairs squared hinge by truncated Newton steps."""

from __future__ import annotations

from typing import Any

from pyspark import keyword_only
from pyspark.ml.param.shared import HasMaxIter, HasRegParam, HasTol
from pyspark.sql import DataFrame

from spark_auc.spark.data.rows import DistributedRows
from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
from spark_auc.spark.estimators.ranker import RankerEstimator
from spark_auc.spark.params import HasWhenNotConverged
from spark_auc.training.ranksvm import train_hinge
from spark_auc.training.settings import HingeSettings


class RankSVMClassifier(RankerEstimator, HasRegParam, HasTol, HasMaxIter, HasWhenNotConverged):
    """Trains a linear ranker by the squared hinge over all pairs (PRSVM+, Khalid et al., 2018).

    Minimises ``regParam/2 |w|^2 + 1/2 E[max(0, 1 - w'(x+ - x-))^2]`` over every pair of a positive
    and a negative row: `MBAClassifier`'s loss without what it takes off pairs that are ranked well
    already. Exact, by truncated Newton steps from `MBAClassifier`'s solution on, with a
    certificate. Behind an embedding such as `NystroemEmbedding` it is NBAUC.

    Features stay in the tasks, which read them again in every pass: up to 2,048 features some
    fifteen passes, of which half form a matrix of them; above, fifty and more by conjugate
    gradients. The rows are cached meanwhile, as far as Spark's memory goes, unless they are a
    plain Parquet source or cached already. Scores of all rows come to the driver, and sorted
    tables of them go back, 24 bytes a row.

    Parameters
    ----------
    featuresCol, labelCol, positiveLabel, weightCol, numFeatures
        As for `MBAClassifier`.
    regParam
        Ridge factor > 0, in `MBAClassifier`'s unit: the papers' ``C`` is
        ``1 / (2 regParam n_+ n_-)``. Default 1e-3.
    standardization
        Whether the penalty applies to columns of unit variance. Default True; set it to False
        behind an embedding whose features have a scale of their own.
    tol
        Largest element of the gradient, relative to that at 0, each in the unit
        ``sqrt(H_jj)`` with ``H`` the Hessian at 0. Default 1e-4.
    maxIter
        Most Newton steps; above 2,048 features most conjugate-gradient steps in all. Default 500.
    whenNotConverged
        "raise" (default) or "warn".

    Raises
    ------
    ConfigError
        By ``fit``: a Param or column cannot serve.
    DataError
        By ``fit``: a value cannot be used, or there are not two classes.
    ResourceError
        By ``fit``: the scores of all rows do not fit in memory.
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
        regParam: float = 1e-3,
        standardization: bool = True,
        tol: float = 1e-4,
        maxIter: int = 500,
        whenNotConverged: str = "raise",
        numFeatures: int | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self._setDefault(regParam=1e-3, tol=1e-4, maxIter=500)
        given: dict[str, Any] = self._input_kwargs  # type: ignore[attr-defined]
        self.setParams(**given)

    def _fit(self, dataset: DataFrame) -> LinearRankerModel:
        settings = HingeSettings(
            self.getRegParam(),
            self.getOrDefault(self.standardization),
            self.getTol(),
            self.getMaxIter(),
            self.onFailure(),
        )
        columns = self.resolved(dataset)
        return self.made(train_hinge(DistributedRows.of(dataset, columns), settings), columns)
