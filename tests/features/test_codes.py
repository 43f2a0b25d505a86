"""Integers that are codes: rates that depend on single values, not on their order."""

import numpy as np
import pytest
from scipy import stats

import spark_auc
from spark_auc.features.codes import are_codes, excess
from spark_auc.features.column_auc import ClassCounts, ColumnCounts
from spark_auc.features.value_counts import LIMIT, ValueCounts


def counts(values, y):
    classes = (ClassCounts(ValueCounts.of(values[of]), int(of.sum())) for of in (y, ~y))
    return ColumnCounts(*classes, is_number=True)


def numbers(rng, rows=4000):
    """Positive integers of many sizes."""
    return np.floor(np.exp(rng.normal(5.0, 1.0, rows)))


def labels(rng, odds):
    return rng.random(odds.size) < 1 / (1 + np.exp(-odds))


def test_without_effects_of_single_values_the_excess_is_at_most_standard_normal():
    found = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        x = numbers(rng)
        found.append(excess(counts(x, labels(rng, np.log(x) - 7.0)))[1])
    assert abs(np.mean(found)) < 0.2
    # The limit of single values makes it less.
    assert 0.6 < np.std(found) < 1.1
    assert np.mean(np.array(found) > 2.5) < 0.02


def test_the_excess_is_the_sum_over_all_pairs_of_values():
    """The formula, value by value."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 60, 900).astype(float), rng.random(900) < 0.3
    distinct = np.unique(x)
    total = variance = 0.0
    for k, value in enumerate(distinct):
        near = np.isin(x, distinct[max(k - 5, 0) : k + 6]) & (x != value)
        here = x == value
        n, m = here.sum(), near.sum()
        q = (y[here | near].sum() + 2 * y.mean()) / (n + m + 2)
        size = n * m / (n + m)
        square = (y[here].mean() - y[near].mean()) ** 2 * size / (q * (1 - q))
        total += min(square, 10.0) - 1.0
        # The fourth central moment of a mean of so many draws, in units of its squared variance.
        kurtosis = stats.bernoulli.stats(q, moments="k")
        variance += 2.0 + float(kurtosis) / size
    assert excess(counts(x, y)) == pytest.approx((total, total / np.sqrt(variance)))


@pytest.mark.parametrize("seed", range(5))
def test_codes_are_found_and_numbers_with_special_values_are_not(seed):
    rng = np.random.default_rng(seed)
    code = rng.permutation(100_000)[:400][rng.integers(0, 400, 6000)]
    effect = dict(zip(np.unique(code), rng.normal(0.0, 0.7, 400), strict=True))
    assert are_codes(counts(code.astype(float), labels(rng, np.vectorize(effect.get)(code) - 1)))
    x = numbers(rng, 6000)
    special = np.isin(x, [100.0, 200.0, 365.0])
    x[:600] = 999.0
    odds = np.log(x) - 7.0 + 4.0 * special - 2.0 * (x == 999.0)
    assert not are_codes(counts(x, labels(rng, odds)))


def test_of_few_rows_a_value_there_are_no_codes():
    rng = np.random.default_rng(1)
    x = rng.integers(0, 3000, 4000).astype(float)
    assert not are_codes(counts(x, x % 2 > 0))
    assert excess(counts(np.arange(9.0), np.arange(9) % 2 > 0)) == (0.0, 0.0)


def test_of_more_values_than_are_kept_a_sample_tells():
    rng = np.random.default_rng(2)
    values = rng.permutation(10**6)[: 3 * LIMIT].astype(float)
    x = np.repeat(values, 5)
    rates = np.repeat(rng.choice([0.2, 0.6], values.size), 5)
    assert are_codes(counts(x, rng.random(x.size) < rates))
    assert not are_codes(counts(x, rng.random(x.size) < 0.4))


def test_a_table_of_codes_has_tokens_and_crosses_by_default():
    """Codes of many values, and two of a few values that matter together."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(3)
    names, sizes = ["user", "site", "device"], [400, 12, 15]
    columns = [rng.integers(0, size, 9000) for size in sizes]
    shuffled = [rng.permutation(90_000)[:size] for size in sizes]
    odds = (
        rng.normal(0, 0.8, 400)[columns[0]] + rng.normal(0, 1.5, (12, 15))[columns[1], columns[2]]
    )
    frame = pandas.DataFrame(
        {n: s[c] for n, s, c in zip(names, shuffled, columns, strict=True)}
    ).assign(y=labels(rng, odds - 1.0))
    train, test = frame[:6000], frame[6000:]
    trained = spark_auc.train(train, "y")
    recipe = trained.model.recipe
    assert {column.name for column in recipe.hashed} == set(names)
    assert ("site", "device") in {tuple(pair) for pair in recipe.crosses.pairs} | {
        tuple(pair[::-1]) for pair in recipe.crosses.pairs
    }
    plain = spark_auc.train(train, "y", features={"spline": names, "auto": False, "crosses": None})
    aucs = [_auc(np.asarray(each.score(test)), test.y.to_numpy()) for each in (trained, plain)]
    assert aucs[0] > aucs[1] + 0.1


def _auc(scores, y):
    """The share of pairs that are in order."""
    return (scores[y][:, None] > scores[~y]).mean()
