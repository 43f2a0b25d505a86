"""The choice of a model among candidates that have different features and losses, as a stage."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.ml import Estimator
from pyspark.sql import DataFrame

from spark_auc.pipeline.method_fit import ADDED, MethodFit
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.spark.estimators.mba import MBAClassifier
from spark_auc.spark.estimators.ranksvm import RankSVMClassifier
from spark_auc.spark.features.recipe import FeatureRecipe
from spark_auc.spark.features.recipe_model import FeatureRecipeModel
from spark_auc.spark.pipeline import RankerPipeline
from spark_auc.spark.pipeline_model import RankerPipelineModel


class MethodChooser(MethodFit, Estimator[RankerPipelineModel]):
    """Trains the best of several models of raw rows, by their AUC on held-out folds.

    The candidates are models of the blocks of features that the recipe has (single columns, pairs,
    crosses, leaves of trees), each with the squared loss and with the squared hinge of all pairs;
    see `spark_auc.training.method_choice.compare_methods`. Where the recipe says nothing of trees,
    trees that all rows grow are candidates too, of tables of at most 250,000 rows; see
    `spark_auc.training.tree_candidates`. The one that the one-standard-error rule chooses is
    trained on all rows. ``ranker.summary.selection["methods"]`` lists all of them.

    Parameters
    ----------
    recipe
        The raw columns and their blocks. Rows are not divided by their length.
    ranker
        Columns, folds and seed; its penalty is chosen.
    added
        Names of the Params of the recipe that are set here where they are not set, of `ADDED`.

    Raises
    ------
    ConfigError
        By ``fit``: a Param of the recipe or of the ranker cannot serve.
    """

    HINGE = RankSVMClassifier

    def __init__(
        self,
        recipe: FeatureRecipe | FeatureRecipeModel,
        ranker: MBAClassifier | None = None,
        added: Collection[str] = ADDED,
    ) -> None:
        super().__init__()
        prepared = self._prepared(recipe, added)
        self.pipeline: RankerPipeline = RankerPipeline([prepared, ranker or MBAClassifier()])

    def _fit(self, dataset: DataFrame) -> RankerPipelineModel:
        self.check()
        self.pipeline.check_outputs(dataset)
        made: RankerPipelineModel = self.fitted(SparkTable(dataset))
        return made
