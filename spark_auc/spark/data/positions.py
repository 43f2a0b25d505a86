"""The places of rows in files, by which the first rows differ from the others."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_auc.errors import ConfigError
from spark_auc.spark.data.arrow_files import is_of_arrow
from spark_auc.spark.data.checks import checked
from spark_auc.tables.table import first_rows

# Column of the ids of rows.
ROW_ID = "_row_id"


def before(df: DataFrame, first: int | float) -> tuple[DataFrame, Column]:
    """The rows with the column `ROW_ID`, and whether a row is one of the first; see `Table.cut`.

    One job counts the rows. Columns may be derived and rows filtered, but not shuffled.

    Raises
    ------
    ConfigError
        ``df`` was not read from files, was shuffled since, or one part would be empty.
    DataError
        ``df`` has no rows, or an action reads the block that contains the cut in other partitions
        than the counting job.
    """
    blocks = _blocks(df)
    rows, earlier = first_rows(first, sum(block.rows for block in blocks)), 0
    for block in blocks:
        if earlier + block.rows >= rows:
            break
        earlier += block.rows
    # As a separate column: inside a branch of the condition, ids would count only its rows.
    numbered = df.withColumn(ROW_ID, F.monotonically_increasing_id())
    return numbered, _is_before(df, block, rows - earlier)


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
    row_id = F.col(ROW_ID)
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
