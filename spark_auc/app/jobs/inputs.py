"""Read the rows of a `Source`, and published models."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from spark_auc.app.config.sections import Source, text_of
from spark_auc.app.directory import is_local
from spark_auc.app.publish import current, resolve
from spark_auc.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
    from spark_auc.spark.evaluation.calibrate import ScoreCalibrationModel

CALIBRATION = "calibration"


def check_path(path: str | None) -> None:
    """`ConfigError` if a local path without a pattern does not exist."""
    if path is None or not is_local(path) or any(c in path for c in "*?[{"):
        return
    local_path = resolve(path).removeprefix("file://")
    if not os.path.exists(local_path):
        parent = os.path.dirname(os.path.abspath(local_path))
        hint = "its directory exists" if os.path.isdir(parent) else f"no directory {parent!r}"
        raise ConfigError(
            f"found nothing at {path!r} ({hint}), expected a file, a directory or a published "
            "output; check the path"
        )


@contextmanager
def reading(spark: SparkSession, source: Source) -> Iterator[DataFrame]:
    """Rows of a source; of a published output, those of its current version.

    Parameters
    ----------
    spark
        The session.
    source
        The source.

    Raises
    ------
    DataError
        An action inside the block reads a corrupt file.
    """
    from spark_auc.spark.data.failures import translated
    from spark_auc.spark.data.libsvm import libsvm, libsvm_errors
    from spark_auc.spark.data.strict import by_name

    options = {key: text_of(value) for key, value in source.options.items()}
    path = resolve(source.path) if source.path else None
    if source.format == "libsvm" and path:
        dimension = int(options["numFeatures"]) if "numFeatures" in options else None
        with libsvm_errors(spark, path, dimension):
            yield libsvm(spark, path, dimension)
        return
    with translated():
        if source.table is not None:
            yield spark.read.table(source.table)
        else:
            strict = by_name(source.format, options)
            yield spark.read.format(source.format).options(**strict).load(path)


def check_model(location: str) -> None:
    """`ConfigError` or `ModelFormatError` if the location has no complete model."""
    current(location, "model")


def read_model(location: str) -> tuple[LinearRankerModel, ScoreCalibrationModel | None]:
    """Load the published model, and its calibration if it has one.

    Raises
    ------
    ConfigError
        No model is published at the location.
    ModelFormatError
        A file is missing or damaged.
    """
    from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
    from spark_auc.spark.evaluation.calibrate import ScoreCalibrationModel

    version = current(location, "model")
    calibration = None
    if CALIBRATION in version.names():
        calibration = ScoreCalibrationModel.load(f"{version.uri}/{CALIBRATION}")
    return LinearRankerModel.load(f"{version.uri}/model"), calibration
