"""Rankers of segments from moments, beside numpy and scikit-learn on the rows."""

import tracemalloc
from functools import reduce

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import roc_auc_score

from spark_auc.core.batch import Batch
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.gaussian import log_odds_line, mixture_auc
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.solvers.candidates import Candidate
from spark_auc.training.fold_moments import FoldsInMemory
from spark_auc.training.prior import Prior
from spark_auc.training.segments import (
    LEAST_ROWS,
    OF_A_SOLVE,
    REST,
    STRENGTHS,
    segment_rankers,
)
from spark_auc.training.settings import TrainingSettings

FOLDS, D, REG = 4, 5, 0.05


def rows(difference, n=4000, seed=0, names=("a", "b", "c", REST)):
    """Rows of segments of different prevalence, whose weights differ by ``difference``."""
    rng = np.random.default_rng(seed)
    segment = rng.choice(names, n, p=[0.4, 0.3, 0.2, 0.1])
    number = np.searchsorted(sorted(names), segment)
    y = rng.random(n) < np.array([0.2, 0.5, 0.3, 0.1])[number]
    common = np.array([1.0, 0.5, 0, 0, 0])
    own = np.array([[0, 0, 0, 0, 0], [0, 0, 1, 0, -1], [0, 0, -1, 1, 0], [0, 0, 0, -1, 1]])
    X = rng.normal(size=(n, D)) + y[:, None] * (common + difference * own[number])
    return X + number[:, None] * 0.5, y, segment, rng.integers(0, FOLDS, n)


def stored(X, y, segment, fold):
    """Moments of all rows, and of those of each segment."""
    parts = {
        name: FoldsInMemory(
            [
                PairMoments.of(X[at], y[at])
                for at in ((segment == name) & (fold == k) for k in range(FOLDS))
            ]
        )
        for name in np.unique(segment)
    }
    everyone = FoldsInMemory([PairMoments.of(X[fold == k], y[fold == k]) for k in range(FOLDS)])
    return everyone, parts


def ridge(X, y, u, standardize, counted=0, w0=None):
    """All-pairs ridge of weighted rows; ``counted`` rows are in the moments twice."""
    total, rows = u.sum(), max(u.sum(), len(u) + counted)
    mean = u @ X / total
    scale = np.sqrt(u @ (X - mean) ** 2 / total * rows / (rows - 1)) if standardize else np.ones(D)
    sides = []
    for side in (y, ~y):
        weight, part = u[side] / u[side].sum(), X[side] / scale
        centre = weight @ part
        sides.append((centre, (part - centre).T * weight @ (part - centre)))
    mu = sides[0][0] - sides[1][0]
    Sigma = sides[0][1] + sides[1][1] + np.outer(mu, mu)
    centre = np.zeros(D)
    if w0 is not None:
        v = w0 * scale
        centre = v * (v @ mu) / (v @ Sigma @ v)
    return (centre + np.linalg.solve(Sigma + REG * np.eye(D), mu - Sigma @ centre)) / scale


def gaussian_auc(scores, y):
    a, b = scores[y], scores[~y]
    return norm.cdf((a.mean() - b.mean()) / np.sqrt(a.var() + b.var()))


def weights_of(segment, name, strength):
    return strength + (segment == name)


def fitted(table, standardize=True, w0=None):
    X, y, *_ = table
    prior = None if w0 is None else Prior(w0, D)
    settings = TrainingSettings(standardize=standardize, tol=1e-12, prior=prior)
    w = ridge(X, y, np.ones(len(y)), standardize, w0=w0)
    penalty = Candidate(REG, 0.0, prior=w0 is not None)
    return segment_rankers(*stored(*table), w, penalty, settings), w


