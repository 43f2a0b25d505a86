"""The choice of a model among candidates that have different features and losses."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from pyspark.ml import Estimator
from pyspark.sql import DataFrame

from spark_auc.core.sampling.folds import Folds
from spark_auc.errors import ConfigError, MissingPackageError, ResourceError, require
from spark_auc.features.raw_columns import Text
from spark_auc.features.recipe_blocks import blocks_of, of_blocks
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
from spark_auc.spark.estimators.mba import MBAClassifier
from spark_auc.spark.estimators.ranker import RankerEstimator
from spark_auc.spark.estimators.ranksvm import RankSVMClassifier
from spark_auc.spark.features.label_sample import label_sample
from spark_auc.spark.features.recipe import FeatureRecipe
from spark_auc.spark.features.recipe_model import FeatureRecipeModel
from spark_auc.spark.features.tree_settings import grows_from_all
from spark_auc.spark.pipeline import RankerPipeline
from spark_auc.spark.pipeline_model import RankerPipelineModel
from spark_auc.tables.raw_features import RawFeatures
from spark_auc.tables.rows import TableRows, counted
from spark_auc.tables.table import Table
from spark_auc.training.blocks import LEAVES
from spark_auc.training.method_choice import compare_methods
from spark_auc.training.method_result import MethodResult
from spark_auc.training.prior import Prior
from spark_auc.training.ranksvm import train_hinge
from spark_auc.training.raw_rows import RawRows
from spark_auc.training.settings import HingeSettings, MethodSettings, TrainingSettings
from spark_auc.training.train import train
from spark_auc.training.tree_candidates import (
    TreeCandidate,
    measured,
    train_grown,
    tree_candidates,
)

_log = logging.getLogger(__name__)

# Params of the ranker that the chosen model has too.
_SHARED = (
    *("labelCol", "positiveLabel", "weightCol", "rawPredictionCol", "predictionCol"),
    *("vectorOutput", "handleInvalid"),
)
# Params of the ranker that contradict the choice.
_CONTRARY = (
    *("regParam", "elasticNetParam", "standardization", "selectionRule", "estimator", "prior"),
    *(
        "foldCol",
        "segmentCol",
        "keepMoments",
        "maxFPR",
        "covariance",
        "tol",
        "maxIter",
        "whenNotConverged",
    ),
)


# Params of a recipe to which a choice adds, where they are not set: `trees` are those of
# `spark_auc.training.tree_candidates`.
ADDED = ("pairs", "crosses", "trees")
_VALUES: dict[str, Any] = {"unit": False, "pairs": 20, "crosses": "auto"}
# Above so many rows, trees that grow anew in each fold take too long.
_MOST_TREE_ROWS = 250_000


class _Trees(NamedTuple):
    """Candidates by name whose trees grow from all rows, their results, and the raw rows."""

    candidates: dict[str, TreeCandidate]
    results: list[MethodResult]
    rows: RawRows | None = None
    types: Mapping[str, str] = MappingProxyType({})


class MethodChooser(Estimator[RankerPipelineModel]):
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

    def __init__(
        self,
        recipe: FeatureRecipe | FeatureRecipeModel,
        ranker: MBAClassifier | None = None,
        added: Collection[str] = ADDED,
    ) -> None:
        super().__init__()
        self._grows = False
        if isinstance(recipe, FeatureRecipe):
            values = {name: _VALUES[name] for name in ("unit", *added) if name in _VALUES}
            unset = {k: v for k, v in values.items() if not recipe.isSet(k)}
            self._grows = "trees" in added and not recipe.isSet("trees")
            recipe = recipe.copy({recipe.getParam(k): v for k, v in unset.items()})
        self.pipeline = RankerPipeline([recipe, ranker or MBAClassifier()])

    @property
    def ranker(self) -> RankerEstimator:
        """The ranker that names the columns."""
        return self.pipeline.ranker

    def check(self) -> None:
        """`ConfigError` where Params of the recipe and of the ranker cannot serve."""
        recipe = self.pipeline.recipe
        if isinstance(recipe, FeatureRecipe) and grows_from_all(recipe.values()["trees"]):
            raise ConfigError(
                "found growShare 1 for a choice of methods, expected a lower one: trees that all "
                "rows grow are candidates where the recipe has none; leave out trees"
            )
        self.pipeline.check()
        ranker = self.ranker
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
        ranker.check_outputs(dataset)
        assert isinstance(ranker, MBAClassifier)
        table = SparkTable(dataset)
        (fitted,) = self.pipeline.recipes(table).values()
        recipe = fitted.recipe
        # Equal rows of one candidate may differ in another.
        features = replace(fitted.input_features(table), by_values=True)
        folds, _ = ranker.folds(table)
        columns = ranker.resolved(table, features, ranker.values()["keyCol"])
        # Trees of a fitted recipe grew elsewhere.
        of_fit = fitted is not self.pipeline.recipe
        grown = recipe.trees.grown if recipe.trees and of_fit else None
        chose = recipe.chosen_by if of_fit else None
        settings = MethodSettings(
            replace(folds, never_held_out=grown or chose), frozenset([LEAVES] if grown else [])
        )
        rows = TableRows.of(table, columns)
        comparison = compare_methods(rows, blocks_of(recipe), settings)
        trees = self._trees(table, features, comparison.folds)
        comparison = comparison.with_results(trees.results)
        chosen = comparison.results[comparison.chosen]
        candidate = trees.candidates.get(chosen.name)
        if candidate and trees.rows:
            made = candidate.recipe(candidate.grow(trees.rows, trees.types))
        else:
            made = of_blocks(recipe, chosen.blocks)
        reduced = fitted.replaced(made, fitted.drift and fitted.drift.for_recipe(made))
        # The groups of rows are those of all columns, by which trees and folds know them.
        features = replace(features, recipe=made).for_training(of_fit=of_fit, by_values=True)
        model = RankerPipelineModel(self._trained(table, features, chosen, candidate), reduced)
        assert chosen.selection is not None
        selection = chosen.selection.as_dict() | {"methods": comparison.as_dict()}
        summary = replace(model.ranker.summary, selection=selection)
        return self.pipeline.named(table, model.with_ranker(model.ranker.with_summary(summary)))

    def _trees(self, table: Table, features: RawFeatures, folds: Folds) -> _Trees:
        """The candidates whose trees grow from all rows, measured on the folds."""
        if not self._grows:
            return _Trees({}, [])
        candidates = {each.name: each for each in tree_candidates(features.recipe)}
        rows, values = counted(table, self.ranker.getLabelCol()), self.ranker.values()
        label, row = (values["labelCol"], values["positiveLabel"]), ("weightCol", "keyCol")
        try:
            require("trees", "lightgbm")
            if rows > _MOST_TREE_ROWS:
                raise ResourceError(
                    f"found {rows} rows, expected at most {_MOST_TREE_ROWS} to grow trees anew in "
                    "each fold; set trees of a recipe, whose rows are left out of training"
                )
            sample = label_sample(
                *(table, features.raw, label, *(values[name] for name in row)),
                remedy="set trees to null",
                sample=None,
                rows=rows,
            )
        except (MissingPackageError, ResourceError) as error:
            _log.warning("no trees grow from all rows: %s", error)
            return _Trees(candidates, [c.without(str(error)) for c in candidates.values()])
        raw = RawRows(sample.columns, sample.y, sample.weight, sample.groups)
        types = {
            column.name: column.type
            for column in features.recipe.own_columns
            # Integers of lines stay text where only their tokens are needed.
            if isinstance(raw.columns[column.name], Text) == (column.type == "text")
        }
        if not types:
            without = [c.without("no column that trees can split") for c in candidates.values()]
            return _Trees(candidates, without)
        results = measured(list(candidates.values()), raw, types, folds)
        return _Trees(candidates, results, raw, types)

    def _trained(
        self,
        table: Table,
        features: RawFeatures,
        chosen: MethodResult,
        candidate: TreeCandidate | None,
    ) -> LinearRankerModel:
        """The chosen candidate, trained with its penalty on all rows that it may train on."""
        values: dict[str, Any] = dict(self.ranker.values())
        shared = {name: values[name] for name in _SHARED if values[name] is not None}
        assert chosen.selection is not None
        penalty = chosen.selection.candidate
        kind = RankSVMClassifier if chosen.loss == "hinge" else MBAClassifier
        estimator = kind(regParam=penalty.regParam, standardization=False, **shared)
        # The key says which rows grew trees.
        columns = estimator.resolved(table, features, values["keyCol"])
        rows = TableRows.of(table, columns)
        if candidate:
            result = train_grown(rows, candidate, penalty, Prior.of_trees(features.recipe))
        elif chosen.loss == "hinge":
            result = train_hinge(rows, HingeSettings(penalty.regParam, standardize=False))
        else:
            settings = TrainingSettings(reg_params=(penalty.regParam,), standardize=False)
            result = train(rows, settings)
        return estimator.made(result, columns)
