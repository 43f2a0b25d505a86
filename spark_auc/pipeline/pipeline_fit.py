"""Fits raw rows to scores: a recipe, embeddings and a ranker, in this order."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

import numpy as np

from spark_auc.errors import ConfigError, ConvergenceError, HoldOutError, ResourceError
from spark_auc.pipeline.ranker_fit import RankerFit
from spark_auc.pipeline.recipe_estimator import RecipeFit, RecipeModel
from spark_auc.pipeline.recipe_ranker import (
    check_choices,
    named_by_tokens,
    recipe_for,
    suited,
    with_head,
)
from spark_auc.pipeline.same_rows import SameRows
from spark_auc.pipeline.tree_settings import grows_from_all
from spark_auc.solvers.candidates import simplest, standard_error
from spark_auc.tables.features import Features
from spark_auc.tables.rows import counted
from spark_auc.tables.table import Table

M = TypeVar("M")

_log = logging.getLogger(__name__)

# Most pairs of columns that are tried, and most rows of which they are.
_PAIRS, _MOST_PAIRED_ROWS = 20, 250_000


def default_recipe(trees: Mapping[str, Any] | None) -> dict[str, Any]:
    """Settings of the recipe of a table of which nothing is known, beside those of its trees."""
    crosses = {} if grows_from_all(trees) else {"crosses": "auto"}
    return {"numKnots": "auto", "pairs": "auto", **crosses}


class EmbeddingModel(Protocol):
    """A fitted embedding, as the pipeline sees it."""

    def features(self, inner: Features) -> Features:
        """The embedding of features."""
        ...


class PipelineFit:
    """Fits a recipe, embeddings and a ranker; see `spark_auc.RankerPipeline`.

    Parameters
    ----------
    stages
        A recipe or none, embeddings, and a ranker.

    Raises
    ------
    ConfigError
        The stages are others, or in another order.
    """

    recipe: RecipeFit | RecipeModel | None
    embeddings: list[Any]
    _ranker: RankerFit | None

    def _take(self, stages: Sequence[Any]) -> None:
        """Take the stages; errors as of the class."""
        names = [type(stage).__name__ for stage in stages]
        rest = list(stages)
        first = rest[0] if rest else None
        is_recipe = isinstance(first, RecipeFit) or hasattr(first, "replaced")
        recipe = rest.pop(0) if is_recipe else None
        ranker = rest.pop() if rest else None
        embeds = all(hasattr(stage, "fitted_before") for stage in rest)
        if not isinstance(ranker, RankerFit) or not embeds:
            raise ConfigError(
                f"found stages {names}, expected a FeatureRecipe or none, embeddings, and an "
                "estimator of a linear ranker; change the stages"
            )
        self.recipe, self.embeddings, self._ranker = recipe, rest, ranker

    @property
    def ranker(self) -> RankerFit:
        """What fits the ranker."""
        assert self._ranker is not None, "a pipeline has stages"
        return self._ranker

    @property
    def learner(self) -> RankerFit:
        """The ranker as it is fitted: for rows of unit length without standardization."""
        return self.ranker if self.embeddings else suited(self.ranker, self.recipe)

    def pipeline_model(
        self, ranker: Any, recipe: RecipeModel | None, embeddings: Sequence[Any] = ()
    ) -> Any:
        """The model of the fitted stages."""
        raise NotImplementedError

    def check(self) -> None:
        """`ConfigError` where settings of a stage contradict each other or the ranker's."""
        if isinstance(self.recipe, RecipeFit):
            self.recipe.check()
        for stage in [*self.embeddings, self.learner]:
            stage.check()
        if isinstance(self.recipe, RecipeFit):
            check_choices(self.recipe, self.learner)
        SameRows.of(self.recipe, self.embeddings, self.ranker)

    def fitted(self, table: Table) -> Any:
        """Fit the stages to the rows of a table.

        Raises
        ------
        ConfigError
            Settings contradict each other, or a column cannot serve.
        DataError
            A value cannot be used, or there are not two classes.
        ResourceError
            Memory does not suffice.
        ConvergenceError
            A solver did not reach its tolerance.
        """
        self.check()
        if same_rows := SameRows.of(self.recipe, self.embeddings, self.ranker):
            fitted, ranker = same_rows.fitted(table)
            return self.named(table, self.pipeline_model(ranker, fitted))
        if self.learner is not self.ranker:
            _log.info("standardization is false: the recipe gives rows of unit length")
        recipe = self.fitted_recipe(table, self.ranker.factors)
        model = self._fitted(table, recipe)
        if isinstance(self.recipe, RecipeFit) and self.recipe.values()["pairs"] == "auto":
            assert recipe is not None, "a recipe of these settings"
            _, model = self._with_pairs(table, self.recipe, recipe, model, {})
        return self.named(table, model)

    def recipe_with_pairs(self, table: Table, given: Mapping[str, Any]) -> RecipeModel | None:
        """The recipe, fitted to the rows, with pairs that rank held-out rows better.

        The pairs of more rows than are compared are those of a sample, uncompared.

        Parameters
        ----------
        table
            The rows.
        given
            Further settings of the ranker that compares them.
        """
        recipe = self.fitted_recipe(table, given.get("smoothness"))
        if not isinstance(self.recipe, RecipeFit) or self.recipe.values()["pairs"] != "auto":
            return recipe
        assert recipe is not None, "a recipe of these settings"
        try:
            if counted(table, self.ranker.values()["labelCol"]) > _MOST_PAIRED_ROWS:
                return self._paired(table, self.recipe, recipe)
            model = self._fitted(table, recipe, given=given)
        except (ConvergenceError, HoldOutError, ResourceError) as error:
            _log.warning("pairs of columns are left out: %s", error)
            return recipe
        return self._with_pairs(table, self.recipe, recipe, model, given)[0]

    def _paired(self, table: Table, estimator: RecipeFit, recipe: RecipeModel) -> RecipeModel:
        """The recipe with pairs of numeric columns that a sample of the rows chooses."""
        values = self.ranker.values()
        label = values["labelCol"], values["positiveLabel"]
        row = values.get("weightCol"), values.get("keyCol")
        return estimator.paired(table, recipe, _PAIRS, label, *row)

    def _with_pairs(
        self,
        table: Table,
        estimator: RecipeFit,
        recipe: RecipeModel,
        model: Any,
        given: Mapping[str, Any],
    ) -> tuple[RecipeModel, Any]:
        """The recipe and pipeline with pairs of numeric columns, if they rank held-out rows better.

        Rows that choose pairs are never held out. The pipelines with and without pairs are compared
        on the same folds of the other rows.
        """
        summary = model.ranker.summary
        rows = sum(summary.rows.values())
        if rows > _MOST_PAIRED_ROWS:
            _log.info(
                "no pairs of columns are tried of %d rows, more than %d; set pairs to a number to "
                "try them",
                *(rows, _MOST_PAIRED_ROWS),
            )
            return recipe, model
        try:
            paired = self._paired(table, estimator, recipe)
            if not (pairs := paired.recipe.pairs):
                return recipe, model
            alone = paired.replaced(replace(paired.recipe, pairs=()), paired.drift)
            # Choosing it once more takes four times as long.
            fixed = {**given, "smoothness": summary.smoothness}
            if summary.smoothness is not None and self.learner.with_values(**fixed).selects:
                given = fixed
            models = [self._fitted(table, each, True, given) for each in (alone, paired)]
        except (ConvergenceError, HoldOutError, ResourceError) as error:
            _log.warning("pairs of columns are left out: %s", error)
            return recipe, model
        selections = [made.ranker.summary.selection for made in models]
        if not all(selections):
            _log.info("no pairs of columns are tried: a single penalty, and no curves to smooth")
            return recipe, model
        auc = np.array([one["candidates"][one["chosen"]]["folds"] for one in selections])
        is_better = simplest(auc) == 1
        told = {
            "names": [[column.name for column in pair.columns] for pair in pairs],
            "chosen": is_better,
            "auc": auc.mean(axis=1).tolist(),
            "standardError": float(standard_error(auc[1] - auc[0])),
        }
        _log.info(
            "%s %d pairs of columns: mean AUC of held-out folds %.4f without and %.4f with them, "
            "standard error of the difference %.4f",
            *("chose" if is_better else "left out", len(pairs), *told["auc"]),
            told["standardError"],
        )
        recipe, chosen = (paired, models[1]) if is_better else (recipe, model)
        selection = chosen.ranker.summary.selection | {"pairs": told}
        summary = replace(chosen.ranker.summary, selection=selection)
        return recipe, chosen.with_ranker(chosen.ranker.with_summary(summary))

    def _fitted(
        self,
        table: Table,
        recipe: RecipeModel | None = None,
        by_values: bool = False,
        given: Mapping[str, Any] = MappingProxyType({}),
    ) -> Any:
        """The pipeline of a recipe, with further settings of the ranker; see `RawFeatures`."""
        features: Features | None = None
        if recipe:
            rows = recipe.input_features(table)
            features = rows.for_training(of_fit=recipe is not self.recipe, by_values=by_values)
        embeddings, key = [], self.ranker.values().get("keyCol")
        for stage in self.embeddings:
            features = features or stage.input_features(table)
            embeddings.append(stage.fitted_before(table, features, key))
            features = embeddings[-1].features(features)
        ranker = self.learner.with_values(**given).fitted(table, features)
        # The head of embedded features is not of the recipe's.
        recipe = recipe if embeddings else with_head(recipe, ranker)
        return self.pipeline_model(ranker, recipe, embeddings)

    def named(self, table: Table, model: M) -> M:
        """The pipeline with tokens as names of hashed features, if the recipe asks for them."""
        if not isinstance(self.recipe, RecipeFit) or not self.recipe.values()["tokenNames"]:
            return model
        made: Any = model
        named: M = made.with_ranker(named_by_tokens(table, made.features(table), made.ranker))
        return named

    def fitted_recipe(self, table: Table, smoothness: object = None) -> RecipeModel | None:
        """The recipe, fitted to the rows unless it is fitted; None without one.

        With a ``smoothness`` the roughness of its curves has a penalty.
        """
        if self.recipe is None:
            return None
        return recipe_for(self.ranker, table, self.recipe, is_smooth=bool(smoothness))
