"""Fits raw rows to scores: a recipe, embeddings and a ranker, in this order."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from spark_auc.errors import ConfigError, ConvergenceError, ResourceError
from spark_auc.pipeline.ranker_fit import RankerFit
from spark_auc.pipeline.recipe_estimator import RecipeFit, RecipeModel
from spark_auc.pipeline.recipe_ranker import (
    check_knots,
    named_by_tokens,
    recipes_for,
    suited,
    with_head,
)
from spark_auc.pipeline.same_rows import SameRows
from spark_auc.tables.features import Features
from spark_auc.tables.table import Table
from spark_auc.training.knots import KnotSelection

_log = logging.getLogger(__name__)

# Numbers of knots to choose from: linear effects, the default, and effects that take many rows.
KNOTS = (2, 16, 48)


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
            check_knots(self.recipe, self.learner)
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
        recipes = self.recipes(table)
        if len(recipes) > 1:
            model = self._chosen(table, recipes)
        else:
            model = self._fitted(table, next(iter(recipes.values()), None))
        return self.named(table, model)

    def _chosen(self, table: Table, recipes: Mapping[int, RecipeModel]) -> Any:
        """The pipeline of the recipe whose penalty ranks held-out rows best."""
        selection, best, failure = KnotSelection(), None, None
        for count, recipe in recipes.items():
            try:
                model = self._fitted(table, recipe, by_values=True)
            except (ConvergenceError, ResourceError) as error:
                _log.warning("%d knots are left out: %s", count, error)
                selection.leave_out(count, str(error))
                failure = error
                continue
            if selection.add(count, model.ranker.summary.selection or {}):
                best = model
            _log.info("%s", selection.sentence(-1))
        if best is None:
            assert failure is not None
            raise failure
        chosen = selection.as_dict()
        _log.info("chose %s", selection.sentence(chosen["chosen"]))
        summary = best.ranker.summary
        both = (summary.selection or {}) | {"numKnots": chosen}
        return best.with_ranker(best.ranker.with_summary(replace(summary, selection=both)))

    def _fitted(
        self,
        table: Table,
        recipe: RecipeModel | None = None,
        by_values: bool = False,
    ) -> Any:
        """The pipeline of a recipe; see `RawFeatures` for ``by_values``."""
        features: Features | None = None
        if recipe:
            rows = recipe.input_features(table)
            features = rows.for_training(of_fit=recipe is not self.recipe, by_values=by_values)
        embeddings, key = [], self.ranker.values().get("keyCol")
        for stage in self.embeddings:
            features = features or stage.input_features(table)
            embeddings.append(stage.fitted_before(table, features, key))
            features = embeddings[-1].features(features)
        ranker = self.learner.fitted(table, features)
        # The head of embedded features is not of the recipe's.
        recipe = recipe if embeddings else with_head(recipe, ranker)
        return self.pipeline_model(ranker, recipe, embeddings)

    def named(self, table: Table, model: Any) -> Any:
        """The pipeline with tokens as names of hashed features, if the recipe asks for them."""
        if not isinstance(self.recipe, RecipeFit) or not self.recipe.values()["tokenNames"]:
            return model
        return model.with_ranker(named_by_tokens(table, model.features(table), model.ranker))

    def recipes(self, table: Table) -> dict[int, RecipeModel]:
        """The recipes by number of knots, fitted to the rows unless the recipe is fitted."""
        return {} if self.recipe is None else recipes_for(self.ranker, table, self.recipe)
