"""Counted work: seconds of one processor that follow from numbers of rows, entries and features.

They are the same on every machine and engine. They decide whether the rows or the matrix of their
second moments take less time, and which candidates a budget has room for.

The matrix takes a product of each pair of stored entries of a row, several visits of its ``d^2``
numbers, and a decomposition. Without it, each step of a solver reads the rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from spark_auc.core.batch import Batch
from spark_auc.solvers.ridge import LARGEST_DIRECT, LARGEST_FACTORISED

# Seconds of one processor, as measured: an operation of a product of matrices and of a reduction to
# a band, and an update of a sparse Gram matrix;
_PRODUCT, _BAND, _UPDATE = 1e-10, 1e-10, 2e-9
# a number of the matrix over all its copies, and a number that a product with a vector reads;
_COPIES, _READ = 1.5e-8, 1e-9
# a stored entry of a sparse row in a step on the rows, alone and in a pass that folds share; and
# the calls of a step.
_ENTRY, _SHARED, _CALL = 6e-9, 2e-9, 3e-4
# `path` solves so many ridges together, in a Krylov space of mostly fewer and at most more steps;
# and in one of mostly fewer steps where solutions rank held-out rows only.
_MANY, _LENGTH, _LONGEST, _ROUGH = 6, 200, 400, 100
# Steps of a single ridge: on a matrix, where a factor follows if they are many, and on the rows,
# where few ridges take more.
_FEW, _ENOUGH = 8, 200
# Products with the rows that the squared hinge takes.
_HINGE = 60
# Most rows of the sample in which pairs and crosses of columns are looked for, features of a column
# of its model, and its folds.
_SAMPLE, _WIDTH, _FOLDS = 100_000, 40, 3
# A row and column of the histograms of a level of a tree, and a tree.
_HISTOGRAM, _TREE = 2e-9, 2e-3


class Work(NamedTuple):
    """What is solved.

    Parameters
    ----------
    penalties
        Number of penalties of each part.
    folds
        Number of folds whose other rows are parts; 0 to solve for all rows only.
    has_l1
        Whether a penalty has an l1 factor.
    rough
        Whether solutions rank held-out rows only, and share passes.
    """

    penalties: int = 1
    folds: int = 0
    has_l1: bool = False
    rough: bool = False


def steps_on_rows(batches: Iterable[Batch], dimension: int, work: Work) -> int | None:
    """Number of steps on the rows that take as long as the matrix; None to take the matrix.

    Ridges only: the steps of an elastic net are of other kinds.

    Parameters
    ----------
    batches
        The rows.
    dimension
        Number of features ``d``.
    work
        What is solved.
    """
    many = work.penalties >= _MANY
    entry, length = (_SHARED, _ROUGH) if work.rough else (_ENTRY, _LENGTH)
    # Without a matrix a single ridge of few features forms it for a factor all the same.
    if work.has_l1 or not (many or dimension > LARGEST_FACTORISED):
        return None
    gram = step = 0.0
    for X in (batch.X for batch in batches):
        if isinstance(X, np.ndarray):
            gram += _PRODUCT * X.size * dimension
            step += 2 * _READ * X.size
        else:
            gram += _UPDATE / 2 * float(np.square(np.diff(X.indptr), dtype=float).sum())
            step += entry * X.nnz
    parts = max(work.folds, 1)
    vectors = 4 * (length if many else 1) * _READ * dimension
    step = parts * (step + vectors + _CALL) * (1 if many else work.penalties)
    steps = int((gram + parts * _solved_by_matrix(dimension, work, many)) / step)
    least = _ENOUGH if not many else length if work.rough else _LONGEST
    return steps if steps >= least else None


def _solved_by_matrix(dimension: int, work: Work, many: bool) -> float:
    """Seconds from the moments of a part to the solutions of its penalties."""
    square, cube = float(dimension) ** 2, float(dimension) ** 3
    if many and dimension <= LARGEST_DIRECT:
        return _COPIES * square + 4 / 3 * _BAND * cube
    if dimension <= LARGEST_FACTORISED:
        return _COPIES * square + 2 / 3 * _PRODUCT * cube
    steps = _LENGTH if many else work.penalties * _FEW
    return (_COPIES + steps * _READ) * square


@dataclass(frozen=True)
class CountedWork:
    """Counted work of candidate models in seconds, and the budget for all of them.

    Parameters
    ----------
    rows, folds
        Numbers of rows and folds.
    entries
        Most stored entries of a row in each block of features, by the block's name.
    budget
        Seconds for all candidates. Default: no limit.
    """

    rows: int = 0
    folds: int = 5
    entries: Mapping[str, int] = field(default_factory=dict)
    budget: float = math.inf

    def without(self, work: float) -> str | None:
        """Why a candidate of some work is left out; None if the budget has room for it."""
        if work <= self.budget:
            return None
        return (
            f"its counted work, {work:.2g} s, is more than the {max(self.budget, 0.0):.2g} s that "
            "are left of the budget"
        )

    def left(self, spent: float) -> CountedWork:
        """The budget that is left after some work."""
        return replace(self, budget=self.budget - spent)

    def squared(self, blocks: Iterable[str], dimension: int, factors: int = 1) -> float:
        """Penalties of the squared loss on blocks of ``dimension`` features in all.

        ``factors`` is the number of factors of the roughness of curves.
        """
        entries, parts = self._entries(blocks), self.folds * factors
        gram = _UPDATE / 2 * self.rows * float(entries) ** 2
        matrix = gram + parts * _solved_by_matrix(dimension, Work(folds=self.folds), many=True)
        step = _SHARED * self.rows * entries + 4 * _ROUGH * _READ * dimension + _CALL
        return min(matrix, parts * _ROUGH * step)

    def hinge(self, blocks: Iterable[str]) -> float:
        """The squared hinge with one penalty on blocks of features."""
        return self.folds * _HINGE * (_ENTRY * self.rows * self._entries(blocks) + _CALL)

    def screen(self, columns: int) -> float:
        """Pairs and crosses among a number of columns, looked for in a sample of the rows."""
        rows, width = min(self.rows // 2, _SAMPLE), min(_WIDTH * columns, LARGEST_FACTORISED)
        single = CountedWork(rows, _FOLDS, {"": columns}).squared([""], width)
        return single + _UPDATE * rows * float(columns) ** 2

    def trees(self, trees: int, leaves: int, columns: float) -> float:
        """Trees that grow in every fold from a number of columns."""
        level = _HISTOGRAM * self.rows * columns
        return self.folds * trees * (_TREE + math.log2(leaves) * level)

    def _entries(self, blocks: Iterable[str]) -> int:
        return sum(self.entries.get(name, 0) for name in blocks)
