"""Turn raw rows into Parquet of label and features, divided into train and test.

Section ``prepare`` of the configuration: input (layout criteo, avazu, libsvm, plain or
synthetic), split (by key, position or time), output. Publishes ``part=train`` and ``part=test``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from spark_auc.app.config.jobs import Prepare, Split, SyntheticInput
from spark_auc.app.jobs.inputs import check_path, reading
from spark_auc.app.publish import check_free, publication
from spark_auc.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def check(config: Prepare) -> None:
    """What can be known to be wrong before Spark starts; `ConfigError`."""
    given = config.input
    if given.layout == "plain":
        check_path(given.source.path)
    elif given.layout != "synthetic":
        check_path(given.path)
    check_free(config.output.path, config.output.replace)


def run(spark: SparkSession, config: Prepare) -> dict[str, Any]:
    """Run the job; the result for standard output."""
    with (
        _rows(spark, config) as rows,
        publication(config.output.path, config.output.replace, "data") as version,
    ):
        _parted(rows, config.split).write.partitionBy("part").parquet(version.uri)
        written = spark.read.parquet(version.uri).groupBy("part", "label").count()
        counts: dict[str, dict[str, int]] = {}
        for part, label, count in sorted(map(tuple, written.collect()), key=str):
            counts.setdefault(part, {})[str(label)] = count
        if "train" not in counts:
            raise DataError(
                f"found {counts or 'no'} rows to train on, expected some; check the input and split"
            )
    result: dict[str, Any] = {"data": config.output.path, "rows": counts}
    if isinstance(config.input, SyntheticInput):
        from spark_auc.spark.data.synthetic import best_auc

        given = config.input
        result["bestAUC"] = best_auc(given.dimension, given.positiveRate, given.ceiling, given.seed)
    return result


@contextmanager
def _rows(spark: SparkSession, config: Prepare) -> Iterator[DataFrame]:
    from spark_auc.spark.data import raw
    from spark_auc.spark.data.failures import translated
    from spark_auc.spark.data.libsvm import libsvm, libsvm_errors
    from spark_auc.spark.data.synthetic import click_data
    from spark_auc.spark.data.table import plain

    given = config.input
    if given.layout == "plain":
        with reading(spark, given.source) as rows:
            yield plain(rows, given.label, given.numeric, given.categorical, given.dimension)
    elif given.layout == "libsvm":
        with libsvm_errors(spark, given.path, given.dimension):
            yield libsvm(spark, given.path, given.dimension)
    else:
        with translated():
            if given.layout == "synthetic":
                yield click_data(
                    spark,
                    given.rows,
                    given.dimension,
                    given.positiveRate,
                    given.ceiling,
                    given.seed,
                )
            else:
                read = {"criteo": raw.criteo, "avazu": raw.avazu}[given.layout]
                yield read(spark, given.path, given.dimension)


def _parted(rows: DataFrame, split: Split | None) -> DataFrame:
    from pyspark.sql import functions as F

    from spark_auc.spark.data.split import by_key, by_position, by_time

    if split is None:
        return rows.withColumn("part", F.lit("train"))
    if split.by == "key":
        return by_key(rows, split.train, split.seed, split.column, "label")
    if split.by == "position":
        return by_position(rows, split.train)
    assert split.column is not None
    assert split.before is not None
    return by_time(rows, split.column, split.before)
