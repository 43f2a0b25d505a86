"""Candidate models whose trees grow from the rows that train them, measured on held-out folds.

In every fold the trees grow anew from the rows of the other folds, so that no held-out row has
grown a tree. The values of the leaves are the centre of the penalty, or 0 is: see
`spark_auc.training.same_rows`, which measures on a single fold.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from spark_auc.core.batch import Batch
from spark_auc.core.evaluation.chosen_auc import deviations
from spark_auc.core.evaluation.paired_auc import PairedAUC
from spark_auc.core.moments.operator import column_moments
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.parallel import cpus
from spark_auc.core.products import settled_product
from spark_auc.core.row_source import RowSource, batchwise
from spark_auc.core.sampling.folds import Folds
from spark_auc.core.types import Float, Int
from spark_auc.errors import ConvergenceError
from spark_auc.features.kinds.leaves import TreeLeaves
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_blocks import blocks_of, of_blocks
from spark_auc.features.tree_growth import grown
from spark_auc.solvers.candidates import Candidate, Selection, choice, ridge_grid
from spark_auc.training.blocks import LEAVES
from spark_auc.training.cross_validation import CrossValidation
from spark_auc.training.fold_rows import restricted
from spark_auc.training.method_result import MethodResult
from spark_auc.training.prior import Prior
from spark_auc.training.raw_rows import RawRows
from spark_auc.training.result import TrainingResult
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.train import train

_log = logging.getLogger(__name__)

# Above so many features, the moments of each fold cost more than all else: trees of more leaves
# rank as they are, and have no other features beside them.
_MOST_FEATURES = 3_000
# Folds after which a candidate is left out if it is behind the best one on each of them.
_TRIED = 2
# Rows whose features are in memory at once for their scores.
_AT_ONCE = 8_192


@dataclass(frozen=True)
class TreeCandidate:
    """A model of trees: their growth, and the features beside their leaves.

    Parameters
    ----------
    trees, leaves, rate, share, leaf_rows
        Number of trees, most leaves of a tree, learning rate, share of the columns of a tree, and
        least number of rows of a leaf; see `spark_auc.trees.grow.grow`.
    beside
        Whether there are other features beside the leaves.
    read_as
        Recipe of the other features, by which all columns are read. Default: numbers alone.
    """

    trees: int
    leaves: int
    rate: float
    share: float = 1.0
    leaf_rows: int = 20
    beside: bool = False
    read_as: Recipe | None = None

    @property
    def as_grown(self) -> bool:
        """Whether the values of the leaves are the weights, up to one factor."""
        return self.trees * self.leaves > _MOST_FEATURES

    @property
    def name(self) -> str:
        """The name in reports."""
        name = f"{self.trees} trees of {self.leaves} leaves, same rows"
        return f"{name} + other features" if self.beside else name

    @property
    def blocks(self) -> tuple[str, ...]:
        """Names of its blocks of features."""
        return (LEAVES, *(blocks_of(self.read_as) if self.beside and self.read_as else ()))

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
            numTrees=self.trees,
            numLeaves=self.leaves,
            learningRate=self.rate,
            columnShare=self.share,
            leafRows=self.leaf_rows,
        )

    def without(self, reason: str) -> MethodResult:
        """The candidate, left out for a reason before it was measured."""
        return MethodResult(self.name, self.blocks, "squared", 0, left_out=reason)

    def recipe(self, trees: TreeLeaves) -> Recipe:
        """The recipe of the leaves and of the features beside them."""
        recipe = replace(self.read_as or Recipe(trees=trees), trees=trees, unit=False)
        return recipe if self.beside else of_blocks(recipe, (LEAVES,))


# One factor of the trees' scores ranks as they do, whatever it is: there is no penalty.
_AS_GROWN = Candidate(0.0, 0.0, prior=True)
_SOLVER = CrossValidation(
    Folds.named(("the held-out rows",)),
    TrainingSettings().tol,
    TrainingSettings().max_iter,
    one_standard_error=False,
    at_once=1,
)
# Trees with other features beside their leaves.
_BESIDE = TreeCandidate(100, 15, 0.1)
# From small to large; the largest ones rank as they are.
GROWTHS = (
    TreeCandidate(60, 5, 0.1),
    _BESIDE,
    TreeCandidate(700, 7, 0.05, leaf_rows=100),
    TreeCandidate(400, 15, 0.05, share=0.5),
    TreeCandidate(400, 63, 0.05, share=0.8, leaf_rows=50),
)


def tree_candidates(recipe: Recipe) -> list[TreeCandidate]:
    """The candidates for rows with the features of a recipe beside the leaves."""
    candidates = [*GROWTHS, replace(_BESIDE, beside=True)]
    return [replace(candidate, read_as=recipe) for candidate in candidates]


def measured(
    candidates: Sequence[TreeCandidate],
    rows: RawRows,
    types: Mapping[str, str],
    folds: Folds,
    rival: MethodResult | None = None,
) -> list[MethodResult]:
    """The held-out AUC of each candidate's penalties on each fold.

    A candidate is left out after two folds if it is behind the best one before it on both.

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
    rival
        The best of other candidates, measured on the same folds. Default: there are none.

    Raises
    ------
    DataError
        A fold has rows of one class, or a column has another type.
    MissingPackageError
        LightGBM is not installed.
    """
    fold = folds.of(Batch(np.empty((rows.y.size, 0)), rows.y, rows.weight, group=rows.groups))
    halves = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(folds.count)]

    @cache
    def grown_in(growth: TreeCandidate, k: int) -> TreeLeaves:
        return growth.grow(rows.take(halves[k][0]), types)

    results = []
    for candidate in candidates:
        start, growth = time.process_time(), replace(candidate, beside=False)
        trees = (grown_in(growth, k) for k in range(folds.count))
        result = _measured(candidate, rows, halves, trees, rival)
        seconds = time.process_time() - start
        results.append(replace(result, seconds=seconds))
        told = result.left_out or f"mean AUC {result.auc.mean():.4f}"
        _log.info("measured %s in %.1f s: %s", result.name, seconds, told)
        if result.selection and (rival is None or result.auc.mean() > rival.auc.mean()):
            rival = result
    return results


def _measured(
    candidate: TreeCandidate,
    rows: RawRows,
    halves: Sequence[tuple[Int, Int]],
    trees: Iterable[TreeLeaves],
    rival: MethodResult | None,
) -> MethodResult:
    """The AUC of each penalty on each fold, with the trees of the other folds' rows."""
    result = MethodResult(candidate.name, candidate.blocks, "squared", 0)
    penalties: list[Candidate] = []
    left_out: list[str | None] = [None]
    aucs, nonzeros, added = list[Float](), list[Float](), list[Float | str]()
    for k, ((fit, test), leaves) in enumerate(zip(halves, trees, strict=True)):
        if leaves.forest.leaves == leaves.forest.trees:
            return result.without(f"its trees have no split in fold {k + 1}")
        recipe = candidate.recipe(leaves)
        prior, held_out = Prior.of_trees(recipe), rows.take(test)
        if candidate.as_grown:
            result, penalties = replace(result, dimension=recipe.size), [_AS_GROWN]
            W = prior.w[:, None]
        else:
            train = rows.take(fit)
            X = recipe.transform(train.columns)
            here = np.unique(X.indices)
            if here.size > _MOST_FEATURES:
                return result.without(
                    f"found {here.size} features, expected at most {_MOST_FEATURES}"
                )
            batch = restricted(here, Batch(X, train.y, train.weight, group=train.groups))
            quadratic = PairMoments.of(*batch[:3]).quadratic(None)
            if not penalties:
                values = ridge_grid(float(quadratic.diagonal.sum()))
                penalties = [Candidate(v, 0.0, p) for p in (False, True) for v in values]
                left_out = [None] * len(penalties)
                result = replace(result, dimension=here.size)
            local = replace(prior, w=prior.w[here])
            solver = replace(_SOLVER, prior=local)
            try:
                (weights,), reasons = solver.train(penalties, [(quadratic, None)])
            except ConvergenceError as error:
                return result.without(str(error))
            left_out = [before or now for before, now in zip(left_out, reasons, strict=True)]
            W = np.zeros((recipe.size, len(penalties)))
            W[here] = weights
        scores = _scores(recipe, held_out, W)
        aucs.append(PairedAUC.of(scores, held_out.y, held_out.weight).auc)
        added.append(deviations(scores, held_out.y, held_out.weight, held_out.groups))
        nonzeros.append((W != 0).sum(axis=0))
        if rival and k + 1 == _TRIED < len(halves):
            tried = np.stack(aucs)
            own, other = tried[:, tried.mean(axis=0).argmax()], rival.auc[:_TRIED]
            if (own < other).all():
                return result.without(
                    f"its AUC is {own.mean():.4f} on {_TRIED} folds, that of {rival.name} "
                    f"{other.mean():.4f}"
                )
    auc, counts = np.stack(aucs, axis=1), np.mean(nonzeros, axis=0)
    if None not in left_out:
        return result.without(str(left_out[0]))
    missed = [reason is not None for reason in left_out]
    auc[missed], counts[missed] = np.nan, np.nan
    best = choice(penalties, auc, one_standard_error=False)
    selection = Selection(tuple(penalties), auc, 0.0, counts, tuple(left_out), best)
    unknown = next((part for part in added if isinstance(part, str)), None)
    solved = [reason is None for reason in left_out]
    known = [part[:, solved] for part in added if not isinstance(part, str)]
    return result.measured(selection, known if unknown is None else unknown)


