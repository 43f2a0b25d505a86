"""Candidates of trees, against LightGBM's own scores and all pairs."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from spark_auc.core.batch import Batch
from spark_auc.core.row_source import ArrayRows
from spark_auc.core.sampling.folds import Folds
from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.raw_columns import Numbers
from spark_auc.features.recipe import Recipe
from spark_auc.solvers.candidates import Candidate, Selection
from spark_auc.training.costs import CountedWork
from spark_auc.training.method_result import MethodComparison, MethodResult
from spark_auc.training.raw_rows import RawRows
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.train import train
from spark_auc.training.tree_candidates import CANDIDATES, TreeCandidate, measured, train_grown
from tests.features.raw_rows import text
from tests.training.test_same_rows import table

lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")

TYPES = dict.fromkeys("abcd", "float")
SPLINE = Recipe((Spline("a", "float", (-1.0, 0.0, 1.0)),), unit=False)
TAUGHT = KeySample(0.3, 4)
SMALL = TreeCandidate(12, 6, 0.1)


def raw(seed, n=900, noise=False, weight=None):
    X, y = table(seed, n, noise)
    columns = {name: Numbers(values) for name, values in zip(TYPES, X.T, strict=True)}
    groups = np.arange(n).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return X, RawRows(columns, y, weight, groups)


def fold_of(rows, folds):
    return folds.of(Batch(np.empty((rows.y.size, 0)), rows.y, group=rows.groups))


def booster(X, y, candidate, weight=None):
    settings = {
        "objective": "binary",
        "num_leaves": candidate.leaves,
        "learning_rate": candidate.rate,
        "feature_fraction": candidate.share,
        "verbose": -1,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,
        "seed": 0,
    }
    return lightgbm.train(settings, lightgbm.Dataset(X, y, weight=weight), candidate.trees)


def linear_of(rows, folds, recipe=SPLINE):
    """A linear model of a recipe, with random weights on each fold."""
    rng = np.random.default_rng(5)
    weights = [rng.normal(size=recipe.size - 1) for _ in range(folds.count)]
    features = np.arange(1, recipe.size)
    penalty = Candidate(0.1, 0.0, smoothness=2.0)
    selection = Selection((penalty,), np.full((1, folds.count), 0.4), 0.0, np.ones(1), (None,), 0)
    linear = MethodResult("one", ("additive",), "hinge", features.size, selection)
    return replace(linear, features=features, weights=weights)


def test_held_out_aucs_are_those_of_the_library_and_of_sums_with_a_linear_model(monkeypatch):
    monkeypatch.setattr("spark_auc.training.tree_candidates.TRIED", 9)
    weight = np.random.default_rng(3).uniform(0.5, 2.0, 900)
    X, rows = raw(1, weight=weight)
    half = replace(SMALL, share=0.5)
    folds = Folds(4, 0, never_held_out=TAUGHT)
    linear = linear_of(rows, folds)
    candidates = [half, replace(half, beside=True)]
    alone, both = measured(candidates, rows, TYPES, folds, SPLINE, linear)
    assert (alone.blocks, alone.loss) == (("leaves",), "squared")
    assert (both.blocks, both.loss) == (("additive", "leaves"), "hinge")
    assert alone.selection.candidates == (Candidate(0.0, 0.0, trees=1.0),)
    shares = [c.trees for c in both.selection.candidates]
    assert both.selection.candidates[0] == Candidate(0.1, 0.0, smoothness=2.0, trees=shares[0])
    fold = fold_of(rows, folds)
    assert set(fold) == {0, 1, 2, 3, 4}
    splines = SPLINE.transform(rows.columns).toarray()
    for k in range(4):
        fit, test = fold != k, fold == k
        own = booster(X[fit], rows.y[fit], half, weight[fit]).predict(X, raw_score=True)
        other = splines[:, 1:] @ linear.weights[k]
        both_units = [scores / spread(scores[fit], weight[fit]) for scores in (other, own)]
        expected = [
            roc_auc_score(rows.y[test], scores[test], sample_weight=weight[test])
            for scores in [own, *((1 - t) * both_units[0] + t * both_units[1] for t in shares)]
        ]
        found = [*alone.selection.auc[:, k], *both.selection.auc[:, k]]
        assert found == pytest.approx(expected, abs=1e-9)
    told = MethodComparison((alone, both), folds).as_dict()
    assert json.loads(json.dumps(told, allow_nan=False))["candidates"][0]["auc"] > 0.7


def spread(scores, weight):
    """The standard deviation of weighted scores."""
    variance = np.cov(scores, aweights=weight, ddof=0)
    return np.sqrt(variance)


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_the_final_weights_are_those_of_the_library_and_of_the_linear_model(share):
    weight = np.random.default_rng(3).uniform(0.5, 2.0, 900)
    X, rows = raw(2, weight=weight)
    trees = SMALL.grow(rows, TYPES)
    recipe = replace(SPLINE, trees=trees) if share < 1 else Recipe(trees=trees, unit=False)
    batch = Batch(recipe.transform(rows.columns), rows.y, weight)
    own = booster(X, rows.y, SMALL, weight).predict(X, raw_score=True)
    penalty = Candidate(0.01, 0.0, trees=share)
    linear = []

    def fit(part):
        linear.append(train(part, TrainingSettings(reg_params=(0.01,), standardize=False)))
        return linear[0]

    trained = train_grown(ArrayRows((batch,), recipe.size), recipe, penalty, fit)
    expected = own / spread(own, weight)
    if share < 1:
        other = SPLINE.transform(rows.columns) @ linear[0].w
        expected = 0.75 * other / spread(other, weight) + 0.25 * expected
    else:
        assert not linear
    scores = batch.X @ trained.w
    unit = [part - np.average(part, weights=weight) for part in (scores, expected)]
    factor = unit[0] @ unit[1] / (unit[1] @ unit[1])
    np.testing.assert_allclose(unit[0], factor * unit[1], atol=1e-9)
    # The factor is that of the least squared loss of all pairs.
    of_pairs = expected[rows.y][:, None] - expected[~rows.y]
    mass = weight[rows.y][:, None] * weight[~rows.y]
    assert factor == pytest.approx((mass * of_pairs).sum() / (mass * of_pairs**2).sum(), rel=1e-6)
    assert trained.penalty == penalty
    assert trained.summary().candidate == penalty


def test_a_budget_has_room_for_each_growth_once():
    """A growth beside a linear model is the one that was paid for alone."""
    _, rows = raw(1)
    folds = Folds(4, 0)
    large = replace(SMALL, trees=24)
    candidates = [SMALL, replace(SMALL, beside=True), large, replace(large, beside=True)]
    work = CountedWork(rows.y.size, folds.count)
    small, more = (c.work(work, len(TYPES)) for c in (SMALL, large))
    assert 0 < small < more
    given = candidates, rows, TYPES, folds, SPLINE, linear_of(rows, folds)
    found = measured(*given, budget=small)
    assert [r.work for r in found] == [small, 0, 0, 0]
    assert [bool(r.left_out and "left of the budget" in r.left_out) for r in found] == [
        *(False, False, True, True)
    ]
    for result in measured(*given, budget=small + more):
        assert not (result.left_out and "left of the budget" in result.left_out)
    assert all("left of the budget" in r.left_out for r in measured(*given, budget=0.0))


def test_labels_of_noise_have_no_auc():
    _, rows = raw(3, 1500, noise=True)
    for candidate in (SMALL, replace(SMALL, leaves=20)):
        (result,) = measured([candidate], rows, TYPES, Folds(5, 0), SPLINE)
        assert np.abs(result.selection.mean - 0.5).max() < 0.06


@pytest.mark.parametrize("values", [12, 100])
def test_statistics_of_texts_do_not_know_held_out_labels(values):
    """Of labels that are noise; a text is that of its group, whose rows are in one fold."""
    rng = np.random.default_rng(6)
    word = rng.integers(0, values, 3000)
    columns = {"a": text([f"v{k}" for k in word]), "b": Numbers(rng.normal(size=3000))}
    own = rng.integers(0, 2**63, 3000).astype(np.uint64)
    for groups in (own, own[word]):
        rows = RawRows(columns, rng.random(3000) < 0.3, None, groups)
        (result,) = measured([SMALL], rows, {"a": "text", "b": "float"}, Folds(5, 0), SPLINE)
        assert np.abs(result.selection.mean - 0.5).max() < 0.05


def test_trees_without_a_split_are_left_out():
    _, rows = raw(4, 300)
    constant = rows._replace(columns={name: Numbers(np.ones(300)) for name in TYPES})
    (result,) = measured([SMALL], constant, TYPES, Folds(3, 0), SPLINE)
    assert result.left_out == "its trees have no split in fold 1"


def test_the_declared_candidates():
    assert [c.beside for c in CANDIDATES] == [False, True] * 3
    assert len({c.name for c in CANDIDATES}) == 6
    linear = MethodResult("one", ("additive", "pairs"), "hinge", 9)
    assert CANDIDATES[0].result(linear).blocks == ("leaves",)
    assert CANDIDATES[1].result(linear).blocks == ("additive", "pairs", "leaves")


def test_trees_are_chosen_unless_others_are_better_by_a_standard_error():
    folds = Folds(3, 0)
    linear = linear_of(raw(1)[1], folds)

    def of(name, blocks, auc):
        selection = replace(linear.selection, auc=np.array([auc]))
        return replace(linear, name=name, blocks=blocks, selection=selection)

    simple = of("simple", ("additive",), [0.70, 0.75, 0.80])
    pairs = of("pairs", ("additive", "pairs"), [0.74, 0.74, 0.81])
    few = of("few", ("additive", "leaves"), [0.73, 0.74, 0.81])
    assert MethodComparison((simple, pairs), folds).choice is simple
    assert MethodComparison((simple, pairs, few), folds).choice is few
    better = of("better", ("additive", "pairs"), [0.76, 0.77, 0.84])
    assert MethodComparison((simple, better, few), folds).choice is better


def test_candidates_behind_on_two_folds_are_left_out():
    (_, rows), folds = raw(1), Folds(5, 0)
    (alone,) = measured([SMALL], rows, TYPES, folds, SPLINE)
    higher = replace(alone.selection, auc=alone.selection.auc + 0.01)
    better = replace(alone, name="a better one", selection=higher)
    (result,) = measured([SMALL], rows, TYPES, folds, SPLINE, better)
    assert result.selection is None
    assert "on 2 folds, that of a better one" in result.left_out
    as_good = replace(alone, name="as good")
    (result,) = measured([SMALL], rows, TYPES, folds, SPLINE, as_good)
    np.testing.assert_array_equal(result.selection.auc, alone.selection.auc)
    assert result.left_out is None
