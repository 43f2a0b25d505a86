"""A DataFrame as a table of the pipeline (`spark_auc.tables.table.Table`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import BooleanType, DataType, StructField, StructType, TimestampType

from spark_auc.core.row_source import State
from spark_auc.core.types import Bool
from spark_auc.errors import SparkAUCError
from spark_auc.features.time_zones import DEFAULT, zone_name
from spark_auc.spark.data.aggregate import aggregate, source_count, task_number
from spark_auc.spark.data.arrow_files import scan_of
from spark_auc.spark.data.arrow_tasks import mapped_batches
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.names import is_case_sensitive, known_column, quoted
from spark_auc.spark.data.part_files import write_parquet
from spark_auc.spark.data.positions import ROW_ID, before
from spark_auc.spark.data.resources import SessionMemory
from spark_auc.tables.gathered import EXCEEDED, RowsPart, packed, unpacked
from spark_auc.tables.names import folded
from spark_auc.tables.table import Batches, Fold, Table, fields_named
from spark_auc.tables.types import FOREIGN, METADATA, is_time, is_vector

if TYPE_CHECKING:
    from spark_auc.publication.directory import Directory

R = TypeVar("R")
# Names of columns of tasks, none of which rows have.
_PLACE, _MADE, _KEPT = "place", "spark_auc_made", "spark_auc_kept"
# Names of columns, and what keeps a row by them.
Conditions: TypeAlias = tuple[tuple[tuple[str, ...], Callable[[Sequence[pa.Array]], Bool]], ...]


def columns_of(df: DataFrame, names: Sequence[str]) -> list[Column]:
    """The columns of these names."""
    return [F.col(quoted(known_column(df, name).name)) for name in names]


def scoreable(df: DataFrame, *others: Column) -> DataFrame:
    """The rows in a form whose columns an Arrow function can take.

    Spark 4.3 passes the batches of a columnar source to an Arrow UDF without conversion to rows,
    which fails for vector columns, even for unused ones and for results. A filter forces the
    conversion.

    Parameters
    ----------
    df
        The rows.
    others
        A column by which to filter rows without vectors, where the function makes vectors.
    """
    vectors = [f.name for f in df.schema.fields if isinstance(f.dataType, VectorUDT)]
    column = next(iter([*map(F.col, map(quoted, vectors)), *others]), None)
    # Always true; the optimizer cannot prove it and so keeps the filter.
    return df if column is None else df.filter(F.hash(column).bitwiseAND(F.lit(1)) <= 1)


@dataclass(frozen=True, eq=False)
class SparkTable:
    """Rows of a DataFrame, read by Spark's tasks.

    Parameters
    ----------
    frame
        The input of the tasks.
    read
        Maps its batches to those of the columns; None for the DataFrame itself.
    known
        Names and types of the columns that ``read`` makes.
    cheap
        See `Table.cheap`.
    files
        Whether tasks may read files themselves, for which the whole directory of the files is
        listed.
    sources
        Largest number of partitions of ``frame``, if each has a task of its own; see `aggregate`.
    conditions
        Names of columns, and what keeps a row by them; see `Table.where`.
    """

    frame: DataFrame
    read: Callable[[Batches], Batches] | None = None
    known: pa.Schema | None = None
    cheap: bool = False
    files: bool = True
    sources: int | None = None
    conditions: Conditions = ()
    memory: SessionMemory = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "memory", SessionMemory(self.frame.sparkSession))

    @cached_property
    def schema(self) -> pa.Schema:
        """See `Table.schema`; columns of types that Arrow does not have are null."""
        if self.known is not None:
            return self.known
        return pa.schema([_arrow_field(field) for field in self.frame.schema])

    @cached_property
    def zone(self) -> str:
        """See `Table.zone`: that of the session; UTC without columns of times."""
        if not any(is_time(field.type) for field in self.schema):
            return DEFAULT
        return zone_name(str(self.frame.sparkSession.conf.get("spark.sql.session.timeZone")))

    @property
    def is_ordered(self) -> bool:
        """See `Table.is_ordered`: Spark chooses the tasks of a pass."""
        return False

    @cached_property
    def exact_names(self) -> bool:
        """See `Table.exact_names`."""
        return is_case_sensitive(self.frame)

    def select(self, names: Sequence[str], *, placed: bool = False) -> SparkTable:
        """See `Table.select`.

        Tasks read the files of a DataFrame themselves where they read the same values as Spark.
        """
        if self.read is not None:
            assert not placed, "places of the rows of a DataFrame"
            found = [field.name for field in fields_named(self, names)]
            return self.map(
                lambda batches: (batch.select(found) for batch in batches),
                pa.schema([self.schema.field(name) for name in found]),
            )
        df, places = self.frame, [*([F.spark_partition_id()] if placed else [])]
        conditions, count = self.conditions, len(names)
        used = [*names, *(name for of in conditions for name in of[0])]
        columns = [*columns_of(df, used), *places]
        made = [column.alias(f"c{k}") for k, column in enumerate(columns)]
        frame, cheap = df.select(*made), df.storageLevel.useMemory
        source: Callable[[Batches], Batches] = iter
        if self.files and made and (scan := scan_of(df, used)):
            parts = len(scan.parts)
            frame = df.sparkSession.range(0, parts, 1, parts)
            source, cheap = scan.read, scan.cheap
        width = len(used)
        fields = [self.schema.field(known_column(df, name).name) for name in names]
        schema = pa.schema([*fields, *([pa.field(_PLACE, pa.int64())] if placed else [])])
        labels = schema.names

        def read(batches: Batches) -> Batches:
            for batch in source(batches):
                if batch.num_rows:
                    found, rest = batch.columns[:count], batch.columns[count:width]
                    if placed:
                        found.append(batch.column(width))
                    if conditions:
                        mask = pa.array(_kept(conditions, rest))
                        found = [array.filter(mask) for array in found]
                    made = pa.RecordBatch.from_arrays(found, labels)
                    if made.num_rows:
                        yield made

        cheap = cheap and not conditions
        return replace(self, frame=frame, read=read, known=schema, cheap=cheap, conditions=())

    def where(self, names: Sequence[str], keep: Callable[[Sequence[pa.Array]], Bool]) -> SparkTable:
        """See `Table.where`."""
        if self.read is not None:
            places = [self.schema.get_field_index(f.name) for f in fields_named(self, names)]
            return self.map(
                lambda batches: (
                    batch.filter(pa.array(keep([batch.column(k) for k in places])))
                    for batch in batches
                ),
                self.schema,
            )
        return replace(self, conditions=(*self.conditions, (tuple(names), keep)))

    def parted(
        self, names: Sequence[str], keeper: Callable[[int], Callable[[Sequence[pa.Array]], Bool]]
    ) -> tuple[SparkTable, SparkTable]:
        """See `Table.parted`; each task has a copy of one filter."""
        keep = keeper(0)
        return self.where(names, keep), self.where(names, lambda arrays: ~keep(arrays))

    def spread(self, most: int) -> tuple[SparkTable, float]:
        """See `Table.spread`."""
        return self, 1.0

    def fold(
        self, fold: Fold, kinds: Iterable[type[State]], *, state_bytes: int, what: str
    ) -> dict[str, State]:
        """See `Table.fold`."""
        frame, read = self._input
        return aggregate(
            frame,
            lambda batches: fold(read(batches)),
            kinds,
            state_bytes=state_bytes,
            what=what,
            sources=self.sources,
        )

    def map(self, function: Callable[[Batches], Batches], schema: pa.Schema) -> SparkTable:
        """See `Table.map`."""
        frame, read = self._input
        return replace(
            self,
            frame=frame,
            read=lambda batches: function(read(batches)),
            known=schema,
            cheap=False,
            conditions=(),
        )

    def cast(
        self, columns: Mapping[str, tuple[pa.Field, Callable[[pa.Array], pa.Array]]]
    ) -> SparkTable:
        """See `Table.cast`; the other columns of a DataFrame stay in Spark."""
        if self.read is not None:
            schema = pa.schema(
                [columns[f.name][0] if f.name in columns else f for f in self.schema]
            )
            return self.map(_changed(columns, schema), schema)
        # Conditions are those of the columns before.
        frame = self.filtered()
        made = {
            name: computed(frame, [name], _of_first(function), from_arrow_type(new.type)).alias(
                name, metadata=json.loads((new.metadata or {}).get(METADATA, b"{}"))
            )
            for name, (new, function) in columns.items()
        }
        names = frame.columns
        if len({*map(folded, names)}) < len(names):
            return replace(self, frame=frame.withColumns(made), conditions=())
        # Spark Connect loses metadata in withColumns, which takes columns of one name.
        cast_columns = [made[n] if n in made else F.col(quoted(n)) for n in names]
        return replace(self, frame=frame.select(*cast_columns), conditions=())

    def extended(
        self,
        names: Sequence[str],
        function: Callable[[Sequence[pa.Array]], Sequence[pa.Array]],
        fields: Sequence[pa.Field],
    ) -> SparkTable:
        """See `Table.extended`; of a DataFrame, whose other columns stay in Spark."""
        assert self.read is None, "rows of a DataFrame"
        frame, conditions, width = self.frame, self.conditions, len(names)
        new = [F.col(_MADE).getField(f.name).alias(f.name) for f in fields]
        if conditions:
            # One function keeps and extends rows, which Spark sends to it once.
            names = [*names, *(name for of in conditions for name in of[0])]
            fields = [*fields, pa.field(_KEPT, pa.bool_())]
        kinds = [VectorUDT() if is_vector(f.type) else from_arrow_type(f.type) for f in fields]
        made = StructType([StructField(f.name, k) for f, k in zip(fields, kinds, strict=True)])

        def rows(arrays: Sequence[pa.Array]) -> pa.Array:
            if not conditions:
                return pa.StructArray.from_arrays(function(arrays), fields=[*fields])
            kept = _kept(conditions, arrays[width:])
            found = function([array.filter(pa.array(kept)) for array in arrays[:width]])
            places = pa.array(np.cumsum(kept) - 1, mask=~kept)
            columns = [*(array.take(places) for array in found), pa.array(kept)]
            return pa.StructArray.from_arrays(columns, fields=[*fields])

        added = computed(frame, names, rows, made, once=bool(conditions))
        last = columns_of(frame, names)[-1]
        source = scoreable(
            frame, *([last] if any(map(is_vector, (f.type for f in fields))) else [])
        )
        found = source.withColumn(_MADE, added)
        if conditions:
            found = found.filter(F.col(_MADE).getField(_KEPT))
        return replace(self, frame=found.select("*", *new).drop(_MADE), conditions=())

    def write(
        self, directory: Directory, names: Sequence[str], partition_by: Sequence[str] = ()
    ) -> int:
        """See `Table.write`."""
        frame = self.filtered() if self.read is None else self.rows()
        found = [quoted(known_column(frame, name).name) for name in names]
        return write_parquet(frame.select(*found), directory, partition_by)

    def union(self, others: Sequence[SparkTable]) -> SparkTable:
        """See `Table.union`."""
        return SparkTable(reduce(DataFrame.union, (table.rows() for table in [self, *others])))

    def cut(self, first: int | float) -> tuple[SparkTable, SparkTable]:
        """See `Table.cut`; a job counts the rows of each block of a file."""
        numbered, is_first = before(self.filtered(), first)
        halves = (numbered.filter(kept).drop(ROW_ID) for kept in (is_first, ~is_first))
        return SparkTable(next(halves)), SparkTable(next(halves))

    def matched(self, name: str, other: SparkTable) -> SparkTable:
        """See `Table.matched`."""
        return SparkTable(self.rows().join(other.rows(), name))

    def arranged(self, part: str, order: Sequence[str], parts: int) -> SparkTable:
        """See `Table.arranged`."""
        frame = self._made(source_count(self.frame.sparkSession, 0))
        sorted_rows = frame.repartition(parts, part).sortWithinPartitions(*order)
        return replace(self, frame=sorted_rows, read=_with_rows, sources=parts)

    @contextmanager
    def kept(self, state_bytes: int = 0, *, spill: bool = False) -> Iterator[SparkTable]:
        """See `Table.kept`.

        By default Spark makes rows that exceed its memory again: a copy of training rows on disk
        can be many times the source.
        """
        # Grouped before they are kept: later Spark would group them by their locations.
        sources = self.sources or source_count(self.frame.sparkSession, state_bytes)
        level = StorageLevel.DISK_ONLY if spill else StorageLevel.MEMORY_ONLY
        frame = self._made(sources).persist(level)
        try:
            yield replace(self, frame=frame, read=_with_rows, cheap=True, sources=sources)
        finally:
            frame.unpersist()

    def gathered(self, limit: float | None = None) -> pa.Table | None:
        """See `Table.gathered`."""
        frame, read = self._input
        share = None
        if limit is not None:
            share = int(min(limit, self.memory.gather_limit) // self.memory.slots)

        def fold(batches: Batches) -> Iterator[tuple[str, State]]:
            task = task_number()
            for name, part in packed(read(batches), share):
                yield f"{task:08}/{name}", cast(State, part)

        states = aggregate(
            frame,
            fold,
            (cast(type[State], RowsPart),),
            state_bytes=share or 0,
            what="rows to gather" if limit is None else f"rows of at most {limit / 2**20:.0f} MiB",
            sources=self.sources,
        )
        if any(name.endswith(EXCEEDED) for name in states):
            return None
        return unpacked((cast(RowsPart, states[name]) for name in sorted(states)), self.schema)

    def received(self, receive: Callable[[pa.RecordBatch], R], limit: float) -> list[R] | None:
        """See `Table.received`."""
        found = self.gathered(limit)
        if found is None:
            return None
        batches = found.to_batches()[::-1]
        del found
        return [*map(receive, _taken(batches))]

    def head(self, names: Sequence[str], rows: int) -> pa.Table:
        """See `Table.head`."""
        frame = self.filtered() if self.read is None else self.rows()
        columns = [quoted(known_column(frame, name).name) for name in names]
        with translated():
            return frame.select(*columns).limit(rows).toArrow()

    @property
    def _input(self) -> tuple[DataFrame, Callable[[Batches], Batches]]:
        """The input of the tasks, and what maps its batches to those of the columns."""
        table = self if self.read is not None else self.select(self.schema.names)
        assert table.read is not None
        return table.frame, table.read

    def filtered(self) -> DataFrame:
        """The rows that conditions keep, with all columns of the DataFrame."""
        assert self.read is None, "rows of a DataFrame"
        frame = self.frame
        for of, keep in self.conditions:
            frame = frame.filter(computed(frame, of, _kept_by(keep), BooleanType()))
        return frame

    def rows(self) -> DataFrame:
        """The columns as a DataFrame."""
        return self._made(None)

    def _made(self, sources: int | None) -> DataFrame:
        """The columns as a DataFrame of Spark, made in some tasks."""
        source, read = self._input
        if self.sources is None and sources is not None:
            source = source.coalesce(sources)
        return mapped_batches(source, read, self.schema)


def _kept(conditions: Conditions, arrays: Sequence[pa.Array]) -> Bool:
    """Whether all conditions keep each row, by the arrays of their columns."""
    others = iter(arrays)
    kept = [keep([next(others) for _ in used]) for used, keep in conditions]
    return np.asarray(np.logical_and.reduce(kept), np.bool_)


def _kept_by(
    keep: Callable[[Sequence[pa.Array]], Bool],
) -> Callable[[Sequence[pa.Array]], pa.Array]:
    return lambda arrays: pa.array(keep(arrays))


def _changed(
    columns: Mapping[str, tuple[pa.Field, Callable[[pa.Array], pa.Array]]], schema: pa.Schema
) -> Callable[[Batches], Batches]:
    def changed(batches: Batches) -> Batches:
        for batch in batches:
            pairs = zip(batch.columns, schema.names, strict=True)
            arrays = [columns[n][1](array) if n in columns else array for array, n in pairs]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return changed


def _of_first(function: Callable[[pa.Array], pa.Array]) -> Callable[[Sequence[pa.Array]], pa.Array]:
    return lambda arrays: function(arrays[0])


def computed(
    df: DataFrame,
    names: Sequence[str],
    function: Callable[[Sequence[pa.Array]], pa.Array],
    kind: DataType,
    *,
    once: bool = False,
) -> Column:
    """A column that a function makes of the arrays of others.

    With ``once``, Spark does not compute it again for conditions on it.
    """

    def run(*arrays: pa.Array) -> pa.Array:
        return function(arrays)

    # Spark reads the types themselves, which are but text under postponed annotations.
    run.__annotations__ = {"arrays": pa.Array, "return": pa.Array}
    udf: Any = arrow_udf(run, kind)  # type: ignore[call-overload]
    made: Column = (udf.asNondeterministic() if once else udf)(*columns_of(df, names))
    return made


def spark_of(table: Table) -> SparkSession:
    """The session of a table of Spark's."""
    return cast(SparkTable, table).frame.sparkSession


def _with_rows(batches: Batches) -> Batches:
    return (batch for batch in batches if batch.num_rows)


def _arrow_field(column: StructField) -> pa.Field:
    """The field of a column; null, with its type as metadata, where Arrow has no such type."""
    noted = dict[bytes, bytes]()
    if column.metadata:
        noted[METADATA] = json.dumps(column.metadata).encode()
    try:
        kind = column.dataType
        if isinstance(kind, StructType):
            made = pa.struct([*map(_arrow_field, kind)])
        else:
            made = pa.timestamp("us", "UTC") if kind == TimestampType() else to_arrow_type(kind)
    except (PySparkException, SparkAUCError, TypeError, AssertionError):
        noted[FOREIGN] = column.dataType.simpleString().encode()
        made = pa.null()
    return pa.field(column.name, made, metadata=noted or None)


def _taken(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Take batches from the end of a list, and return the memory of each after its turn."""
    while batches:
        yield batches.pop()
        pa.default_memory_pool().release_unused()
