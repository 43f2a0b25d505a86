"""Score rows with a published model.

Section ``score`` of the configuration: model, data, keep (input columns to copy), contributions
(how many of a row), threshold, evaluation, handleInvalid, drift, output. Publishes ``scores``,
Parquet files with these columns, the score, the prediction and, of a calibrated model, the
probability; or commits these rows to a table of Delta Lake or Iceberg. The rows need the columns of
the model's features, and no label.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from spark_auc.app.config.scoring import Score
from spark_auc.app.jobs.drift import drift_of, log_unknown
from spark_auc.app.jobs.lake_output import opened, written
from spark_auc.app.jobs.operating_point import threshold_of
from spark_auc.app.jobs.published_model import (
    KIND,
    check_contributions,
    check_model,
    model_of,
    recipe_stage,
)
from spark_auc.errors import ConfigError
from spark_auc.publication.publish import check_free, publication
from spark_auc.publication.versions import current

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_auc.spark.pipeline_model import RankerPipelineModel

_log = logging.getLogger(__name__)


def check(config: Score) -> None:
    """Check the configuration before Spark starts.

    Raises
    ------
    ConfigError
        A setting, a path or an output location is invalid.
    """
    if config.contributions:
        check_contributions(config.model)
    else:
        check_model(config.model)
    config.data.check()
    threshold_of(config)
    if config.output.format == "parquet":
        check_free(config.output.place, config.output.replace)
    else:
        opened(config.output)


def run(spark: SparkSession, config: Score) -> dict[str, Any]:
    """Run the job, and return its result for standard output.

    Raises
    ------
    SparkAUCError
        The job failed; nothing is published.
    """
    from spark_auc.spark.data.part_files import write_parquet

    output, run_id = config.output, uuid.uuid4().hex
    table = None if output.format == "parquet" else opened(output)
    published = current(config.model, KIND)
    model, name = model_of(published), published.path.rpartition("/")[-1]
    model.ranker.setParams(threshold=threshold_of(config), handleInvalid=config.handleInvalid)
    new = {output.modelVersionCol: name, output.runIdCol: run_id}
    new.pop(None, None)
    with (
        config.data.read(spark) as data,
        publication(output.place, output.replace, "scores")
        if table is None
        else nullcontext() as version,
    ):
        scored = _scored(model, data, config, new)
        # Before the scores: a commit to a table cannot be taken back.
        drift = drift_of(recipe_stage(model), data) if config.drift else {}
        log_unknown(drift)
        if version is None:
            assert table is not None
            place, rows = output.place, written(table, scored, output, run_id)
        else:
            scores = version / "scores"
            place, rows = scores.uri, write_parquet(scored, scores, output.partitionBy)
            _log.info("wrote the scores of %d rows", rows)
        skipped = data.count() - rows if config.handleInvalid == "skip" else 0
    ids = {"modelVersion": name, "runId": run_id} if table or output.runIdCol else {}
    return (
        {"scores": place, "rows": rows, "skipped": skipped, "columns": scored.columns} | ids | drift
    )


def _scored(
    model: RankerPipelineModel, data: DataFrame, config: Score, new: Mapping[Any, str]
) -> DataFrame:
    """The columns to write; ``new`` has constant columns."""
    from pyspark.sql import functions as F

    from spark_auc.spark.contributions import CONTRIBUTIONS, with_contributions
    from spark_auc.spark.data.features import known_column, quoted

    columns = [F.col(quoted(known_column(data, name).name)) for name in config.keep]
    if config.contributions:
        scored = with_contributions(model, data, config.contributions)
    else:
        scored = model.transform(data)
    outputs = [model.ranker.getRawPredictionCol(), model.ranker.getPredictionCol()]
    if model.calibration:
        outputs.append(model.calibration.getProbabilityCol())
    if config.contributions:
        outputs.append(CONTRIBUTIONS)
    if twice := sorted({*new} & {*config.keep, *outputs}):
        raise ConfigError(
            f"found the columns {', '.join(twice)} in the scores already, expected new names in "
            "modelVersionCol and runIdCol; rename them"
        )
    constants = [F.lit(text).alias(name) for name, text in new.items()]
    return scored.select(*columns, *outputs, *constants)
