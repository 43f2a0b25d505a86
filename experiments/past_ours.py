"""Candidates of this project on raw tables, and the choice among them.

The candidates, from simple to complex, were declared before any was measured:

- additive: the automatic recipe, 16 knots; of fewer than 5,000 rows also 2 knots, by folds.
- pairs 10, pairs 20: with the best pairs of numeric columns.
- crosses: with hashed crosses of all pairs of columns of text.
- chosen crosses: with crosses of the pairs of columns, one of them of text, that gain on held-out
  rows.
- pairs 20 + crosses: the most pairs and the chosen crosses, or else all.
- leaves: trees of half of the rows; their leaves are weighted by the other half.
- leaves + all: these leaves beside the most features of the above.
- prior: trees of all rows, whose values are the centre of the penalty (`TREES`).
- prior, large; prior, small: the same with `LARGE_TREES` and `SMALL_TREES`.
- prior + all: the first prior, and beside the leaves the most features of the above.

Each is fitted by the squared loss and by the squared hinge. Trees as they are ("trees") are
measured beside, and are no candidates. After a look at the first split of some sets, "prior, small"
was added, and the rule of `transferred` became one standard error.

"auto" is the simplest candidate whose held-out AUC is within one standard error of the best one's;
the error is DeLong's, of the difference on the same rows. "best held-out" has the best AUC. Both
use the folds that tune `experiments.past_peers`. Their seconds are those of all candidates.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics import roc_auc_score  # type: ignore[import-untyped]

from experiments import past_rankers
from experiments.past_choice import compared
from experiments.past_features import (
    Block,
    Leaves,
    OfRecipe,
    Stacked,
    additive,
    chosen_crosses,
    crosses,
    pairs,
)
from experiments.past_peers import FEW, inner
from experiments.past_sets import Rows
from spark_auc.core.types import Bool, Float

TREES: Mapping[str, Any] = {"numTrees": 100, "numLeaves": 15, "learningRate": 0.1}
LARGE_TREES: Mapping[str, Any] = {"numTrees": 300, "numLeaves": 31, "learningRate": 0.05}
SMALL_TREES: Mapping[str, Any] = {"numTrees": 60, "numLeaves": 5, "learningRate": 0.1}
KNOTS, FEW_KNOTS = (16,), (2, 16)
# Of candidates that some fold of the training rows does not have.
LEFT_OUT: Mapping[str, Any] = {"heldOut": 0.0, "below": 100.0, "error": 0.0}
# In order of simplicity.
CANDIDATES = tuple(
    name + loss
    for name in (
        "additive",
        "pairs 10",
        "pairs 20",
        "crosses",
        "chosen crosses",
        "pairs 20 + crosses",
        "leaves",
        "leaves + all",
        "prior, small",
        "prior",
        "prior, large",
        "prior + all",
    )
    for loss in ("", ", hinge")
)


@dataclass(frozen=True)
class Ranker:
    """A fitted linear ranker.

    Parameters
    ----------
    block
        The features.
    w : (F,)
        Weights.
    seconds
        CPU seconds of the fit, with those of the rankers and trees that it needs.
    chosen
        The penalty, as text.
    """

    block: Block
    w: Float
    seconds: float
    chosen: str


class _Clock:
    """CPU seconds since the last reading."""

    def __init__(self) -> None:
        self._last = time.process_time()

    def __call__(self) -> float:
        before, self._last = self._last, time.process_time()
        return self._last - before


def fitted(rows: Rows, seed: int) -> Iterator[tuple[str, Ranker]]:
    """The rankers of `CANDIDATES` that the table has columns for, and the trees."""
    clock = _Clock()

    def both(
        name: str, block: Block, X: sparse.csr_matrix, y: Bool, before: float
    ) -> Iterator[tuple[str, Ranker]]:
        clock()
        chosen = past_rankers.ridge(X, y)
        squared, text = before + clock(), f"regParam {chosen.penalty:.3g}"
        yield name, Ranker(block, chosen.w, squared, text)
        clock()
        w = past_rankers.hinge(X, y, chosen.penalty)
        yield f"{name}, hinge", Ranker(block, w, squared + clock(), text)

    def of_recipe(name: str, recipe: Any, before: float) -> Iterator[tuple[str, Ranker]]:
        block = OfRecipe.of(recipe, rows)
        yield from both(name, block, block(rows), rows.y, before + clock())

    fits = []
    for knots in FEW_KNOTS if rows.y.size < FEW else KNOTS:
        recipe, state = additive(rows, knots)
        block = OfRecipe.of(recipe, rows)
        fits.append((past_rankers.ridge(block(rows), rows.y), recipe, state, block, knots))
    chosen, recipe, state, block, knots = max(fits, key=lambda fit: fit[0].auc)
    X, text = block(rows), f"regParam {chosen.penalty:.3g}, {knots} knots at most"
    simple = clock()
    yield "additive", Ranker(block, chosen.w, simple, text)
    clock()
    w = past_rankers.hinge(X, rows.y, chosen.penalty)
    yield "additive, hinge", Ranker(block, w, simple + clock(), text)
    clock()
    scores = X @ chosen.w
    with_pairs = {count: pairs(rows, recipe, state, scores, count) for count in (10, 20)}
    crossed = crosses(rows, recipe)
    ranking = simple + clock()
    all_features = recipe
    for count, paired in with_pairs.items():
        if len(paired.pairs) > (10 if count == 20 else 0):
            all_features = paired
            yield from of_recipe(f"pairs {count}", paired, ranking)
    some = chosen_crosses(rows, recipe, scores, seed)
    for name, crossing in (("crosses", crossed), ("chosen crosses", some)):
        if crossing:
            yield from of_recipe(name, replace(recipe, crosses=crossing), ranking)
    if crossing := some or crossed:
        with_crosses = replace(all_features, crosses=crossing)
        if all_features.pairs:
            yield from of_recipe("pairs 20 + crosses", with_crosses, ranking)
        all_features = with_crosses
    yield from _with_leaves(rows, seed, OfRecipe.of(all_features, rows), both, ranking, clock)


def _with_leaves(
    rows: Rows,
    seed: int,
    others: Block,
    both: Callable[..., Iterator[tuple[str, Ranker]]],
    ranking: float,
    clock: _Clock,
) -> Iterator[tuple[str, Ranker]]:
    clock()
    weighed, growing = rows.folds(seed, 2)[0]
    leaves = Leaves.grown(rows.take(growing), seed, TREES)
    rest = rows.take(weighed)
    block: Block = leaves
    X = block(rest)
    yield from both("leaves", block, X, rest.y, clock())
    clock()
    block = Stacked([leaves, others])
    yield from both("leaves + all", block, block(rest), rest.y, ranking + clock())
    fit, held_out = (rows.take(part) for part in rows.folds(seed)[0])
    sizes = {"trees, small": SMALL_TREES, "trees": TREES, "trees, large": LARGE_TREES}
    for name, settings in sizes.items():
        clock()
        all_leaves = Leaves.grown(rows, seed, settings)
        grown = clock()
        yield name, Ranker(all_leaves, all_leaves.prior, grown, "as grown")
        part_leaves = Leaves.grown(fit, seed, settings)
        grown += clock()
        label = name.replace("trees", "prior")
        yield from _with_prior(label, (all_leaves,), (part_leaves,), (rows, fit, held_out), grown)
        if name == "trees":
            yield from _with_prior(
                "prior + all",
                (all_leaves, others),
                (part_leaves, others),
                (rows, fit, held_out),
                ranking + grown,
            )


def _with_prior(
    name: str,
    blocks: tuple[Block, ...],
    part_blocks: tuple[Block, ...],
    tables: tuple[Rows, Rows, Rows],
    before: float,
) -> Iterator[tuple[str, Ranker]]:
    """Leaves with the trees' values as the prior, with the penalty of a transfer."""
    clock = _Clock()
    rows, fit, held_out = tables
    block, part = Stacked(blocks), Stacked(part_blocks)
    X, tested = part(fit), part(held_out)
    prior = _padded(part_blocks[0], X.shape[1])
    choice = past_rankers.transferred(X, fit.y, prior, tested, held_out.y)
    X = block(rows)
    prior = _padded(blocks[0], X.shape[1])
    w = past_rankers.with_prior(X, rows.y, prior, choice)
    seconds = before + clock()
    text = f"penalty {choice[0]:g} of the trace, centre {'prior' if choice[1] else '0'}"
    yield name, Ranker(block, w, seconds, text)
    clock()
    w = past_rankers.hinge_with_prior(X, rows.y, prior, choice)
    yield f"{name}, hinge", Ranker(block, w, seconds + clock(), text)


