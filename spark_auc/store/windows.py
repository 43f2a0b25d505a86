"""Windows of periods, merged tile by tile from the newest period to the oldest."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import reduce
from tempfile import SpooledTemporaryFile
from threading import Lock

from spark_auc.core.moments.moments_tile import MomentsTile, part_names
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.moments.tiles import Tiling
from spark_auc.core.parallel import cpus, mapped
from spark_auc.errors import ConfigError, DataError, ModelFormatError
from spark_auc.store.facts import Facts
from spark_auc.store.files import SourceFile
from spark_auc.store.rows import SIDES, is_date

# Beyond this age in half-lives, products of weights could underflow.
_MOST_HALF_LIVES = 256
# Merged folds up to these sizes remain in memory: of all rows, and of one of many segments.
_IN_MEMORY, _OF_A_SEGMENT = 64 * 2**20, 4 * 2**20
# Each thread has the merged tiles of all folds and half-lives of one tile number in memory.
_MOST_THREADS = 4

_Tiles = dict[tuple[int, str], MomentsTile]
# Half-life and segment.
_Sharing = tuple[float | None, str | None]


@dataclass(frozen=True)
class Window:
    """The periods whose moments are merged, and their weights.

    Parameters
    ----------
    periods
        Ages of the periods, from 0 to ``periods - 1``; None for all.
    half_life
        Age at which rows have half their weight; None for equal weights.

    Raises
    ------
    ConfigError
        A value is out of range.
    """

    periods: int | None = None
    half_life: float | None = None

    def __post_init__(self) -> None:
        whole = self.periods is None or self.periods >= 1
        if not whole or (self.half_life is not None and not 0 < self.half_life < math.inf):
            raise ConfigError(
                f"found a window of {self.periods} periods with half-life {self.half_life}, "
                "expected at least 1 period and a half-life above 0; correct them"
            )

    def includes(self, age: int) -> bool:
        """Whether the window includes periods of an age."""
        return self.periods is None or age < self.periods

    def factor(self, age: int) -> float:
        """The weight ``2^(-age / halfLife)`` of rows of an age."""
        return 1.0 if self.half_life is None else 2.0 ** (-age / self.half_life)


def ages(periods: Sequence[str]) -> dict[str, int]:
    """The age of each period, of ascending periods: days before the last for dates, else ranks.

    Raises
    ------
    DataError
        Some periods are dates and others are not.
    """
    dates = list(filter(is_date, periods))
    if dates and len(dates) < len(periods):
        other = next(period for period in periods if not is_date(period))
        raise DataError(
            f"found the periods {dates[0]!r} and {other!r}, expected either ISO dates or other "
            "names; exclude periods of one kind"
        )
    if dates:
        days = [date.fromisoformat(period).toordinal() for period in periods]
    else:
        days = list(range(len(periods)))
    return {period: days[-1] - day for period, day in zip(periods, days, strict=True)}


class MergedFolds:
    """The merged moments of each fold of a window, in a temporary file.

    Parameters
    ----------
    window
        The window.
    periods
        The merged periods, ascending.
    facts
        The facts of their schema id.
    segment
        The merged segment; None for all.
    """

    def __init__(
        self, window: Window, periods: tuple[str, ...], facts: Facts, segment: str | None = None
    ) -> None:
        self.window, self.periods, self.facts, self.segment = window, periods, facts, segment
        in_memory = _IN_MEMORY if segment is None else _OF_A_SEGMENT
        # The file is deleted when it is closed, at the latest with this object.
        self._file = SpooledTemporaryFile(max_size=in_memory)  # noqa: SIM115
        self._lock = Lock()
        self._places: dict[tuple[int, str], tuple[int, int]] = {}
        self._counts: dict[tuple[int, str], tuple[int, float]] = {}

    def store(self, name: str, tiles: _Tiles) -> None:
        """Store the merged tiles of one tile number; ``name`` is its row and column."""
        for (fold, side), tile in tiles.items():
            count, data = (tile.rows, tile.weight), tile.to_bytes()
            with self._lock:
                if self._counts.setdefault((fold, side), count) != count:
                    raise ModelFormatError(
                        f"found {count} rows and weight in tile {name} of fold {fold}, expected "
                        f"{self._counts[fold, side]}; replace the periods by a run of their job"
                    )
                self._places[fold, f"{side}/{name}"] = (self._file.seek(0, os.SEEK_END), len(data))
                self._file.write(data)

    @property
    def folds(self) -> int:
        """Number ``k`` of folds."""
        return self.facts.folds

    def rows(self, fold: int) -> tuple[int, int]:
        """Number of positive and of negative rows of a fold."""
        positive, negative = (self._counts[fold, side][0] for side in SIDES)
        return positive, negative

    def fold(self, number: int) -> PairMoments:
        """The moments of a fold's rows."""
        return self._merged([number])

    def complement(self, number: int) -> PairMoments:
        """The moments of the rows of all other folds, by merges alone."""
        return self._merged([k for k in range(self.folds) if k != number])

    def complements(self) -> Iterator[PairMoments]:
        """The complement of each fold; one is in memory at a time."""
        return map(self.complement, range(self.folds))

    def total(self) -> PairMoments:
        """The moments of all rows."""
        return self._merged(list(range(self.folds)))

    def close(self) -> None:
        """Delete the temporary file."""
        self._file.close()

    def _merged(self, numbers: Sequence[int]) -> PairMoments:
        def merged(name: str) -> MomentsTile:
            return reduce(MomentsTile.merge, (self._tile(k, name) for k in numbers))

        names = part_names(self.facts.dimension)
        parts = dict(zip(names, mapped(merged, names), strict=True))
        return PairMoments.of_parts(parts, self.facts.dimension)

    def _tile(self, fold: int, name: str) -> MomentsTile:
        start, size = self._places[fold, name]
        with self._lock:
            self._file.seek(start)
            data = self._file.read(size)
        return MomentsTile.from_bytes(data)


