"""The public names and their modules, for type checkers and for ``__init__.py``."""

from spark_auc.app.one_call import Trained as Trained
from spark_auc.app.one_call import train as train
from spark_auc.export.logistic import to_logistic_regression as to_logistic_regression
from spark_auc.export.onnx_model import to_onnx as to_onnx
from spark_auc.export.sql import SQLRanker as SQLRanker
from spark_auc.export.sql import to_sql as to_sql
from spark_auc.serving.load import load as load
from spark_auc.serving.ranker import ServedRanker as ServedRanker
from spark_auc.spark.contributions import with_contributions as with_contributions
from spark_auc.spark.estimators.adadsg import AdaDSGClassifier as AdaDSGClassifier
from spark_auc.spark.estimators.linear_ranker import LinearRankerModel as LinearRankerModel
from spark_auc.spark.estimators.mba import MBAClassifier as MBAClassifier
from spark_auc.spark.estimators.nsauc import NSAUCClassifier as NSAUCClassifier
from spark_auc.spark.estimators.opauc import OPAUCClassifier as OPAUCClassifier
from spark_auc.spark.estimators.ranksvm import RankSVMClassifier as RankSVMClassifier
from spark_auc.spark.estimators.selector import MBASelector as MBASelector
from spark_auc.spark.estimators.solam import SOLAMClassifier as SOLAMClassifier
from spark_auc.spark.evaluation.calibrate import ScoreCalibrationModel as ScoreCalibrationModel
from spark_auc.spark.evaluation.calibrate import ScoreCalibrator as ScoreCalibrator
from spark_auc.spark.evaluation.evaluate import compare as compare
from spark_auc.spark.evaluation.evaluate import evaluate as evaluate
from spark_auc.spark.evaluation.evaluator import AUCEvaluator as AUCEvaluator
from spark_auc.spark.features.crosses import FeatureCrosses as FeatureCrosses
from spark_auc.spark.features.embedding import EmbeddingModel as EmbeddingModel
from spark_auc.spark.features.network import TanhNetwork as TanhNetwork
from spark_auc.spark.features.nystroem import NystroemEmbedding as NystroemEmbedding
from spark_auc.spark.features.random_features import RandomFourierFeatures as RandomFourierFeatures
from spark_auc.spark.features.random_features import RandomThresholds as RandomThresholds
from spark_auc.spark.features.recipe import FeatureRecipe as FeatureRecipe
from spark_auc.spark.features.recipe_model import FeatureRecipeModel as FeatureRecipeModel
from spark_auc.spark.features.splines import SplineBasis as SplineBasis
from spark_auc.spark.importances import feature_weights as feature_weights
from spark_auc.spark.importances import importances as importances
from spark_auc.spark.pipeline import RankerPipeline as RankerPipeline
from spark_auc.spark.pipeline_model import RankerPipelineModel as RankerPipelineModel

__version__: str
__all__: list[str]
