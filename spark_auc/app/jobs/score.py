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
)
from spark_auc.publication.directory import Directory
from spark_auc.publication.publish import check_free, publication
from spark_auc.publication.versions import current
from spark_auc.tables.names import check_names_free

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
    outputs = _outputs(config, _model(config, current(config.model, KIND)))
    config.data.check(*config.keep, new=outputs)
    _check_kept(config, outputs)
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
    from spark_auc.spark.data.spark_table import SparkTable

    output, run_id = config.output, uuid.uuid4().hex
    table = None if output.format == "parquet" else opened(output)
    published = current(config.model, KIND)
    model, name = _model(config, published), published.path.rpartition("/")[-1]
    model.ranker.setParams(threshold=threshold_of(config), handleInvalid=config.handleInvalid)
    constants = (output.modelVersionCol, name), (output.runIdCol, run_id)
    new = {name: text for name, text in constants if name}
    with (
        config.data.read(spark) as data,
        publication(output.place, output.replace, "scores")
        if table is None
        else nullcontext() as version,
    ):
        scored = _scored(model, data, config, new)
        # Before the scores: a commit to a table cannot be taken back.
        drift = drift_of(model.fitted_recipe, SparkTable(data)) if config.drift else {}
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


def _model(config: Score, version: Directory) -> RankerPipelineModel:
    """The published model with the names of columns that the configuration sets."""
    model, output = model_of(version), config.output
    names = {param.name: getattr(output, param.name) for param in model.outputs()}
    extra = {param: names[param.name] for param in model.outputs() if names[param.name]}
    return model.copy(extra)


def _outputs(config: Score, model: RankerPipelineModel) -> dict[str, str | None]:
    """Names of the columns that the model adds, by the keys that set them."""
    names = {param.name: name for param, name in model.outputs().items()}
    if config.contributions:
        names["contributionsCol"] = config.output.contributionsCol
    return {f"score.output.{key}": name for key, name in names.items()}


def _check_kept(config: Score, outputs: Mapping[str, str | None]) -> None:
    """`ConfigError` if two columns of the scores have one name."""
    keys = "modelVersionCol", "runIdCol"
    constants = {f"score.output.{key}": getattr(config.output, key) for key in keys}
    check_names_free(config.keep, {**outputs, **constants})


def _scored(
    model: RankerPipelineModel, data: DataFrame, config: Score, new: Mapping[str, str]
) -> DataFrame:
    """The columns to write; ``new`` has constant columns."""
    from pyspark.sql import functions as F

    from spark_auc.spark.contributions import with_contributions
    from spark_auc.spark.data.names import check_new, known_column, quoted

    outputs = _outputs(config, model)
    check_new(data, outputs)
    _check_kept(config, outputs)
    columns = [F.col(quoted(known_column(data, name).name)) for name in config.keep]
    if config.contributions:
        name = config.output.contributionsCol
        scored = with_contributions(model, data, config.contributions, contributionsCol=name)
    else:
        scored = model.transform(data)
    constants = [F.lit(text).alias(name) for name, text in new.items()]
    return scored.select(*columns, *map(quoted, filter(None, outputs.values())), *constants)
