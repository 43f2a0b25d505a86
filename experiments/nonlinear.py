"""Nonlinear rankers of rows in memory: Nystroem landmarks, RankSVM and MBA.

The penalty is chosen on one held-out third of the training rows, as an approximation of the paper's
three folds. This is a search of its own, beside `spark_auc.training`, for two reasons: the training
room chooses penalties for the squared loss only, and the experiments compare RankSVM, MBA and
kernel bandwidths by AUC on the same held-out third. Three folds of the 1,600 mapped features would
also take three times as long.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.cluster.vq import kmeans2

from experiments.training import percent
from spark_auc.core.batch import Batch
from spark_auc.core.hinge.pair_hinge import PairHinge
from spark_auc.core.moments.objective import ElasticNet
from spark_auc.core.moments.operator import pair_moments
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.products import settled_scores
from spark_auc.core.row_source import ArrayRows
from spark_auc.core.types import Float, Rows
from spark_auc.features.embedding import Embedding
from spark_auc.features.kernels import Kernel
from spark_auc.features.nystroem import NystroemMap
from spark_auc.solvers.candidates import default_grid
from spark_auc.solvers.path import path, solve
from spark_auc.solvers.solution import Solution
from spark_auc.solvers.truncated_newton import truncated_newton

_log = logging.getLogger(__name__)

LANDMARKS, SAMPLE = 1600, 80_000
# Exponents of C: every third of the paper's 2^-15 to 2^10.
EXPONENTS = range(-15, 11, 3)
_KMEANS_STEPS = 10
# One of three folds is held out; the paper holds out each in turn.
_PARTS = 3
_TOL, _MAX_ITER = 1e-4, 500
# Values of C to try after the best value so far.
_PATIENCE = 1


def standardised(train: Batch, test: Batch) -> tuple[Batch, Batch]:
    """Dense rows, with columns of mean 0 and variance 1 in training."""
    X, Z = (
        rows.X if isinstance(rows.X, np.ndarray) else rows.X.toarray() for rows in (train, test)
    )
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    deviation[deviation == 0] = 1.0
    return train._replace(X=(X - mean) / deviation), test._replace(X=(Z - mean) / deviation)


def parts(rows: Batch, seed: int) -> tuple[Batch, Batch]:
    """Two thirds of each class in random order, and the held-out third."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(rows.y.size)
    rank = np.empty(order.size, np.int64)
    for label in (False, True):
        of_class = order[rows.y[order] == label]
        rank[of_class] = np.arange(of_class.size)
    held_out = rank[order] % _PARTS == 0
    return rows.take(order[~held_out]), rows.take(order[held_out])


def nystroem(X: Float, seed: int, count: int = LANDMARKS) -> NystroemMap:
    """The map of k-means landmarks of standardised rows, with the paper's bandwidth."""
    sample = X[:SAMPLE]
    with warnings.catch_warnings():
        # kmeans2 warns of empty clusters; their centres are valid landmarks.
        warnings.simplefilter("ignore")
        centres, _ = kmeans2(
            sample, min(count, len(sample)), iter=_KMEANS_STEPS, minit="points", seed=seed
        )
    return NystroemMap.of_landmarks(centres, Kernel(bandwidth=float(sample.var(axis=0).sum())))


@dataclass(frozen=True, eq=False)
class Ranker:
    """A linear ranker of mapped or raw rows.

    Parameters
    ----------
    embedding
        Feature map; None for raw rows.
    w : (F,)
        Weights.
    setting
        The chosen penalty, as text.
    held_out
        AUC in percent on the held-out training rows.
    seconds
        Seconds for the moments and for training with the chosen penalty.
    """

    embedding: Embedding | None
    w: Float
    setting: str
    held_out: float
    seconds: float

    def scores(self, X: Rows) -> Float:
        """Scores ``(n,)`` of rows ``(n, d)``."""
        mapped = X if self.embedding is None else self.embedding.transform(X)
        return settled_scores(mapped, self.w)


