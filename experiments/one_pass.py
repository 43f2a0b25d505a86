"""Learners of one row after another, with settings chosen on held-out training rows."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from experiments.comparators.adaauc import AdaAUC
from experiments.comparators.ftrl import FTRL
from experiments.comparators.logistic import OLR
from experiments.comparators.oam import OAM
from experiments.comparators.uniexp import UniExp
from experiments.datasets import unit_length
from experiments.experiment import Case, Limits, Point
from experiments.training import percent
from spark_auc.core.batch import Batch
from spark_auc.core.types import Float
from spark_auc.errors import ConvergenceError
from spark_auc.learners.learner import Learner
from spark_auc.learners.opauc import OPAUC

# Values of a learner's settings, by name.
Setting = Mapping[str, Any]

FOLDS = 5
CHUNK = 1000
# A search takes no fewer rows, and tries no fewer settings than about so many, whatever the work.
_FEWEST_ROWS, _FEWEST_SETTINGS = 500, 24


def scalings(train: Batch, test: Batch) -> list[tuple[Batch, Batch]]:
    """The rows with columns scaled to [-1, 1] by the training rows, and with unit length."""
    # Columns are divided, and only if they exceed 1, so that zeros stay zeros.
    largest = abs(sparse.csr_matrix(train.X)).max(axis=0).toarray().ravel()
    divide = sparse.diags(1 / np.maximum(largest, 1.0))
    boxed = [rows._replace(X=sparse.csr_matrix(rows.X @ divide)) for rows in (train, test)]
    unit = [rows._replace(X=unit_length(rows.X)) for rows in boxed]
    return [(boxed[0], boxed[1]), (unit[0], unit[1])]


@dataclass(frozen=True)
class Algorithm:
    """A learner and the settings that its paper searches.

    Parameters
    ----------
    make
        Makes the learner from training rows, a seed and settings by name.
    grid
        Values of each setting, the weakest penalty first. The setting ``unit`` is 1 for rows of
        unit length and 0 for columns in [-1, 1].
    work
        Number of operations per row, from its non-zeros and features.
    passes
        Number of passes over the training rows.
    prepared
        Scales training rows, and test rows as these, in each way of the setting ``unit``.
    chunk
        Number of rows that are learned at a time.
    """

    make: Callable[[Batch, int, Setting], Learner]
    grid: Mapping[str, Sequence[float]]
    work: Callable[[float, int], float]
    passes: int = 1
    prepared: Callable[[Batch, Batch], list[tuple[Batch, Batch]]] = scalings
    chunk: int = CHUNK

    def __call__(self, case: Case) -> Iterator[Point]:
        """The test AUC in percent and the seconds of learning, with the chosen settings."""
        scores, seconds = self.scores(case)
        yield Point({"auc": percent(scores, case.test.y), "seconds": seconds})

    def scores(self, case: Case) -> tuple[Float, float]:
        """Scores of the test rows, and the seconds of learning; 0 if every setting diverges."""
        final = self.prepared(case.train, case.test)
        for setting in self.chosen(case.train, case.seed, case.limits):
            # A learner that converged on fewer rows may diverge on all rows.
            try:
                start = time.perf_counter()
                learner, test = self.learned(setting, case.seed, final)
                seconds = time.perf_counter() - start
                return np.asarray(learner.score(test.X)), seconds
            except ConvergenceError:
                continue
        return np.zeros(case.test.y.size), 0.0

    def curve(self, case: Case, places: Sequence[float]) -> Iterator[Point]:
        """Points after shares of a pass over the training rows, with the chosen settings.

        The seconds are those of learning alone, from the first row on.
        """
        best = dict(self.chosen(case.train, case.seed, case.limits)[0])
        train, test = self.prepared(case.train, case.test)[int(best.pop("unit", 0))]
        learner, n, seconds, seen = self.make(train, case.seed, best), train.y.size, 0.0, 0
        for place in places:
            start = time.perf_counter()
            while seen < round(place * n):
                part = slice(seen % n, min(seen % n + round(place * n) - seen, n))
                learner.learn(train.X[part], train.y[part])
                seen += part.stop - part.start
            seconds += time.perf_counter() - start
            yield Point(measured(learner, test) | {"seconds": seconds, "rows": seen}, place)

    def chosen(self, rows: Batch, seed: int, limits: Limits) -> list[Setting]:
        """Settings, the best on held-out rows first.

        The grid is as fine as the work allows, with the same stride for all settings, but not
        thinner than `_FEWEST_SETTINGS`; then it is tried on as few rows as the work allows. All
        folds are held out if the work allows that too, otherwise one.
        """
        n, d = rows.X.shape
        entries = np.count_nonzero(rows.X) if isinstance(rows.X, np.ndarray) else rows.X.nnz
        per_row = self.work(entries / n, d) * self.passes
        most = np.inf if limits.work is None else limits.work
        stride = 1
        while (
            len(candidates := self._thinned(stride)) * n * per_row > most
            and len(candidates) > _FEWEST_SETTINGS
        ):
            stride += 1
        work = len(candidates) * per_row
        if n * work > most:
            rows = rows.take(np.arange(min(n, max(int(most / work), _FEWEST_ROWS))))
        held_out = np.empty(rows.y.size, np.int64)
        # Folds share both classes.
        held_out[np.argsort(rows.y, kind="stable")] = np.arange(rows.y.size) % FOLDS
        parts = [
            self.prepared(
                *(rows.take(np.flatnonzero(side)) for side in (held_out != k, held_out == k))
            )
            for k in range(FOLDS if FOLDS * n * work <= most else 1)
        ]

        def mean(setting: Setting) -> float:
            return float(np.mean([self._auc(setting, seed, part) for part in parts]))

        return sorted(candidates, key=mean, reverse=True)

    def _thinned(self, stride: int) -> list[Setting]:
        """The combinations of every value of a stride; two values stay both."""
        values = [each[:: stride if len(each) > 2 else 1] for each in self.grid.values()]
        return [dict(zip(self.grid, each, strict=True)) for each in itertools.product(*values)]

    def learned(
        self, setting: Setting, seed: int, scaled: Sequence[tuple[Batch, Batch]]
    ) -> tuple[Learner, Batch]:
        """The learner of the training rows, and the test rows scaled as these.

        Raises
        ------
        ConvergenceError
            The learner diverges.
        """
        parameters = dict(setting)
        train, test = scaled[int(parameters.pop("unit", 0))]
        learner = self.make(train, seed, parameters)
        with np.errstate(over="ignore", invalid="ignore"):
            for first in [*range(0, train.y.size, self.chunk)] * self.passes:
                part = slice(first, first + self.chunk)
                learner.learn(train.X[part], train.y[part])
                # Steps that are too long mostly diverge within a chunk; `score` raises then.
                learner.score(test.X[:0])
        return learner, test

    def _auc(self, setting: Setting, seed: int, scaled: Sequence[tuple[Batch, Batch]]) -> float:
        try:
            learner, test = self.learned(setting, seed, scaled)
            return percent(learner.score(test.X), test.y)
        except ConvergenceError:
            return -np.inf


def measured(learner: Learner, test: Batch) -> dict[str, float]:
    """The test AUC in percent; 50 if the learner has diverged."""
    try:
        return {"auc": percent(learner.score(test.X), test.y)}
    except ConvergenceError:
        return {"auc": 50.0}


def powers(first: int, last: int, base: float = 2.0) -> list[float]:
    """The powers of a base with exponents from ``first`` to ``last``."""
    return [base**k for k in range(first, last + 1)]


def lengths(rows: Batch) -> Float:
    """Lengths ``(n,)`` of rows."""
    squares: Float = np.asarray(sparse.csr_matrix(rows.X).power(2).sum(axis=1)).ravel()
    return np.sqrt(squares)


def oam(buffer: int = 100, *, sequential: bool = True) -> Algorithm:
    """OAM, with the penalties of OPAUC's paper."""
    return Algorithm(
        lambda rows, seed, setting: OAM(
            rows.X.shape[1], buffer=buffer, sequential=sequential, seed=seed, **setting
        ),
        {"penalty": powers(-12, 10)},
        lambda entries, _: 2 * buffer * entries,
    )


