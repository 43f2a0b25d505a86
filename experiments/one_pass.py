"""A learner's test AUC after its passes, with the settings that training rows held out choose."""

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

# Numbers, by name, that are the fields of many a dataclass.
Setting = Mapping[str, Any]

FOLDS = 5
# Operations of one choice of settings up to which it is by all folds, and by the whole grid.
_ALL_FOLDS, _WHOLE_GRID = 1e9, 2e9
_CHUNK = 1000


@dataclass(frozen=True)
class Algorithm:
    """A learner and the settings that its paper searches.

    Parameters
    ----------
    make
        Makes it for training rows, a seed and settings by name.
    grid
        Values of each setting, the weakest penalty first. One named ``unit`` says whether rows
        have unit length, else columns are within [-1, 1].
    work
        Operations for a row of so many non-zeros and features.
    passes
        How often it takes the training rows.
    """

    make: Callable[[Batch, int, Setting], Learner]
    grid: Mapping[str, Sequence[float]]
    work: Callable[[float, int], float]
    passes: int = 1


def powers(first: int, last: int) -> list[float]:
    """The powers of 2 of these exponents."""
    return [2.0**k for k in range(first, last + 1)]


def tested(train: Batch, test: Batch, algorithm: Algorithm, seed: int) -> float:
    """Test AUC in percent, with the settings that did best on training rows held out."""
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

    whole = scalings(train, test)
    ranked = _ranked(algorithm.grid, mean, coarse=work > _WHOLE_GRID)
    # More rows may make a learner diverge that did not on fewer.
    aucs = (_learned(algorithm, setting, seed, whole) for setting in ranked)
    return next((auc for auc in aucs if auc > -np.inf), 50.0)


def _ranked(
    grid: Mapping[str, Sequence[float]], mean: Callable[[Setting], float], coarse: bool
) -> list[Setting]:
    """Candidates, the best first: all, or every other value of one setting after another."""
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
    """Test AUC in percent; minus infinity where the learner diverges."""
    others = dict(setting)
    train, test = scalings[int(others.pop("unit", 0))]
    learner = algorithm.make(train, seed, others)
    try:
        for first in [*range(0, train.y.size, _CHUNK)] * algorithm.passes:
            part = slice(first, first + _CHUNK)
            learner.learn(train.X[part], train.y[part])
            # Most long steps are lost within one chunk, which saves the rest of the pass.
            learner.score(test.X[:0])
        return percent(learner.score(test.X), test.y)
    except ConvergenceError:
        return -np.inf


def scalings(train: Batch, test: Batch) -> list[tuple[Batch, Batch]]:
    """The rows with columns in [-1, 1], as the training rows tell, and with unit length."""
    # Columns are only divided, and only where they exceed 1: zeros stay zeros.
    divide = sparse.diags(1 / np.maximum(abs(train.X).max(axis=0).toarray().ravel(), 1.0))
    boxed = [rows._replace(X=sparse.csr_matrix(rows.X @ divide)) for rows in (train, test)]
    unit = [
        rows._replace(X=sparse.csr_matrix(sparse.diags(1 / lengths(rows)) @ rows.X))
        for rows in boxed
    ]
    return [(boxed[0], boxed[1]), (unit[0], unit[1])]


def lengths(rows: Batch) -> Float:
    """Lengths ``(n,)`` of rows; 1 of a row of zeros."""
    squares = np.asarray(_csr(rows).power(2).sum(axis=1)).ravel()
    return np.sqrt(np.where(squares > 0, squares, 1.0))


def _csr(rows: Batch) -> sparse.csr_matrix:
    return cast(sparse.csr_matrix, rows.X)
