"""Split rows into train and test, by the data alone and not by partitions or order of tasks.

Each function adds a string column ``part`` ("train" or "test"), so that one pass writes both parts:
``by_key(df, 0.8, seed).write.partitionBy("part")``. A DataFrame that already has this column is a
`ConfigError`. Errors about rows are `DataError` inside `failures.translated`.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import DateType, TimestampNTZType, TimestampType

from spark_auc.errors import ConfigError, DataError
from spark_auc.spark.data.arrow_files import is_of_arrow
from spark_auc.spark.data.checks import checked
from spark_auc.spark.data.names import fields_of, known_column, quoted
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.tables.hashes import check_hashable
from spark_auc.tables.split import uniform_of


def by_key(
    df: DataFrame,
    fraction: float,
    seed: int,
    key: str | None = None,
    label: str | None = None,
) -> DataFrame:
    """Assign a row to train if a hash of seed and key is below ``fraction``, else to test.

    All rows of a key are in the same part. With the same seed, the train part of a smaller fraction
    is a subset of that of a larger one.

    Parameters
    ----------
    df
        The rows.
    fraction
        Expected share of the keys in train, in (0, 1).
    seed
        A 64-bit integer.
    key
        Column to hash, as in `spark_auc.tables.split.by_key`. None hashes all columns except
        the label, so that rows of equal features are in the same part.
    label
        Label column, which is not hashed.

    Raises
    ------
    ConfigError
        A column is unknown, or the fraction is outside (0, 1).
    """
    if not 0 < fraction < 1:
        raise ConfigError(f"found fraction = {fraction}; expected a share of train in (0, 1)")
    if key is not None:
        return _parted(df, _hashed(df, known_column(df, key).name, seed) < fraction)
    label_name = known_column(df, label).name if label else None
    names = [quoted(name) for name in df.columns if name != label_name]
    hashed = F.xxhash64(F.lit(seed), *names)
    return _parted(df, F.shiftrightunsigned(hashed, 11) * 2.0**-53 < fraction)


def _hashed(df: DataFrame, key: str, seed: int) -> Column:
    """Hashes in [0, 1) of the values of a column, as of `spark_auc.tables.split`."""
    check_hashable(SparkTable(df), key)

    def uniform(values: pa.Array) -> pa.Array:
        return pa.array(uniform_of([values], seed))

    # Spark reads the types themselves, which are but text under postponed annotations.
    uniform.__annotations__ = {"values": pa.Array, "return": pa.Array}
    hashed: Column = arrow_udf(uniform, "double")(quoted(key))  # type: ignore[call-overload]
    return hashed


def by_position(df: DataFrame, train: int | float) -> DataFrame:
    """Assign the first rows to train, in the order of file path and position in the file.

    One job counts the rows, without computing features. ``df`` must be read from files; columns may
    be derived and rows filtered, but not shuffled.

    Parameters
    ----------
    df
        The rows.
    train
        Number of rows (int) or share of all rows (float in (0, 1)) in train.

    Raises
    ------
    ConfigError
        ``df`` was not read from files, was shuffled since, or one part would be empty.
    DataError
        ``df`` has no rows, or an action reads the block that contains the cut in other partitions
        than the counting job.
    """
    blocks = _blocks(df)
    total = sum(block.rows for block in blocks)
    if not total:
        raise DataError("found no rows; expected two or more: check the path and the filters")
    rows = round(train * total) if isinstance(train, float) else train
    if not 0 < rows < total:
        raise ConfigError(
            f"found train = {train} of {total} rows; expected one row or more in each part: a "
            f"number of rows in 1..{total - 1} or a share in (0, 1)"
        )
    before = 0
    for block in blocks:
        if before + block.rows >= rows:
            break
        before += block.rows
    # As a separate column: inside a branch of the condition, ids would count only its rows.
    numbered = df.withColumn("_row_id", F.monotonically_increasing_id())
    return _parted(numbered, _is_before(df, block, rows - before)).drop("_row_id")


def by_time(df: DataFrame, column: str, start_of_test: datetime) -> DataFrame:
    """Assign rows before a time to train, and rows from that time on to test.

    Parameters
    ----------
    df
        The rows.
    column
        Column of type timestamp, timestamp_ntz or date.
    start_of_test
        First time of the test part. A time zone is allowed for type timestamp only; the default is
        the session's time zone.

    Raises
    ------
    ConfigError
        The column is unknown or of another type, or the time has a time zone and the column has
        none.
    DataError
        An action reads a null time.
    """
    kind = known_column(df, column).dataType
    if not isinstance(kind, TimestampType | TimestampNTZType | DateType):
        raise ConfigError(
            f"found {kind.simpleString()} in column {column!r}; expected timestamp, timestamp_ntz "
            "or date: cast it"
        )
    zoned = isinstance(kind, TimestampType)
    if start_of_test.tzinfo and not zoned:
        raise ConfigError(
            f"found {start_of_test} for column {column!r} of type {kind.simpleString()}; expected "
            "a time without time zone, like those of the column"
        )
    moment = "timestamp" if zoned else "timestamp_ntz"
    null = f"found a null in time column {column!r}; expected a time: fill or remove these rows"
    time = F.col(quoted(column))
    present = checked(time.cast(moment), F.when(time.isNull(), null))
    return _parted(df, present < F.lit(start_of_test.isoformat()).cast(moment))


class _Block(NamedTuple):
    """A byte range of a file that one task reads; number, first and last id of its rows."""

    path: str
    start: int
    length: int
    rows: int
    first: int
    last: int


def _place(df: DataFrame) -> list[Column]:
    """Path, start and length of the block of a row; of files that Arrow reads, its partition."""
    keys = "file_path", "file_block_start", "file_block_length"
    values = [F.col(f"_metadata.{key}") for key in keys]
    if is_of_arrow(df):
        values = [F.lit(""), F.spark_partition_id(), F.lit(1)]
    return [value.alias(name) for value, name in zip(values, _Block._fields, strict=False)]


def _blocks(df: DataFrame) -> list[_Block]:
    """Count the rows of each block; blocks are sorted by position."""
    place = _place(df)
    try:
        rows = df.select(*place, F.monotonically_increasing_id().alias("id"))
        counts = rows.groupBy(*rows.columns[:3]).agg(F.count("*"), F.min("id"), F.max("id"))
        blocks = sorted(_Block(*row) for row in counts.collect())
    except AnalysisException as failure:
        if "`_metadata`.`file_path` cannot be resolved" not in str(failure):
            raise
        raise ConfigError(
            "found a DataFrame without file positions; expected one just read from files: split "
            "before joins and aggregations, or by key or time"
        ) from failure
    if any(block.last - block.first + 1 != block.rows for block in blocks):
        raise ConfigError(
            "found rows shuffled since they were read; expected the order of the files: split "
            "before any shuffle, or by key or time"
        )
    return blocks


def _is_before(df: DataFrame, cut: _Block, rows: int) -> Column:
    """Whether a row comes before row ``rows`` of block ``cut``.

    Row ids are used inside this block only. They must be those of the counting job: Spark divides
    files into other blocks when the number of executors changes.
    """
    path, start, length = _place(df)
    end = start + length
    row_id = F.col("_row_id")
    cut_end = cut.start + cut.length
    in_file = path == cut.path
    overlaps = in_file & (start < cut_end) & (end > cut.start)
    is_counted_block = (start == cut.start) & (end == cut_end) & row_id.between(cut.first, cut.last)
    fault = F.when(
        overlaps & ~is_counted_block,
        f"found rows of {cut.path} in other blocks than when they were counted; expected the "
        "same blocks: set spark.dynamicAllocation.enabled=false",
    )
    earlier = (path < cut.path) | (in_file & (start < cut.start))
    return checked(earlier | (overlaps & (row_id < cut.first + rows)), fault)


def _parted(df: DataFrame, is_train: Column) -> DataFrame:
    if fields_of(df, "part"):
        raise ConfigError("found a column 'part'; expected this name unused: rename or drop it")
    return df.withColumn("part", F.when(is_train, "train").otherwise("test"))
