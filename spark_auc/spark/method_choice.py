"""The choice of a model among candidates that have different features and losses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyspark.ml import Estimator
from pyspark.sql import DataFrame

from spark_auc.errors import ConfigError
from spark_auc.features.recipe_blocks import blocks_of, of_blocks
from spark_auc.spark.data.raw_features import RawFeatures
from spark_auc.spark.data.rows import DistributedRows
from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
from spark_auc.spark.estimators.mba import MBAClassifier
from spark_auc.spark.estimators.ranker import RankerEstimator
from spark_auc.spark.estimators.ranksvm import RankSVMClassifier
from spark_auc.spark.features.recipe import FeatureRecipe
from spark_auc.spark.features.recipe_model import FeatureRecipeModel
from spark_auc.spark.pipeline import RankerPipeline, RankerPipelineModel
from spark_auc.training.blocks import LEAVES
from spark_auc.training.method_choice import MethodSettings, compare_methods
from spark_auc.training.method_result import MethodResult
from spark_auc.training.ranksvm import train_hinge
from spark_auc.training.settings import HingeSettings, TrainingSettings
from spark_auc.training.train import train

# Params of the ranker that the chosen model has too.
_SHARED = ("labelCol", "positiveLabel", "weightCol", "rawPredictionCol", "predictionCol")
# Params of the ranker that contradict the choice.
_CONTRARY = (
    *("regParam", "elasticNetParam", "standardization", "selectionRule", "estimator", "prior"),
    *("foldCol", "segmentCol", "keepMoments"),
)


class MethodChooser(Estimator[RankerPipelineModel]):
    """Trains the best of several models of raw rows, by their AUC on held-out folds.

    The candidates are models of the blocks of features that the recipe has (single columns, pairs,
    crosses, leaves of trees), each with the squared loss and with the squared hinge of all pairs;
    see `spark_auc.training.method_choice.compare_methods`. The one that the one-standard-error rule
    chooses is trained on all rows. ``ranker.summary.selection["methods"]`` lists all of them.

    Parameters
    ----------
    recipe
        The raw columns and their blocks. Rows are not divided by their length.
    ranker
        Columns, folds and seed; its penalty is chosen.

    Raises
    ------
    ConfigError
        By ``fit``: a Param of the recipe or of the ranker cannot serve.
    """

    def __init__(
        self, recipe: FeatureRecipe | FeatureRecipeModel, ranker: MBAClassifier | None = None
    ) -> None:
        super().__init__()
        if isinstance(recipe, FeatureRecipe) and not recipe.isSet("unit"):
            recipe = recipe.copy({recipe.unit: False})
        self.pipeline = RankerPipeline([recipe, ranker or MBAClassifier()])

    @property
    def ranker(self) -> RankerEstimator:
        """The ranker that names the columns."""
        return self.pipeline.ranker

    def check(self) -> None:
        """`ConfigError` where Params of the recipe and of the ranker cannot serve."""
        self.pipeline.check()
        recipe, ranker = self.pipeline.recipe, self.ranker
        unit = recipe.recipe.unit if isinstance(recipe, FeatureRecipeModel) else None
        if isinstance(recipe, FeatureRecipe):
            unit = recipe.values()["unit"]
            if len(recipe.knots()) > 1:
                raise ConfigError(
                    f"found numKnots {list(recipe.knots())} for a choice of methods, expected one "
                    "number; set one"
                )
        if unit:
            raise ConfigError(
                "found unit = True for a choice of methods, expected False: the blocks of a row of "
                "length 1 depend on each other; leave it out"
            )
        if refused := [name for name in _CONTRARY if ranker.isSet(name)]:
            raise ConfigError(
                f"found {', '.join(refused)} for a choice of methods, expected none of them: "
                "penalties are chosen on folds by hash or keyCol; leave them out"
            )

    def _fit(self, dataset: DataFrame) -> RankerPipelineModel:
        self.check()
        ranker = self.pipeline.ranker
        assert isinstance(ranker, MBAClassifier)
        (fitted,) = self.pipeline.recipes(dataset).values()
        recipe = fitted.recipe
        # Equal rows of one candidate may differ in another.
        features = replace(fitted.input_features(dataset), by_values=True)
        folds, _ = ranker.folds(dataset)
        columns = ranker.resolved(dataset, features, ranker.values()["keyCol"])
        # Trees of a fitted recipe grew elsewhere.
        of_fit = fitted is not self.pipeline.recipe
        grown = recipe.trees.grown if recipe.trees and of_fit else None
        chose = recipe.chosen_by if of_fit else None
        settings = MethodSettings(
            replace(folds, never_held_out=grown or chose), frozenset([LEAVES] if grown else [])
        )
        rows = DistributedRows.of(dataset, columns)
        comparison = compare_methods(rows, blocks_of(recipe), settings)
        chosen = comparison.results[comparison.chosen]
        drift = None if LEAVES in chosen.blocks and len(chosen.blocks) == 1 else fitted.drift
        reduced = fitted.reduced(of_blocks(recipe, chosen.blocks), drift)
        features = reduced.input_features(dataset).for_training(of_fit=of_fit, by_values=True)
        model = RankerPipelineModel(self._trained(dataset, features, chosen), reduced)
        assert chosen.selection is not None
        selection = chosen.selection.as_dict() | {"methods": comparison.as_dict()}
        summary = replace(model.ranker.summary, selection=selection)
        return self.pipeline.named(dataset, model.with_ranker(model.ranker.with_summary(summary)))

    def _trained(
        self, dataset: DataFrame, features: RawFeatures, chosen: MethodResult
    ) -> LinearRankerModel:
        """The chosen candidate, trained with its penalty on all rows that it may train on."""
        values: dict[str, Any] = dict(self.ranker.values())
        shared = {name: values[name] for name in _SHARED if values[name] is not None}
        assert chosen.selection is not None
        penalty = chosen.selection.candidate.regParam
        kind = RankSVMClassifier if chosen.loss == "hinge" else MBAClassifier
        estimator = kind(regParam=penalty, standardization=False, **shared)
        # The key says which rows grew trees.
        columns = estimator.resolved(dataset, features, values["keyCol"])
        rows = DistributedRows.of(dataset, columns)
        if chosen.loss == "hinge":
            result = train_hinge(rows, HingeSettings(penalty, standardize=False))
        else:
            result = train(rows, TrainingSettings(reg_params=(penalty,), standardize=False))
        return estimator.made(result, columns)
