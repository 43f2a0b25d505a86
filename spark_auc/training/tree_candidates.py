"""Candidate models whose trees grow from the rows that train them, measured on held-out folds.

In every fold the trees grow anew from the rows of the other folds, so that no held-out row has
grown a tree. They rank as they are, or their scores are added to those of a linear model: trees and
linear models err on different rows, and their sum ranks better than either on most tables.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from spark_auc.core.batch import Batch
from spark_auc.core.evaluation.chosen_auc import deviations
from spark_auc.core.moments.operator import column_moments
from spark_auc.core.parallel import cpus
from spark_auc.core.products import settled_product
from spark_auc.core.row_source import ArrayRows, RowSource, batchwise
from spark_auc.core.sampling.folds import Folds
from spark_auc.core.types import Float, Int
from spark_auc.features.kinds.leaves import TreeLeaves
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_blocks import blocks_of
from spark_auc.features.tree_growth import grown
from spark_auc.solvers.candidates import Candidate, Selection, choice
from spark_auc.training.blocks import LEAVES
from spark_auc.training.costs import CountedWork
from spark_auc.training.fold_rows import to_columns
from spark_auc.training.method_result import MethodResult
from spark_auc.training.prior import Prior
from spark_auc.training.raw_rows import RawRows
from spark_auc.training.result import TrainingResult
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.train import train
from spark_auc.training.trials import TRIED, OutdoneError, raise_if_outdone

_log = logging.getLogger(__name__)

# Rows whose features are in memory at once for their scores.
_AT_ONCE = 8_192
# Shares of the trees in a sum with a linear model, each of whose scores has unit variance.
_SHARES = 0.25, 0.5, 0.75


@dataclass(frozen=True)
class TreeCandidate:
    """A model of trees: their growth, and whether a linear model is added.

    Parameters
    ----------
    trees, leaves, rate, share, leaf_rows, extra
        Number of trees, most leaves of a tree, learning rate, share of the columns of a tree, least
        number of rows of a leaf, and whether thresholds are random; see
        `spark_auc.trees.grow.grow`.
    beside
        Whether the scores of the best linear model are added.
    """

    trees: int
    leaves: int
    rate: float
    share: float = 1.0
    leaf_rows: int = 20
    extra: bool = False
    beside: bool = False

    @property
    def name(self) -> str:
        """The name in reports."""
        kind = "random trees" if self.extra else "trees"
        name = f"{self.trees} {kind} of {self.leaves} leaves"
        return f"{name} + linear" if self.beside else name

    def grow(self, rows: RawRows, types: Mapping[str, str]) -> TreeLeaves:
        """The trees of some rows.

        Parameters
        ----------
        rows
            The rows.
        types
            Types of the columns that trees may split, by name.

        Raises
        ------
        DataError
            The rows are of one class, or a column has another type.
        MissingPackageError
            LightGBM is not installed.
        """
        return grown(
            *(rows.columns, types, rows.y, rows.weight),
            sample=None,
            groups=rows.groups,
            threads=cpus(),
            statistics=True,
            numTrees=self.trees,
            numLeaves=self.leaves,
            learningRate=self.rate,
            columnShare=self.share,
            leafRows=self.leaf_rows,
            extraTrees=self.extra,
        )

    def work(self, work: CountedWork, columns: int) -> float:
        """Seconds of counted work to grow its trees in every fold from some columns."""
        return work.trees(self.trees, self.leaves, self.share * columns)

    def result(self, linear: MethodResult | None = None) -> MethodResult:
        """The candidate before it is measured, beside a linear model."""
        if not self.beside or linear is None:
            return MethodResult(self.name, (LEAVES,), "squared", 0)
        return MethodResult(self.name, (*linear.blocks, LEAVES), linear.loss, linear.dimension)


# From small to large, each alone and beside the linear model.
CANDIDATES = tuple(
    replace(growth, beside=beside)
    for growth in (
        TreeCandidate(200, 15, 0.1, share=0.8, leaf_rows=10, extra=True),
        TreeCandidate(400, 15, 0.05, share=0.5),
        TreeCandidate(400, 63, 0.05, share=0.8, leaf_rows=50),
    )
    for beside in (False, True)
)


def measured(
    candidates: Sequence[TreeCandidate],
    rows: RawRows,
    types: Mapping[str, str],
    folds: Folds,
    recipe: Recipe,
    linear: MethodResult | None = None,
    budget: float = math.inf,
) -> list[MethodResult]:
    """The held-out AUC of each candidate on each fold, by the share of the trees.

    A candidate is left out after two folds if it is behind the best one before it on both. It is
    not measured if its counted work is more than what is left of the budget.

    Parameters
    ----------
    candidates
        The candidates.
    rows
        All rows.
    types
        Types of the columns that trees may split, by name.
    folds
        The balanced folds; the rows of no fold train in all folds.
    recipe
        The recipe whose features the weights of the linear model are for.
    linear
        The best linear model, measured on the same folds, with its weights. Default: there is
        none, and no candidate is beside it.
    budget
        Seconds of counted work; see `spark_auc.training.costs.CountedWork`. Default: no limit.

    Raises
    ------
    DataError
        A fold has rows of one class, or a column has another type.
    MissingPackageError
        LightGBM is not installed.
    """
    fold = folds.of(Batch(np.empty((rows.y.size, 0)), rows.y, rows.weight, group=rows.groups))
    halves = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(folds.count)]
    others = np.empty((rows.y.size, 0))
    if linear and any(candidate.beside for candidate in candidates):
        others = _scores(recipe, rows, linear.embedded(recipe.size))

    @cache
    def leaves_in(growth: TreeCandidate, k: int) -> tuple[TreeLeaves, Float]:
        """The trees of the other folds' rows, and their scores ``(n, 1)`` of all rows."""
        trees = growth.grow(rows.take(halves[k][0]), types)
        alone = Recipe(trees=trees, unit=False)
        values = trees.forest.values[:, None]
        return trees, _scores(alone, rows, values)

    results, rival, grown = list[MethodResult](), linear, set[TreeCandidate]()
    work = CountedWork(rows.y.size, folds.count, budget=budget)
    for candidate in candidates:
        start, growth = time.process_time(), replace(candidate, beside=False)
        counted = 0.0 if growth in grown else growth.work(work, len(types))
        if reason := work.without(counted):
            results.append(candidate.result(linear).without(reason))
            _log.info("%s is left out: %s", candidate.name, reason)
            continue
        work = work.left(counted)
        grown.add(growth)
        trees = (leaves_in(growth, k) for k in range(folds.count))
        result = _measured(candidate, rows, halves, trees, others, linear, rival)
        seconds = time.process_time() - start
        results.append(replace(result, seconds=seconds, work=counted))
        told = result.left_out or f"mean AUC {result.auc.mean():.4f}"
        _log.info("measured %s in %.1f s: %s", result.name, seconds, told)
        if result.selection and (rival is None or result.auc.mean() > rival.auc.mean()):
            rival = result
    return results


