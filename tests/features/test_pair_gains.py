"""Histograms and gains of pairs of columns against brute force over rows and pairs of rows."""

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import false_discovery_control

from spark_auc.core.batch import Batch
from spark_auc.errors import ConfigError, DataError
from spark_auc.features import pair_gains as pair_gains_module
from spark_auc.features import pair_histograms
from spark_auc.features.pair_gains import best_pairs, pair_gains
from spark_auc.features.pair_histograms import PairHistograms
from spark_auc.features.splines import Splines
from tests.laws import Case, check_laws

N = 150
RNG = np.random.default_rng(5)
# The third column has two knots, the fourth none, the last no missing value.
KNOTS = [
    [-1.0, -0.375, 0.0, 0.5, 1.0],
    [-2.0, -1.0, -0.5, 0.0, 0.125, 0.25, 1.0, 2.0],
    [0.0, 1.0],
    [],
    [-1.0, 0.0, 1.0],
]
# Multiples of 1/32, so that midpoints of knots are exact.
X = np.round(32 * RNG.normal(size=(N, 5))) / 32
X[:, :4][RNG.random((N, 4)) < 0.15] = np.nan
X[:3, 0], X[:2, 2] = [np.inf, -np.inf, -0.2], [0.5, 0.25]
Y = RNG.random(N) < 0.3
U = RNG.integers(1, 5, N) / 2
F = RNG.normal(0.5, 0.3, N) + 0.3 * Y
SPLINES = Splines.of_knots(KNOTS)


def state(rows):
    return PairHistograms.of(SPLINES, Batch(X[rows], Y[rows], U[rows]), F[rows])


def bin_of(x, knots):
    """The knot with the largest hat of a value: the nearest one in its interval."""
    if np.isnan(x) or not knots:
        return 8
    for k in range(len(knots) - 1):
        if x < (knots[k] + knots[k + 1]) / 2:
            return k
    return len(knots) - 1


def bins_of(X, knots):
    return np.array([[bin_of(x, k) for x, k in zip(row, knots, strict=True)] for row in X])


@pytest.mark.parametrize("chunk", [4096, 16])
def test_sums_of_cells(chunk, monkeypatch):
    monkeypatch.setattr(pair_histograms, "_CHUNK", chunk)
    found, bins = state(np.arange(N)), bins_of(X, KNOTS)
    weight, score = np.zeros((2, 2, 10, 9, 9))
    for i in range(N):
        for p, (a, b) in enumerate(combinations(range(5), 2)):
            weight[int(not Y[i]), p, bins[i, a], bins[i, b]] += U[i]
            score[int(not Y[i]), p, bins[i, a], bins[i, b]] += U[i] * F[i]
    np.testing.assert_array_equal(found.weight, weight)
    np.testing.assert_allclose(found.score, score, rtol=1e-13, atol=1e-14)


def view(histograms):
    sums = histograms.weight, histograms.score, histograms.totals
    return np.concatenate([s.ravel() / N for s in sums])


def test_laws():
    check_laws(Case(PairHistograms.zero(5), state, view, N))


