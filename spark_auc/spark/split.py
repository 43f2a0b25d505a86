"""Splits into train and test that depend on the data alone, never on how Spark arranges it.

Each function adds a string column ``part`` ("train" or "test"), so that one pass writes both:
``by_key(df, 0.8, seed).write.partitionBy("part")``. ConfigError if ``df`` has that column. Run
actions inside `failures.translated` to meet a row that cannot be placed as DataError.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, TimestampNTZType, TimestampType

from spark_auc.errors import ConfigError, DataError
from spark_auc.spark.checks import checked
from spark_auc.spark.features import known_column, quoted


def by_key(df: DataFrame, fraction: float, seed: int, key: str | None = None) -> DataFrame:
    """Put a row into train iff a hash of (seed, key) is below ``fraction``.

    Rows of one key share a fate, whatever the partitioning, the order or the other rows. The
    train part of a smaller fraction (same seed) lies inside that of a larger one.

    Parameters
    ----------
    fraction
        Share of the keys expected in train, in (0, 1).
    seed
        Any 64-bit integer.
    key
        Column to hash (its type counts: 1 and 1.0 differ). None hashes all columns, so that
        exact duplicates share a fate.

    Raises
    ------
    ConfigError
        For an unknown key, or a fraction outside (0, 1).
    """
    if not 0 < fraction < 1:
        raise ConfigError(f"found fraction = {fraction}; expected a share of train in (0, 1)")
    names = df.columns if key is None else [known_column(df, key).name]
    drawn = F.xxhash64(F.lit(seed), *map(quoted, names))
    uniform = F.shiftrightunsigned(drawn, 11) * 2.0**-53
    return _parted(df, uniform < fraction)


def by_position(df: DataFrame, train: int | float) -> DataFrame:
    """Put the first rows into train, in order of file path and then of position in the file.

    Runs one job that counts rows (no features are computed). ``df`` must come straight from
    files: columns may be derived and rows filtered, but not shuffled. If the rows of the block
    where the cut falls do not arrive as they were counted, the action fails.

    Parameters
    ----------
    train
        Number of rows (int) or share of all rows (float in (0, 1)) that train gets.

    Raises
    ------
    ConfigError
        If ``df`` was not read from files, or one part would be empty.
    DataError
        If ``df`` has no rows; when an action meets rows of that block otherwise than counted.
    """
    blocks = _blocks(df)
    total = sum(block.rows for block in blocks)
    if not total:
        raise DataError("found no rows; expected some to split: check the path and the filters")
    rows = round(train * total) if isinstance(train, float) else train
    if not 0 < rows < total:
        raise ConfigError(
            f"found train = {train} of {total} rows; expected some for each part: a number of "
            f"rows in 1..{total - 1} or a share in (0, 1)"
        )
    before = 0
    for block in blocks:
        if before + block.rows >= rows:
            break
        before += block.rows
    return _parted(df, _is_before(block, rows - before))


def by_time(df: DataFrame, column: str, start_of_test: datetime) -> DataFrame:
    """Put rows before a moment into train and the others, that moment included, into test.

    Parameters
    ----------
    column
        Column of type timestamp, timestamp_ntz or date.
    start_of_test
        Read as the column is: without a time zone, in the session's for type timestamp.

    Raises
    ------
    ConfigError
        For an unknown column, or one of another type.
    DataError
        When an action meets a null time.
    """
    kind = known_column(df, column).dataType
    if not isinstance(kind, TimestampType | TimestampNTZType | DateType):
        raise ConfigError(
            f"found {kind.simpleString()} in column {column!r}; expected timestamp, timestamp_ntz "
            "or date: cast it"
        )
    time = F.col(quoted(column))
    null = f"found a null in time column {column!r}; expected a time: fill or remove these rows"
    fault = F.when(time.isNull(), null)
    return _parted(df, checked(time, fault) < F.lit(start_of_test.isoformat()).cast(kind))


class _Block(NamedTuple):
    """A stretch of a file (bytes) read by one task; its rows have ids first .. first + rows - 1."""

    path: str
    start: int
    length: int
    rows: int
    first: int


def _blocks(df: DataFrame) -> list[_Block]:
    """Count the rows of each block, in order of position."""
    rows = df.select(
        *("_metadata.file_path", "_metadata.file_block_start", "_metadata.file_block_length"),
        F.monotonically_increasing_id().alias("id"),
    )
    place = rows.columns[:-1]
    counts = rows.groupBy(*place).agg(F.count("*"), F.min("id"))
    try:
        return sorted(_Block(*row) for row in counts.collect())
    except AnalysisException as failure:
        if "_metadata" not in str(failure):
            raise
        raise ConfigError(
            "found a DataFrame without file positions; expected one just read from files: split "
            "before joins and aggregations, or by key or time"
        ) from failure


def _is_before(cut: _Block, rows: int) -> Column:
    """Tell whether a row precedes the end of the first ``rows`` rows of block ``cut``.

    Only inside that block do row ids matter, and there they must be those counted: Spark may
    cut and pack files otherwise once executors come or go, and a shuffle renumbers rows.
    """
    path, start = F.col("_metadata.file_path"), F.col("_metadata.file_block_start")
    end = start + F.col("_metadata.file_block_length")
    row_id = F.monotonically_increasing_id()
    cut_end = cut.start + cut.length
    in_file = path == cut.path
    overlaps = in_file & (start < cut_end) & (end > cut.start)
    as_counted = (
        (start == cut.start)
        & (end == cut_end)
        & row_id.between(cut.first, cut.first + cut.rows - 1)
    )
    fault = F.when(
        overlaps & ~as_counted,
        f"found rows of {cut.path} at other places than when they were counted; expected the "
        "order of the file: split before any shuffle, on a fixed number of executors",
    )
    earlier = (path < cut.path) | (in_file & (start < cut.start))
    return checked(earlier | (overlaps & (row_id < cut.first + rows)), fault)


def _parted(df: DataFrame, is_train: Column) -> DataFrame:
    if "part" in df.columns:
        raise ConfigError("found a column 'part'; expected the name to be free: rename or drop it")
    return df.withColumn("part", F.when(is_train, "train").otherwise("test"))
