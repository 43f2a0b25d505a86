"""Convert raw rows to Parquet files of label and features, split into train and test.

Section ``prepare`` of the configuration: input (layout criteo, avazu, libsvm, plain or
synthetic), split (by key, position or time), output. Publishes ``part=train`` and ``part=test``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from spark_auc.app.config.jobs import Prepare
from spark_auc.app.jobs.parts import parted
from spark_auc.errors import DataError
from spark_auc.publication.publish import check_free, publication

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)


def check(config: Prepare) -> None:
    """Check the configuration before Spark starts.

    Raises
    ------
    ConfigError
        A setting, a path or an output location is invalid.
    """
    config.input.check()
    check_free(config.output.path, config.output.replace)


def run(spark: SparkSession, config: Prepare) -> dict[str, Any]:
    """Run the job, and return its result for standard output.

    Raises
    ------
    SparkAUCError
        The job failed; nothing is published.
    """
    with (
        config.input.read(spark) as rows,
        publication(config.output.path, config.output.replace, "data") as version,
    ):
        parted(rows, config.split, "label").write.partitionBy("part").parquet(version.uri)
        written = spark.read.parquet(version.uri).groupBy("part", "label").count()
        counts: dict[str, dict[str, int]] = {}
        for part, label, count in sorted(map(tuple, written.collect()), key=str):
            counts.setdefault(part, {})[str(label)] = count
        _log.info("wrote rows of each part and label: %s", counts)
        if "train" not in counts:
            raise DataError(
                f"found {counts or 'no rows'} by part and label, expected rows in train; check the "
                "input and split"
            )
    return {"data": config.output.path, "rows": counts, **config.input.facts()}
