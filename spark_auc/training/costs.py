"""Whether the rows or the matrix of their second moments take less time, estimated beforehand.

The matrix takes a product of each pair of stored entries of a row, several visits of its ``d^2``
numbers, and a decomposition. Without it, each step of a solver reads the rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from spark_auc.core.batch import Batch
from spark_auc.solvers.ridge import LARGEST_DIRECT, LARGEST_FACTORISED

# Seconds of one processor, as measured: an operation of a product of matrices and of a reduction to
# a band, and an update of a sparse Gram matrix;
_PRODUCT, _BAND, _UPDATE = 1e-10, 1e-10, 2e-9
# a number of the matrix over all its copies, and a number that a product with a vector reads;
_COPIES, _READ = 1.5e-8, 1e-9
# a stored entry of a sparse row, and the call, in a step on the rows.
_ENTRY, _CALL = 6e-9, 1e-4
# `path` solves so many ridges together, in a Krylov space of mostly fewer and at most more steps.
_MANY, _LENGTH, _LONGEST = 6, 200, 400
# Steps of a single ridge: on a matrix, where a factor follows if they are many, and on the rows,
# where few ridges take more.
_FEW, _ENOUGH = 8, 200


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
    """

    penalties: int = 1
    folds: int = 0
    has_l1: bool = False


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
            step += _ENTRY * X.nnz
    parts = max(work.folds, 1)
    vectors = 4 * (_LENGTH if many else 1) * _READ * dimension
    step = parts * (step + vectors + _CALL) * (1 if many else work.penalties)
    steps = int((gram + parts * _solved_by_matrix(dimension, work, many)) / step)
    return steps if steps >= (_LONGEST if many else _ENOUGH) else None


def _solved_by_matrix(dimension: int, work: Work, many: bool) -> float:
    """Seconds from the moments of a part to the solutions of its penalties."""
    square, cube = float(dimension) ** 2, float(dimension) ** 3
    if many and dimension <= LARGEST_DIRECT:
        return _COPIES * square + 4 / 3 * _BAND * cube
    if dimension <= LARGEST_FACTORISED:
        return _COPIES * square + 2 / 3 * _PRODUCT * cube
    steps = _LENGTH if many else work.penalties * _FEW
    return (_COPIES + steps * _READ) * square
