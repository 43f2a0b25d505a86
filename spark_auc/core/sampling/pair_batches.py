"""Pairs of drawn rows in memory, whose differences are computed when they are read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spark_auc.core.batch import Batch, stacked
from spark_auc.core.sampling.draws import Draws
from spark_auc.core.types import Float, Int

# Greatest number of entries of the differences in one batch.
_ENTRIES = 1 << 20


@dataclass(frozen=True, eq=False)
class PairBatches(Sequence[Batch]):
    """Differences of pairs as positive rows, followed by one negative row of zeros.

    The pairs of a positive and a negative row of these batches are the pairs drawn. The key of a
    difference is the number of its part.

    Parameters
    ----------
    rows
        The rows drawn, each once.
    plus, minus : (S,)
        Row numbers of the positive and the negative row of each pair.
    part : (S,)
        Number of the part of each pair.
    """

    rows: Batch
    plus: Int
    minus: Int
    part: NDArray[np.uint64]

    @classmethod
    def of(cls, batches: Iterable[Batch], draws: Draws, bounds: tuple[Float, Float]) -> PairBatches:
        """Pair the k-th positive with the k-th negative draw; only drawn rows stay in memory.

        Parameters
        ----------
        batches
            All rows.
        draws
            The draws, the same number from each class.
        bounds
            Ascending arrival times that split the positive draws, and those that split the
            negative draws, into parts.
        """
        batches_drawn, numbers_drawn, times_drawn, count = [], [], [], 0
        for batch in batches:
            numbers, times = draws.arrivals(batch)
            distinct, positions = np.unique(numbers, return_inverse=True)
            batches_drawn.append(Batch(batch.X[distinct], batch.y[distinct]))
            numbers_drawn.append(positions + count)
            times_drawn.append(times)
            count += distinct.size
        rows = stacked(batches_drawn)
        numbers, times = np.concatenate(numbers_drawn), np.concatenate(times_drawn)
        order = np.argsort(times, kind="stable")
        numbers, times = numbers[order], times[order]
        positive = rows.y[numbers]
        pairs = min(np.count_nonzero(positive), np.count_nonzero(~positive))
        plus, minus = numbers[positive][:pairs], numbers[~positive][:pairs]
        part = np.searchsorted(bounds[0], times[positive][:pairs], "right")
        return cls(rows, plus, minus, part.astype(np.uint64))

    @property
    def _size(self) -> int:
        return max(1, _ENTRIES // max(int(self.rows.X.shape[1]), 1))

    def __len__(self) -> int:
        return -(-self.plus.size // self._size) + 1

    @overload
    def __getitem__(self, number: int) -> Batch: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Batch]: ...
    def __getitem__(self, number: int | slice) -> Batch | Sequence[Batch]:
        if isinstance(number, slice):
            return [self[k] for k in range(*number.indices(len(self)))]
        if not 0 <= number < len(self):
            raise IndexError(number)
        if number == len(self) - 1:
            zeros = sparse.csr_matrix((1, self.rows.X.shape[1]))
            return Batch(zeros, np.zeros(1, bool), None, np.zeros(1, np.uint64))
        pairs = slice(number * self._size, (number + 1) * self._size)
        difference = self.rows.X[self.plus[pairs]] - self.rows.X[self.minus[pairs]]
        part = self.part[pairs]
        return Batch(difference, np.ones(part.size, bool), None, part)
