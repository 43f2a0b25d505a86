"""Nonlinear rankers of rows in memory: landmarks, and batch learners that choose their penalty."""

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
from spark_auc.features.kernels import Kernel, suggested_bandwidth
from spark_auc.features.nystroem import NystroemMap
from spark_auc.solvers.candidates import default_grid
from spark_auc.solvers.path import path, solve
from spark_auc.solvers.solution import Solution
from spark_auc.solvers.truncated_newton import truncated_newton

_log = logging.getLogger(__name__)

LANDMARKS, SAMPLE = 1600, 80_000
# Of the paper's values of C, 2^-15 to 2^10.
EXPONENTS = range(-15, 11, 3)
_KMEANS_STEPS = 10
# One fold of three is held out, where the paper has each of the three in turn.
_PARTS = 3
_TOL, _MAX_ITER = 1e-4, 500
# Further values of C after the best so far.
_PATIENCE = 1


def standardised(train: Batch, test: Batch) -> tuple[Batch, Batch]:
    """Both with columns of mean 0 and variance 1 in training, dense."""
    X, Z = (
        rows.X if isinstance(rows.X, np.ndarray) else rows.X.toarray() for rows in (train, test)
    )
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    deviation[deviation == 0] = 1.0
    return train._replace(X=(X - mean) / deviation), test._replace(X=(Z - mean) / deviation)


def parts(rows: Batch, seed: int) -> tuple[Batch, Batch]:
    """Two thirds of each class, in random order, and the third that is held out."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(rows.y.size)
    rank = np.empty(order.size, np.int64)
    for label in (False, True):
        mine = order[rows.y[order] == label]
        rank[mine] = np.arange(mine.size)
    held_out = rank[order] % _PARTS == 0
    return rows.take(order[~held_out]), rows.take(order[held_out])


def nystroem(X: Float, seed: int, count: int = LANDMARKS) -> NystroemMap:
    """The map of k-means landmarks of standardised rows, by the paper's rule of the bandwidth."""
    some = X[:SAMPLE]
    with warnings.catch_warnings():
        # A centre without rows stays where it was, which is as good a landmark.
        warnings.simplefilter("ignore")
        centres, _ = kmeans2(
            some, min(count, len(some)), iter=_KMEANS_STEPS, minit="points", seed=seed
        )
    return NystroemMap.of_landmarks(centres, Kernel(bandwidth=suggested_bandwidth(some)))


@dataclass(frozen=True, eq=False)
class Ranker:
    """A map, if any, and the weights of its features.

    Parameters
    ----------
    embedding
        None where rows are taken as they are.
    w : (F,)
        Weights.
    setting
        The penalty chosen, as text.
    held_out
        AUC in percent on training rows held out when it was chosen.
    seconds
        Of the moments and of training with the penalty chosen.
    """

    embedding: Embedding | None
    w: Float
    setting: str
    held_out: float
    seconds: float

    def scores(self, X: Rows) -> Float:
        """Scores ``(n,)`` of rows as the embedding takes them."""
        mapped = X if self.embedding is None else self.embedding.transform(X)
        return settled_scores(mapped, self.w)


@dataclass(frozen=True, eq=False)
class Embedded:
    """Training rows, mapped, of which a third chooses the penalty that all are trained with.

    Parameters
    ----------
    fitting, held_out
        Rows of the map's features.
    embedding
        The map.
    scale : (F,), optional
        Of the features in the penalty.
    """

    fitting: Batch
    held_out: Batch
    embedding: Embedding | None
    scale: Float | None

    @classmethod
    def of(
        cls, rows: Batch, seed: int, embedding: Embedding | None = None, standard: bool = False
    ) -> Embedded:
        """The rows mapped; ``standard`` has the penalty apply to features of unit variance."""
        fitting, held_out = parts(rows, seed)
        if embedding is not None:
            fitting, held_out = (
                each._replace(X=embedding.transform(each.X)) for each in (fitting, held_out)
            )
        made = cls(fitting, held_out, embedding, None)
        if not standard:
            return made
        return cls(fitting, held_out, embedding, made._moments[0].columns().standard_deviation())

    @cached_property
    def _moments(self) -> tuple[PairMoments, PairMoments, float]:
        """Those of the rows that fit, those of all, and seconds of the latter."""
        start = time.perf_counter()
        own, others = (pair_moments(_local(rows)) for rows in (self.fitting, self.held_out))
        return own, own.merge(others), time.perf_counter() - start

    def ranksvm(self) -> Ranker:
        """RankSVM: from the strongest penalty on, until the rows held out rank worse."""
        found: list[float] = []
        for exponent in EXPONENTS:
            found.append(self._auc(self._ranksvm((self.fitting,), self._moments[0], exponent).w))
            if len(found) - 1 - int(np.argmax(found)) > _PATIENCE:
                break
        auc, exponent = max(found), EXPONENTS[int(np.argmax(found))]
        start = time.perf_counter()
        w = self._ranksvm((self.fitting, self.held_out), self._moments[1], exponent).w
        seconds = self._moments[2] + time.perf_counter() - start
        return Ranker(self.embedding, self._raw(w), f"C = 2^{exponent}", auc, seconds)

    def mba(self) -> Ranker:
        """Ridge on all pairs, the squared loss."""
        own, everything, seconds = self._moments
        quadratic = own.quadratic(self.scale)
        grid = default_grid(quadratic, 0.0)
        penalties = [ElasticNet(0.0, l2) for l2 in grid]
        solutions = path(quadratic, penalties, tol=_TOL, max_iter=_MAX_ITER)
        found = [self._auc(_usable(each)) for each in solutions]
        best = int(np.argmax(found))
        start = time.perf_counter()
        quadratic = everything.quadratic(self.scale)
        w = _usable(solve(quadratic, penalties[best], tol=_TOL, max_iter=_MAX_ITER))
        seconds += time.perf_counter() - start
        setting = f"penalty {grid[best]:.2g}"
        return Ranker(self.embedding, self._raw(w), setting, found[best], seconds)

    def _ranksvm(self, batches: tuple[Batch, ...], moments: PairMoments, exponent: int) -> Solution:
        columns = moments.columns()
        # The papers' C is of the sum over pairs, not of their mean.
        l2 = 1 / (2 * 2.0**exponent * float(columns.weight.prod()))
        rows = ArrayRows(batches, moments.dimension)
        hinge = PairHinge(rows, columns, l2, self.scale)
        quadratic = moments.quadratic(self.scale)
        solution = truncated_newton(hinge, quadratic, tol=_TOL, max_iter=_MAX_ITER)
        _log.info("C = 2^%d: %s", exponent, solution.certificate)
        return solution

    def _raw(self, w: Float) -> Float:
        return w if self.scale is None else w / self.scale

    def _auc(self, w: Float) -> float:
        return percent(settled_scores(self.held_out.X, self._raw(w)), self.held_out.y)


def best(rankers: Iterable[Ranker]) -> Ranker:
    """The one that ranks rows held out best."""
    return max(rankers, key=lambda ranker: ranker.held_out)


def _dense(X: Rows) -> Float:
    return X if isinstance(X, np.ndarray) else np.asarray(X.toarray())


def _usable(solution: Solution) -> Float:
    return solution.checked("raise").w


def _local(rows: Batch) -> ArrayRows:
    return ArrayRows((rows,), rows.X.shape[1])
