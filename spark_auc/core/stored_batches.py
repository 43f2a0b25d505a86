"""Batches of rows of which the features of some are in a temporary file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from spark_auc.core.batch import Batch
from spark_auc.core.spill import Place, Spill
from spark_auc.core.types import Rows


class _Spilled(NamedTuple):
    """A batch whose features are in a file: its other fields, and the arrays of the features."""

    others: Batch
    place: Place
    arrays: tuple[tuple[DTypeLike, int], ...]
    shape: tuple[int, int]
    entries: int


# A batch as a store keeps it.
Stored: TypeAlias = Batch | _Spilled


class BatchStore:
    """Takes batches: as many as some bytes into memory, the features of others into a file.

    Parameters
    ----------
    in_memory
        Bytes of batches in memory. More stay there if the disk is full.
    """

    def __init__(self, in_memory: float) -> None:
        self.in_memory, self.left, self.spill = in_memory, in_memory, Spill()

    def put(self, batch: Batch) -> Stored:
        """Take a batch; several threads may do so."""
        X = batch.X
        self.left -= batch.nbytes
        if self.left >= 0:
            return batch
        arrays = (X,) if isinstance(X, np.ndarray) else (X.data, X.indices, X.indptr)
        place = self.spill.put(*arrays)
        if place is None:
            return batch
        kinds = tuple((array.dtype, array.nbytes) for array in arrays)
        return _Spilled(batch._replace(X=np.empty((0, 0))), place, kinds, X.shape, X.size)

    def batches(self, stored: Iterable[Stored]) -> StoredBatches:
        """The batches of what `put` returned."""
        return StoredBatches(self, tuple(stored))


@dataclass(frozen=True, eq=False)
class StoredBatches(Sequence[Batch]):
    """Batches that a store took; each is read when it is asked for."""

    store: BatchStore
    stored: tuple[Stored, ...]

    @property
    def entries(self) -> int:
        """Number of stored entries of all batches."""
        return sum(s.entries if isinstance(s, _Spilled) else s.X.size for s in self.stored)

    def again(self, batches: Iterator[Batch]) -> StoredBatches:
        """Other batches, in a store of the same size."""
        store = BatchStore(self.store.in_memory)
        return store.batches(map(store.put, batches))

    def __len__(self) -> int:
        return len(self.stored)

    @overload
    def __getitem__(self, number: int) -> Batch: ...

    @overload
    def __getitem__(self, number: slice) -> StoredBatches: ...

    def __getitem__(self, number: int | slice) -> Batch | StoredBatches:
        if isinstance(number, slice):
            return replace(self, stored=self.stored[number])
        found = self.stored[number]
        return self._read(found) if isinstance(found, _Spilled) else found

    def _read(self, spilled: _Spilled) -> Batch:
        data = self.store.spill.get(spilled.place)
        ends = np.cumsum([size for _, size in spilled.arrays[:-1]])
        parts = [
            part.view(dtype)
            for part, (dtype, _) in zip(np.split(data, ends), spilled.arrays, strict=True)
        ]
        is_dense = len(parts) == 1
        X: Rows = parts[0] if is_dense else sparse.csr_matrix(tuple(parts), spilled.shape)
        return spilled.others._replace(X=X.reshape(spilled.shape) if is_dense else X)
