"""Which pairs of categorical columns interact, against sums over all pairs of rows."""

from itertools import combinations

import numpy as np
import pytest

from spark_auc.errors import DataError
from spark_auc.features.cross_gains import CrossGain, bits_of, cross_gains, pair_residuals


def test_gains_are_sums_over_pairs_of_rows():
    rng = np.random.default_rng(0)
    n = 60
    codes = {name: rng.integers(0, c, n) for name, c in (("a", 3), ("b", 7), ("c", 40), ("d", 1))}
    residuals = rng.normal(size=n)
    first, second = np.triu_indices(n, 1)
    product = residuals[first] * residuals[second]
    same = {name: code[first] == code[second] for name, code in codes.items()}
    expected = {}
    for a, b in combinations(codes, 2):
        cell = same[a] & same[b]
        mean = sum(product[same[name]].mean() for name in (a, b))
        above = product[cell].sum() - cell.sum() * mean
        variance = max((product[cell] ** 2).sum(), cell.sum() * np.mean(residuals**2) ** 2)
        expected[a, b] = above / np.sqrt(variance)
    gains = cross_gains(codes, residuals)
    assert {g.pair: g.excess for g in gains} == pytest.approx(expected)
    assert [g.excess for g in gains] == sorted((g.excess for g in gains), reverse=True)
    for gain in gains:
        a, b = gain.pair
        assert gain.cells == len(set(zip(codes[a].tolist(), codes[b].tolist(), strict=True)))


def test_residuals_are_the_gradient_of_the_loss_over_pairs():
    rng = np.random.default_rng(1)
    y, scores = rng.random(30) < 0.4, rng.normal(size=30)

    def loss(f):
        return ((1 - f[y][:, None] + f[~y][None]) ** 2).mean()

    steps = np.eye(30) * 1e-5
    gradient = [(loss(scores + step) - loss(scores - step)) / 2e-5 for step in steps]
    assert pair_residuals(y, scores) == pytest.approx(-0.5 * np.array(gradient), abs=1e-9)
    with pytest.raises(DataError, match="found 0 positive and 30 negative rows"):
        pair_residuals(np.zeros(30, bool), scores)


def test_effects_of_a_column_alone_are_no_interaction():
    """No pair of noise exceeds the level of a planted one, however many values it has."""
    rng = np.random.default_rng(2)
    n = 4000
    codes = {name: rng.integers(0, c, n) for name, c in (("a", 8), ("b", 300), ("c", 1500))}
    alone = rng.normal(0, 1, 300)[codes["b"]] + rng.normal(0, 1, 1500)[codes["c"]]
    noise = rng.normal(size=n)
    rates = {g.pair: g.rate for g in cross_gains(codes, noise + alone)}
    assert min(rates.values()) > 0.1
    cell = codes["a"] * 1500 + codes["c"]
    together = rng.normal(0, 1, cell.max() + 1)[cell]
    best, *others = cross_gains(codes, noise + alone + together)
    assert best.pair == ("a", "c")
    assert best.rate < 1e-6
    assert min(g.rate for g in others) > 0.1


@pytest.mark.parametrize(("values", "positives"), [(300, 8), (300, 15), (30, 20)])
def test_rates_hold_with_rare_positives(values, positives):
    found = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        codes = {f"{k}": rng.integers(0, values, 1000) for k in range(4)}
        y = rng.permutation(1000) < positives
        gains = cross_gains(codes, pair_residuals(y, np.zeros(1000)))
        found += any(g.rate <= 0.1 for g in gains)
    # A tenth of 40 tables.
    assert found <= 4


def test_an_interaction_of_rare_positives_is_found():
    found = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        codes = {f"{k}": rng.integers(0, 20, 2000) for k in range(4)}
        score = 2 * rng.normal(size=(20, 20))[codes["0"], codes["1"]] + rng.gumbel(size=2000)
        y = score >= np.sort(score)[-40]
        best = cross_gains(codes, pair_residuals(y, np.zeros(2000)))[0]
        found += best.pair == ("0", "1") and best.rate <= 0.1
    assert found >= 14


def test_rates_hold_without_an_interaction():
    """A tenth of tables without an interaction, or fewer, have a pair of a rate of 10 % or less."""
    found = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        codes = {f"{k}": rng.integers(0, 4**k, 500) for k in range(1, 6)}
        found += any(g.rate <= 0.1 for g in cross_gains(codes, rng.normal(size=500)))
    # Three standard deviations above 10.
    assert found <= 19


def test_bits():
    def gain(cells):
        return CrossGain(("a", "b"), cells, 0.0, 1.0)

    assert bits_of([gain(10)], 18) == 8
    assert bits_of([gain(1000), gain(1730)], 18) == 12
    assert bits_of([gain(10**6)], 18) == 18