@dataclass(frozen=True, eq=False)
class Embedded:
    """Mapped training rows, split into two thirds for fitting and a held-out third.

    Parameters
    ----------
    fitting, held_out
        Mapped rows.
    embedding
        The feature map.
    scale : (F,), optional
        Divisors of the features in the penalty.
    """

    fitting: Batch
    held_out: Batch
    embedding: Embedding | None
    scale: Float | None

    @classmethod
    def of(
        cls, rows: Batch, seed: int, embedding: Embedding | None = None, standard: bool = False
    ) -> Embedded:
        """Split and map the rows; ``standard`` penalises features at unit variance."""
        fitting, held_out = parts(rows, seed)
        if embedding is not None:
            fitting, held_out = (
                part._replace(X=embedding.transform(part.X)) for part in (fitting, held_out)
            )
        unscaled = cls(fitting, held_out, embedding, None)
        if not standard:
            return unscaled
        return cls(
            fitting, held_out, embedding, unscaled._moments[0].columns().standard_deviation()
        )

    @cached_property
    def _moments(self) -> tuple[PairMoments, PairMoments, float]:
        """Moments of the fitting rows and of all rows, and the seconds to compute both."""
        start = time.perf_counter()
        fit_moments, others = (pair_moments(_local(rows)) for rows in (self.fitting, self.held_out))
        return fit_moments, fit_moments.merge(others), time.perf_counter() - start

    def ranksvm(self) -> Ranker:
        """RankSVM, with penalties from the strongest on until the held-out AUC decreases."""
        aucs: list[float] = []
        for exponent in EXPONENTS:
            aucs.append(self._auc(self._ranksvm((self.fitting,), self._moments[0], exponent).w))
            if len(aucs) - 1 - int(np.argmax(aucs)) > _PATIENCE:
                break
        auc, exponent = max(aucs), EXPONENTS[int(np.argmax(aucs))]
        start = time.perf_counter()
        w = self._ranksvm((self.fitting, self.held_out), self._moments[1], exponent).w
        seconds = self._moments[2] + time.perf_counter() - start
        return Ranker(self.embedding, self._raw(w), f"C = 2^{exponent}", auc, seconds)

    def mba(self) -> Ranker:
        """MBA: ridge on all pairs, with the penalty of the best held-out AUC."""
        fit_moments, all_moments, seconds = self._moments
        quadratic = fit_moments.quadratic(self.scale)
        grid = default_grid(quadratic, 0.0)
        penalties = [ElasticNet(0.0, l2) for l2 in grid]
        solutions = path(quadratic, penalties, tol=_TOL, max_iter=_MAX_ITER)
        aucs = [self._auc(_usable(part)) for part in solutions]
        best = int(np.argmax(aucs))
        start = time.perf_counter()
        quadratic = all_moments.quadratic(self.scale)
        w = _usable(solve(quadratic, penalties[best], tol=_TOL, max_iter=_MAX_ITER))
        seconds += time.perf_counter() - start
        setting = f"penalty {grid[best]:.2g}"
        return Ranker(self.embedding, self._raw(w), setting, aucs[best], seconds)

    def _ranksvm(self, batches: tuple[Batch, ...], moments: PairMoments, exponent: int) -> Solution:
        columns = moments.columns()
        # The papers' C multiplies the sum over pairs, not the mean.
        l2 = 1 / (2 * 2.0**exponent * float(columns.weight.prod()))
        rows = ArrayRows(batches, moments.dimension)
        hinge = PairHinge(rows, columns, l2, self.scale)
        quadratic = moments.quadratic(self.scale)
        solution = truncated_newton(hinge, quadratic, tol=_TOL, max_iter=_MAX_ITER)
        _log.info("RankSVM with C = 2^%d: %s", exponent, solution.certificate)
        return solution

    def _raw(self, w: Float) -> Float:
        return w if self.scale is None else w / self.scale

    def _auc(self, w: Float) -> float:
        return percent(settled_scores(self.held_out.X, self._raw(w)), self.held_out.y)


def best(rankers: Iterable[Ranker]) -> Ranker:
    """The ranker with the best AUC on held-out rows."""
    return max(rankers, key=lambda ranker: ranker.held_out)


def _usable(solution: Solution) -> Float:
    return solution.checked("raise").w


def _local(rows: Batch) -> ArrayRows:
    return ArrayRows((rows,), rows.X.shape[1])
