"""The estimator of RankSVM: the all-pairs squared hinge by truncated Newton steps."""

from __future__ import annotations

from typing import Annotated, Unpack

from pyspark.ml.param.shared import HasMaxIter, HasRegParam, HasTol, HasWeightCol

from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
from spark_auc.spark.estimators.ranker import FoldsEstimator
from spark_auc.spark.estimators.settings import (
    ConvergenceSettings,
    FoldSettings,
    RankerSettings,
)
from spark_auc.spark.settings import Range, Setting, WeightSettings
from spark_auc.tables.features import Features
from spark_auc.tables.rows import TableRows
from spark_auc.tables.table import Table
from spark_auc.training.ranksvm import train_hinge
from spark_auc.training.settings import HingeSettings


class RankSVMSettings(
    RankerSettings, WeightSettings, ConvergenceSettings, FoldSettings, total=False
):
    """Settings of `RankSVMClassifier`."""

    regParam: Annotated[
        float | None,
        Setting(
            "Ridge factor in MBAClassifier's unit: the papers' C is 1 / (2 regParam n_+ n_-). By "
            "default the one that MBAClassifier chooses by the AUC of held-out folds.",
            None,
            Range(gt=0),
        ),
    ]
    keyCol: Annotated[
        str | None,
        Setting(
            "Column whose equal values keep rows together in a fold. By default rows with equal "
            "features are kept together."
        ),
    ]
    seed: Annotated[int, Setting("Seed of the folds.", 0)]
    tol: Annotated[
        float,
        Setting(
            "Largest element of the gradient, relative to that at 0, each in the unit sqrt(H_jj) "
            "with H the Hessian at 0.",
            1e-4,
            Range(gt=0),
        ),
    ]
    maxIter: Annotated[
        int,
        Setting(
            "Most Newton steps; above 2,048 features most conjugate-gradient steps in all.",
            500,
            Range(ge=1),
        ),
    ]


class RankSVMClassifier(
    FoldsEstimator,
    HasWeightCol,
    HasRegParam,
    HasTol,
    HasMaxIter,
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
    TypeError
        A Param is unknown or of another type.
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

    @property
    def selects(self) -> bool:
        """See `RankerEstimator.selects`."""
        values: RankSVMSettings = self.values()
        return values["regParam"] is None

    def check(self) -> None:
        """See `Configured.check`."""
        super().check()
        if not self.selects:
            self.refuse("a single penalty", "keyCol", "seed")

    def fitted(self, table: Table, features: Features | None = None) -> LinearRankerModel:
        """See `RankerEstimator.fitted`."""
        self.check()
        values: RankSVMSettings = self.values()
        folds, column = self.folds(table)
        columns = self.resolved(table, features, values["keyCol"], column)
        settings = HingeSettings(
            values["regParam"],
            values["standardization"],
            values["tol"],
            values["maxIter"],
            values["whenNotConverged"],
            self.held_out(folds, columns),
            values["selectionRule"] == "oneStandardError",
        )
        result = train_hinge(TableRows.of(table, columns), settings)
        model = self.made(result, columns)
        assert result.penalty is not None
        model._set(regParam=result.penalty.regParam)
        return model