def test_gains_are_those_of_least_squares_with_the_expected_shares():
    """The definition with dense matrices; cells of few expected rows are with the missing ones."""
    y, f, u = Y, F, np.where(Y, 1.5, 0.5)
    batch = Batch(X, y, u)
    found, bins = pair_gains(PairHistograms.of(SPLINES, batch, f)), bins_of(X, KNOTS)
    above, below = 1 + f[~y].mean(), f[y].mean() - 1
    r = np.where(y, (above - f) / y.sum(), (below - f) / (~y).sum())
    for p, (a, b) in enumerate(combinations(range(5), 2)):
        present = (bins[:, a] < 8) & (bins[:, b] < 8)
        cell = np.where(present, 8 * bins[:, a] + bins[:, b], 64)
        rows = np.bincount(cell, minlength=65)
        mean = np.bincount(cell, f, 65) / np.maximum(rows, 1)
        up, down = y.sum() * np.maximum(mean - below, 0), (~y).sum() * np.maximum(above - mean, 0)
        share = up / (up + down)
        few = (rows * np.minimum(share, 1 - share) < 0.1) & (rows > 0) & (np.arange(65) < 64)
        merged = np.where(few[cell], 64, cell)
        pooled = np.bincount(merged, f, 65), np.bincount(merged, minlength=65)
        rest = pooled[0][64] / max(pooled[1][64], 1)
        share[64] = 1 / (1 + (~y).sum() * (above - rest) / (y.sum() * (rest - below)))
        positive, negative = pooled[1] * share, pooled[1] * (1 - share)
        positive, negative = positive / positive.sum(), negative / negative.sum()
        Q = np.diag(positive + negative)
        Q -= np.outer(positive, negative) + np.outer(negative, positive)
        R = np.bincount(merged, r, 65)
        Z = np.zeros((65, 17))
        Z[np.arange(64), np.arange(64) // 8] = Z[np.arange(64), 8 + np.arange(64) % 8] = 1
        Z[64, 16] = 1
        gain = R @ np.linalg.pinv(Q, 1e-10) @ R
        gain -= R @ Z @ np.linalg.pinv(Z.T @ Q @ Z, 1e-10) @ Z.T @ R
        assert found[p, 0] == pytest.approx(gain, rel=1e-9, abs=1e-12)
        assert (found[p, 1] > 1e-12) == (3 not in (a, b))


def simulated(n, d, probability, seed=0):
    """Correlated columns, and labels of a probability given the columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 0.7 * rng.normal(size=(n, 1))
    y = rng.random(n) < probability(X)
    return X, y, Splines.of_knots([np.quantile(x, np.linspace(0.02, 0.98, 8)) for x in X.T])


def logistic(odds):
    return 1 / (1 + np.exp(-odds))


def least_squares(Z, y):
    """Scores and loss of least squares over all pairs of rows, from class moments."""
    delta = Z[y].mean(axis=0) - Z[~y].mean(axis=0)
    Sigma = np.cov(Z[y].T, bias=True) + np.cov(Z[~y].T, bias=True) + np.outer(delta, delta)
    w = np.linalg.lstsq(Sigma, delta, rcond=1e-10)[0]
    return Z @ w, 1.0 - w @ delta


PLANTED = [(0, 3), (2, 5)]


def test_planted_pairs_are_those_of_least_squares_on_products_of_hats():
    def probability(X):
        additive = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 - X[:, 2]
        products = X[:, 0] * X[:, 3] + 1.5 * np.sin(X[:, 2]) * np.cos(2 * X[:, 5])
        return logistic(additive + products)

    X, y, splines = simulated(6000, 6, probability)
    hats = splines.transform(X).toarray()
    columns = [hats[:, 9 * j : 9 * j + 8] for j in range(6)]
    scores, additive = least_squares(hats, y)
    exact = {}
    for a, b in combinations(range(6), 2):
        products = (columns[a][:, :, None] * columns[b][:, None, :]).reshape(-1, 64)
        exact[a, b] = additive - least_squares(np.hstack([hats, products]), y)[1]
    assert sorted(sorted(exact, key=exact.get)[-2:]) == PLANTED
    found = best_pairs(PairHistograms.of(splines, Batch(X, y), scores), 15)
    assert sorted((g.first, g.second) for g in found[:2]) == PLANTED
    assert all(g.gain > 3 * g.noise for g in found[:2])
    assert found[1].gain - found[1].noise > 2 * (found[2].gain - found[2].noise)
    gains = [exact[g.first, g.second] for g in found]
    assert np.corrcoef(gains, [g.gain for g in found])[0, 1] > 0.95


@pytest.mark.parametrize(
    "probability",
    [
        # The best score is a linear function of the probability if the classes have equal weight.
        lambda X: 0.5 + 0.15 * (np.sin(2 * X[:, 0]) + np.tanh(X[:, 1]) + np.cos(X[:, 2]) - 0.5),
        # A function of one column has no interaction, whatever the score.
        lambda X: logistic(2 * np.sin(2 * X[:, 0]) - 4.0),
    ],
)
def test_gains_without_interactions_are_noise(probability):
    X, y, splines = simulated(20_000, 12, probability, 1)
    scores, _ = least_squares(splines.transform(X).toarray(), y)
    found = pair_gains(PairHistograms.of(splines, Batch(X, y), scores))
    ratio = found[:, 0] / found[:, 1]
    # Scores within a cell differ.
    assert abs(ratio.mean() - 1.0) < 0.15
    assert ratio.max() < 2.0
    best = best_pairs(PairHistograms.of(splines, Batch(X, y), scores), 66)
    np.testing.assert_allclose(
        sorted(g.rate for g in best), sorted(false_discovery_control(found[:, 2])), rtol=1e-9
    )
    # Shares do not depend on the unit of weights.
    double = pair_gains(PairHistograms.of(splines, Batch(X, y, np.full(y.size, 2.0)), scores))
    np.testing.assert_allclose(double, found, rtol=1e-9)


@pytest.mark.parametrize("rare", [False, True])
def test_few_tables_without_interactions_have_a_pair_beyond_noise(rare):
    def probability(X):
        odds = 2 * np.sin(2 * X[:, 0]) - 4.0
        return logistic(odds) if rare else 0.5 + 0.2 * np.sin(2 * X[:, 0]) + 0.2 * np.tanh(X[:, 1])

    beyond = 0
    for seed in range(20):
        X, y, splines = simulated(3000, 7, probability, seed)
        scores, _ = least_squares(splines.transform(X).toarray(), y)
        found = best_pairs(PairHistograms.of(splines, Batch(X, y), scores), 21)
        beyond += min(g.rate for g in found) <= 0.1
    # At a rate of 0.1, 2 of 20 are expected; 6 or more have a probability of 1 %.
    assert beyond < 6


@pytest.mark.parametrize(("rows", "positives"), [(1000, 20), (1000, 100), (5000, 50)])
def test_pairs_of_rare_positives_are_found_and_noise_is_not(rows, positives):
    """The labels are those of the greatest latent scores, with and without a product."""
    in_noise = planted = 0
    ratios = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(rows, 6)) + 0.7 * rng.normal(size=(rows, 1))
        splines = Splines.of_knots([np.quantile(x, np.linspace(0.02, 0.98, 8)) for x in X.T])
        noise = rng.gumbel(size=rows)
        for latent in (noise, noise + X[:, 0] * X[:, 1]):
            batch = Batch(X, latent >= np.sort(latent)[-positives])
            histograms = PairHistograms.of(splines, batch, np.zeros(rows))
            best = best_pairs(histograms, 1)[0]
            if latent is noise:
                in_noise += min(g.rate for g in best_pairs(histograms, 15)) <= 0.1
                gains = pair_gains(histograms)
                ratios.append(gains[:, 0].mean() / gains[:, 1].mean())
            else:
                planted += best[:2] == (0, 1) and best.rate <= 0.1
    # Of 40 tables 4 are expected; 10 or more have a probability of less than 1 %.
    assert in_noise < 10
    assert planted >= 35
    assert abs(np.mean(ratios) - 1.0) < 0.1


def test_equal_gains_are_in_the_order_of_columns():
    twice = np.hstack([X[:, :2]] * 3)
    splines = Splines.of_knots(KNOTS[:2] * 3)
    found = best_pairs(PairHistograms.of(splines, Batch(twice, Y, U), F), 99)
    assert len(found) == 15
    pairs = [(g.first, g.second) for g in found]
    alike = [pair for pair in pairs if sum(pair) % 2]
    assert len({g[2:] for g in found if sum(g[:2]) % 2 and g[0] % 2 == 0}) == 1
    for parity in (0, 1):
        own = [pair for pair in alike if pair[0] % 2 == parity]
        assert own == sorted(own)
    assert best_pairs(PairHistograms.of(splines, Batch(twice, Y, U), F), 3) == found[:3]
    assert best_pairs(PairHistograms.zero(0).merge(ones(0)), 3) == ()


def ones(dimension):
    """The sums of a positive and a negative row of missing values."""
    rows = np.full((2, dimension), np.nan)
    batch = Batch(rows, np.array([True, False]))
    return PairHistograms.of(Splines.of_knots([[0.0]] * dimension), batch, np.zeros(2))


def test_missing_values_alone_gain_nothing():
    np.testing.assert_allclose(pair_gains(ones(3)), [[0.0, 0.0, 1.0]] * 3, atol=1e-15)


def test_gains_do_not_depend_on_chunks(monkeypatch):
    histograms = state(np.arange(N))
    expected = pair_gains(histograms)
    monkeypatch.setattr(pair_gains_module, "_CHUNK", 3)
    np.testing.assert_array_equal(pair_gains(histograms), expected)


@pytest.mark.parametrize("seed", range(20))
def test_a_column_and_its_copy_cannot_interact(seed):
    """Additive effects span all of their cells, and the gains of draws are rounding."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(300, 1)), rng.random(300) < 0.3
    splines = Splines.of_knots([np.quantile(x, np.linspace(0, 1, 6))] * 2)
    batch = Batch(np.hstack([x, x]), y)
    ((gain, noise, chance),) = pair_gains(PairHistograms.of(splines, batch, rng.normal(size=300)))
    assert max(gain, noise) < 1e-12
    assert chance == 1.0


def test_what_is_refused():
    batch = Batch(X, Y, U)
    with pytest.raises(ConfigError, match="found a column of 9 knots, expected at most 8"):
        PairHistograms.of(Splines.of_knots([np.arange(9.0)] * 5), batch, F)
    with pytest.raises(DataError, match="found rows of 5 features, expected 4"):
        PairHistograms.of(Splines.of_knots(KNOTS[:4]), batch, F)
    for scores in (F[:-1], np.where(F > 1, np.nan, F)):
        with pytest.raises(DataError, match="expected one finite score for each row"):
            PairHistograms.of(SPLINES, batch, scores)
    with pytest.raises(DataError, match="found states of 5 and 4 columns"):
        PairHistograms.zero(5).merge(PairHistograms.zero(4))
    for rows in (np.arange(0), np.flatnonzero(Y)):
        with pytest.raises(DataError, match="expected rows of both classes"):
            best_pairs(state(rows), 3)
    with pytest.raises(ConfigError, match="found count = 0"):
        best_pairs(state(np.arange(N)), 0)
