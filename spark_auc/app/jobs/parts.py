"""The parts train and test of rows, as a section `Split` divides them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_auc.app.config.split import Split

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
