"""Linear rankers of `experiments.past_ours`, with or without a prior.

The penalty of a ranker without a prior is chosen in 5 folds by the squared loss; the squared hinge
takes the same. With a prior, the rows that grew the trees cannot choose it: see `transferred`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import sparse

from experiments.past_choice import compared
from spark_auc.core.batch import Batch, mixed
from spark_auc.core.memory import ProcessMemory
from spark_auc.core.moments.objective import ElasticNet, Quadratic
from spark_auc.core.moments.operator import column_moments, operator_quadratic
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import ArrayRows
from spark_auc.core.types import Bool, Float
from spark_auc.errors import ResourceError
from spark_auc.local import RankSVMClassifier
from spark_auc.solvers.path import path
from spark_auc.solvers.prior import centred
from spark_auc.solvers.ridge import LARGEST_DIRECT
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.train import train

# Penalties with a prior, relative to the trace of Sigma: infinity is the trees as they are.
RELATIVE = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)
# Above this number of features, products with rows replace the matrix.
MATRIX = 4000
_TOL, _MAX_ITER = 1e-4, 300


class Chosen(NamedTuple):
    """Weights of the squared loss, with the penalty of the best mean AUC of 5 folds."""

    w: Float
    penalty: float
    auc: float


class _Little(ProcessMemory):
    """A budget for the moments of some 2,800 features; above them, rows are faster."""

    def check(self, state_bytes: int, what: str) -> None:
        """See `MemoryBudget.check`."""
        if state_bytes > 2**26:
            raise ResourceError(f"found {what}, expected at most 64 MiB; use the rows")


def ridge(X: sparse.csr_matrix, y: Bool) -> Chosen:
    """Weights by the squared loss; rows are their own groups in the folds."""
    keys = mixed(np.arange(y.size, dtype=np.uint64))
    rows = ArrayRows((Batch(X, y, None, group=keys),), X.shape[1], memory=_Little())
    penalties = None
    if X.shape[1] > LARGEST_DIRECT:
        total = float((column_moments(rows).standard_deviation() ** 2).sum())
        penalties = tuple(2 * total * np.logspace(-5, -1, 9))
    settings = TrainingSettings(
        reg_params=penalties, standardize=False, tol=1e-5, on_failure="warn"
    )
    result = train(rows, settings)
    assert result.selection
    auc = float(result.selection.mean[result.selection.chosen])
    return Chosen(result.w, result.selection.candidate.regParam, auc)


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


def transferred(
    X: sparse.csr_matrix, y: Bool, prior: Float, held_out: sparse.csr_matrix, labels: Bool
) -> tuple[float, bool]:
    """Penalty, relative to the trace, and whether its centre is the prior.

    Four fifths of the rows grew the trees; the AUC with them on the last fifth chooses. The trees
    as they are (an infinite penalty) are the first candidate, then the prior as the centre with
    weaker and weaker penalties, then the centre 0. The first within one standard error of the best
    is chosen.
    """
    loss = quadratic(X, y)
    candidates: list[tuple[float, bool, Float]] = [(np.inf, True, prior)]
    for with_prior in (True, False):
        weights = centres(loss, prior, RELATIVE, with_prior)
        candidates += [(p, with_prior, w) for p, w in zip(RELATIVE, weights, strict=True)]
    held = compared([([held_out @ w for _, _, w in candidates], labels)])
    penalty, centre, _ = candidates[held.simplest]
    return penalty, centre


def with_prior(X: sparse.csr_matrix, y: Bool, prior: Float, choice: tuple[float, bool]) -> Float:
    """Weights by the squared loss, with the choice of `transferred`."""
    penalty, centre = choice
    if np.isinf(penalty):
        return prior
    return centres(quadratic(X, y), prior, [penalty], centre)[0]


def hinge_with_prior(
    X: sparse.csr_matrix, y: Bool, prior: Float, choice: tuple[float, bool]
) -> Float:
    """Weights by the squared hinge.

    The prior's scores are a column of large values, whose weight is hardly penalised: the loss
    chooses the prior's strength.
    """
    penalty, centre = choice
    if np.isinf(penalty):
        return prior
    source = ArrayRows((Batch(X, y),), X.shape[1])
    absolute = penalty * float(operator_quadratic(source, None).diagonal.sum())
    if not centre:
        return hinge(X, y, absolute)
    size = 100 / float((X @ prior).std())
    scored = sparse.hstack([X, sparse.csr_matrix((X @ prior)[:, None] * size)], format="csr")
    w = hinge(scored, y, absolute)
    weights: Float = w[:-1] + w[-1] * size * prior
    return weights
