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
from spark_auc.spark.data.checks import checked
from spark_auc.spark.data.features import known_column, quoted


def by_key(
    df: DataFrame,
    fraction: float,
    seed: int,
    key: str | None = None,
    label: str | None = None,
) -> DataFrame:
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
        Column to hash (its type counts: 1 and 1.0 differ). None hashes all columns but the label,
        so that rows that are equal but for it share a fate.
    label
        Label column. Were it hashed, rows of one kind would train with some of its labels and be
        tested on the others.

    Raises
    ------
    ConfigError
        For an unknown column, or a fraction outside (0, 1).
    """
    if not 0 < fraction < 1:
        raise ConfigError(f"found fraction = {fraction}; expected a share of train in (0, 1)")
    unhashed = known_column(df, label).name if label else None
    everything = [name for name in df.columns if name != unhashed]
    names = everything if key is None else [known_column(df, key).name]
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
        If ``df`` was not read from files, was shuffled since, or one part would be empty.
    DataError
        If ``df`` has no rows; when an action reads the block of the cut otherwise.
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
    # A column of its own: in a branch of the condition, ids would count the branch's rows alone.
    placed = df.withColumn("_row_id", F.monotonically_increasing_id())
    return _parted(placed, _is_before(block, rows - before)).drop("_row_id")


def by_time(df: DataFrame, column: str, start_of_test: datetime) -> DataFrame:
    """Put rows before a moment into train and the others, that moment included, into test.

    Parameters
    ----------
    column
        Column of type timestamp, timestamp_ntz or date.
    start_of_test
        With a time zone only for type timestamp; without one, that of the session is meant.

    Raises
    ------
    ConfigError
        For an unknown column, one of another type, or a time zone that the column lacks.
    DataError
        When an action meets a null time.
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
            "a time without time zone, as the column's are"
        )
    moment = "timestamp" if zoned else "timestamp_ntz"
    null = f"found a null in time column {column!r}; expected a time: fill or remove these rows"
    time = F.col(quoted(column))
    present = checked(time.cast(moment), F.when(time.isNull(), null))
    return _parted(df, present < F.lit(start_of_test.isoformat()).cast(moment))


class _Block(NamedTuple):
    """A stretch of a file (bytes) that one task reads: its rows, and their first and last id."""

    path: str
    start: int
    length: int
    rows: int
    first: int
    last: int


def _blocks(df: DataFrame) -> list[_Block]:
    """Count the rows of each block, in order of position."""
    place = [f"_metadata.{name}" for name in ("file_path", "file_block_start", "file_block_length")]
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


def _is_before(cut: _Block, rows: int) -> Column:
    """Tell whether a row precedes the end of the first ``rows`` rows of block ``cut``.

    Only inside that block do row ids matter, and there they must be those counted: Spark cuts
    and packs files otherwise once executors come or go.
    """
    path, start = F.col("_metadata.file_path"), F.col("_metadata.file_block_start")
    end = start + F.col("_metadata.file_block_length")
    row_id = F.col("_row_id")
    cut_end = cut.start + cut.length
    in_file = path == cut.path
    overlaps = in_file & (start < cut_end) & (end > cut.start)
    as_counted = (start == cut.start) & (end == cut_end) & row_id.between(cut.first, cut.last)
    fault = F.when(
        overlaps & ~as_counted,
        f"found rows of {cut.path} at other places than when they were counted; expected the "
        "same arrangement: set spark.dynamicAllocation.enabled=false",
    )
    earlier = (path < cut.path) | (in_file & (start < cut.start))
    return checked(earlier | (overlaps & (row_id < cut.first + rows)), fault)


def _parted(df: DataFrame, is_train: Column) -> DataFrame:
    if "part" in df.columns:
        raise ConfigError("found a column 'part'; expected the name to be free: rename or drop it")
    return df.withColumn("part", F.when(is_train, "train").otherwise("test"))
