"""Score rows with a published model.

Section ``score`` of the configuration: model, data, keep (columns to keep beside the scores),
output. Publishes ``scores``, Parquet of the columns kept, the score, the prediction and, of a
calibrated model, the probability.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_auc.app.config.jobs import Score
from spark_auc.app.jobs.inputs import check_model, check_path, read_model, reading
from spark_auc.app.publish import check_free, publication

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check(config: Score) -> None:
    """What can be known to be wrong before Spark starts; `ConfigError`."""
    check_model(config.model)
    check_path(config.data.path)
    check_free(config.output.path, config.output.replace)


def run(spark: SparkSession, config: Score) -> dict[str, Any]:
    """Run the job; the result for standard output."""
    from pyspark.sql import functions as F

    from spark_auc.spark.data.features import known_column, quoted

    model, calibration = read_model(config.model)
    with (
        reading(spark, config.data) as data,
        publication(config.output.path, config.output.replace, "scores") as version,
    ):
        kept = [F.col(quoted(known_column(data, name).name)) for name in config.keep]
        scored = model.transform(data)
        made = [model.getRawPredictionCol(), model.getPredictionCol()]
        if calibration:
            scored = calibration.transform(scored)
            made.append(calibration.getProbabilityCol())
        scored = scored.select(*kept, *made)
        scored.write.parquet(f"{version.uri}/scores")
        rows = spark.read.parquet(f"{version.uri}/scores").count()
    return {"scores": f"{version.uri}/scores", "rows": rows, "columns": scored.columns}
