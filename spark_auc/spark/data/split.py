"""Split rows into train and test, by the data alone and not by partitions or order of tasks.

Each function adds a string column ``part`` ("train" or "test"), so that one pass writes both parts:
``by_key(df, 0.8, seed).write.partitionBy("part")``. A DataFrame that already has this column is a
`ConfigError`. Errors about rows are `DataError` inside `failures.translated`.
"""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, DoubleType, TimestampNTZType, TimestampType

from spark_auc.errors import ConfigError
from spark_auc.spark.data.checks import checked
from spark_auc.spark.data.names import fields_of, known_column, quoted
from spark_auc.spark.data.positions import ROW_ID, before
from spark_auc.spark.data.spark_table import SparkTable, computed
from spark_auc.tables.hashes import check_hashable, xxhash64
from spark_auc.tables.stratified import unit


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
    return computed(
        df, [key], lambda arrays: pa.array(unit(xxhash64(arrays, salt=seed))), DoubleType()
    )


def by_position(df: DataFrame, train: int | float) -> DataFrame:
    """Assign the first rows to train, in the order of file path and position in the file.

    Parameters
    ----------
    df
        The rows; see `before`, also for the errors.
    train
        Number of rows (int) or share of all rows (float in (0, 1)) in train.
    """
    numbered, is_first = before(df, train)
    return _parted(numbered, is_first).drop(ROW_ID)


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


def _parted(df: DataFrame, is_train: Column) -> DataFrame:
    if fields_of(df, "part"):
        raise ConfigError("found a column 'part'; expected this name unused: rename or drop it")
    return df.withColumn("part", F.when(is_train, "train").otherwise("test"))
