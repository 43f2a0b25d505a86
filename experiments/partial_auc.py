"""Partial AUC of a second step, in which negatives are reweighted by their scores.

    python -m experiments.partial_auc --data DIR --results FILE

appends a JSON line to the file for each set, split and method, and prints the tables; a run that
was interrupted continues where it ended. Measured is the area under the ROC curve over false
positive rates up to 0.01 and 0.1, divided by that limit, in percent, on the test half of stratified
splits. All methods see the same features of an automatic recipe, with 16 knots at most. Five folds
of the training rows choose their parameters, for each limit apart, by the measure at that limit.

- one step, AUC: ridge of the all-pairs squared loss, the penalty by the AUC.
- one step: the same, the penalty by the partial AUC.
- second step: one more pass makes the moments of the `TOPS` of the negatives with the highest
  scores under the first model ("one step, AUC"). They get one of the `SHARES` of the weight of the
  negatives; the rest is spread over all of them.
- second step, prior: the same with the first model as the centre of the penalty.
- hinge: the squared hinge over all pairs, with the penalty of "one step, AUC".
- two-way: the surrogate of Yang et al. (ICML 2021), from "one step, AUC" and a warm-up.

The rule, stated before anything was measured: a second step helps at a limit if its mean difference
from "one step" has a 95% t interval above 0 on at least two of the sets and below 0 on none.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.stats import t

from experiments.comparators.two_way import Weight, fitted
from experiments.past_features import OfRecipe, additive, pairs
from experiments.past_rankers import centres, hinge
from experiments.past_results import Results
from experiments.past_sets import SETS, Rows, of_file
from experiments.past_tables import Table, table
from spark_auc.core.evaluation.roc import auc, partial_area
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.types import Bool, Float, Int

PART = "partial AUC"
LIMITS = (0.01, 0.1)
METHODS = ("one step, AUC", "one step", "second step", "second step, prior", "hinge", "two-way")
# Of the second step: shares of the negatives, relative to the limit, and of their weight.
TOPS, SHARES = (1, 2, 5), (0.2, 0.5, 1.0)
# Penalties relative to the trace of Sigma.
PENALTIES = tuple(float(10.0**-k) for k in np.arange(0, 5, 0.5))
WEIGHTS = tuple(Weight("polynomial", g) for g in (3, 10)) + tuple(
    Weight("exponential", g) for g in (8, 30)
)
WARM_UP, STEPS = 20, (5, 15, 40)
# Only the features of the most training rows are kept; all but criteo_80k have fewer.
KNOTS, MOST_FEATURES = 16, 700
SPLITS = 5
# The additive features of these sets count; "magic04, pairs" has pairs of columns beside.
COUNTED = ("magic04", "adult_raw", "a9a", "ijcnn1", "w1a.t", "criteo_80k")
PAIRED = ", pairs"
NAMES = (*COUNTED, "magic04" + PAIRED)
Measures = Mapping[str, Any]
# Rows and labels to names and weights of candidates.
Fit = Callable[[sparse.csr_matrix, Bool], Iterable[tuple[str, Float]]]


def measures(scores: Float, y: Bool) -> dict[str, float]:
    """The AUC and the partial AUC at each limit, divided by the limit, in percent."""
    ranking = ScoreTable.of(scores, y)
    partial = {str(limit): 100 * partial_area(ranking, limit) / limit for limit in LIMITS}
    return {"auc": 100 * auc(ranking), **partial}


def reweighted(
    moments: PairMoments, X: sparse.csr_matrix, y: Bool, scores: Float, top: float, share: float
) -> PairMoments:
    """The moments of rows whose negatives of the highest scores get a share of the weight.

    Parameters
    ----------
    moments
        Those of all rows ``X`` ``(n, d)`` with labels ``y`` ``(n,)``.
    scores : (n,)
        Scores of the first model.
    top
        Share of the negatives that are reweighted.
    share
        Their share of the weight; the rest is spread over all negatives.
    """
    rows = np.flatnonzero(~y)
    kept = rows[np.argsort(-scores[rows], kind="stable")[: max(round(top * rows.size), 1)]]
    hard = PairMoments.of(X[kept], y[kept]).negative
    hard = hard.scale(share / hard.weight)
    if share < 1:
        hard = moments.negative.scale((1 - share) / moments.negative.weight).merge(hard)
    return PairMoments(moments.positive, hard)


def chosen(held_out: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, int]:
    """The candidate with the best mean over folds, for each measure."""
    return {
        name: int(np.argmax(np.mean([fold[name] for fold in held_out], axis=0)))
        for name in held_out[0]
    }


def selected(
    fit: Fit, X: sparse.csr_matrix, y: Bool, folds: Sequence[tuple[Int, Int]]
) -> tuple[dict[str, int], list[tuple[str, Float]]]:
    """The candidate for each measure by folds, and all candidates of all rows."""
    held_out = []
    for train, test in folds:
        found = [measures(X[test] @ w, y[test]) for _, w in fit(X[train], y[train])]
        held_out.append({name: [each[name] for each in found] for name in found[0]})
    return chosen(held_out), list(fit(X, y))


def one_step(X: sparse.csr_matrix, y: Bool) -> list[tuple[str, Float]]:
    """Names and weights of the squared loss for each of the `PENALTIES`."""
    return [(f"penalty {p:.2g}", w) for p, w in zip(PENALTIES, _ridges(X, y), strict=True)]


def _ridges(X: sparse.csr_matrix, y: Bool) -> list[Float]:
    loss = PairMoments.of(X, y).quadratic(None)
    return centres(loss, np.zeros(X.shape[1]), PENALTIES, False)


def second_step(
    X: sparse.csr_matrix, y: Bool, limit: float, first: int, with_prior: bool
) -> Iterator[tuple[str, Float]]:
    """Names and weights of the candidates; ``first`` is the place of the first model's penalty."""
    moments = PairMoments.of(X, y)
    prior = centres(moments.quadratic(None), np.zeros(X.shape[1]), PENALTIES, False)[first]
    for top in TOPS:
        for share in SHARES:
            changed = reweighted(moments, X, y, X @ prior, top * limit, share)
            weights = centres(changed.quadratic(None), prior, PENALTIES, with_prior)
            for penalty, w in zip(PENALTIES, weights, strict=True):
                yield f"top {top * limit:g}, share {share:g}, penalty {penalty:.2g}", w