@pytest.mark.parametrize("w0", [None, np.array([0.5, 1.0, 0.0, -0.3, 0.2])], ids=["0", "a prior"])
@pytest.mark.parametrize("standardize", [True, False])
def test_rankers_are_those_of_weighted_rows(standardize, w0):
    table = X, y, segment, fold = rows(0.6)
    made, w = fitted(table, standardize, w0)
    names = ["a", "b", "c"]
    scores = {}
    for strength in STRENGTHS:
        for name in names:
            u = weights_of(segment, name, strength)
            of = np.full(len(y), np.nan)
            for k in range(FOLDS):
                rest = fold != k
                own = np.count_nonzero(segment[rest] == name)
                of[~rest] = X[~rest] @ ridge(X[rest], y[rest], u[rest], standardize, own, w0=w0)
            scores[strength, name] = of
    sizes = np.array([np.count_nonzero(segment == name) for name in names])
    within = [
        sizes
        / sizes.sum()
        @ [
            np.mean(
                [
                    gaussian_auc(scores[strength, name][at], y[at])
                    for at in ((segment == name) & (fold == k) for k in range(FOLDS))
                ]
            )
            for name in names
        ]
        for strength in STRENGTHS
    ]
    found = made.selection["strengths"][1:]
    np.testing.assert_allclose([s["within"] for s in found], within, rtol=1e-9)
    chosen = STRENGTHS[int(np.argmax(within))]
    assert made.selection["chosen"] == chosen
    assert made.weights.values == tuple(names)
    for number, name in enumerate(names):
        at = segment == name
        held_out = scores[chosen, name][at][:, None]
        line = LinearDiscriminantAnalysis("lsqr").fit(held_out, y[at])
        expected = ridge(X, y, weights_of(segment, name, chosen), standardize, at.sum(), w0)
        np.testing.assert_allclose(made.weights.W[number], expected * line.coef_[0, 0], rtol=1e-8)
        np.testing.assert_allclose(made.weights.intercept[number], line.intercept_[0], rtol=1e-8)
    # Rows of no segment: the ranker of all rows, and the line of its scores on their held-out rows.
    of = np.full(len(y), np.nan)
    for k in range(FOLDS):
        rest = fold != k
        of[~rest] = X[~rest] @ ridge(X[rest], y[rest], np.ones(rest.sum()), standardize, w0=w0)
    assert np.count_nonzero(y[segment == REST]) >= LEAST_ROWS
    assert_line(made, w, of[segment == REST], y[segment == REST])
    # If these are few, the line is that of all rows.
    positives = np.flatnonzero((segment == REST) & y)
    few = np.where(np.isin(np.arange(len(y)), positives[LEAST_ROWS - 1 :]), "a", segment)
    made, w = fitted((X, y, few, fold), standardize, w0)
    assert_line(made, w, of, y)


def assert_line(made, w, scores, y):
    """The line of rows of no segment is that of these scores."""
    line = LinearDiscriminantAnalysis("lsqr").fit(scores[:, None], y)
    np.testing.assert_allclose(made.weights.W[-1], w * line.coef_[0, 0], rtol=1e-8)
    np.testing.assert_allclose(made.weights.intercept[-1], line.intercept_[0], rtol=1e-8)


def test_new_rows_are_ranked_better_within_segments_and_together():
    made, w = fitted(rows(0.6))
    X, y, segment, _ = rows(0.6, 20000, seed=1)
    number = np.searchsorted(["a", "b", "c", "~"], np.where(segment == REST, "~", segment))
    scores = made.weights.scores(X, number)

    def auc(values, at):
        return np.mean(values[at & y][:, None] > values[at & ~y])

    for name in "abc":
        assert auc(scores, segment == name) > auc(X @ w, segment == name) - 1e-3
    everyone = np.full(len(y), True)
    assert auc(scores, everyone) > auc(X @ w, everyone) + 0.02
    assert np.mean(scores > made.threshold) == pytest.approx(y.mean(), abs=0.05)
    assert made.selection["strengths"][0]["overall"] == pytest.approx(
        auc(X @ w, everyone), abs=0.02
    )
    # A score depends on its row and segment alone.
    for rows_taken in ([5], [17, 3], np.arange(100)[::-1]):
        assert (made.weights.scores(X[rows_taken], number[rows_taken]) == scores[rows_taken]).all()


def test_segments_of_other_prevalence_are_judged_by_the_auc_of_all_rows():
    """One Gaussian pair for the scores of all rows is off by points here; a mixture is not."""

    def table(seed):
        rng = np.random.default_rng(seed)
        n = np.array([40_000, 4_000])
        segment = np.repeat(["a", "b"], n)
        y = rng.random(n.sum()) < np.repeat([0.02, 0.5], n)
        X = rng.normal(size=(n.sum(), D)) + (segment == "b")[:, None] * np.array([6.0, 0, 0, 0, 0])
        X[:, 1] += 0.5 * y
        X[:, 2] += 0.2 * np.where(segment == "b", -1, 1) * y
        return X, y, segment, rng.integers(0, FOLDS, len(y))

    made, w = fitted(table(0))
    X, y, *_ = table(1)
    true = roc_auc_score(y, X @ w)
    one_pair = gaussian_auc(X @ w, y)
    assert made.selection["strengths"][0]["overall"] == pytest.approx(true, abs=0.006)
    assert abs(one_pair - true) > 0.02


