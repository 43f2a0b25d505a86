"""Functions of Arrow batches in tasks, with results of a fixed schema.

A session with useLargeVarTypes sends text and bytes as large types, and wants results of
``applyInArrow`` to have them. The functions here convert between those types and the plain ones of
a schema, so that neither the functions of tasks nor their callers know of the setting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyarrow import types as kinds
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

_LARGE = "spark.sql.execution.arrow.useLargeVarTypes"


def mapped_batches(
    df: DataFrame,
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: pa.Schema,
) -> DataFrame:
    """Apply a function to the batches of each partition.

    Parameters
    ----------
    df
        The rows. Text and bytes among them may be of large types.
    function
        Maps the batches of a partition to batches with the columns of the schema, in its order.
    schema
        Schema of the result.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in function(batches):
            yield batch.cast(schema)

    return df.mapInArrow(run, from_arrow_schema(schema))


def grouped(
    df: DataFrame,
    keys: Sequence[str],
    function: Callable[[pa.Table], pa.Table],
    schema: pa.Schema,
) -> DataFrame:
    """Apply a function to the rows of each group.

    Parameters
    ----------
    df
        The rows. Text and bytes among them may be of large types.
    keys
        Columns whose values make a group.
    function
        Maps the rows of a group to rows with the columns of the schema, in its order.
    schema
        Schema of the result.
    """
    is_large = str(df.sparkSession.conf.get(_LARGE)).lower() == "true"
    expected = _large(schema) if is_large else schema

    def run(rows: pa.Table) -> pa.Table:
        return function(rows).cast(expected)

    return df.groupBy(*keys).applyInArrow(run, from_arrow_schema(schema))


def _large(schema: pa.Schema) -> pa.Schema:
    def large(kind: pa.DataType) -> pa.DataType:
        if kinds.is_string(kind):
            return pa.large_string()
        return pa.large_binary() if kinds.is_binary(kind) else kind

    return pa.schema([field.with_type(large(field.type)) for field in schema])
