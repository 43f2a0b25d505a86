"""AUC maximization on Apache Spark.

The public names resolve on first use, so that importing a part of the package imports no more
than that part needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_auc.spark.adadsg import AdaDSGClassifier
    from spark_auc.spark.calibrate import ScoreCalibrationModel, ScoreCalibrator
    from spark_auc.spark.crosses import FeatureCrosses
    from spark_auc.spark.embedding import EmbeddingModel
    from spark_auc.spark.evaluate import compare, evaluate
    from spark_auc.spark.evaluator import AUCEvaluator
    from spark_auc.spark.mba import MBAClassifier
    from spark_auc.spark.model import MBAModel
    from spark_auc.spark.network import TanhNetwork
    from spark_auc.spark.nsauc import NSAUCClassifier
    from spark_auc.spark.nystroem import NystroemEmbedding
    from spark_auc.spark.opauc import OPAUCClassifier
    from spark_auc.spark.random_features import RandomFourierFeatures, RandomThresholds
    from spark_auc.spark.ranksvm import RankSVMClassifier
    from spark_auc.spark.selector import MBASelector
    from spark_auc.spark.solam import SOLAMClassifier
    from spark_auc.spark.splines import SplineBasis

__version__ = "0.1.0"

_HOMES = {
    "AUCEvaluator": "spark_auc.spark.evaluator",
    "AdaDSGClassifier": "spark_auc.spark.adadsg",
    "EmbeddingModel": "spark_auc.spark.embedding",
    "FeatureCrosses": "spark_auc.spark.crosses",
    "MBAClassifier": "spark_auc.spark.mba",
    "MBAModel": "spark_auc.spark.model",
    "MBASelector": "spark_auc.spark.selector",
    "NSAUCClassifier": "spark_auc.spark.nsauc",
    "NystroemEmbedding": "spark_auc.spark.nystroem",
    "OPAUCClassifier": "spark_auc.spark.opauc",
    "RandomFourierFeatures": "spark_auc.spark.random_features",
    "RandomThresholds": "spark_auc.spark.random_features",
    "RankSVMClassifier": "spark_auc.spark.ranksvm",
    "SOLAMClassifier": "spark_auc.spark.solam",
    "ScoreCalibrationModel": "spark_auc.spark.calibrate",
    "ScoreCalibrator": "spark_auc.spark.calibrate",
    "SplineBasis": "spark_auc.spark.splines",
    "TanhNetwork": "spark_auc.spark.network",
    "compare": "spark_auc.spark.evaluate",
    "evaluate": "spark_auc.spark.evaluate",
}
__all__ = [
    "AUCEvaluator",
    "AdaDSGClassifier",
    "EmbeddingModel",
    "FeatureCrosses",
    "MBAClassifier",
    "MBAModel",
    "MBASelector",
    "NSAUCClassifier",
    "NystroemEmbedding",
    "OPAUCClassifier",
    "RandomFourierFeatures",
    "RandomThresholds",
    "RankSVMClassifier",
    "SOLAMClassifier",
    "ScoreCalibrationModel",
    "ScoreCalibrator",
    "SplineBasis",
    "TanhNetwork",
    "compare",
    "evaluate",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
