"""A DataFrame as a table of the pipeline (`spark_auc.tables.table.Table`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructField, TimestampType

from spark_auc.core.row_source import State
from spark_auc.core.types import Bool
from spark_auc.errors import SparkAUCError
from spark_auc.features.time_zones import DEFAULT, zone_name
from spark_auc.spark.data.aggregate import aggregate, source_count, task_number
from spark_auc.spark.data.arrow_tasks import mapped_batches
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.lines import Lines, source_of
from spark_auc.spark.data.names import is_case_sensitive, known_column, quoted
from spark_auc.spark.data.readers import TaskRows, rows_for_tasks
from spark_auc.spark.data.resources import SessionMemory
from spark_auc.tables.features import METADATA
from spark_auc.tables.gathered import EXCEEDED, RowsPart, packed, unpacked
from spark_auc.tables.segments import SegmentColumn
from spark_auc.tables.table import Batches, Fold, Table, field_of
from spark_auc.tables.types import FOREIGN, is_time

_PLACE = "place"


class Inputs(NamedTuple):
    """Columns of a DataFrame, as a function of Arrow columns takes them.

    Parameters
    ----------
    expressions
        What Spark computes.
    arrays
        Maps its arrays to those of the columns.
    names
        Columns of the DataFrame that are read.
    """

    expressions: list[Column]
    arrays: Callable[[Sequence[pa.Array]], Sequence[pa.Array]]
    names: list[str]


def inputs(df: DataFrame, names: Sequence[str]) -> Inputs:
    """The columns of these names; those of lines are split by the function's task."""
    if names and (lines := Lines.of(df, names)):
        return Inputs(lines.expressions(), lines.split, [lines.column])
    found = [known_column(df, name).name for name in names]
    return Inputs([F.col(quoted(name)) for name in found], lambda arrays: arrays, found)


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
    conditions: tuple[tuple[tuple[str, ...], Callable[[Sequence[pa.Array]], Bool]], ...] = ()
    memory: SessionMemory = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "memory", SessionMemory(self.frame.sparkSession))

    @cached_property
    def schema(self) -> pa.Schema:
        """See `Table.schema`; columns of types that Arrow does not have are null."""
        if self.known is not None:
            return self.known
        lines = (source_of(self.frame) or ())[:1]
        fields = (field for field in self.frame.schema if field.name not in lines)
        return pa.schema([_arrow_field(field) for field in fields])

    @cached_property
    def zone(self) -> str:
        """See `Table.zone`: that of the session; UTC without columns of times."""
        if not any(is_time(field.type) for field in self.schema):
            return DEFAULT
        return zone_name(str(self.frame.sparkSession.conf.get("spark.sql.session.timeZone")))

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
            found = [field_of(self, name).name for name in names]
            return self.map(
                lambda batches: (batch.select(found) for batch in batches),
                pa.schema([self.schema.field(name) for name in found]),
            )
        df, places = self.frame, [*([F.spark_partition_id()] if placed else [])]
        conditions, count = self.conditions, len(names)
        columns = inputs(df, [*names, *(name for of in conditions for name in of[0])])
        made = [column.alias(f"c{k}") for k, column in enumerate([*columns.expressions, *places])]
        rows = TaskRows(df.select(*made), iter, df.storageLevel.useMemory)
        if self.files and made:
            rows = rows_for_tasks(df, columns.names, rows.frame)
        width, arrays = len(columns.expressions), columns.arrays
        fields = [self.schema.field(known_column(df, name).name) for name in names]
        schema = pa.schema([*fields, *([pa.field(_PLACE, pa.int64())] if placed else [])])
        source, labels = rows.read, schema.names

        def read(batches: Batches) -> Batches:
            for batch in source(batches):
                if batch.num_rows:
                    found = [*arrays(batch.columns[:width])]
                    others = iter(found[count:])
                    kept = [keep([next(others) for _ in used]) for used, keep in conditions]
                    found = found[:count]
                    if placed:
                        found.append(batch.column(width))
                    if kept:
                        mask = pa.array(np.logical_and.reduce(kept))
                        found = [array.filter(mask) for array in found]
                    made = pa.RecordBatch.from_arrays(found, labels)
                    if made.num_rows:
                        yield made

        cheap = rows.cheap and not conditions
        return replace(self, frame=rows.frame, read=read, known=schema, cheap=cheap, conditions=())

    def where(self, names: Sequence[str], keep: Callable[[Sequence[pa.Array]], Bool]) -> SparkTable:
        """See `Table.where`; of a DataFrame."""
        assert self.read is None, "rows of a DataFrame"
        return replace(self, conditions=(*self.conditions, (tuple(names), keep)))

    def fold(
        self, fold: Fold, kinds: Iterable[type[State]], *, state_bytes: int, what: str
    ) -> dict[str, State]:
        """See `Table.fold`."""
        read = self._read
        return aggregate(
            self.frame,
            lambda batches: fold(read(batches)),
            kinds,
            state_bytes=state_bytes,
            what=what,
            sources=self.sources,
        )

    def map(self, function: Callable[[Batches], Batches], schema: pa.Schema) -> SparkTable:
        """See `Table.map`."""
        read = self._read
        return replace(
            self, read=lambda batches: function(read(batches)), known=schema, cheap=False
        )

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
        read = self._read
        share = None
        if limit is not None:
            share = int(min(limit, self.memory.gather_limit) // self.memory.slots)

        def fold(batches: Batches) -> Iterator[tuple[str, State]]:
            task = task_number()
            for name, part in packed(read(batches), share):
                yield f"{task:08}/{name}", cast(State, part)

        states = aggregate(
            self.frame,
            fold,
            (cast(type[State], RowsPart),),
            state_bytes=share or 0,
            what="rows to gather" if limit is None else f"rows of at most {limit / 2**20:.0f} MiB",
            sources=self.sources,
        )
        if any(name.endswith(EXCEEDED) for name in states):
            return None
        return unpacked((cast(RowsPart, states[name]) for name in sorted(states)), self.schema)

    def head(self, names: Sequence[str], rows: int) -> pa.Table:
        """See `Table.head`; of a DataFrame."""
        columns = [quoted(known_column(self.frame, name).name) for name in names]
        with translated():
            return self.frame.select(*columns).limit(rows).toArrow()

    @property
    def _read(self) -> Callable[[Batches], Batches]:
        if self.read is not None:
            return self.read
        return self.select(self.schema.names)._read

    def rows(self) -> DataFrame:
        """The columns as a DataFrame."""
        return self._made(None)

    def _made(self, sources: int | None) -> DataFrame:
        """The columns as a DataFrame of Spark, made in some tasks."""
        source = self.frame
        if self.sources is None and sources is not None:
            source = source.coalesce(sources)
        return mapped_batches(source, self._read, self.schema)


def segment_value(df: DataFrame, segments: SegmentColumn) -> Column:
    """Each row's segment as text; null for rows of no segment."""
    text = F.col(quoted(known_column(df, segments.column).name)).cast("string")
    return F.when(text.isin(*segments.values), text)


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
        made = pa.timestamp("us", "UTC") if kind == TimestampType() else to_arrow_type(kind)
    except (PySparkException, SparkAUCError, TypeError, AssertionError):
        noted[FOREIGN] = column.dataType.simpleString().encode()
        made = pa.null()
    return pa.field(column.name, made, metadata=noted or None)
