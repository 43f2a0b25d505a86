"""Fits raw rows to scores: a recipe, embeddings and a ranker, in this order."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from spark_auc.errors import ConfigError, ConvergenceError, HoldOutError, ResourceError
from spark_auc.features.recipe_blocks import blocks_of
from spark_auc.pipeline.compared_blocks import compared
from spark_auc.pipeline.ranker_fit import FoldsFit, RankerFit
from spark_auc.pipeline.recipe_estimator import RecipeFit, RecipeModel
from spark_auc.pipeline.recipe_ranker import (
    check_choices,
    named_by_tokens,
    recipe_for,
    reduced,
    suited,
    with_head,
)
from spark_auc.pipeline.same_rows import SameRows
from spark_auc.pipeline.tree_settings import grows_from_all
from spark_auc.tables.features import Features
from spark_auc.tables.table import Table
from spark_auc.tables.tally import row_count
from spark_auc.training.blocks import ADDITIVE, CROSSES, LEAVES, PAIRS
from spark_auc.training.method_result import MethodComparison

M = TypeVar("M")

_log = logging.getLogger(__name__)

_BLOCKS = frozenset({ADDITIVE, PAIRS, CROSSES, LEAVES})
# Most pairs of columns that are tried.
_PAIRS = 60
# Most rows of which features and trees are compared.
MOST_COMPARED_ROWS = 250_000


def default_recipe(trees: Mapping[str, Any] | None) -> dict[str, Any]:
    """Settings of the recipe of a table of which nothing is known, beside those of its trees."""
    crosses = {} if grows_from_all(trees) else {"crosses": "auto"}
    return {"numKnots": "auto", "pairs": "auto", **crosses}


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
            _log.info("standardization is false: features of a recipe have a common scale")
        compares = bool(self._free) and self.compares(table)
        recipe = self.fitted_recipe(table, candidates=compares)
        if recipe is None or not compares:
            return self.fitted_with(table, recipe)
        recipe, comparison = self._compared(table, recipe)
        model = self._fitted(table, recipe)
        summary = model.ranker.summary
        if comparison is not None and summary.selection:
            selection = summary.selection | {"methods": comparison.as_dict()}
            ranker = model.ranker.with_summary(replace(summary, selection=selection))
            model = model.with_ranker(ranker)
        return self.named(table, model)

    def fitted_with(self, table: Table, recipe: RecipeModel | None) -> Any:
        """The pipeline of a fitted recipe as it is; errors as of `fitted`."""
        return self.named(table, self._fitted(table, recipe))

    @property
    def _free(self) -> list[str]:
        """The blocks of features that folds may leave out."""
        if not isinstance(self.recipe, RecipeFit) or not self.ranker.selects:
            return []
        values = self.recipe.values()
        return [name for name in (PAIRS, CROSSES) if values[name] == "auto"]

    def compares(self, table: Table) -> bool:
        """Whether the rows are few enough for comparisons of features, which the log says."""
        rows = row_count(table, self.ranker.values()["labelCol"])
        if rows > MOST_COMPARED_ROWS:
            _log.info(
                "no pairs of columns are tried of %d rows, more than %d; set pairs to a number to "
                "try them",
                *(rows, MOST_COMPARED_ROWS),
            )
        return rows <= MOST_COMPARED_ROWS

    def _compared(
        self, table: Table, whole: RecipeModel
    ) -> tuple[RecipeModel, MethodComparison | None]:
        """The recipe with the free blocks that rank held-out rows better, and the comparison."""
        plain = whole.replaced(replace(whole.recipe, unit=False), whole.drift)
        blocks = blocks_of(plain.recipe)
        free = {name: blocks.pop(name) for name in self._free if name in blocks}
        if not free:
            return whole, None
        fixed = tuple(blocks)
        blocks = {ADDITIVE: np.sort(np.concatenate([*blocks.values()])), **free}
        features = plain.input_features(table).for_training(of_fit=True, by_values=True)
        assert isinstance(self.ranker, FoldsFit), "a ranker that chooses a penalty"
        try:
            comparison = compared(table, self.ranker, features, blocks, False)
        except (ConvergenceError, HoldOutError, ResourceError) as error:
            _log.warning("pairs and crosses of columns are left out: %s", error)
            return reduced(whole, _BLOCKS.difference(self._free)), None
        left_out = [name for name in free if name not in comparison.choice.blocks]
        return reduced(whole, _BLOCKS.difference(left_out)), comparison.beside(fixed)

    def _fitted(self, table: Table, recipe: RecipeModel | None = None) -> Any:
        """The pipeline of a recipe."""
        features: Features | None = None
        if recipe:
            rows = recipe.input_features(table)
            features = rows.for_training(of_fit=recipe is not self.recipe)
        embeddings, key = [], self.ranker.values().get("keyCol")
        for stage in self.embeddings:
            features = features or stage.input_features(table)
            embeddings.append(stage.fitted_before(table, features, key))
            features = embeddings[-1].features(features)
        ranker = self.learner.fitted(table, features)
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

    def fitted_recipe(self, table: Table, *, candidates: bool) -> RecipeModel | None:
        """The recipe, fitted to the rows unless it is fitted; None without one.

        Where it says ``pairs: auto``, it has those that are ``candidates``, or none.
        """
        if self.recipe is None:
            return None
        most = _PAIRS if candidates and PAIRS in self._free else None
        return recipe_for(self.ranker, table, self.recipe, most)
