"""AUCs of single columns against scikit-learn and all pairs of rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import chi2_contingency
from sklearn.metrics import roc_auc_score

from spark_auc.features import value_counts
from spark_auc.features.column_auc import ClassCounts, ColumnCounts, number_auc, token_auc
from spark_auc.features.value_counts import ValueCounts


def classes(values, y):
    """The values in the rows of each class; NaN is a missing value."""
    return [ClassCounts(ValueCounts.of(values[rows]), int(rows.sum())) for rows in (y, ~y)]


def some(seed, rows, distinct, share=0.4):
    """Values of which some are missing, and labels with rows of both classes."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, distinct, rows).astype(float)
    values[rng.random(rows) < 0.2 * (seed % 3)] = np.nan
    y = rng.random(rows) < share
    y[:2] = True, False
    return values, y


@pytest.mark.parametrize("seed", range(30))
def test_numbers(seed):
    values, y = some(seed, 60, 1 + seed % 12 * 5)
    filled = [roc_auc_score(y, np.nan_to_num(values, nan=end)) for end in (-1.0, 1e3)]
    expected = max(filled, key=lambda area: abs(area - 0.5))
    assert number_auc(*classes(values, y)) == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("seed", range(20))
def test_rates_of_ranges_are_compared_as_by_scipy(seed):
    rng = np.random.default_rng(seed)
    values = rng.permutation(1600).astype(float)
    inside = abs(values - 800) < 400
    y = rng.random(1600) < 0.4 + 0.012 * seed * inside
    table = [np.bincount((values[of] // 100).astype(int), minlength=16) for of in (y, ~y)]
    statistic = chi2_contingency(table).statistic
    counts = ColumnCounts(*classes(values, y), is_number=True)
    errors = (statistic - 15) / np.sqrt(30)
    assert counts.rates_differ(errors - 1e-6)
    assert not counts.rates_differ(errors + 1e-6)


def by_pairs(values, y):
    """The share of pairs ranked correctly by the rates of positive rows among all other rows."""
    rows, won = np.arange(y.size), 0.0
    for i, j in itertools.product(rows[y], rows[~y]):
        others = (rows != i) & (rows != j)
        prior = y[others].mean() if others.any() else 0.0
        # Each value has one more row, at the rate of all other rows.
        a, b = (
            (y[others & (values == values[k])].sum() + prior)
            / ((others & (values == values[k])).sum() + 1)
            for k in (i, j)
        )
        won += 0.5 if values[i] == values[j] or abs(a - b) < 1e-12 else a > b
    return won / (y.sum() * (~y).sum())


@pytest.mark.parametrize("seed", range(20))
def test_tokens(seed):
    values, y = some(seed, 14, 1 + seed % 9)
    expected = by_pairs(np.nan_to_num(values, nan=-1.0), y)
    assert token_auc(*classes(values, y)) == pytest.approx(expected, abs=1e-12)


def test_tokens_of_many_rows_rank_by_their_rates():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 6, 20_000).astype(float)
    y = rng.random(values.size) < values / 8
    rates = np.array([y[values == v].mean() for v in range(6)])
    expected = roc_auc_score(y, rates[values.astype(int)])
    assert token_auc(*classes(values, y)) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("distinct", [1, 2, 30, 1_000, 10_000, 10**9])
def test_labels_that_do_not_depend_on_the_tokens(distinct):
    """Rates of the same rows would have an AUC of up to 1, rates of all rows but one of down to 0.

    The mean over tables of two kinds: few rows a value, and one row each.
    """
    areas = [token_auc(*classes(*some(3 * seed, 2_000, distinct, 0.1))) for seed in range(20)]
    assert np.mean(areas) == pytest.approx(0.5, abs=0.02)
    if distinct == 1:
        assert areas == [0.5] * 20


def test_tokens_that_name_the_label():
    y = np.arange(3_000) % 3 == 0
    assert token_auc(*classes(y.astype(float), y)) == 1.0
    # Each value in two rows of one class.
    pairs = np.repeat(np.arange(1_500.0), 2)
    y = np.arange(3_000) // 2 % 3 == 0
    assert token_auc(*classes(pairs, y)) == 1.0
    # A value is missing in all positive rows.
    assert token_auc(*classes(np.where(y, np.nan, pairs % 7), y)) == 1.0
    assert number_auc(*classes(np.where(y, np.nan, pairs % 7), y)) in (0.0, 1.0)


def test_more_values_than_are_kept(monkeypatch):
    rng = np.random.default_rng(0)
    # A value of 30% of the rows, others of 3%, and many more.
    values = np.where(rng.random(40_000) < 0.3, 0.0, rng.integers(0, 30_000, 40_000))
    few = rng.random(40_000) < 0.3
    values[few] = 1.5 + values[few] % 10
    y = rng.random(values.size) < np.where(values == 0.0, 0.05, np.where(few, 0.3, values % 2))
    tokens, numbers = token_auc(*classes(values, y)), number_auc(*classes(values, y))
    monkeypatch.setattr(value_counts, "LIMIT", 1_024)
    assert token_auc(*classes(values, y)) == pytest.approx(tokens, abs=0.02)
    assert number_auc(*classes(values, y)) == pytest.approx(numbers, abs=0.02)


@pytest.mark.parametrize("limit", [64, 2**14])
def test_rows_of_values(limit, monkeypatch):
    monkeypatch.setattr(value_counts, "LIMIT", limit)
    values = np.append(np.zeros(5_000), np.random.default_rng(0).integers(1, 2_000, 5_000))
    state = ValueCounts.of(values)
    rows = np.array([(values == v).sum() for v in range(2_100)])
    found = state.rows_of(np.arange(2_100.0))
    assert (found >= rows).all()
    kept = np.isin(np.arange(2_100.0), state.values)
    np.testing.assert_array_equal(found[kept], rows[kept])
    assert found[0] == pytest.approx(5_000, rel=0.05)
    assert (found == rows).all() == (limit > 64)
