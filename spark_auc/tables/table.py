"""What the pipeline asks of a table of rows; each engine implements it once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypeVar

import pyarrow as pa

from spark_auc.core.memory import MemoryBudget
from spark_auc.core.row_source import State
from spark_auc.core.types import Bool
from spark_auc.errors import ConfigError, DataError, unknown_column
from spark_auc.tables.names import by_name

if TYPE_CHECKING:
    from spark_auc.publication.directory import Directory

R = TypeVar("R")
Batches: TypeAlias = Iterator[pa.RecordBatch]
# Maps the batches of a part of the rows to states by key. Keys of a part are distinct. Each part
# yields the same keys, or none.
Fold: TypeAlias = Callable[[Batches], Iterable[tuple[str, State]]]


class Table(Protocol):
    """Rows of named columns, divided into parts that tasks read.

    Batches have the columns in order, at least one row each. Names of columns may repeat after
    `select`.
    """

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""

    @property
    def zone(self) -> str:
        """The zone on whose clocks times are read and shown."""

    @property
    def exact_names(self) -> bool:
        """Whether names of columns of different case differ."""

    @property
    def is_ordered(self) -> bool:
        """Whether each pass reads the same parts, and their rows in the same order."""

    @property
    def memory(self) -> MemoryBudget:
        """The memory of computations on these rows."""

    @property
    def cheap(self) -> bool:
        """Whether reading the rows again takes as little time as from a cache."""

    def select(self, names: Sequence[str], *, placed: bool = False) -> Self:
        """The columns of these names.

        Parameters
        ----------
        names
            Names of columns; see `field_of`.
        placed
            Whether a last column of integers has the place of each row: the number of the part
            of the source from which it is read.
        """

    def where(self, names: Sequence[str], keep: Callable[[Sequence[pa.Array]], Bool]) -> Self:
        """The rows that a function keeps.

        Parameters
        ----------
        names
            Names of the columns that it reads.
        keep
            Whether to keep each row ``(n,)``, from the arrays of these columns.
        """

    def parted(
        self, names: Sequence[str], keeper: Callable[[int], Callable[[Sequence[pa.Array]], Bool]]
    ) -> tuple[Self, Self]:
        """The rows of `where`, and the others.

        ``keeper`` makes the filter of a part from its number; a filter may have a state.
        """

    def spread(self, most: int) -> tuple[Self, float]:
        """The rows of at most ``most`` parts at equal distances, and the share of these parts.

        An engine that reads all parts to read some returns all rows.
        """

    def fold(
        self, fold: Fold, kinds: Iterable[type[State]], *, state_bytes: int, what: str
    ) -> dict[str, State]:
        """Fold every part of the rows, and merge the states of each key in the order of the parts.

        Parameters
        ----------
        fold
            See `Fold`.
        kinds
            The classes of the states.
        state_bytes
            Upper estimate of the size of all states of a part, in bytes.
        what
            Name of the states in messages, such as "moments of 10000 features".

        Returns
        -------
        dict
            The merged state of each key; empty if no part yielded a state.

        Raises
        ------
        ResourceError
            The states exceed the memory.
        SparkAUCError
            The fold raised an error of this package, or a part was lost.
        """

    def map(self, function: Callable[[Batches], Batches], schema: pa.Schema) -> Self:
        """The rows that a function makes of the batches of each part.

        Parameters
        ----------
        function
            Maps the batches of a part to batches with the columns of the schema, in its order.
        schema
            Names and types of the new columns.
        """

    def cast(self, columns: Mapping[str, tuple[pa.Field, Callable[[pa.Array], pa.Array]]]) -> Self:
        """The rows with other values of some columns.

        Parameters
        ----------
        columns
            The field of each changed column, and what makes its values, by its name.
        """

    def extended(
        self,
        names: Sequence[str],
        function: Callable[[Sequence[pa.Array]], Sequence[pa.Array]],
        fields: Sequence[pa.Field],
    ) -> Self:
        """The rows with further columns.

        Parameters
        ----------
        names
            Names of the columns that the function reads.
        function
            Maps the arrays of these columns to those of the new ones.
        fields
            Names and types of the new columns.
        """

    def write(
        self, directory: Directory, names: Sequence[str], partition_by: Sequence[str] = ()
    ) -> int:
        """Write some columns as Parquet files, and return the number of rows.

        Parameters
        ----------
        directory
            A directory that does not exist.
        names
            Names of the columns.
        partition_by
            Columns among them whose values name directories.

        Raises
        ------
        ConfigError
            Not all files that tasks wrote are seen here.
        StorageError
            The file system failed.
        """

    def union(self, others: Sequence[Self]) -> Self:
        """The rows of several tables of one schema, those of this one first."""

    def cut(self, first: int | float) -> tuple[Self, Self]:
        """The first rows, in the order of the files and within them, and the others.

        Parameters
        ----------
        first
            Number of first rows (int), or their share of all rows (float in (0, 1)).

        Raises
        ------
        ConfigError
            One of both has no rows, or the rows do not have the order of files.
        DataError
            There are no rows.
        """

    def matched(self, name: str, other: Self) -> Self:
        """The rows with the other columns of a table where a column of numbers is equal.

        Parameters
        ----------
        name
            Name of the column, of one type in both tables.
        other
            A table in which each value occurs once. Rows without a match are left out.
        """

    def arranged(self, part: str, order: Sequence[str], parts: int) -> Self:
        """The rows with those of equal values of an integer column in one part, sorted.

        Parameters
        ----------
        part
            Name of the column that divides the rows.
        order
            Names of the columns to sort the rows of a part by.
        parts
            About the number of parts.
        """

    def kept(self, state_bytes: int = 0, *, spill: bool = False) -> AbstractContextManager[Self]:
        """Context manager that keeps the rows for the passes inside the block.

        Parameters
        ----------
        state_bytes
            Upper estimate of the size of the states of these passes, in bytes.
        spill
            Whether rows that exceed the memory go to disk; else they may be made again.
        """

    def gathered(self, limit: float | None = None) -> pa.Table | None:
        """All rows in this process's memory, in the order of their parts.

        Parameters
        ----------
        limit
            Most bytes, of which tasks have equal shares. Above them there is no table (None).
        """

    def received(self, receive: Callable[[pa.RecordBatch], R], limit: float) -> list[R] | None:
        """Results of a function of each batch, in the order of the parts.

        Parameters
        ----------
        receive
            Called in this process, by several threads.
        limit
            See `gathered`.
        """

    def head(self, names: Sequence[str], rows: int) -> pa.Table:
        """Some columns of some first rows."""


def field_of(table: Table, name: str) -> pa.Field:
    """The field of a column by its name; see `fields_named`."""
    return fields_named(table, [name])[0]


def fields_named(table: Table, names: Iterable[str]) -> list[pa.Field]:
    """The fields of columns by their names, which may be written in another case.

    Raises
    ------
    ConfigError
        No column has a name, or several have.
    """
    lookup = fields_by_name(table)
    return [_single(table, name, lookup(name)) for name in names]


def _single(table: Table, name: str, found: list[pa.Field]) -> pa.Field:
    if len(found) == 1:
        return found[0]
    if not found:
        raise unknown_column(name, table.schema.names)
    names = [field.name for field in found]
    raise ConfigError(
        f"found {len(names)} columns {', '.join(map(repr, names))} for the name {name!r}, expected "
        "one; rename or drop the others"
    )


def first_rows(first: int | float, total: int) -> int:
    """The number of first rows among all; see `Table.cut`, also for the errors."""
    if not total:
        raise DataError("found no rows; expected two or more: check the path and the filters")
    rows = round(first * total) if isinstance(first, float) else first
    if not 0 < rows < total:
        raise ConfigError(
            f"found train = {first} of {total} rows; expected one row or more in each part: a "
            f"number of rows in 1..{total - 1} or a share in (0, 1)"
        )
    return rows


def own_names(table: Table, names: Any) -> Any:
    """Names, in lists of any depth, as the columns of a table have them; others as they are."""
    lookup = fields_by_name(table)

    def own(names: Any) -> Any:
        if isinstance(names, list):
            return [own(name) for name in names]
        found = lookup(names) if isinstance(names, str) else []
        return found[0].name if len(found) == 1 else names

    return own(names)


def fields_by_name(table: Table) -> Callable[[str], list[pa.Field]]:
    """Gives the fields of all columns that a name stands for."""
    return by_name(table.schema, exact=table.exact_names)
