"""AUC maximization on Apache Spark.

The public names resolve on first use, so that importing a part of the package imports no more
than that part needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_auc.spark.calibrate import ScoreCalibrationModel, ScoreCalibrator
    from spark_auc.spark.evaluate import compare, evaluate
    from spark_auc.spark.evaluator import AUCEvaluator
    from spark_auc.spark.mba import MBAClassifier
    from spark_auc.spark.model import MBAModel
    from spark_auc.spark.selector import MBASelector

__version__ = "0.1.0"

_HOMES = {
    "AUCEvaluator": "spark_auc.spark.evaluator",
    "MBAClassifier": "spark_auc.spark.mba",
    "MBAModel": "spark_auc.spark.model",
    "MBASelector": "spark_auc.spark.selector",
    "ScoreCalibrationModel": "spark_auc.spark.calibrate",
    "ScoreCalibrator": "spark_auc.spark.calibrate",
    "compare": "spark_auc.spark.evaluate",
    "evaluate": "spark_auc.spark.evaluate",
}
__all__ = [
    "AUCEvaluator",
    "MBAClassifier",
    "MBAModel",
    "MBASelector",
    "ScoreCalibrationModel",
    "ScoreCalibrator",
    "compare",
    "evaluate",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