def _scores(recipe: Recipe, rows: RawRows, W: Float) -> Float:
    """Scores ``(n, l)`` by weights ``(d, l)``; the features of few rows are in memory at once."""
    parts = np.split(np.arange(rows.y.size), range(_AT_ONCE, rows.y.size, _AT_ONCE))
    return np.concatenate(
        [settled_product(recipe.transform(rows.take(part).columns), W) for part in parts]
    )


def train_grown(
    rows: RowSource, candidate: TreeCandidate, penalty: Candidate, prior: Prior
) -> TrainingResult:
    """Train a candidate on the rows that grew its trees.

    Parameters
    ----------
    rows
        The rows, with the features of the candidate's recipe.
    candidate
        The candidate.
    penalty
        The penalty that the folds chose.
    prior
        The values of the leaves.

    Raises
    ------
    DataError
        A value is unusable, or all rows are of one class.
    ResourceError
        The moments do not fit in memory.
    ConvergenceError
        The solver did not reach its tolerance.
    """
    settings = TrainingSettings(reg_params=(penalty.regParam,), standardize=False)
    if not candidate.as_grown:
        return train(rows, replace(settings, prior=prior if penalty.prior else None))

    def score(batch: Batch) -> Batch:
        return batch._replace(X=settled_product(batch.X, prior.w[:, None]))

    result = train(rows.changed(batchwise(score), 1), settings)
    scale = float(result.w[0])
    columns, told = column_moments(rows), prior.report(scale)
    return replace(result, w=scale * prior.w, columns=columns, prior=told)
