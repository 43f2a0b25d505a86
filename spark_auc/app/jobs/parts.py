"""The parts train and test of rows, as a section `Split` divides them."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from spark_auc.app.config.split import Split

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_auc.spark.data.spark_table import SparkTable
    from spark_auc.tables.table import Table


def parted(rows: DataFrame, split: Split | None, label: str) -> DataFrame:
    """The rows with a column ``part``: "train" or "test"; "train" alone without a split.

    Parameters
    ----------
    rows
        The rows.
    split
        What decides the part of a row.
    label
        Column that a split by key without a column does not hash.

    Raises
    ------
    ConfigError
        A column is unknown or there already, or the split does not suit the rows.
    DataError
        There are no rows to split by position.
    """
    from pyspark.sql import functions as F

    from spark_auc.spark.data.split import by_key, by_position, by_time

    if split is None:
        return rows.withColumn("part", F.lit("train"))
    if split.by == "key":
        return by_key(rows, split.train, split.seed, split.column, label)
    if split.by == "position":
        return by_position(rows, split.train)
    assert split.column is not None
    assert split.before is not None
    return by_time(rows, split.column, split.before)


def by_position(table: Table, first: int | float) -> tuple[SparkTable, SparkTable]:
    """The first rows of Spark's files, and the others; see `spark_auc.spark.data.split`."""
    from spark_auc.spark.data import split
    from spark_auc.spark.data.spark_table import SparkTable

    numbered = split.by_position(cast(SparkTable, table).frame, first)
    train, test = (numbered.filter(f"part = '{part}'").drop("part") for part in ("train", "test"))
    return SparkTable(train), SparkTable(test)
