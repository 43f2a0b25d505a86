"""Score rows with a published model.

Section ``score`` of the configuration: model, data, keep (input columns to copy), contributions
(how many of a row), threshold, evaluation, handleInvalid, drift, output. Publishes ``scores``,
Parquet files with these columns, the score, the prediction and, of a calibrated model, the
probability. The rows need the columns of the model's features, and no label.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from spark_auc.app.config.scoring import Score
from spark_auc.app.jobs.drift import drift_of, log_unknown
from spark_auc.app.jobs.operating_point import threshold_of
from spark_auc.app.jobs.published_model import (
    check_contributions,
    check_model,
    read_model,
    recipe_stage,
)
from spark_auc.publication.publish import check_free, publication

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    check_free(config.output.path, config.output.replace)


def run(spark: SparkSession, config: Score) -> dict[str, Any]:
    """Run the job, and return its result for standard output.

    Raises
    ------
    SparkAUCError
        The job failed; nothing is published.
    """
    from pyspark.sql import functions as F

    from spark_auc.spark.contributions import CONTRIBUTIONS, with_contributions
    from spark_auc.spark.data.features import known_column, quoted

    model = read_model(config.model)
    model.ranker.setParams(threshold=threshold_of(config), handleInvalid=config.handleInvalid)
    with (
        config.data.read(spark) as data,
        publication(config.output.path, config.output.replace, "scores") as version,
    ):
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
        scored = scored.select(*columns, *outputs)
        scored.write.parquet(f"{version.uri}/scores")
        rows = spark.read.parquet(f"{version.uri}/scores").count()
        skipped = data.count() - rows if config.handleInvalid == "skip" else 0
        _log.info("wrote the scores of %d rows; %d were skipped", rows, skipped)
        drift = drift_of(recipe_stage(model), data) if config.drift else {}
        log_unknown(drift)
    result = {"scores": f"{version.uri}/scores", "rows": rows, "skipped": skipped}
    return result | {"columns": scored.columns, **drift}
