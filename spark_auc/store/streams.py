"""Micro-batches of a stream in a store of moments, each a source of its periods."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import reduce

from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.errors import StoreConflict
from spark_auc.store.moment_store import MomentStore
from spark_auc.store.rows import Segments
from spark_auc.store.sources import ROWS, MicroBatches, superseded

_log = logging.getLogger(__name__)

_Segments = dict[str, list[PairMoments]]

# Files of merged batches are deleted after so many hours: jobs that read them have ended by then.
_HOURS = 24
# A period has fewer single batches and fewer merged ones than this, and one batch in progress.
_MOST = 16


class StoredStream:
    """The sources of one stream.

    Parameters
    ----------
    store
        The store.
    name
        Name of the stream among all streams of the store.
    """

    def __init__(self, store: MomentStore, name: str) -> None:
        self._store, self._name = store, name

    def last(self) -> int:
        """Number of the last batch with rows in the store; -1 without one."""
        periods = self._store.periods()
        return max((s.last for period in periods for s in self._sources(period)), default=-1)

    def _sources(self, period: str) -> list[MicroBatches]:
        """The sources of a period that are not superseded, ascending."""
        if period not in self._store.periods():
            return []
        sources = self._store.sources(period)
        left = [s for s in sources if s not in superseded(sources)]
        parsed = (MicroBatches.of(source) for source in left)
        return [s for s in parsed if s is not None and s.stream == self._name]

    def append(
        self, batch: int, periods: Mapping[str, Sequence[PairMoments] | Segments]
    ) -> list[str]:
        """Store the moments of a batch's rows by period, as `put` takes them.

        A repetition changes nothing.

        A repeated batch may have other rows, of other periods: those of the first time are removed.

        Returns
        -------
        list of str
            Periods that were left out, as a batch job stored all of their rows, or merged batches
            include this one.

        Raises
        ------
        SparkAUCError
            As in `MomentStore.put`.
        """
        own, store = MicroBatches(self._name, batch, batch).name, self._store
        left_out = []
        for period, folds in periods.items():
            stored = store.sources(period) if period in store.periods() else ()
            if own in superseded([*stored, own]):
                left_out.append(period)
            else:
                store.put(period, own, folds)
        for period in store.periods(own):
            if period not in periods:
                store.remove(period, [own])
        return left_out

    def compact(self, period: str, last: int) -> None:
        """Merge the batches of a period once there are 16: reading opens fewer files.

        Sixteen sources of merged batches are merged, too. Then files that were superseded a day ago
        are deleted. Another job that changes the period at
        the same time leaves all sources as they are.

        Parameters
        ----------
        period
            The period.
        last
            The last batch to merge. Batches that the stream may repeat come later.
        """
        for single in (True, False):
            sources = [
                source
                for source in self._sources(period)
                if (source.first == source.last) == single and source.last <= last
            ]
            if len(sources) < _MOST:
                continue
            try:
                self._merge(period, sources)
                self._store.vacuum(_HOURS)
            except StoreConflict as error:
                _log.info("the batches of %s remain apart: %s", period, error)

    def merge(self, period: str) -> str | None:
        """Merge all batches of a period, and return the source; None without batches."""
        if not (sources := self._sources(period)):
            return None
        return sources[0].name if len(sources) == 1 else self._merge(period, sources)

    def _merge(self, period: str, sources: Sequence[MicroBatches]) -> str:
        merged = MicroBatches(self._name, sources[0].first, max(s.last for s in sources))
        parts = (self._store.segments(period, source.name) for source in sources)

        def both(a: _Segments, b: _Segments) -> _Segments:
            common = {
                name: [x.merge(y) for x, y in zip(a[name], b[name], strict=True)]
                for name in a.keys() & b.keys()
            }
            return a | b | common

        # The merged batches are removed by `put`: they are superseded.
        self._store.put(period, merged.name, reduce(both, parts))
        return merged.name


def streams(sources: Sequence[str]) -> list[str]:
    """Names of the streams that have sources of a period that are not superseded, ascending."""
    if ROWS in sources:
        return []
    return sorted({batches.stream for s in sources if (batches := MicroBatches.of(s))})
