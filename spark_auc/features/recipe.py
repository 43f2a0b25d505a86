"""The map from raw columns to sparse rows: a fixed description, stored as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations, product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spark_auc.core.validation import check_whole
from spark_auc.errors import ConfigError, DataError, ResourceError
from spark_auc.features.crosses import salt_of
from spark_auc.features.raw_columns import Columns, rows_of
from spark_auc.features.recipe_numbers import Numeric
from spark_auc.features.recipe_rows import Entries, Layout, fill_numbers, fill_tokens, join
from spark_auc.features.recipe_tokens import Hashed

MISSING = ("indicator", "ignore")
# Takes the number of rows and their features.
Watch: TypeAlias = Callable[[int, Entries], None]
_MOST = np.iinfo(np.int32).max
# Rows that are mapped together, so that their tokens stay in the cache; and padding, so that the
# tokens of a row do not share its sets.
_CHUNK, _PADDING = 4096, 16
# Buckets per token in which tokens are sorted.
_BUCKETS = 4


@dataclass(frozen=True)
class Crosses:
    """Hashed products of the features of pairs of columns; see `CrossMap`.

    A pair of tokens is hashed by their hashes before these are reduced to the dimension.

    Parameters
    ----------
    pairs
        Names of the columns of each pair. Default: all pairs of columns. All features of a column
        are crossed with all of the other.
    bits
        Logarithm of the number of features.
    """

    pairs: tuple[tuple[str, str], ...] | None = None
    bits: int = 20

    def __post_init__(self) -> None:
        check_whole("bits", self.bits, 1)
        if self.bits > 30:
            raise ConfigError(f"found bits = {self.bits}, expected at most 30; set fewer bits")
        if self.pairs is not None:
            sets = [frozenset(pair) for pair in self.pairs]
            if not sets or len(set(sets)) < len(sets) or any(len(pair) != 2 for pair in sets):
                raise ConfigError(
                    f"found crosses {[list(pair) for pair in self.pairs]}, expected different "
                    "pairs of two columns; remove repetitions"
                )


@dataclass(frozen=True)
class Recipe:
    """A map from raw columns to sparse rows, independent of other rows and of the batches.

    A column may have several entries of different kinds. The features are three blocks: those of
    numeric entries, one after another, the first entry of each column with an indicator of missing
    values as its last feature; tokens at ``nonNegativeMod(hash, dimension)``;
    crosses. Equal features of a row are added. Without numeric columns, crosses and missing values
    (or with empty text for these), indices and bits are those of Spark ML's FeatureHasher,
    followed by its Normalizer for ``unit``.

    Parameters
    ----------
    numeric
        Entries with features of their own.
    hashed
        Entries whose features are tokens.
    dimension
        Number of features of the tokens, if there are columns of tokens.
    crosses
        Crossed columns. Default: none.
    missing
        "indicator": missing numbers have an indicator of their column, missing and empty values of
        tokens have the token ``name=``. "ignore": they have no feature.
    unit
        Whether rows are divided by their Euclidean norm. Rows without features stay empty.

    Raises
    ------
    ConfigError
        There are no columns, two entries of a column have the same kind or different types, a
        crossed column is unknown, or a setting is out of range.
    """

    numeric: tuple[Numeric, ...] = ()
    hashed: tuple[Hashed, ...] = ()
    dimension: int = 2**18
    crosses: Crosses | None = None
    missing: str = "indicator"
    unit: bool = True

    def __post_init__(self) -> None:
        check_whole("dimension", self.dimension, 1)
        if self.missing not in MISSING:
            raise ConfigError(
                f"found missing = {self.missing!r}, expected {' or '.join(MISSING)}; change it"
            )
        entries = Counter((column.name, type(column).__name__.lower()) for column in self.columns)
        repeated = sorted(entry for entry, count in entries.items() if count > 1)
        if not entries or repeated:
            raise ConfigError(
                f"found {len(self.columns)} columns (twice: {repeated}), expected one or more of "
                "different names or kinds; change the columns"
            )
        types = Counter(name for name, _ in {(c.name, c.type) for c in self.columns})
        if retyped := sorted(name for name, count in types.items() if count > 1):
            raise ConfigError(
                f"found columns {retyped} of several types, expected one type for all entries of a "
                "column; change the types"
            )
        if self.dimension > _MOST or self.size > _MOST:
            raise ConfigError(
                f"found {max(self.dimension, self.size)} features, expected at most {_MOST}; set a "
                "lower dimension or fewer bits"
            )
        if self.crosses and len(self.slot_pairs) == 0:
            raise ConfigError("found crosses of one column, expected two or more columns; add one")

    @property
    def columns(self) -> tuple[Numeric | Hashed, ...]:
        """The columns, numeric ones first."""
        return (*self.numeric, *self.hashed)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """First index of each numeric column, of the tokens and of the crosses; then the size."""
        both = zip(self.numeric, self._indicators, strict=True)
        widths = [len(column.names()) + indicator for column, indicator in both]
        widths.append(self.dimension if self.hashed else 0)
        widths.append(2**self.crosses.bits if self.crosses else 0)
        return tuple(np.cumsum([0, *widths]).tolist())

    @cached_property
    def _indicators(self) -> tuple[bool, ...]:
        """Whether each numeric entry has an indicator of missing values."""
        last = len(self.numeric) - 1
        first = {c.name: last - k for k, c in enumerate(reversed(self.numeric))}
        has = self.missing == "indicator"
        return tuple(has and first[c.name] == k for k, c in enumerate(self.numeric))

    @property
    def size(self) -> int:
        """Number of features ``F``."""
        return self.starts[-1]

    def names(self) -> tuple[str, ...]:
        """Names of the features of numeric columns, which are the first features."""
        return tuple(
            name
            for column, indicator in zip(self.numeric, self._indicators, strict=True)
            for name in (*column.names(), *([f"{column.name} missing"] if indicator else []))
        )

    @cached_property
    def slots(self) -> NDArray[np.int64]:
        """Place in `columns` of the column of each slot; see `spark_auc.features.recipe_rows`."""
        sizes = [*(column.SLOTS for column in self.numeric), *(1 for _ in self.hashed)]
        return np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)

    @cached_property
    def slot_pairs(self) -> NDArray[np.int64]:
        """Pairs ``(p, 2)`` of slots that are crossed; see `spark_auc.features.recipe_rows`."""
        if not self.crosses:
            return np.empty((0, 2), np.int64)
        slots: dict[str, list[int]] = {column.name: [] for column in self.columns}
        for slot, place in enumerate(self.slots.tolist()):
            slots[self.columns[place].name].append(slot)
        pairs = self.crosses.pairs or tuple(combinations(slots, 2))
        if unknown := {name for pair in pairs for name in pair} - set(slots):
            raise ConfigError(
                f"found crosses of {sorted(unknown)}, expected columns among {list(slots)}; "
                "change the crosses"
            )
        crossed = [sorted(both) for a, b in pairs for both in product(slots[a], slots[b])]
        return np.array(sorted(crossed), np.int64).reshape(-1, 2)

    def transform(self, columns: Columns, watch: Watch | None = None) -> sparse.csr_matrix:
        """Map rows to CSR ``(n, F)``, indices ascending and distinct in a row.

        Parameters
        ----------
        columns
            Columns by name; others than those of the recipe are ignored.
        watch
            Receives the features of some rows at a time, before they are joined.

        Raises
        ------
        DataError
            A column is missing, has another type than in the rows of the fit or another number of
            rows than the others, or a value is invalid.
        ResourceError
            The rows have more features than a matrix with 32-bit indices can hold.
        """
        rows, pairs = self._rows(columns), self.slot_pairs
        most = rows * (self.slots.size + len(pairs))
        if most > _MOST:
            raise ResourceError(
                f"found {rows} rows with up to {most} features, expected at most {_MOST}; map "
                "fewer rows at a time, or cross fewer columns"
            )
        data, indices = np.empty(most), np.empty(most, np.int32)
        indptr, stored = np.zeros(rows + 1, np.int32), 0
        for begin, count, entries in self.entries(columns):
            if watch:
                watch(count, entries)
            ends = indptr[begin + 1 : begin + 1 + count]
            stored = join(entries, self.layout, stored, data, indices, ends)
            if stored < 0:
                raise DataError(
                    f"found a row (row {begin - 1 - stored} of a batch) whose norm is not finite, "
                    "expected a finite norm; repair or drop the row, or use splines"
                )
        return sparse.csr_matrix((data[:stored], indices[:stored], indptr), (rows, self.size))

    def entries(self, columns: Columns) -> Iterator[tuple[int, int, Entries]]:
        """Features of some rows at a time: first row, number of rows, and their features.

        The arrays are overwritten by the next rows. Errors are those of `transform`.
        """
        rows, fillers = self._rows(columns), self._fillers(columns)
        entries = self._entries(min(rows, _CHUNK))
        for begin in range(0, rows, _CHUNK):
            count = min(rows - begin, _CHUNK)
            for fill in fillers:
                fill(begin, count, entries)
            yield begin, count, entries

    def _rows(self, columns: Columns) -> int:
        """Number of rows; `DataError` unless all columns are there and have this number."""
        absent = {c.name: c.type for c in self.columns if c.name not in columns}
        if absent:
            words = ", ".join(f"{name!r} ({kind})" for name, kind in absent.items())
            raise DataError(
                f"found no column {words} among "
                f"{sorted(columns)}, expected all columns of the fit; add them"
            )
        rows = {c.name: rows_of(columns[c.name]) for c in self.columns}
        if len(set(rows.values())) > 1:
            raise DataError(
                f"found columns of different numbers of rows ({rows}), expected one number; pass "
                "the columns of one table"
            )
        return rows[self.columns[0].name]

    def _entries(self, rows: int) -> Entries:
        slots = self.slots.size
        numeric = slots - len(self.hashed)
        width = rows + _PADDING
        hashes = len(self.hashed) if self.crosses else 0
        return Entries(
            np.empty((slots, width), np.int32),
            np.empty((numeric, width)),
            np.empty((hashes, width), np.uint32),
        )

    @cached_property
    def layout(self) -> Layout:
        """The blocks of features, as kernels take them."""
        tokens, crosses = self.starts[-3:-1]
        buckets = _BUCKETS * max(1, len(self.hashed))
        shift = max(0, (self.dimension - 1).bit_length() - (buckets - 1).bit_length())
        count = ((self.dimension - 1) >> shift) + 1
        bits = self.crosses.bits if self.crosses else 0
        return Layout(
            tokens, shift, count, self.slot_pairs, crosses, bits, np.uint64(salt_of(0)), self.unit
        )

    def _fillers(self, columns: Columns) -> list[Callable[[int, int, Entries], None]]:
        """Functions that fill the slots of a column, from a first row on and for some rows."""
        slot, missing = 0, self.missing == "indicator"
        fillers: list[Callable[[int, int, Entries], None]] = []
        starts = zip(self.numeric, self.starts, self._indicators, strict=False)
        for column, first, indicator in starts:
            own = slice(slot, slot + column.SLOTS)
            numbers = column.filler(columns[column.name], first, indicator)
            fillers.append(partial(fill_numbers, numbers, own))
            slot += column.SLOTS
        for place, hashed in enumerate(self.hashed):
            tokens = hashed.filler(columns[hashed.name], missing)
            block = self.starts[-3], self.dimension
            fillers.append(partial(fill_tokens, tokens, slot + place, place, block))
        return fillers
