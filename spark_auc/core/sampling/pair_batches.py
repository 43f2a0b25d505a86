"""Pairs of drawn rows in memory, as differences that are made when they are read."""

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

# Entries of the differences that are held at a time.
_ENTRIES = 1 << 20


@dataclass(frozen=True, eq=False)
class PairBatches(Sequence[Batch]):
    """Differences of rows as positive rows, and after them one negative row of zeros.

    All pairs of these are the pairs drawn. A key is the number of the pair's part.

    Parameters
    ----------
    rows
        The rows drawn, each once.
    plus, minus : (S,)
        Row numbers of the positive and the negative row of each pair.
    part : (S,)
        Number of its part.
    """

    rows: Batch
    plus: Int
    minus: Int
    part: NDArray[np.uint64]

    @classmethod
    def of(cls, batches: Iterable[Batch], draws: Draws, bounds: tuple[Float, Float]) -> PairBatches:
        """The pairs of the k-th positive with the k-th negative draw; only drawn rows are held.

        Parameters
        ----------
        batches
            All rows.
        draws
            Which of them to draw, as many of each class.
        bounds
            For the positive and the negative draws, ascending moments that part them.
        """
        held, drawn, times, count = [], [], [], 0
        for batch in batches:
            chosen, moments = draws.arrivals(batch)
            rows, places = np.unique(chosen, return_inverse=True)
            held.append(Batch(batch.X[rows], batch.y[rows]))
            drawn.append(places + count)
            times.append(moments)
            count += rows.size
        kept, chosen, moments = stacked(held), np.concatenate(drawn), np.concatenate(times)
        order = np.argsort(moments, kind="stable")
        chosen, moments = chosen[order], moments[order]
        positive = kept.y[chosen]
        pairs = min(np.count_nonzero(positive), np.count_nonzero(~positive))
        plus, minus = chosen[positive][:pairs], chosen[~positive][:pairs]
        part = np.searchsorted(bounds[0], moments[positive][:pairs], "right")
        return cls(kept, plus, minus, part.astype(np.uint64))

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
            none = sparse.csr_matrix((1, self.rows.X.shape[1]))
            return Batch(none, np.zeros(1, bool), None, np.zeros(1, np.uint64))
        these = slice(number * self._size, (number + 1) * self._size)
        difference = self.rows.X[self.plus[these]] - self.rows.X[self.minus[these]]
        part = self.part[these]
        return Batch(difference, np.ones(part.size, bool), None, part)
