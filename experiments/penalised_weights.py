"""Weights of `experiments.partial_auc` for given penalties."""

from __future__ import annotations

from collections.abc import Sequence

from scipy import sparse

from spark_auc.core.batch import Batch
from spark_auc.core.moments.objective import ElasticNet, Quadratic
from spark_auc.core.moments.operator import operator_quadratic
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import ArrayRows
from spark_auc.core.types import Bool, Float
from spark_auc.local import RankSVMClassifier
from spark_auc.solvers.path import path
from spark_auc.solvers.prior import centred

# Above this number of features, products with rows replace the matrix.
MATRIX = 4000
_TOL, _MAX_ITER = 1e-4, 300


def hinge(X: sparse.csr_matrix, y: Bool, penalty: float) -> Float:
    """Weights by the squared hinge."""
    ranker = RankSVMClassifier(
        regParam=penalty, standardization=False, tol=1e-3, maxIter=200, whenNotConverged="warn"
    )
    weights: Float = ranker.fit(X, y).coef_[0]
    return weights


def quadratic(X: sparse.csr_matrix, y: Bool) -> Quadratic:
    """The all-pairs squared loss of rows, by a matrix or by products with the rows."""
    if X.shape[1] <= MATRIX:
        return PairMoments.of(X, y).quadratic(None)
    return operator_quadratic(ArrayRows((Batch(X, y),), X.shape[1]), None)


def centres(
    loss: Quadratic, prior: Float, relative: Sequence[float], with_prior: bool = True
) -> list[Float]:
    """Weights ``(d,)`` for each penalty relative to the trace, from strong to weak."""
    if with_prior:
        shifted = centred(loss, prior)
        loss = shifted.quadratic
        if not shifted.scale:
            return [prior for _ in relative]
    trace = float(loss.diagonal.sum())
    penalties = [ElasticNet(0.0, trace * each) for each in relative]
    return [solution.w for solution in path(loss, penalties, tol=_TOL, max_iter=_MAX_ITER)]
