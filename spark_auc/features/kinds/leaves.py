"""Frozen trees of a recipe: their columns, and their leaves as features."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self, cast

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.core.types import Bool, Float, Int
from spark_auc.errors import ConfigError
from spark_auc.features.kinds.named import Named
from spark_auc.features.kinds.numeric import NUMERIC, FillNumbers, NumberColumn
from spark_auc.features.raw_columns import Column, Columns, Text
from spark_auc.features.text_keys import keys_of, text_of
from spark_auc.trees.forest import Forest, Tree
from spark_auc.trees.leaves import Plan, find

_log = logging.getLogger(__name__)
# More leaves than these have moments that cost more than all else.
_MANY = 5_000


@dataclass(frozen=True)
class Trees(NumberColumn):
    """A column of numbers that trees split; missing values are NaN to them.

    Times are days since 1970-01-01. A column of categories has the numbers from which the trees
    were grown.

    Parameters
    ----------
    name, type
        Name and type of the column.
    """

    TYPES = (*NUMERIC, "time")


@dataclass(frozen=True)
class Categories(Named):
    """A column of text that trees split by its values, as whole numbers.

    A value that is not known is missing to the trees.

    Parameters
    ----------
    name, type
        Name and type of the column.
    values
        The known values; the number of a value is its place.

    Raises
    ------
    ConfigError
        A value is repeated.
    """

    TYPES = ("text",)

    values: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.values)) < len(self.values):
            raise ConfigError(
                f"found a repeated value among those of column {self.name!r}, expected different "
                "ones; remove repetitions"
            )

    @cached_property
    def _order(self) -> tuple[Float, Int]:
        """The keys of the values, ascending, and their places; a last key is above all others."""
        known = text_of(self.values)
        keys = keys_of(self.name, known)
        order = np.argsort(keys)
        return np.append(keys[order], np.inf), order.astype(np.int64)

    def doubles(self, column: Column) -> tuple[Float, Bool]:
        """Numbers ``(n,)`` of the values, NaN where they are missing or unknown."""
        self.check(column)
        keys, (known, places) = keys_of(self.name, cast(Text, column)), self._order
        at = np.searchsorted(known[:-1], keys)
        numbers = np.full(keys.size, np.nan)
        here = known[at] == keys
        numbers[here] = places[at[here]]
        return numbers, np.empty(0, np.bool_)


@dataclass(frozen=True)
class TreeLeaves:
    """Frozen trees as a block of features: 1 for the leaf of a row in each tree, else 0.

    Parameters
    ----------
    columns
        The columns of the trees, in the order in which they were grown.
    forest
        The trees.
    grown
        The rows of the fit that grew the trees. Default: other rows.

    Raises
    ------
    ConfigError
        The trees have another number of columns.
    """

    columns: tuple[Trees | Categories, ...]
    forest: Forest
    grown: KeySample | None = None

    def __post_init__(self) -> None:
        if len(self.columns) != self.forest.columns:
            raise ConfigError(
                f"found {len(self.columns)} columns for trees of {self.forest.columns}, expected "
                "equal numbers; name the columns that the trees were grown from, in their order"
            )

    @classmethod
    def of(
        cls,
        forest: Forest,
        types: Mapping[str, str],
        grown: KeySample | None = None,
        values: Mapping[str, Sequence[str]] | None = None,
    ) -> Self:
        """The leaves of trees.

        Parameters
        ----------
        forest
            The trees.
        types
            Types of their columns by name, in the order in which the trees were grown.
        grown
            See `TreeLeaves`.
        values
            Known values of the columns of text by name; see `Categories`.

        Raises
        ------
        ConfigError
            The trees have another number of columns, or a column is of text without values.
        """
        known = values or {}
        columns = (
            Categories(name, kind, tuple(known[name])) if name in known else Trees(name, kind)
            for name, kind in types.items()
        )
        return cls(tuple(columns), forest, grown)

    @classmethod
    def of_columns(cls, types: Mapping[str, str]) -> Self:
        """The leaves of a tree without splits, for columns of trees that are not grown yet."""
        none = np.empty(0, np.int64)
        leaf = Tree(none, np.empty(0), none, none, none, [], np.zeros(1, np.int64), np.zeros(1))
        forest = Forest.of(len(types), "exact", [leaf])
        return cls.of(forest, types, values={n: () for n, kind in types.items() if kind == "text"})

    def warn_of_moments(self) -> None:
        """Log a warning if the moments of so many leaves are expensive."""
        if self.size > _MANY:
            _log.warning(
                "found %d leaves of %d trees, expected at most %d: the moments of a row take some "
                "4 us at 1500 leaves, 49 us at 4500 and 221 us at 15500; grow fewer or smaller "
                "trees",
                *(self.size, self.slots, _MANY),
            )

    @property
    def types(self) -> dict[str, str]:
        """Types of the columns by name, in their order."""
        return {column.name: column.type for column in self.columns}

    @property
    def slots(self) -> int:
        """Number of slots: one for each tree."""
        return self.forest.trees

    @property
    def size(self) -> int:
        """Number of features: one for each leaf."""
        return self.forest.leaves

    def names(self) -> list[str]:
        """Names of the leaves, such as "tree 3 leaf 7", by the library's numbers from 0."""
        forest = self.forest
        both = zip(forest.tree_of_leaf.tolist(), forest.labels.tolist(), strict=True)
        return [f"tree {t} leaf {leaf}" for t, leaf in both]

    @cached_property
    def _plan(self) -> Plan:
        return Plan.of(self.forest)

    def filler(self, columns: Columns, first: int) -> FillNumbers:
        """A function that fills a slot for each tree; the first leaf has index ``first``.

        Raises
        ------
        DataError
            A column has another type than in the rows from which the trees were grown.
        """
        values = [column.doubles(columns[column.name]) for column in self.columns]
        plan = self._plan

        def fill(begin: int, indices: NDArray[np.int32], out: Float) -> None:
            rows = slice(begin, begin + indices.shape[1])
            lines = np.empty((len(values), indices.shape[1]))
            for line, (numbers, validity) in zip(lines, values, strict=True):
                line[:] = numbers[rows]
                if validity.size:
                    line[~validity[rows]] = np.nan
            find(plan, lines.T, first, indices)
            out[:] = 1.0

        return fill
