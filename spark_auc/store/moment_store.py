"""The store of moments by period; the room's docstring describes its table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from os import fspath

from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.types import AnyPath
from spark_auc.errors import StoreConflict
from spark_auc.store.deletion import remaining
from spark_auc.store.facts import Facts, mismatch
from spark_auc.store.files import Content, SourceFile, unknown_period, unknown_source
from spark_auc.store.rows import (
    PARTITIONS,
    TABLE,
    Segments,
    Source,
    check,
    digest,
    group_size,
    table_rows,
)
from spark_auc.store.sources import superseded
from spark_auc.store.stored_facts import FACTS, store_facts, stored_facts
from spark_auc.store.table import Table
from spark_auc.store.windows import MergedFolds, Window, included, merged_windows


class MomentStore:
    """Pair moments of the folds of each period, under one schema id.

    Opening writes nothing. The first `put` creates the table.

    Parameters
    ----------
    location
        A path, or a URI of S3, GCS or ABFS.
    facts
        How the moments are made; they decide the schema id.
    full_refresh
        Whether facts that differ from the stored ones begin a new schema id.
    storage_options
        Options of the object store, by the names of the deltalake package.

    Raises
    ------
    ConfigError
        The store has other facts only, and ``full_refresh`` is false; the message names the fields.
    ModelFormatError
        The location has another table, or its facts are damaged.
    """

    def __init__(
        self,
        location: AnyPath,
        facts: Facts,
        *,
        full_refresh: bool = False,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self.location, self.facts = fspath(location), facts
        self._table = Table(location, TABLE, PARTITIONS, storage_options)
        stored = stored_facts(self._table)
        if stored and facts.schema_id not in stored and not full_refresh:
            raise mismatch(facts, stored)
        self._has_facts = facts.schema_id in stored
        self._seen = self._paths()

    @staticmethod
    def stored_facts(location: AnyPath) -> dict[str, Facts]:
        """The facts of each schema id of a store; empty if there is no store."""
        return stored_facts(Table(location, TABLE, PARTITIONS))

    @property
    def schema_id(self) -> str:
        """The schema id of the facts."""
        return self.facts.schema_id

    @property
    def version(self) -> int:
        """Version of the table; -1 without a table."""
        return self._table.version

    def refresh(self) -> None:
        """Read the latest version: `put` may then replace what other processes stored."""
        self._table.refresh()
        self._seen = self._paths()

    def _paths(self) -> dict[Source, str]:
        files = self._table.files()
        keys = sorted(key for key in files if key[0] == self.schema_id and key[1] != FACTS)
        return {Source(*key): files[key].path for key in keys}

    def periods(self, source: str | None = None) -> tuple[str, ...]:
        """The stored periods, ascending; those with one source only, if it is named."""
        return tuple(sorted({s.period for s in self._seen if source in (None, s.source)}))

    def sources(self, period: str) -> tuple[str, ...]:
        """The sources of a period, ascending; raises `DataError` for an unknown period."""
        self._known(period)
        return tuple(source.source for source in self._seen if source.period == period)

    def _known(self, period: str) -> None:
        if period not in (periods := self.periods()):
            raise unknown_period(period, periods, self.location)

    def lacking(self, schema_id: str) -> tuple[str, ...]:
        """The periods, ascending, that another schema id has and this one lacks."""
        others = {period for key, period, _ in self._table.files() if key == schema_id}
        return tuple(sorted(others - {FACTS, *self.periods()}))

    def contents(self) -> list[Content]:
        """Counts of rows by period, source and segment, of sources that are not superseded."""
        return [content for file in self.files() for content in file.contents()]

    def sizes(self) -> dict[Source, int]:
        """Bytes of the file of each source, of all schema ids."""
        return {
            Source(*key): file.size
            for key, file in sorted(self._table.files().items())
            if not key[1].startswith("_")
        }

    def disk_size(self) -> int | None:
        """Bytes of the store on a local disk, with its log and superseded files; else None."""
        return self._table.disk_size()

    def put(self, period: str, source: str, folds: Sequence[PairMoments] | Segments) -> bool:
        """Replace a source of a period, with all its segments.

        Sources that this one supersedes are removed; see `spark_auc.store.sources`.

        Parameters
        ----------
        period
            An ISO date or another sortable name.
        source
            Name of the source: letters, digits, ".", "_" and "-".
        folds
            The moments of each fold's rows, or those of each segment.

        Returns
        -------
        bool
            Whether a commit was made: equal moments need none.

        Raises
        ------
        ConfigError
            A name is invalid, or the period is of another kind than the stored ones.
        DataError
            The number of folds or of features differs from the facts.
        StoreConflict
            Another process changed this source of the period since this store was opened.
        """
        place = Source(self.schema_id, period, source)
        changed = self._replace(place, folds if isinstance(folds, Mapping) else {"": folds})
        self.remove(period, superseded(self.sources(period)))
        return changed

    def remove(self, period: str, sources: Collection[str]) -> None:
        """Remove sources of a period in one commit; none for no sources."""
        places = [Source(self.schema_id, period, source) for source in sorted(sources)]
        if places:
            self._table.remove(" OR ".join(f"({place.predicate()})" for place in places))
            self._seen = {s: path for s, path in self._seen.items() if s not in places}

    def _replace(self, place: Source, segments: Segments, mark: str | None = None) -> bool:
        check(place, segments, self.facts, self.periods())
        if not self._has_facts:
            store_facts(self._table, self.facts)
            self._has_facts = True
        # From here on the snapshot is the one that is compared with what was seen.
        self._table.refresh()
        if (path := self._paths().get(place)) != self._seen.get(place):
            raise StoreConflict(
                f"found the period {place.period!r} of {place.source!r} changed by another job "
                "during this job, expected it unchanged; its rows remain: run this job again"
            )
        if path is not None and self._file(place, path).equals(segments):
            return False
        rows, size = table_rows(place, segments, self.facts), group_size(self.facts, len(segments))
        self._table.replace(place.predicate(), rows, size, mark)
        # Other places keep what was seen of them: their changes by other jobs remain conflicts.
        self._seen = dict(sorted((self._seen | {place: self._paths()[place]}).items()))
        return True

    def files(self) -> list[SourceFile]:
        """The files that windows merge, by period and source; counts are read without moments."""
        left_out = {p: superseded(self.sources(p)) for p in self.periods()}
        return [
            self._file(source, path)
            for source, path in self._seen.items()
            if source.source not in left_out[source.period]
        ]

    def _file(self, source: Source, path: str) -> SourceFile:
        table = self._table
        return SourceFile(table.file_system(), path, source, self.facts, table.is_latest)

    def folds(self, period: str, source: str, segment: str = "") -> list[PairMoments]:
        """The stored moments of each fold.

        Raises
        ------
        DataError
            The period, source or segment is unknown.
        ModelFormatError
            Stored rows are damaged.
        """
        (file := self._known_file(period, source)).check_segment(segment)
        return file.folds(segment)

    def segments(self, period: str, source: str) -> dict[str, list[PairMoments]]:
        """The stored moments of each segment and fold; errors are those of `folds`."""
        file = self._known_file(period, source)
        return {name: file.folds(name) for name in file.segments}

    def _known_file(self, period: str, source: str) -> SourceFile:
        if source not in (sources := self.sources(period)):
            raise unknown_source(period, source, sources)
        return self._file(place := Source(self.schema_id, period, source), self._seen[place])

    def windows(
        self,
        windows: Sequence[Window],
        *,
        newest: str | None = None,
        excluded: Sequence[str] = (),
        segments: Sequence[str | None] = (None,),
    ) -> list[MergedFolds]:
        """Merge the periods of all windows in one read, from the newest to the oldest.

        Parameters
        ----------
        windows
            The windows.
        newest
            The last period; None for the last stored one.
        excluded
            Periods to leave out. The last of the others has age 0.
        segments
            The segments to merge, each by itself, for each window; None for all rows.

        Raises
        ------
        ConfigError
            A window spans too many half-lives.
        DataError
            The store is empty, or a period or segment is unknown.
        ModelFormatError
            Stored rows are damaged.
        StoreConflict
            Another job replaced a period, and its superseded file was deleted.
        """
        for period in (*([] if newest is None else [newest]), *excluded):
            self._known(period)
        by_period = included(self.files(), newest, excluded, self.location)
        return merged_windows(by_period, windows, self.facts, segments)

    def delete_rows(
        self, period: str, source: str, removed: Sequence[PairMoments] | Segments, request: str
    ) -> None:
        """Subtract a person's rows from a source of a period, and delete the superseded files.

        The moments of all folds of the source are in memory during this call. Models that were
        trained on the rows, and the recipe's token names, are not changed.

        Parameters
        ----------
        period, source
            Where the rows are stored.
        removed
            The moments of the rows, by fold, or those of each segment.
        request
            Name of the request. Its last deletion is not repeated; equal rows need another name.

        Raises
        ------
        DataError
            The rows contradict the stored moments, or nothing is stored there.
        StoreConflict
            Another process changed the source since this store was opened.
        """
        part = removed if isinstance(removed, Mapping) else {"": removed}
        stored, place = self.segments(period, source), Source(self.schema_id, period, source)
        check(place, part, self.facts, [])
        # A deletion that was killed before the superseded files were deleted is not repeated.
        if not self._table.has_mark(request + digest(place, stored, self.facts, part)):
            left = remaining(stored, part)
            self._replace(place, left, request + digest(place, left, self.facts, part))
        self.vacuum()

    def vacuum(self, hours: int = 0) -> None:
        """Delete files that were replaced ``hours`` ago; jobs that read them raise `StoreConflict`.

        Files of killed jobs remain, and the log lists them: they may belong to a running job.
        """
        self._table.vacuum(hours)