def included(
    files: Sequence[SourceFile], newest: str | None, excluded: Sequence[str], location: str
) -> dict[str, list[SourceFile]]:
    """The files of each period up to the newest, without excluded periods.

    Raises
    ------
    DataError
        No period remains.
    """
    by_period: dict[str, list[SourceFile]] = {}
    for file in files:
        period = file.source.period
        if (newest is None or period <= newest) and period not in excluded:
            by_period.setdefault(period, []).append(file)
    if not by_period:
        raise DataError(
            f"found no periods in the store {location!r} for a window, expected at least one; "
            "store a period first"
        )
    return by_period


def merged_windows(
    files: Mapping[str, Sequence[SourceFile]],
    windows: Sequence[Window],
    facts: Facts,
    segments: Sequence[str | None],
) -> list[MergedFolds]:
    """Merge the periods of all windows in one read.

    Parameters
    ----------
    files
        The files of each period by source, with ascending periods and sources.
    windows
        The windows; ages are counted from the last period.
    facts
        The facts of the files' schema id.
    segments
        The segments to merge, each by itself; None for all together.

    Returns
    -------
    list
        The merged folds of each window: of its segments in their order.

    Raises
    ------
    ConfigError
        A window spans too many half-lives.
    DataError
        No period of a window has rows of the segment.
    ModelFormatError
        Stored rows are damaged.
    """
    age = ages(list(files))
    merged = []
    for window in windows:
        periods = tuple(period for period in files if window.includes(age[period]))
        if window.half_life and age[periods[0]] > _MOST_HALF_LIVES * window.half_life:
            raise ConfigError(
                f"found periods up to age {age[periods[0]]} in a window of half-life "
                f"{window.half_life}, expected at most {_MOST_HALF_LIVES} half-lives; set fewer "
                "periods or a longer half-life"
            )
        for segment in segments:
            parts = (file for period in periods for file in files[period])
            if segment is None or any(segment in file.segments for file in parts):
                continue
            raise DataError(
                f"found no rows of the segment {segment!r} from {periods[0]} to {periods[-1]}, "
                "expected some; choose a segment of these periods"
            )
        merged += [MergedFolds(window, periods, facts, segment) for segment in segments]
    # Windows of one half-life and segment share their merges.
    sharing: dict[_Sharing, list[MergedFolds]] = {}
    for one in merged:
        sharing.setdefault((one.window.half_life, one.segment), []).append(one)
    only = segments[0] if len(segments) == 1 else None

    def merge(place: tuple[int, str]) -> None:
        number, name = place
        running: dict[_Sharing, _Tiles] = {shared: {} for shared in sharing}
        remaining = {shared: list(sharers) for shared, sharers in sharing.items()}
        for period in reversed(list(files)):
            for shared, sharers in remaining.items():
                for ended in [m for m in sharers if not m.window.includes(age[period])]:
                    ended.store(name, running[shared])
                    sharers.remove(ended)
            active = [shared for shared, sharers in remaining.items() if sharers]
            if not active:
                return
            for file in files[period]:
                for count, tile in file.tiles(number, only):
                    for half_life, segment in active:
                        if segment in (None, count.segment):
                            factor = Window(None, half_life).factor(age[period])
                            _add(running[half_life, segment], count[1:3], tile, factor)
        for shared, sharers in remaining.items():
            for left in sharers:
                left.store(name, running[shared])

    names = [f"{i}/{j}" for i, j in Tiling(facts.dimension).places()]
    mapped(merge, enumerate(names), min(cpus(), _MOST_THREADS))
    return merged


def _add(tiles: _Tiles, key: tuple[int, str], tile: MomentsTile, factor: float) -> None:
    scaled = tile if factor == 1.0 else tile.scale(factor)
    tiles[key] = tiles[key].merge(scaled) if key in tiles else scaled
