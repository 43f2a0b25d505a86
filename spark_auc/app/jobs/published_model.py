"""Read published models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_auc.app.publish import current

if TYPE_CHECKING:
    from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
    from spark_auc.spark.evaluation.calibrate import ScoreCalibrationModel

CALIBRATION = "calibration"


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
