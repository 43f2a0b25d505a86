"""Read the file of a source of a period: tile by tile, with every row checked."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from spark_auc.core.moments.moments_tile import MomentsTile
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.moments.tiles import Tiling
from spark_auc.core.types import Int
from spark_auc.errors import DataError, ModelFormatError, StoreConflict
from spark_auc.store.facts import Facts
from spark_auc.store.rows import (
    SIDES,
    STORED,
    TABLE,
    Place,
    Segments,
    Source,
    from_bytes,
    table_rows,
)

_log = logging.getLogger(__name__)

_PLACE = ("tile", "segment", "fold", "class")
_COUNTS = (*_PLACE, "rows", "weight")


class Count(NamedTuple):
    """Number and total weight of the rows of a class in a fold of a segment."""

    segment: str
    fold: int
    side: str
    rows: int
    weight: float


class Content(NamedTuple):
    """What is stored of a segment: numbers of rows of each class, and their total weights.

    Parameters
    ----------
    period, source, segment
        The place.
    positive, negative
        Number of rows.
    positive_weight, negative_weight
        Their total weight.
    """

    period: str
    source: str
    segment: str
    positive: int
    negative: int
    positive_weight: float
    negative_weight: float


class SourceFile:
    """The stored moments of a source of a period.

    Parameters
    ----------
    file_system, path
        The Parquet file.
    source
        Its source.
    facts
        The facts of its schema id.
    is_latest
        Tells, if the file is missing, whether the snapshot is the latest.
    """

    def __init__(
        self,
        file_system: fs.FileSystem,
        path: str,
        source: Source,
        facts: Facts,
        is_latest: Callable[[], bool],
    ) -> None:
        self.source, self.facts, self.path = source, facts, path
        self._file_system, self._is_latest = file_system, is_latest

    @cached_property
    def counts(self) -> list[Count]:
        """Rows by segment, fold and class, sorted; raises `ModelFormatError` unless complete."""
        counts = []
        for *place, rows, weight in self._rows(0, _COUNTS):
            at = Place(*place)
            counts.append(Count(at.segment, at.fold, at.side, rows, weight))
        self._check([(c.segment, c.fold, c.side) for c in counts], 0)
        return counts

    @property
    def segments(self) -> list[str]:
        """The segments, sorted."""
        return sorted({count.segment for count in self.counts})

    def check_segment(self, segment: str) -> None:
        """`DataError` for a segment that is not stored."""
        if segment not in self.segments:
            raise DataError(
                f"found no segment {segment!r} in the period {self.source.period!r}, expected one "
                f"of {self.segments[:10]}; choose one of them"
            )

    def contents(self) -> list[Content]:
        """The counts of each segment over all folds."""
        sides = iter(self.counts)
        by_segment: dict[str, list[Any]] = {s: [0, 0, 0.0, 0.0] for s in self.segments}
        for positive, negative in zip(sides, sides, strict=True):
            numbers = (positive.rows, negative.rows, positive.weight, negative.weight)
            sums = by_segment[positive.segment]
            by_segment[positive.segment] = [a + b for a, b in zip(sums, numbers, strict=True)]
        place = (self.source.period, self.source.source)
        return [Content(*place, segment, *sums) for segment, sums in by_segment.items()]

    def rows(self) -> Int:
        """Number of rows ``(k, 2)`` of each fold and class over all segments."""
        rows = np.zeros((self.facts.folds, len(SIDES)), np.int64)
        for count in self.counts:
            rows[count.fold, SIDES.index(count.side)] += count.rows
        return rows

    def tiles(self, number: int, segment: str | None) -> Iterator[tuple[Count, MomentsTile]]:
        """The tiles of a number, by segment, fold and class.

        Parameters
        ----------
        number
            Number of the tile in the order of `Tiling.places`.
        segment
            The segment to read; None for all.

        Raises
        ------
        ModelFormatError
            Rows are missing, damaged or repeated.
        StoreConflict
            Another process replaced the file.
        """
        found = []
        for *place, rows, weight, data in self._rows(number, (*_COUNTS, "bytes")):
            at = Place(*place)
            found.append((at.segment, at.fold, at.side))
            if segment is not None and at.segment != segment:
                continue
            tile = from_bytes(self.source, at, data, self.facts)
            if (tile.rows, tile.weight) != (rows, weight):
                raise self._damaged(f"{rows} rows of weight {weight} of a tile with others")
            count = Count(at.segment, at.fold, at.side, rows, weight)
            if len(found) > len(self.counts) or count != self.counts[len(found) - 1]:
                raise self._damaged(f"{count} in tile {number}, unlike in tile 0")
            yield count, tile
        self._check(found, number)

    def folds(self, segment: str) -> list[PairMoments]:
        """The moments of each fold of a segment."""
        k, dimension = self.facts.folds, self.facts.dimension
        parts: list[dict[str, MomentsTile]] = [{} for _ in range(k)]
        for number, (i, j) in enumerate(Tiling(dimension).places()):
            for count, tile in self.tiles(number, segment):
                parts[count.fold][f"{count.side}/{i}/{j}"] = tile
        return [PairMoments.of_parts(part, dimension) for part in parts]

    def equals(self, segments: Segments) -> bool:
        """Whether exactly these moments are stored, bit by bit; false for a damaged file."""
        new = _values(table_rows(self.source, segments, self.facts))
        try:
            return all(a == b for a, b in zip_longest(self.all_rows(), new))
        except ModelFormatError as error:
            _log.warning("the period %s is replaced: %s", self.source.period, error)
            return False

    def all_rows(self) -> Iterator[tuple[Any, ...]]:
        """The values of the columns of `STORED` of each row, unchecked."""
        with self._errors(), self._opened() as file:
            for group in range(file.metadata.num_row_groups):
                table = file.read_row_group(group, columns=list(STORED))
                yield from zip(*(table[name].to_pylist() for name in STORED), strict=True)

    def _check(self, found: list[tuple[str, int, str]], number: int) -> None:
        segments = sorted({segment for segment, _, _ in found})
        folds = range(self.facts.folds)
        complete = [(s, fold, side) for s in segments for fold in folds for side in SIDES]
        if not found or found != complete:
            raise self._damaged(f"{len(found)} unsorted or incomplete rows of tile {number}")
        if number and len(found) != len(self.counts):
            raise self._damaged(f"{len(found)} rows of tile {number}, unlike in tile 0")

    def _damaged(self, found: str) -> ModelFormatError:
        return ModelFormatError(
            f"found {found} in the source {self.source.source!r} of the period "
            f"{self.source.period!r}, expected a row of each segment, fold and class; replace the "
            "period by another run of its job"
        )

    def _rows(self, number: int, columns: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
        """The values of the columns in the rows of a tile number, in stored order."""
        with self._errors(), self._opened() as file:
            for group in self._groups(number):
                table = file.read_row_group(group, columns=list(columns), use_threads=False)
                lists = [_values_of(table[name], name) for name in columns]
                for row in zip(*lists, strict=True):
                    if row[0] == number:
                        yield row

    @cached_property
    def _metadata(self) -> pq.FileMetaData:
        with self._errors(), self._file_system.open_input_file(self.path) as file:
            return pq.read_metadata(file)

    @contextmanager
    def _opened(self) -> Iterator[pq.ParquetFile]:
        metadata = self._metadata
        if metadata.schema.to_arrow_schema().names != list(STORED):
            raise self._damaged("a file of other columns")
        with self._file_system.open_input_file(self.path) as file:
            yield pq.ParquetFile(file, metadata=metadata)

    @cached_property
    def _spans(self) -> list[tuple[int, int]]:
        """The least and the greatest tile number of each row group."""
        column = STORED.index("tile")
        spans = []
        for group in range(self._metadata.num_row_groups):
            numbers = self._metadata.row_group(group).column(column).statistics
            known = numbers is not None and numbers.has_min_max
            least, most = (numbers.min, numbers.max) if known else (0, 2**31)
            spans.append((least, most))
        return spans

    def _groups(self, number: int) -> list[int]:
        return [g for g, (least, most) in enumerate(self._spans) if least <= number <= most]

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            if not self._is_latest():
                raise StoreConflict(
                    f"found no file of the period {self.source.period!r}, which another job "
                    "replaced during this job; run this job again"
                ) from None
            raise self._damaged("no file") from None
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            raise self._damaged(f"a damaged file ({str(error)[:80]!a})") from None


def unknown_period(period: str, periods: Sequence[str], location: str) -> DataError:
    """The error for a period that is not among the stored ones."""
    stored = f"{len(periods)} from {periods[0]} to {periods[-1]}" if periods else "none"
    return DataError(
        f"found no period {period!r} in the store {location!r}, expected a stored one "
        f"({stored}); run the job of the period"
    )


def unknown_source(period: str, source: str, sources: Sequence[str]) -> DataError:
    """The error for a source that a stored period lacks."""
    return DataError(
        f"found no source {source!r} of the period {period!r}, expected one of {sources}; choose "
        "one of them"
    )


def _values_of(column: pa.ChunkedArray, name: str) -> list[Any]:
    """The values of a column, which a damaged schema may give another type, or nulls."""
    if column.null_count:
        raise ValueError(f"nulls in column {name!r}")
    column = column.cast(TABLE.field(name).type)
    if name == "bytes":
        return [memoryview(value.as_buffer()) for value in column]
    return list(column.to_pylist())


def _values(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        yield from zip(*(batch.column(name).to_pylist() for name in STORED), strict=True)