def test_memory_of_the_choice():
    """Beside the moments of the folds, those of a solve alone are in memory."""
    d, state = 250, PairMoments.nbytes(250)
    X, y, segment, fold = rows(0.6, 3000)
    X = np.hstack([X, np.random.default_rng(0).normal(size=(len(y), d - D))])
    everyone, parts = stored(X, y, segment, fold)
    arguments = everyone, parts, np.eye(d)[0], Candidate(REG, 0.0), TrainingSettings()
    tracemalloc.start()
    try:
        segment_rankers(*arguments)  # Compiles, and imports.
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        made = segment_rankers(*arguments)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert made.selection["chosen"] != "global"
    assert 3 < (peak - before) / state <= OF_A_SOLVE + 2


def test_equal_segments_are_ranked_like_all_rows():
    """All columns have the same effect in each segment; any gain is noise."""
    made = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        segment, fold = rng.choice(["a", "b", "c", REST], 1500), rng.integers(0, FOLDS, 1500)
        y = rng.random(1500) < 0.3
        X = rng.normal(size=(1500, D)) + y[:, None] * np.array([1.0, 0.5, 0, 0, 0])
        made.append(fitted((X, y, segment, fold))[0])
    assert [one.selection["chosen"] for one in made].count("global") >= 4
    assert all((one.weights is None) == (one.selection["chosen"] == "global") for one in made)


def test_rare_segments_are_ranked_like_all_rows(caplog):
    X, y, segment, fold = rows(0.6)
    segment = segment.astype(object)
    positives = np.flatnonzero((segment == "a") & y)
    segment[positives[:40]] = "rare"
    with caplog.at_level("INFO"):
        made, _ = fitted((X, y, segment, fold))
    assert "segments of too few rows, ranked like all rows: rare" in caplog.text
    assert made.weights.values == ("a", "b", "c")
    only, _ = fitted((X, y, np.where(segment == "rare", "rare", REST).astype(object), fold))
    assert only.weights is None
    assert only.selection == {"chosen": "global", "segments": {}}
    # All rows of a class are in one fold: nothing could be held out.
    last = np.where(y, 0, fold)
    assert fitted((X, y, segment, last))[0].weights is None


def test_rows_that_are_ranked_backwards_get_equal_scores():
    """Two segments of opposite effects: over all rows there is none, or one by chance."""
    slopes = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        segment, fold = rng.choice(["a", "b"], 1000), rng.integers(0, FOLDS, 1000)
        y = rng.random(1000) < 0.4
        sign = np.where(segment == "a", 1.0, -1.0)
        X = rng.normal(size=(1000, D)) + (y * sign)[:, None] * np.eye(D)[0]
        made, w = fitted((X, y, segment, fold))
        assert (made.weights.W[:2, 0] * [1, -1] > 0).all()
        slopes.append(made.weights.W[2] @ w / (w @ w))
        is_forward = made.selection["strengths"][0]["overall"] > 0.5
        assert (slopes[-1] > 0) == is_forward
        if not is_forward:
            assert made.weights.intercept[2] == pytest.approx(np.log(y.mean() / (1 - y.mean())))
    assert min(slopes) == 0


def test_a_segment_that_ranks_backwards_is_ranked_like_all_rows():
    X, y, segment, fold = rows(0.6)
    number = np.flatnonzero(segment == "c")
    segment[number[700:]] = REST
    backwards = number[:700]
    X[backwards] = np.random.default_rng(1).normal(size=(700, D))
    X[backwards, 0] -= 0.1 * y[backwards]
    made, _ = fitted((X, y, segment, fold))
    assert made.selection["segments"]["c"]["auc"] < 0.5
    assert made.weights.values == ("a", "b")
    assert made.weights.W.shape == (3, D)


def test_line_without_variance_and_mixture():
    equal = ColumnMoments.of(Batch(np.ones((4, 1)), np.array([True, False, False, False])))
    line = log_odds_line(equal)
    assert line.slope == 0
    assert line.intercept == pytest.approx(np.log(1 / 3))
    assert mixture_auc([equal]) == 0.5
    rng = np.random.default_rng(0)
    parts, samples = [], []
    for shift, share in ((0.0, 0.2), (1.0, 0.5)):
        y = rng.random(3000) < share
        s = rng.normal(size=3000) + y + shift
        parts.append(ColumnMoments.of(Batch(s[:, None], y)))
        samples.append((s, y))
    s, y = (np.concatenate(values) for values in zip(*samples, strict=True))
    assert mixture_auc(parts) == pytest.approx(np.mean(s[y][:, None] > s[~y]), abs=2e-3)
    assert mixture_auc(parts[:1]) == pytest.approx(gaussian_auc(*samples[0]), rel=1e-12)
    together = reduce(ColumnMoments.merge, parts)
    assert together.rows.sum() == 6000
