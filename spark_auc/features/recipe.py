"""The map from raw columns to sparse rows: a fixed description, stored as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations, pairwise, product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spark_auc.core.moments.curves import Curves
from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.core.validation import check_whole
from spark_auc.errors import ConfigError, DataError, ResourceError, some_of
from spark_auc.features.absent_text import ABSENT
from spark_auc.features.crosses import Crosses, salt_of
from spark_auc.features.derived import Derived
from spark_auc.features.kinds.hashed import Hashed
from spark_auc.features.kinds.leaves import Categories, TreeLeaves, Trees
from spark_auc.features.kinds.named import Named, check_entries
from spark_auc.features.kinds.numeric import Numeric
from spark_auc.features.kinds.pair import Pair, check_pairs
from spark_auc.features.raw_columns import Columns, rows_of
from spark_auc.features.readings import Reading
from spark_auc.features.recipe_rows import Entries, Layout, fill_numbers, fill_tokens, join
from spark_auc.features.time_zones import DEFAULT, zone_of

MISSING = ("indicator", "ignore")
# Takes the number of rows and their features.
Watch: TypeAlias = Callable[[int, Entries], None]
_MOST = np.iinfo(np.int32).max
# Rows that are mapped together, so that their tokens stay in the cache; their most slots, so that
# thousands of trees take 12 MB; and padding, so that the tokens of a row do not share its sets.
_CHUNK, _SLOTS, _PADDING = 4096, 2**20, 16
# Buckets per token in which tokens are sorted.
_BUCKETS = 4


@dataclass(frozen=True)
class Recipe:
    """A map from raw columns to sparse rows, independent of other rows and of the batches.

    A column may have several entries of different kinds. The features are four blocks: those of
    numeric entries, one after another, the first entry of each column with an indicator of missing
    values as its last feature; those of pairs, then leaves of trees; tokens at
    ``nonNegativeMod(hash, dimension)``;
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
    trees
        Frozen trees, which take missing values by their own rules. Default: none.
    pairs
        Products of the hats of two columns of ``numeric``. Default: none.
    chosen_by
        The rows whose labels chose pairs or crosses. They are training rows, but no penalty is
        chosen by their held-out scores. Default: none.
    zone
        The zone on whose clocks times are read: that of the session of the fit. Times with a zone
        are converted to it, and times without one are its own.
    absent
        Words that count as missing text; white space around text is no part of it. Without any,
        text stays as it is, as in recipes of versions that knew none. Default: those of pandas.
    readings
        How text of columns is read, where the type alone does not tell.
    derived
        Columns derived of columns of times, of which columns have the names; others are left out.
        Default: none.
    head
        Numbers of the features whose covariances a ranker with ``covariance="head"`` has exactly,
        ascending: those of the ranker that was trained with this recipe. They map no rows.
        Default: the rows of a fit choose them.

    Raises
    ------
    ConfigError
        There are no columns, two entries of a column have the same kind or different types, a pair
        is repeated, a column of a pair or a cross or the zone is unknown, the head is not of these
        features, or a setting is out of range.
    """

    numeric: tuple[Numeric, ...] = ()
    hashed: tuple[Hashed, ...] = ()
    dimension: int = 2**18
    crosses: Crosses | None = None
    missing: str = "indicator"
    unit: bool = True
    trees: TreeLeaves | None = None
    pairs: tuple[Pair, ...] = ()
    chosen_by: KeySample | None = None
    zone: str = DEFAULT
    absent: tuple[str, ...] = ABSENT
    readings: tuple[Reading, ...] = ()
    derived: tuple[Derived, ...] = ()
    head: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_whole("dimension", self.dimension, 1)
        zone_of(self.zone)
        if self.missing not in MISSING:
            raise ConfigError(
                f"found missing = {self.missing!r}, expected {' or '.join(MISSING)}; change it"
            )
        check_entries(self.columns)
        own = {column.name for column in self.columns}
        used = tuple(each for each in self.derived if each.name in own)
        object.__setattr__(self, "derived", used)
        check_entries(self.inputs)
        # Trees that another library grew may know such a word as a value.
        known = {v for c in self.columns if isinstance(c, Categories) for v in c.values if v}
        absent = tuple(word for word in self.absent if word not in known)
        object.__setattr__(self, "absent", absent)
        check_pairs(self.pairs, {(column.name, column.type) for column in self.numeric})
        if self.dimension > _MOST or self.size > _MOST:
            raise ConfigError(
                f"found {max(self.dimension, self.size)} features, expected at most {_MOST}; set a "
                "lower dimension or fewer bits"
            )
        if self.crosses and len(self.slot_pairs) == 0:
            raise ConfigError("found crosses of one column, expected two or more columns; add one")
        bounds = [-1, *(self.head or ()), self.size]
        if any(low >= high for low, high in pairwise(bounds)):
            raise ConfigError(
                f"found a head of features from {bounds[1]} to {bounds[-2]} in a recipe of "
                f"{self.size}, expected ascending ones of this recipe; publish the model again "
                "with covariance 'head'"
            )

    @property
    def columns(self) -> tuple[Numeric | Hashed | Trees | Categories, ...]:
        """The columns: numeric ones, those of tokens, and those of trees."""
        return (*self.own_columns, *(self.trees.columns if self.trees else ()))

    @cached_property
    def tokens(self) -> tuple[Hashed, ...]:
        """What fills each slot of tokens; see `Hashed.parts`."""
        return tuple(part for column in self.hashed for part in column.parts)

    @property
    def own_columns(self) -> tuple[Numeric | Hashed, ...]:
        """The columns with features of their own: all but those of trees."""
        return (*self.numeric, *self.hashed)

    @property
    def inputs(self) -> tuple[Named, ...]:
        """The columns of a table that the recipe reads: derived ones are of columns of times."""
        made = {each.name: each.inputs for each in self.derived}
        plain = [column for column in self.columns if column.name not in made]
        known = {(column.name, column.type) for column in plain}
        times = {time.name: time for c in self.columns for time in made.get(c.name, ())}
        return (*plain, *(time for time in times.values() if (time.name, time.type) not in known))

    @cached_property
    def whole(self) -> frozenset[str]:
        """Names of columns of integers, which missing values make floats in pandas and its files.

        Infinite values among them count as missing.
        """
        taken = (c for c in self.columns if c.accepts("integer") and not c.accepts("float"))
        return frozenset(column.name for column in taken)

    @property
    def joint(self) -> tuple[Pair | TreeLeaves, ...]:
        """Entries whose features depend on several columns: pairs, then trees."""
        return (*self.pairs, *([self.trees] if self.trees else []))

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """First index of each numeric entry, joint entry, tokens and crosses; then the size."""
        both = zip(self.numeric, self.indicators, strict=True)
        widths = [len(column.names()) + indicator for column, indicator in both]
        widths += [entry.size for entry in self.joint]
        widths.append(self.dimension if self.hashed else 0)
        widths.append(2**self.crosses.bits if self.crosses else 0)
        return tuple(np.cumsum([0, *widths]).tolist())

    @cached_property
    def indicators(self) -> tuple[bool, ...]:
        """Whether each numeric entry has an indicator of missing values."""
        last = len(self.numeric) - 1
        first = {c.name: last - k for k, c in enumerate(reversed(self.numeric))}
        has = self.missing == "indicator"
        return tuple(has and first[c.name] == k for k, c in enumerate(self.numeric))

    @property
    def curves(self) -> Curves:
        """The features of numeric entries whose weights are heights of curves."""
        both = zip(self.numeric, self.starts, strict=False)
        return Curves(tuple((first, column.heights) for column, first in both))

    @property
    def size(self) -> int:
        """Number of features ``F``."""
        return self.starts[-1]

    def names(self) -> tuple[str, ...]:
        """Names of the features of numeric and of joint entries, which are the first features."""
        names: list[str] = []
        for column, indicator in zip(self.numeric, self.indicators, strict=True):
            names += [*column.names(), *([f"{column.name} missing"] if indicator else [])]
        return (*names, *(name for entry in self.joint for name in entry.names()))

    @cached_property
    def slots(self) -> NDArray[np.int64]:
        """Place in `own_columns` of each slot, or ``-1 - k`` for joint entry ``k``.

        See `spark_auc.features.recipe_rows`.
        """
        numbers, joint = len(self.numeric), len(self.joint)
        sizes = [e.slots for e in (*self.numeric, *self.joint)]
        sizes += [len(column.parts) for column in self.hashed]
        hashed = range(numbers, numbers + len(self.hashed))
        places = np.array([*range(numbers), *range(-1, -1 - joint, -1), *hashed], np.int64)
        return np.repeat(places, sizes)

    @cached_property
    def slot_pairs(self) -> NDArray[np.int64]:
        """Pairs ``(p, 2)`` of slots that are crossed; see `spark_auc.features.recipe_rows`."""
        if not self.crosses:
            return np.empty((0, 2), np.int64)
        slots: dict[str, list[int]] = {column.name: [] for column in self.own_columns}
        for slot in np.flatnonzero(self.slots >= 0).tolist():
            slots[self.own_columns[self.slots[slot]].name].append(slot)
        pairs = self.crosses.pairs or tuple(combinations(slots, 2))
        if unknown := {name for pair in pairs for name in pair} - set(slots):
            raise ConfigError(
                f"found crosses of {sorted(unknown)}, expected columns among {some_of(slots)}; "
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
        chunk = max(1, min(rows, _CHUNK, _SLOTS // self.slots.size))
        entries = self.empty_entries(chunk)
        for begin in range(0, rows, chunk):
            count = min(rows - begin, chunk)
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

    def empty_entries(self, rows: int) -> Entries:
        """Arrays for the features of so many rows."""
        slots = self.slots.size
        numeric = slots - len(self.tokens)
        width = rows + _PADDING
        hashes = len(self.tokens) if self.crosses else 0
        return Entries(
            np.empty((slots, width), np.int32),
            np.empty((numeric, width)),
            np.empty((hashes, width), np.uint32),
        )

    @cached_property
    def layout(self) -> Layout:
        """The blocks of features, as kernels take them."""
        tokens, crosses = self.starts[-3:-1]
        buckets = _BUCKETS * max(1, len(self.tokens))
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
        starts = zip(self.numeric, self.starts, self.indicators, strict=False)
        for column, first, indicator in starts:
            own = slice(slot, slot + column.slots)
            numbers = column.filler(columns[column.name], first, indicator)
            fillers.append(partial(fill_numbers, numbers, own))
            slot += column.slots
        for entry, first in zip(self.joint, self.starts[len(self.numeric) :], strict=False):
            own = slice(slot, slot + entry.slots)
            fillers.append(partial(fill_numbers, entry.filler(columns, first), own))
            slot += entry.slots
        for place, part in enumerate(self.tokens):
            tokens = part.filler(columns[part.name], missing)
            block = self.starts[-3], self.dimension
            fillers.append(partial(fill_tokens, tokens, slot + place, place, block))
        return fillers
