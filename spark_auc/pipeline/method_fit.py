"""The choice of a model among candidates that have different features and losses."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from spark_auc.core.row_source import RowSource
from spark_auc.core.validation import check_at_least
from spark_auc.errors import (
    ConfigError,
    ConvergenceError,
    HoldOutError,
    MissingPackageError,
    ResourceError,
    require,
)
from spark_auc.features.raw_columns import Text
from spark_auc.features.recipe_blocks import blocks_of, of_blocks
from spark_auc.pipeline.compared_blocks import compared
from spark_auc.pipeline.label_sample import label_sample
from spark_auc.pipeline.pair_moments_fit import PairMomentsFit
from spark_auc.pipeline.pipeline_fit import MOST_COMPARED_ROWS, PipelineFit
from spark_auc.pipeline.ranker_fit import RankerFit
from spark_auc.pipeline.ranker_settings import CONTRARY_TO_CHOICE
from spark_auc.pipeline.recipe_estimator import RecipeFit, RecipeModel
from spark_auc.pipeline.recipe_ranker import recipe_for, reduced
from spark_auc.pipeline.tree_settings import grows_from_all
from spark_auc.solvers.candidates import Candidate
from spark_auc.tables.raw_features import RawFeatures
from spark_auc.tables.rows import TableRows
from spark_auc.tables.table import Table
from spark_auc.tables.tally import row_count
from spark_auc.training.blocks import ADDITIVE, CROSSES, LEAVES, PAIRS
from spark_auc.training.costs import CountedWork
from spark_auc.training.method_result import MethodComparison, MethodResult
from spark_auc.training.ranksvm import train_hinge
from spark_auc.training.raw_rows import RawRows
from spark_auc.training.result import TrainingResult
from spark_auc.training.settings import HingeSettings, TrainingSettings
from spark_auc.training.summary import TrainingSummary
from spark_auc.training.train import train
from spark_auc.training.tree_candidates import (
    CANDIDATES,
    TreeCandidate,
    measured,
    train_grown,
)

_log = logging.getLogger(__name__)

# Settings of the ranker that the chosen model has too.
_SHARED = (
    *("labelCol", "positiveLabel", "weightCol", "rawPredictionCol", "predictionCol"),
    *("vectorOutput", "handleInvalid"),
)
# Settings of a recipe to which a choice adds, where they are not set: `trees` are those of
# `spark_auc.training.tree_candidates`.
ADDED = ("pairs", "crosses", "trees", "smoothness", "hinge")
# What a choice adds by default: trees take ten times as long as all others.
DEFAULT = tuple(name for name in ADDED if name != "trees")
_VALUES: dict[str, Any] = {"unit": False, "numKnots": "auto", "pairs": "auto", "crosses": "auto"}


class _Trees(NamedTuple):
    """Candidates by name whose trees grow from all rows, their results, and the raw rows."""

    candidates: dict[str, TreeCandidate]
    results: list[MethodResult]
    rows: RawRows | None = None
    types: Mapping[str, str] = MappingProxyType({})


class MethodFit:
    """Trains the best of several models of raw rows, by their AUC on held-out folds.

    The candidates are models of the blocks of features that the recipe has (single columns, pairs,
    crosses, leaves of trees); see `spark_auc.training.method_choice.compare_methods`. Where trees
    are added, trees that all rows grow are candidates too, of tables of at most 250,000 rows; see
    `spark_auc.training.tree_candidates`. The one that the one-standard-error rule chooses is
    trained on all rows. ``ranker.summary.selection["methods"]`` lists all of them. Unless
    trees are added, nothing is compared of more than 250,000 rows, and single columns are trained
    where the comparison fails.

    Parameters
    ----------
    pipeline
        The recipe, whose rows are not divided by their length, and the ranker, whose penalty is
        chosen.
    added
        Names of the settings of the recipe, and of the ranker (smoothness), that are set here where
        they are not set, of `ADDED`.
    budget
        Seconds of counted work for the candidates that are compared, which are about seconds of one
        processor. Candidates are taken from simple to complex while the budget has room for them.
        Counts of rows and features decide, so that every machine decides alike. Default: no limit.
    """

    pipeline: PipelineFit
    # Seconds of counted work for candidates.
    _budget: float = math.inf
    # The class that fits the hinge.
    HINGE: ClassVar[type[Any]]
    _grows: bool
    _hinges: bool

    def _prepared(
        self, recipe: Any, ranker: PairMomentsFit, added: Collection[str], budget: float | None
    ) -> tuple[Any, PairMomentsFit]:
        """The recipe and the ranker with the settings of the choice where they are not set."""
        if budget is not None:
            if isinstance(budget, bool) or not isinstance(budget, int | float):
                raise ConfigError(
                    f"found budget = {budget!r}, expected a number of seconds; set it"
                )
            check_at_least("budget", budget, 0)
            self._budget = budget
        self._grows, self._hinges = False, "hinge" in added
        ranker = ranker.smooth if "smoothness" in added else ranker
        if not isinstance(recipe, RecipeFit):
            return recipe, ranker
        values = {name: _VALUES[name] for name in ("unit", "numKnots", *added) if name in _VALUES}
        self._grows = "trees" in added and not recipe.isSet("trees")
        values = {name: value for name, value in values.items() if not recipe.isSet(name)}
        return recipe.with_values(**values), ranker

    @property
    def can_choose(self) -> bool:
        """Whether nothing that the choice would leave out or change is set."""
        recipe, ranker = self.pipeline.recipe, self.ranker
        if not isinstance(recipe, RecipeFit) or not isinstance(ranker, PairMomentsFit):
            return False
        values = recipe.values()
        named = values["trees"] or values["pairs"] not in (None, "auto")
        named = named or values["crosses"] not in (None, "auto") or values["unit"]
        return not named and ranker.selects and not any(map(ranker.isSet, CONTRARY_TO_CHOICE))

    @property
    def ranker(self) -> RankerFit:
        """The ranker that names the columns."""
        return self.pipeline.ranker

    def check(self) -> None:
        """`ConfigError` where Params of the recipe and of the ranker cannot serve."""
        recipe = self.pipeline.recipe
        if isinstance(recipe, RecipeFit) and grows_from_all(recipe.values()["trees"]):
            raise ConfigError(
                "found growShare 1 for a choice of methods, expected a lower one: trees that all "
                "rows grow are candidates where the recipe has none; leave out trees"
            )
        ranker = self.ranker
        if refused := [name for name in CONTRARY_TO_CHOICE if ranker.isSet(name)]:
            raise ConfigError(
                f"found {', '.join(refused)} for a choice of methods, expected none of them: "
                "penalties are chosen on folds by hash or keyCol; leave them out"
            )
        self.pipeline.check()
        unit = (
            recipe.recipe.unit if recipe is not None and not isinstance(recipe, RecipeFit) else None
        )
        if isinstance(recipe, RecipeFit):
            unit = recipe.values()["unit"]
        if unit:
            raise ConfigError(
                "found unit = True for a choice of methods, expected False: the blocks of a row of "
                "length 1 depend on each other; leave it out"
            )

    def fitted(self, table: Table) -> Any:
        """Fit the best model to the rows of a table; errors as of `PipelineFit.fitted`."""
        self.check()
        ranker = self.pipeline.ranker
        assert isinstance(ranker, PairMomentsFit)
        compares = self._grows or self.pipeline.compares(table)
        fitted, budget = self._screened(table, compares)
        if not compares:
            return self.pipeline.fitted_with(table, fitted)
        recipe = fitted.recipe
        # Trees of a fitted recipe grew elsewhere.
        of_fit = fitted is not self.pipeline.recipe
        grown = recipe.trees.grown if recipe.trees and of_fit else None
        taught = grown or (recipe.chosen_by if of_fit else None)
        # Equal rows of one candidate may differ in another.
        features = replace(fitted.input_features(table), by_values=True, never_held_out=taught)
        found = *(table, ranker, features, blocks_of(recipe)), self._hinges
        knowing = [LEAVES] if grown else []
        # Single columns are compared again where the rows that chose others may be held out.
        again = (ADDITIVE,) if taught and not grown else None
        try:
            comparison = compared(*found, knowing=knowing, without_hinge=again, budget=budget)
            spent, choice = comparison.work, comparison.choice
            if choice.blocks == again and choice.selection:
                rejected, smoothness = comparison.rejected(), choice.selection.candidate.smoothness
                fitted = reduced(fitted, again)
                recipe, taught = fitted.recipe, None
                features = replace(fitted.input_features(table), by_values=True)
                found = *(table, ranker, features, blocks_of(recipe)), self._hinges
                again_alone = compared(*found, smoothness=smoothness, budget=budget - spent)
                spent += again_alone.work
                comparison = again_alone.with_results(rejected)
        except (ConvergenceError, HoldOutError, ResourceError) as error:
            if self._grows:
                raise
            _log.warning("no candidates are compared: %s", error)
            return self.pipeline.fitted_with(table, reduced(fitted, (ADDITIVE,)))
        trees = self._trees(table, features, comparison, budget - spent)
        comparison = comparison.with_results(trees.results)
        chosen = comparison.choice
        candidate = trees.candidates.get(chosen.name)
        if candidate and trees.rows:
            recipe = replace(recipe, trees=candidate.grow(trees.rows, trees.types))
        made = of_blocks(recipe, chosen.blocks)
        whole = fitted.replaced(made, fitted.drift and fitted.drift.for_recipe(made))
        # The groups of rows are those of all columns, by which trees and folds know them.
        features = replace(features, recipe=made).for_training(of_fit=of_fit, by_values=True)
        assert chosen.selection is not None
        penalty = chosen.selection.candidate
        trained = self._trained(table, features, chosen.loss, penalty)
        model = self.pipeline.pipeline_model(trained, whole)
        selection = chosen.selection.as_dict() | {"methods": comparison.as_dict()}
        summary = replace(model.ranker.summary, selection=selection)
        return self.pipeline.named(table, model.with_ranker(model.ranker.with_summary(summary)))

    def _screened(self, table: Table, compares: bool) -> tuple[RecipeModel, float]:
        """The recipe with the pairs and crosses that may be chosen, and the budget that is left."""
        recipe, budget, screen = self.pipeline.recipe, self._budget, 0.0
        if budget < math.inf and isinstance(recipe, RecipeFit):
            work = CountedWork(row_count(table, self.ranker.values()["labelCol"]), budget=budget)
            screen, values = work.screen(len(table.schema.names)), recipe.values()
            if reason := work.without(screen):
                _log.info("no pairs and crosses of columns are looked for: %s", reason)
                auto = {name: None for name in (PAIRS, CROSSES) if values[name] == "auto"}
                return recipe_for(self.ranker, table, recipe.with_values(**auto), None), budget
        fitted = self.pipeline.fitted_recipe(table, candidates=compares)
        assert fitted is not None, "a choice of methods has a recipe"
        return fitted, budget - screen

    def _trees(
        self, table: Table, features: RawFeatures, others: MethodComparison, budget: float
    ) -> _Trees:
        """The candidates whose trees grow from all rows, measured on the folds of others."""
        if not self._grows:
            return _Trees({}, [])
        candidates = {each.name: each for each in CANDIDATES}
        linear = others.choice
        absent = [each.result(linear) for each in CANDIDATES]
        try:
            raw = self._raw_rows(table, features)
        except (MissingPackageError, ResourceError) as error:
            _log.warning("no trees grow from all rows: %s", error)
            return _Trees(candidates, [result.without(str(error)) for result in absent])
        types = {
            column.name: column.type
            for column in features.recipe.own_columns
            # Integers of lines stay text where only their tokens are needed.
            if isinstance(raw.columns[column.name], Text) == (column.type == "text")
        }
        if not types:
            without = [result.without("no column that trees can split") for result in absent]
            return _Trees(candidates, without)
        results = measured(
            *(CANDIDATES, raw, types, others.folds, features.recipe, linear),
            budget=budget,
        )
        return _Trees(candidates, results, raw, types)

    def _raw_rows(self, table: Table, features: RawFeatures) -> RawRows:
        """The raw rows that trees grow from; `ResourceError` if they are too many."""
        require("trees", "lightgbm")
        rows, values = row_count(table, self.ranker.values()["labelCol"]), self.ranker.values()
        label, row = (values["labelCol"], values["positiveLabel"]), ("weightCol", "keyCol")
        if rows > MOST_COMPARED_ROWS:
            raise ResourceError(
                f"found {rows} rows, expected at most {MOST_COMPARED_ROWS} to grow trees anew in "
                "each fold; set trees of a recipe, whose rows are left out of training"
            )
        sample = label_sample(
            *(table, features.raw, label, *(values[name] for name in row)),
            remedy="set trees to null",
            sample=None,
            rows=rows,
        )
        return RawRows(sample.columns, sample.y, sample.weight, sample.groups)

    def trained_again(self, table: Table, features: RawFeatures, summary: TrainingSummary) -> Any:
        """The recipe and the ranker of more rows, with the candidate and penalty of a fit.

        Trees that grew from all rows of the fit grow again.

        Parameters
        ----------
        table
            The rows.
        features
            The features of their rows by the recipe of the fit.
        summary
            Of the ranker of the fit.
        """
        methods, recipe = (summary.selection or {})["methods"], features.recipe
        chosen, candidates = (
            methods["candidates"][methods["chosen"]],
            {c.name: c for c in CANDIDATES},
        )
        candidate = candidates.get(chosen["name"])
        if candidate and recipe.trees:
            raw = self._raw_rows(table, features)
            recipe = replace(recipe, trees=candidate.grow(raw, recipe.trees.types))
        features = replace(features, recipe=recipe).for_training(of_fit=True, by_values=True)
        return recipe, self._trained(table, features, chosen["loss"], summary.candidate)

    def _trained(
        self,
        table: Table,
        features: RawFeatures,
        loss: str,
        penalty: Candidate,
    ) -> Any:
        """A candidate, trained with its penalty on all rows that it may train on."""
        values: dict[str, Any] = dict(self.ranker.values())
        shared = {name: values[name] for name in _SHARED if values[name] is not None}
        kind: Any = self.HINGE if loss == "hinge" else type(self.ranker)
        estimator = kind(regParam=penalty.regParam, standardization=False, **shared)
        # The key says which rows grew trees.
        columns = estimator.resolved(table, features, values["keyCol"])
        rows, curves = TableRows.of(table, columns), features.recipe.curves

        def linear(rows: RowSource) -> TrainingResult:
            if loss == "hinge":
                settings = HingeSettings(penalty.regParam, standardize=False, curves=curves)
                return train_hinge(rows, replace(settings, smoothness=penalty.smoothness))
            of_squared = TrainingSettings(standardize=False, curves=curves).of(penalty)
            return train(rows, replace(of_squared, chosen=False))

        if penalty.trees is None:
            result = linear(rows)
        else:
            result = train_grown(rows, features.recipe, penalty, linear)
        return estimator.made(result, columns)