def _measured(
    candidate: TreeCandidate,
    rows: RawRows,
    halves: Sequence[tuple[Int, Int]],
    trees: Iterable[tuple[TreeLeaves, Float]],
    others: Float,
    linear: MethodResult | None,
    rival: MethodResult | None,
) -> MethodResult:
    """The AUC of each share of the trees on each fold, with the trees of the other folds' rows."""
    result, shares = candidate.result(linear), np.ones(1)
    beside = Candidate(0.0, 0.0)
    if candidate.beside and linear and linear.selection:
        shares, beside = np.array(_SHARES), linear.selection.candidate
    penalties = [replace(beside, trees=float(share)) for share in shares]
    aucs, nonzeros, added = list[Float](), list[int](), list[Float | str]()
    for k, ((fit, test), (leaves, alone)) in enumerate(zip(halves, trees, strict=True)):
        if leaves.forest.leaves == leaves.forest.trees:
            return result.without(f"its trees have no split in fold {k + 1}")
        scores, dimension = alone, leaves.size
        nonzero = int(np.count_nonzero(leaves.forest.values))
        if candidate.beside and linear:
            both, train = np.hstack([others[:, k : k + 1], alone]), rows.take(fit)
            columns = ArrayRows((Batch(both[fit], train.y, train.weight),), 2)
            deviation = column_moments(columns).standard_deviation()
            scores = (both / deviation) @ [1 - shares, shares]
            dimension += linear.dimension
            nonzero += int(np.count_nonzero(linear.weights[k]))
        result, held_out = replace(result, dimension=dimension), rows.take(test)
        labels = held_out.y, held_out.weight, held_out.groups
        own, part = deviations(scores[test], *labels)
        aucs.append(own)
        added.append(part)
        nonzeros.append(nonzero)
        if rival and k + 1 == TRIED < len(halves):
            try:
                raise_if_outdone(np.stack(aucs, axis=1), rival)
            except OutdoneError as found:
                return result.without(str(found))
    auc, counts = np.stack(aucs, axis=1), np.full(shares.size, np.mean(nonzeros))
    best = choice(penalties, auc, one_standard_error=False)
    selection = Selection(tuple(penalties), auc, 0.0, counts, (None,) * shares.size, best)
    unknown = next((part for part in added if isinstance(part, str)), None)
    known = [part for part in added if not isinstance(part, str)]
    return result.measured(selection, known if unknown is None else unknown)


def _scores(recipe: Recipe, rows: RawRows, W: Float) -> Float:
    """Scores ``(n, l)`` by weights ``(d, l)``; the features of few rows are in memory at once."""
    parts = np.split(np.arange(rows.y.size), range(_AT_ONCE, rows.y.size, _AT_ONCE))
    return np.concatenate(
        [settled_product(recipe.transform(rows.take(part).columns), W) for part in parts]
    )


def train_grown(
    rows: RowSource,
    recipe: Recipe,
    penalty: Candidate,
    linear: Callable[[RowSource], TrainingResult],
) -> TrainingResult:
    """Train a candidate on the rows that grew its trees: they stay as they are, up to one factor.

    Parameters
    ----------
    rows
        The rows, with the features of the candidate's recipe.
    recipe
        The recipe, with trees of these rows.
    penalty
        The share of the trees, and the penalty of the linear model, that the folds chose.
    linear
        Trains the linear model on rows of its features.

    Raises
    ------
    DataError
        A value is unusable, or all rows are of one class.
    ResourceError
        The moments do not fit in memory.
    ConvergenceError
        The solver did not reach its tolerance.
    """
    assert penalty.trees is not None, "a candidate of trees"
    parts = np.zeros((recipe.size, 2))
    parts[:, 1] = Prior.of_trees(recipe).w
    if penalty.trees < 1:
        others = np.setdiff1d(np.arange(recipe.size), blocks_of(recipe)[LEAVES])
        parts[others, 0] = linear(rows.changed(*to_columns(others))).w

    def scored(W: Float) -> RowSource:
        def score(batch: Batch) -> Batch:
            return batch._replace(X=settled_product(batch.X, W))

        return rows.changed(batchwise(score), W.shape[1])

    deviation = column_moments(scored(parts)).standard_deviation()
    w = (parts / deviation) @ [1 - penalty.trees, penalty.trees]
    result = train(scored(w[:, None]), TrainingSettings(reg_params=(0.0,), standardize=False))
    w = float(result.w[0]) * w
    return replace(result, w=w, columns=column_moments(rows), penalty=penalty)
