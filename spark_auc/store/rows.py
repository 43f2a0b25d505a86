"""A row of the table: one tile of one class in one fold, with its place in its bytes.

The checksum of the bytes covers the place as well as the tile, so that a row whose columns were
changed, or whose bytes belong to another row, is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from hashlib import sha256
from typing import NamedTuple

import pyarrow as pa

from spark_auc.core.moments.moments_tile import MomentsTile
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.moments.tiles import Tiling
from spark_auc.core.state.codec import Data
from spark_auc.core.state.schema import TEXT, Part, Schema
from spark_auc.errors import ConfigError, DataError, ModelFormatError
from spark_auc.store.facts import Facts

PARTITIONS = ("schemaId", "period", "source")
SIDES = ("+", "-")
TABLE = pa.schema(
    [
        ("schemaId", pa.string()),
        ("period", pa.string()),
        ("source", pa.string()),
        ("segment", pa.string()),
        ("fold", pa.int32()),
        ("class", pa.string()),
        ("tile", pa.int32()),
        ("rows", pa.int64()),
        ("weight", pa.float64()),
        ("bytes", pa.binary()),
    ]
)
# The columns in the data files.
STORED = tuple(name for name in TABLE.names if name not in PARTITIONS)
# The place is JSON: of the source, then of the row in its file.
_STATE = Schema("MomentStoreRow", 1, {"place": TEXT, "tile": Part(MomentsTile)})
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SEGMENT = re.compile(r"[^\x00-\x1f\ud800-\udfff]{0,200}")
# Bytes of the rows that are encoded, or read, together.
_TOGETHER = 32 * 2**20

Segments = Mapping[str, Sequence[PairMoments]]


class Source(NamedTuple):
    """A source of a period under a schema id: the unit that is replaced whole."""

    schema_id: str
    period: str
    source: str

    def predicate(self) -> str:
        """The SQL condition of its rows; names have no quotes."""
        pairs = zip(PARTITIONS, self, strict=True)
        return " AND ".join(f"\"{column}\" = '{value}'" for column, value in pairs)


class Place(NamedTuple):
    """The place of a row in its file; rows are sorted by it."""

    tile: int
    segment: str
    fold: int
    side: str


def is_date(period: str) -> bool:
    """Whether a period is an ISO date, such as 2026-03-01."""
    try:
        return date.fromisoformat(period).isoformat() == period
    except ValueError:
        return False


def check(place: Source, segments: Segments, facts: Facts, periods: Sequence[str]) -> None:
    """Check names, and that the moments are those of the facts; ``periods`` are stored.

    Raises
    ------
    ConfigError
        A name is invalid, or the period is of another kind than the stored ones.
    DataError
        The number of folds or of features differs from the facts.
    """
    for name in (place.period, place.source):
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"found the name {name[:120]!a} of a period or source, expected up to 100 "
                "letters, digits, '.', '_' and '-', beginning with a letter or digit; rename it"
            )
    if periods and is_date(periods[-1]) != is_date(place.period):
        raise ConfigError(
            f"found the period {place.period!r} beside {periods[-1]!r}, expected either ISO "
            "dates or other names; name all periods alike"
        )
    if not segments or not all(map(_SEGMENT.fullmatch, segments)):
        raise ConfigError(
            f"found segments {sorted(segments)[:5]!a}, expected at least one, of up to 200 "
            "characters without control characters; rename them"
        )
    expected = [facts.dimension] * facts.folds
    for segment, folds in segments.items():
        if [moments.dimension for moments in folds] != expected:
            raise DataError(
                f"found {len(folds)} folds of {sorted({m.dimension for m in folds})} features "
                f"in segment {segment!r}, expected {facts.folds} of {facts.dimension}; make the "
                "moments by the facts of the store"
            )


def group_size(facts: Facts, segments: int) -> int:
    """Number of rows of a row group: those of a tile, as far as they fit in memory together."""
    of_a_segment = 2 * facts.folds
    fit = _TOGETHER // (8 * Tiling(facts.dimension).tile ** 2) // of_a_segment
    return of_a_segment * max(1, min(segments, fit))


def table_rows(source: Source, segments: Segments, facts: Facts) -> Iterator[pa.RecordBatch]:
    """The rows of a source in the order of their places, in batches of a row group."""
    size = group_size(facts, len(segments))
    tiles = Tiling(facts.dimension).count
    for number in range(tiles):
        places = [
            Place(number, segment, fold, side)
            for segment in sorted(segments)
            for fold in range(facts.folds)
            for side in SIDES
        ]
        for start in range(0, len(places), size):
            columns: list[list[object]] = [[] for _ in TABLE]
            for place in places[start : start + size]:
                moments = segments[place.segment][place.fold]
                of_class = moments.positive if place.side == "+" else moments.negative
                tile = of_class.tiles[number]
                values = (*source, place.segment, place.fold, place.side, number)
                row = (*values, tile.rows, tile.weight, to_bytes(source, place, tile))
                for column, value in zip(columns, row, strict=True):
                    column.append(value)
            yield pa.RecordBatch.from_arrays(
                [pa.array(c, t) for c, t in zip(columns, TABLE.types, strict=True)], schema=TABLE
            )


def digest(source: Source, segments: Segments, facts: Facts, *others: Segments) -> str:
    """A hash of the rows of segments, and of further segments."""
    total = sha256()
    for part in (segments, *others):
        for batch in table_rows(source, part, facts):
            for data in batch.column("bytes"):
                total.update(memoryview(data.as_buffer()))
    return total.hexdigest()


def text_row(text: str, source: Source) -> pa.RecordBatch:
    """The row that stores a text in place of moments."""
    row = (*source, "", 0, "", 0, 0, 0.0, text.encode())
    return pa.RecordBatch.from_arrays(
        [pa.array([v], t) for v, t in zip(row, TABLE.types, strict=True)], schema=TABLE
    )


def to_bytes(source: Source, place: Place, tile: MomentsTile) -> bytes:
    """The bytes of a row."""
    return _STATE.encode({"place": _text(source, place), "tile": tile})


def _text(source: Source, place: Place) -> str:
    return json.dumps([*source, *place])


def from_bytes(source: Source, place: Place, data: Data, facts: Facts) -> MomentsTile:
    """The tile of a row.

    Raises
    ------
    ModelFormatError
        The bytes are damaged, are those of another row, or have another dimension.
    """
    values = _STATE.decode(data)
    tile: MomentsTile = values["tile"]
    if values["place"] != (expected := _text(source, place)):
        raise ModelFormatError(
            f"found the bytes of the row {values['place'][:120]!a}, expected those of {expected}; "
            f"replace the period {source.period!r} by another run of its job"
        )
    if len(tile.gram) != Tiling(facts.dimension).tile:
        raise ModelFormatError(
            f"found a tile of {len(tile.gram)} columns in the period {source.period!r}, expected "
            f"{Tiling(facts.dimension).tile}; replace the period by another run of its job"
        )
    return tile
