"""Test AUC of an online learner, with settings chosen on held-out training rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy import sparse

from experiments.training import percent
from spark_auc.core.batch import Batch
from spark_auc.core.types import Float
from spark_auc.errors import ConvergenceError
from spark_auc.learners.learner import Learner

# Values of a learner's settings, by name.
Setting = Mapping[str, Any]

FOLDS = 5
# Operations of a search up to which it uses all folds, and the full grid.
_ALL_FOLDS, _WHOLE_GRID = 1e9, 2e9
_CHUNK = 1000


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
    """

    make: Callable[[Batch, int, Setting], Learner]
    grid: Mapping[str, Sequence[float]]
    work: Callable[[float, int], float]
    passes: int = 1


def powers(first: int, last: int) -> list[float]:
    """The powers of 2 with exponents from ``first`` to ``last``."""
    return [2.0**k for k in range(first, last + 1)]


def tested(train: Batch, test: Batch, algorithm: Algorithm, seed: int) -> float:
    """Test AUC in percent, with the settings that are best on held-out training rows."""
    n, d = train.X.shape
    work = n * algorithm.work(_csr(train).nnz / n, d) * algorithm.passes
    work *= np.prod([len(values) for values in algorithm.grid.values()])
    held_out = np.arange(n) % FOLDS
    parts = [
        scalings(*(train.take(np.flatnonzero(side)) for side in (held_out != k, held_out == k)))
        for k in range(FOLDS if FOLDS * work <= _ALL_FOLDS else 1)
    ]

    def mean(setting: Setting) -> float:
        return float(np.mean([_learned(algorithm, setting, seed, part) for part in parts]))

    final = scalings(train, test)
    ranked = _ranked(algorithm.grid, mean, coarse=work > _WHOLE_GRID)
    # A learner that converged on fewer rows may diverge on all rows.
    aucs = (_learned(algorithm, setting, seed, final) for setting in ranked)
    return next((auc for auc in aucs if auc > -np.inf), 50.0)


def _ranked(
    grid: Mapping[str, Sequence[float]], mean: Callable[[Setting], float], coarse: bool
) -> list[Setting]:
    """Settings, the best first: the full grid, or every other value of each setting in turn."""
    if not coarse:
        products = itertools.product(*grid.values())
        candidates = [dict(zip(grid, values, strict=True)) for values in products]
        return sorted(candidates, key=mean, reverse=True)
    best = {name: values[0] for name, values in grid.items()}
    ranked: list[Setting] = []
    for name, values in grid.items():
        candidates = [best | {name: value} for value in values[::2]]
        ranked = [*sorted(candidates, key=mean, reverse=True), *ranked]
        best = dict(ranked[0])
    return ranked


def _learned(
    algorithm: Algorithm, setting: Setting, seed: int, scalings: Sequence[tuple[Batch, Batch]]
) -> float:
    """Test AUC in percent; minus infinity if the learner diverges."""
    parameters = dict(setting)
    train, test = scalings[int(parameters.pop("unit", 0))]
    learner = algorithm.make(train, seed, parameters)
    try:
        for first in [*range(0, train.y.size, _CHUNK)] * algorithm.passes:
            part = slice(first, first + _CHUNK)
            learner.learn(train.X[part], train.y[part])
            # Steps that are too long mostly diverge within a chunk; `score` raises then.
            learner.score(test.X[:0])
        return percent(learner.score(test.X), test.y)
    except ConvergenceError:
        return -np.inf


def scalings(train: Batch, test: Batch) -> list[tuple[Batch, Batch]]:
    """The rows with columns scaled to [-1, 1] by the training rows, and with unit length."""
    # Columns are divided, and only if they exceed 1, so that zeros stay zeros.
    divide = sparse.diags(1 / np.maximum(abs(train.X).max(axis=0).toarray().ravel(), 1.0))
    boxed = [rows._replace(X=sparse.csr_matrix(rows.X @ divide)) for rows in (train, test)]
    unit = [
        rows._replace(X=sparse.csr_matrix(sparse.diags(1 / lengths(rows)) @ rows.X))
        for rows in boxed
    ]
    return [(boxed[0], boxed[1]), (unit[0], unit[1])]


def lengths(rows: Batch) -> Float:
    """Lengths ``(n,)`` of rows; 1 for a row of zeros."""
    squares = np.asarray(_csr(rows).power(2).sum(axis=1)).ravel()
    return np.sqrt(np.where(squares > 0, squares, 1.0))


def _csr(rows: Batch) -> sparse.csr_matrix:
    return cast(sparse.csr_matrix, rows.X)