def _padded(leaves: Any, dimension: int) -> Float:
    """The prior of leaves, and 0 for the features after them."""
    prior = np.zeros(dimension)
    prior[: leaves.prior.size] = leaves.prior
    return prior


def measured(train: Rows, test: Rows, seed: int) -> dict[str, dict[str, Any]]:
    """The result of each candidate, of the trees, and of both choices."""
    began = time.process_time()
    held_out = _held_out(train, seed)
    results = {}
    for name, ranker in fitted(train, seed):
        auc = 100 * float(roc_auc_score(test.y, ranker.block(test) @ ranker.w))
        result = {"auc": round(auc, 4), "seconds": round(ranker.seconds, 2)}
        results[name] = {**result, **held_out.get(name, LEFT_OUT), "chosen": ranker.chosen}
    names = [name for name in CANDIDATES if name in results]
    best = max(names, key=lambda name: results[name]["heldOut"])
    near = [name for name in names if results[name]["below"] <= results[name]["error"]]
    seconds = round(time.process_time() - began, 2)
    for choice, name in (("auto", near[0]), ("best held-out", best)):
        results[choice] = {**results[name], "seconds": seconds, "chosen": name}
    return results


def _held_out(train: Rows, seed: int) -> dict[str, dict[str, Any]]:
    """Held-out AUC in percent, how far it is below the best candidate's, and the error of that."""
    folds = []
    for fit, held_out in inner(train, seed):
        rows = train.take(held_out)
        rankers = fitted(train.take(fit), seed)
        folds.append(({name: each.block(rows) @ each.w for name, each in rankers}, rows.y))
    # Candidates that a fold does not have, such as pairs that gain nothing in it, are left out.
    names = [name for name in folds[0][0] if all(name in scores for scores, _ in folds)]
    candidates = [name for name in names if name in CANDIDATES]
    results = {}
    for part in (candidates, [name for name in names if name not in CANDIDATES]):
        held = compared([([scores[name] for name in part], y) for scores, y in folds])
        for name, *numbers in zip(part, held.auc, held.below, held.error, strict=True):
            both = zip(("heldOut", "below", "error"), numbers, strict=True)
            results[name] = {key: round(100 * float(number), 4) for key, number in both}
    return results
