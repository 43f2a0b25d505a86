"""The choice among models of raw tables, as the job train makes it by ``method: auto``.

The parts are those of `spark_auc.pipeline.method_fit.MethodFit`, on rows in memory: the
automatic recipe, pairs of numeric columns and crosses of columns of text that half of the rows
choose, the candidates of `compare_methods`, and trees that all rows grow. Groups are rows of equal
values. A choice is "auto"; the rows of candidates have their held-out AUC. "same rows, k" and
"trees, k" are the test AUC of the trees of a growth, weighted by the rows that grew them and as
they are, on the first `SAME_ROWS` splits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score  # type: ignore[import-untyped]

from experiments.past_sets import Rows
from spark_auc.core.batch import Batch
from spark_auc.core.row_source import ArrayRows
from spark_auc.core.sampling.folds import Folds
from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.core.types import Float
from spark_auc.features.raw_columns import taken, type_of
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_auto import AutoPlan
from spark_auc.features.recipe_blocks import blocks_of, of_blocks
from spark_auc.features.row_groups import row_groups
from spark_auc.training.crosses import categorical, with_crosses
from spark_auc.training.method_choice import compare_methods
from spark_auc.training.method_result import MethodResult
from spark_auc.training.pairs import with_pairs
from spark_auc.training.prior import Prior
from spark_auc.training.ranksvm import train_hinge
from spark_auc.training.raw_rows import RawRows
from spark_auc.training.settings import HingeSettings, MethodSettings, TrainingSettings
from spark_auc.training.train import train
from spark_auc.training.tree_candidates import (
    GROWTHS,
    TreeCandidate,
    measured,
    train_grown,
    tree_candidates,
)

KNOTS, PAIRS, CROSSED = 16, 20, range(2, 17)
SAME_ROWS = 5
CHOOSING = KeySample(0.5)
AUTO = "auto"


def recipe_of(rows: RawRows, recipe: Recipe) -> Recipe:
    """The recipe with the pairs and crosses that half of the rows choose."""
    inside = np.flatnonzero(CHOOSING.of(rows.groups))
    half = taken(rows.columns, inside), rows.y[inside], None, rows.groups[inside]
    if len(recipe.numeric) > 1:
        recipe = with_pairs(recipe, *half, count=PAIRS, chosen_by=CHOOSING)
    if len(categorical(recipe)) in CROSSED:
        recipe = with_crosses(recipe, *half, chosen_by=CHOOSING, rows=rows.y.size)
    return recipe


class Choice:
    """The candidates of training rows, measured on folds."""

    def __init__(self, rows: Rows, seed: int) -> None:
        plan = AutoPlan.of_schema(
            {name: type_of(name, column) for name, column in rows.columns.items()},
            knots=KNOTS,
            unit=False,
        )
        _, recipe, _ = plan.resolved(plan.fold([(rows.columns, rows.y)]))
        columns = {c.name: rows.columns[c.name] for c in recipe.own_columns}
        self.rows = RawRows(columns, rows.y, None, row_groups(columns))
        self.types = {c.name: c.type for c in recipe.own_columns}
        self.recipe = recipe_of(self.rows, recipe)
        settings = MethodSettings(Folds(5, seed, never_held_out=self.recipe.chosen_by))
        comparison = compare_methods(self._source(self.recipe), blocks_of(self.recipe), settings)
        self.trees = {each.name: each for each in tree_candidates(self.recipe)}
        grown = measured(list(self.trees.values()), self.rows, self.types, comparison.folds)
        comparison = comparison.with_results(grown)
        self.results = comparison.results
        self.chosen = comparison.results[comparison.chosen]

    def _source(self, recipe: Recipe) -> ArrayRows:
        X = recipe.transform(self.rows.columns)
        return ArrayRows((Batch(X, self.rows.y, None, group=self.rows.groups),), recipe.size)

    def trained(self, result: MethodResult) -> tuple[Recipe, Float]:
        """The recipe and the weights of a candidate, of all rows."""
        if result.name in self.trees:
            return self.weighted(self.trees[result.name], result)
        recipe = of_blocks(self.recipe, result.blocks)
        assert result.selection
        penalty = result.selection.candidate.regParam
        if result.loss == "hinge":
            settings = HingeSettings(penalty, standardize=False)
            return recipe, train_hinge(self._source(recipe), settings).w
        squared = TrainingSettings(reg_params=(penalty,), standardize=False)
        return recipe, train(self._source(recipe), squared).w

    def weighted(self, candidate: TreeCandidate, result: MethodResult) -> tuple[Recipe, Float]:
        """The recipe and the weights of trees, with the penalty that the folds chose."""
        assert result.selection
        recipe = candidate.recipe(candidate.grow(self.rows, self.types))
        penalty, prior = result.selection.candidate, Prior.of_trees(recipe)
        return recipe, train_grown(self._source(recipe), candidate, penalty, prior).w


def results(train_rows: Rows, test: Rows, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """The result of each candidate, of trees of the same rows, and of the choice."""

    def auc(recipe: Recipe, w: Float) -> float:
        columns = {c.name: test.columns[c.name] for c in recipe.columns}
        return round(100 * float(roc_auc_score(test.y, recipe.transform(columns) @ w)), 4)

    began = time.process_time()
    choice = Choice(train_rows, seed)
    test_auc = auc(*choice.trained(choice.chosen))
    seconds = round(time.process_time() - began, 2)
    for each in choice.results:
        told = {"seconds": round(each.seconds, 2), "dimension": each.dimension}
        if each.selection:
            yield each.name, {**told, "heldOut": round(100 * float(each.auc.mean()), 4)}
        else:
            yield each.name, {**told, "leftOut": each.left_out}
    by_name = {each.name: each for each in choice.results}
    for growth in GROWTHS if seed < SAME_ROWS else ():
        if not growth.as_grown and by_name[growth.name].selection:
            recipe, w = choice.weighted(growth, by_name[growth.name])
            yield f"same rows, {growth.trees}", {"auc": auc(recipe, w)}
            yield f"trees, {growth.trees}", {"auc": auc(recipe, Prior.of_trees(recipe).w)}
    yield AUTO, {"auc": test_auc, "seconds": seconds, "chosen": choice.chosen.name}
