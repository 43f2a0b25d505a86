"""AUC maximization on Apache Spark.

The public names resolve on first use, so that importing a part of the package imports no more
than that part needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_auc.spark.estimators.adadsg import AdaDSGClassifier
    from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
    from spark_auc.spark.estimators.mba import MBAClassifier
    from spark_auc.spark.estimators.nsauc import NSAUCClassifier
    from spark_auc.spark.estimators.opauc import OPAUCClassifier
    from spark_auc.spark.estimators.ranksvm import RankSVMClassifier
    from spark_auc.spark.estimators.selector import MBASelector
    from spark_auc.spark.estimators.solam import SOLAMClassifier
    from spark_auc.spark.evaluation.calibrate import ScoreCalibrationModel, ScoreCalibrator
    from spark_auc.spark.evaluation.evaluate import compare, evaluate
    from spark_auc.spark.evaluation.evaluator import AUCEvaluator
    from spark_auc.spark.features.crosses import FeatureCrosses
    from spark_auc.spark.features.embedding import EmbeddingModel
    from spark_auc.spark.features.network import TanhNetwork
    from spark_auc.spark.features.nystroem import NystroemEmbedding
    from spark_auc.spark.features.random_features import RandomFourierFeatures, RandomThresholds
    from spark_auc.spark.features.splines import SplineBasis

__version__ = "0.1.0"

_HOMES = {
    "AUCEvaluator": "spark_auc.spark.evaluation.evaluator",
    "AdaDSGClassifier": "spark_auc.spark.estimators.adadsg",
    "EmbeddingModel": "spark_auc.spark.features.embedding",
    "FeatureCrosses": "spark_auc.spark.features.crosses",
    "MBAClassifier": "spark_auc.spark.estimators.mba",
    "LinearRankerModel": "spark_auc.spark.estimators.linear_ranker",
    "MBASelector": "spark_auc.spark.estimators.selector",
    "NSAUCClassifier": "spark_auc.spark.estimators.nsauc",
    "NystroemEmbedding": "spark_auc.spark.features.nystroem",
    "OPAUCClassifier": "spark_auc.spark.estimators.opauc",
    "RandomFourierFeatures": "spark_auc.spark.features.random_features",
    "RandomThresholds": "spark_auc.spark.features.random_features",
    "RankSVMClassifier": "spark_auc.spark.estimators.ranksvm",
    "SOLAMClassifier": "spark_auc.spark.estimators.solam",
    "ScoreCalibrationModel": "spark_auc.spark.evaluation.calibrate",
    "ScoreCalibrator": "spark_auc.spark.evaluation.calibrate",
    "SplineBasis": "spark_auc.spark.features.splines",
    "TanhNetwork": "spark_auc.spark.features.network",
    "compare": "spark_auc.spark.evaluation.evaluate",
    "evaluate": "spark_auc.spark.evaluation.evaluate",
}
__all__ = [
    "AUCEvaluator",
    "AdaDSGClassifier",
    "EmbeddingModel",
    "FeatureCrosses",
    "LinearRankerModel",
    "MBAClassifier",
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
