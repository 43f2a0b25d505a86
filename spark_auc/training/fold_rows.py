"""The training rows of each fold in memory, with the columns of a candidate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import sparse

from spark_auc.core.batch import Batch, Change
from spark_auc.core.row_source import ArrayRows, rows_where
from spark_auc.core.sampling.folds import Folds
from spark_auc.core.types import Bool, Int, Rows


@dataclass(frozen=True, eq=False)
class FoldRows:
    """Rows in memory, and their folds.

    Parameters
    ----------
    rows
        All rows, with their groups.
    folds
        The fold of each row.
    """

    rows: ArrayRows
    folds: Folds

    def training(self, taught: bool) -> Iterator[ArrayRows]:
        """The training rows of each fold.

        Parameters
        ----------
        taught
            Whether rows that are in no fold train too.
        """
        for k in range(self.folds.count):
            yield self.rows.changed(rows_where(partial(self._trains, k, taught)))

    def inside(self) -> ArrayRows:
        """The rows that are in a fold."""
        return self.rows.changed(rows_where(partial(self._trains, self.folds.count, False)))

    def _trains(self, k: int, taught: bool, batch: Batch) -> Bool:
        numbers = self.folds.of(batch)
        others: Bool = numbers != k
        return others if taught else others & (numbers < self.folds.count)


def occurring(rows: ArrayRows) -> Int:
    """The columns ``(k,)`` that are not 0 in some row, ascending."""
    some = np.zeros(rows.dimension, np.bool_)
    for batch in rows.batches:
        X = batch.X
        found = X.any(axis=0) if isinstance(X, np.ndarray) else X.indices[X.data != 0]
        some[found] = True
    return np.flatnonzero(some)


def to_columns(columns: Int) -> tuple[Change, int]:
    """The arguments of `Folding.changed` for rows with some of their columns; see `restricted`."""
    return partial(map, partial(restricted, columns)), columns.size


def restricted(columns: Int, batch: Batch) -> Batch:
    """A batch with some of its columns ``(d,)``, ascending; the groups are those of all columns."""
    return batch._replace(X=_of_columns(batch.X, columns), group=batch.groups())


def _of_columns(X: Rows, columns: Int) -> Rows:
    if isinstance(X, np.ndarray):
        return X[:, columns]
    place = np.full(X.shape[1], -1, np.int32)
    place[columns] = np.arange(columns.size, dtype=np.int32)
    places = place[X.indices]
    kept = places >= 0
    if kept.all():
        return sparse.csr_matrix((X.data, places, X.indptr), (X.shape[0], columns.size))
    indptr = np.append(0, np.cumsum(kept))[X.indptr].astype(X.indptr.dtype)
    return sparse.csr_matrix((X.data[kept], places[kept], indptr), (X.shape[0], columns.size))