def two_way(X: sparse.csr_matrix, y: Bool, first: int) -> Iterator[tuple[str, Float]]:
    """Names and weights of the published method, for each weight and number of steps."""
    loss = PairMoments.of(X, y).quadratic(None)
    w = centres(loss, np.zeros(X.shape[1]), PENALTIES, False)[first]
    # The slope of the sigmoid is 1/4 at 0, and the squared loss has no factor 1/2.
    l2 = PENALTIES[first] * float(loss.diagonal.sum()) / 8
    middle = ((X[y] @ w).mean() + (X[~y] @ w).mean()) / 2
    start = fitted(X, y, 4 * np.append(w, -middle), Weight(), l2, [WARM_UP])[0]
    for weight in WEIGHTS:
        for step, each in zip(STEPS, fitted(X, y, start, weight, l2, STEPS), strict=True):
            yield f"{weight.form} {weight.gamma:g}, {step} steps", each[:-1]


def measured(train: Rows, test: Rows, seed: int, paired: bool = False) -> dict[str, Measures]:
    """The result of each method; seconds are CPU seconds of the choice and the fit for a limit."""
    X, Z = features(train, test, paired)
    y, folds = train.y, train.folds(seed)
    results: dict[str, Measures] = {}

    def add(name: str, seconds: float, models: Mapping[str, tuple[str, Float]]) -> None:
        """Add the models chosen for each limit; the AUC is that of the last."""
        found = {limit: measures(Z @ w, test.y) for limit, (_, w) in models.items()}
        values = {limit: each[limit] for limit, each in found.items()}
        values["auc"] = found[str(LIMITS[-1])]["auc"]
        rounded = {key: round(value, 4) for key, value in values.items()}
        texts = {limit: text for limit, (text, _) in models.items()}
        results[name] = {**rounded, "seconds": round(seconds, 3), "chosen": texts}

    limits = [str(limit) for limit in LIMITS]
    began = time.process_time()
    best, weights = selected(one_step, X, y, folds)
    first = best["auc"]
    simple = time.process_time() - began
    add("one step, AUC", simple, dict.fromkeys(limits, weights[first]))
    add("one step", simple, {limit: weights[best[limit]] for limit in limits})
    for name, with_prior in (("second step", False), ("second step, prior", True)):
        began = time.process_time()
        models = {}
        for limit in LIMITS:
            fit = partial(second_step, limit=limit, first=first, with_prior=with_prior)
            best, weights = selected(fit, X, y, folds)
            models[str(limit)] = weights[best[str(limit)]]
        add(name, simple + (time.process_time() - began) / len(LIMITS), models)
    began = time.process_time()
    penalty = PENALTIES[first] * float(PairMoments.of(X, y).quadratic(None).diagonal.sum())
    model = f"regParam {penalty:.3g}", hinge(X, y, penalty)
    add("hinge", simple + time.process_time() - began, dict.fromkeys(limits, model))
    began = time.process_time()
    best, weights = selected(partial(two_way, first=first), X, y, folds)
    models = {limit: weights[best[limit]] for limit in limits}
    add("two-way", simple + time.process_time() - began, models)
    return results