STEPS, PENALTIES = powers(-12, 10), powers(-10, 2)
OPAUC_FULL = Algorithm(
    lambda rows, _, setting: OPAUC(rows.X.shape[1], **setting),
    {"eta": STEPS, "lambda2": PENALTIES},
    lambda _, features: features**2,
)
UNI_EXP = Algorithm(
    lambda rows, _, setting: UniExp(rows.X.shape[1], **setting),
    {"eta": STEPS},
    lambda entries, _: 5 * entries,
)
_RIDGES = [0.0, *powers(-6, -1, 10.0)]
ADA_AUC = Algorithm(
    lambda rows, _, setting: AdaAUC(rows.X.shape[1], **setting),
    {"eta": powers(-10, 4), "lambda2": _RIDGES},
    lambda _, features: features**2,
)
# Ridge factors times steps of at least 1 would turn the weights round.
LOGISTIC = Algorithm(
    lambda rows, _, setting: OLR(rows.X.shape[1], **setting),
    {"eta": powers(-8, 3), "lambda2": _RIDGES},
    lambda entries, _: 5 * entries,
)
SPARSE_LOGISTIC = Algorithm(
    lambda rows, _, setting: FTRL(rows.X.shape[1], **setting),
    {"alpha": powers(-8, 3), "lambda1": [0.0, *powers(-3, 1, 10.0)]},
    lambda entries, _: 10 * entries,
)
