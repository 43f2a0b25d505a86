"""Convert raw rows to Parquet files of label and features, split into train and test.

Section ``prepare`` of the configuration: input (layout criteo, avazu, libsvm, plain or
synthetic), split (by key, position or time), output. Publishes ``part=train`` and ``part=test``.
"""

from __future__ import annotations

import logging
from typing import Any

from spark_auc.app.config.jobs import Prepare
from spark_auc.app.jobs.engines import SparkEngine
from spark_auc.app.jobs.parts import parted
from spark_auc.errors import DataError
from spark_auc.publication.publish import check_free, publication

_log = logging.getLogger(__name__)


def check(config: Prepare) -> None:
    """Check the configuration before Spark starts; see `spark_auc.app.jobs`."""
    config.input.check()
    check_free(config.output.path, config.output.replace)


def run(engine: SparkEngine, config: Prepare) -> dict[str, Any]:
    """Run the job; see `spark_auc.app.jobs`."""
    spark = engine.session
    from spark_auc.spark.data.part_files import read_parquet, write_parquet

    with (
        config.input.read(spark) as rows,
        publication(config.output.path, config.output.replace, "data") as version,
    ):
        write_parquet(parted(rows, config.split, "label"), version, ["part"])
        counts: dict[str, dict[str, int]] = {}
        for name in sorted(name for name in version.names() if name.startswith("part=")):
            found = read_parquet(spark, version / name).groupBy("label").count().collect()
            counts[name.removeprefix("part=")] = {
                str(label): count for label, count in sorted(map(tuple, found), key=str)
            }
        _log.info("wrote rows of each part and label: %s", counts)
        if "train" not in counts:
            raise DataError(
                f"found {counts or 'no rows'} by part and label, expected rows in train; check the "
                "input and split"
            )
    return {"data": config.output.path, "rows": counts, **config.input.facts()}