def features(train: Rows, test: Rows, paired: bool) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    """The features of both halves, of a recipe of the training half."""
    recipe, state = additive(train, KNOTS)
    block = OfRecipe.of(recipe, train)
    X = block(train)
    if paired:
        scores = X @ _ridges(X, train.y)[PENALTIES.index(1e-3)]
        block = OfRecipe.of(pairs(train, recipe, state, scores, 10), train)
        X = block(train)
    Z = block(test)
    counts = np.bincount(X.indices, minlength=X.shape[1])
    kept = np.sort(np.argsort(-counts, kind="stable")[:MOST_FEATURES])
    return X[:, kept], Z[:, kept]


@cache
def _rows(name: str, data: Path) -> Rows:
    name = name.removesuffix(PAIRED)
    return SETS[name](data) if name in SETS else of_file(name)(data)


def interval(results: Table, name: str, method: str, limit: str) -> tuple[float, float]:
    """Mean difference from "one step" at a limit, and half of its 95% t interval."""
    mine, other = (results[PART, name, each] for each in (method, "one step"))
    values = [mine[split][limit] - other[split][limit] for split in sorted(set(mine) & set(other))]
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return float(np.mean(values)), float(t.ppf(0.975, len(values) - 1) * error)


def verdict(results: Table, method: str) -> dict[str, tuple[int, int]]:
    """Number of sets where a method is above and below "one step", for each limit."""
    names = [name for name in COUNTED if (PART, name, method) in results]
    counts = {}
    for limit in map(str, LIMITS):
        found = [interval(results, name, method, limit) for name in names]
        above = sum(mean > half for mean, half in found)
        counts[limit] = above, sum(mean < -half for mean, half in found)
    return counts


def tables(results: Table) -> str:
    """The tables of all sets that were measured."""
    lines = []
    for limit in map(str, LIMITS):
        lines += ["", f"up to a false positive rate of {limit}", ""]
        lines += ["| set | one step | " + " | ".join(METHODS[:1] + METHODS[2:]) + " |"]
        lines += ["|" + "---|" * (1 + len(METHODS))]
        for name in NAMES:
            if (PART, name, "one step") not in results:
                continue
            rows = results[PART, name, "one step"].values()
            cells = [name, f"{np.mean([row[limit] for row in rows]):.2f}"]
            for method in METHODS[:1] + METHODS[2:]:
                mean, half = interval(results, name, method, limit)
                cells.append(f"{mean:+.2f} ({mean - half:+.2f} to {mean + half:+.2f})")
            lines.append("| " + " | ".join(cells) + " |")
        counts = [f"{m}: {verdict(results, m)[limit]}" for m in METHODS if m != "one step"]
        lines += ["", "sets above and below one step: " + "; ".join(counts)]
    for field in ("seconds", "auc"):
        lines += ["", field, ""]
        for name in NAMES:
            if (PART, name, "one step") in results:
                means = [
                    f"{m} {np.mean([row[field] for row in results[PART, name, m].values()]):.2f}"
                    for m in METHODS
                ]
                lines.append(f"{name}: " + "; ".join(means))
    return "\n".join(lines)


def main() -> None:
    """Measure what the file lacks, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="directory of the tables")
    parser.add_argument("--results", type=Path, required=True, help="file of results")
    parser.add_argument("--sets", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--splits", type=int, default=SPLITS, help="number of splits")
    options = parser.parse_args()
    results = Results(options.results)
    known = results.keys()
    for split in range(options.splits):
        for name in options.sets:
            if (PART, name, split, METHODS[-1]) in known:
                continue
            train, test = _rows(name, options.data).split(split)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = measured(train, test, split, name.endswith(PAIRED))
            for method, row in found.items():
                results.add((PART, name, split, method), row)
    print(tables(table(results.rows())))


if __name__ == "__main__":
    main()
