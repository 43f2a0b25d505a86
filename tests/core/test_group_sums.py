"""Sums of groups against scikit-learn, and DeLong's intervals of one table for each group."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from spark_auc.core.evaluation.delong import auc_interval
from spark_auc.core.evaluation.group_sums import GroupSums
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.errors import ConfigError


def made_rows(seed, groups=60, most=40):
    """Sorted rows of groups of 1 to ``most`` rows, with ties and weights of 0."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(groups), rng.integers(1, most, groups))
    score = np.round(rng.normal(size=group.size) * rng.choice([0.3, 2.0, 50.0], group.size), 1)
    y = rng.random(group.size) < rng.choice([0.0, 0.1, 0.5, 1.0], groups)[group]
    weight = rng.choice([0.0, 0.25, 1.0, 7.3], group.size)
    order = np.lexsort((score, group))
    return group, score[order], y[order], weight[order]


def ends_of(group):
    return np.append(np.flatnonzero(np.diff(group)) + 1, group.size)


def summed(group, score, y, weight):
    return GroupSums.of(ends_of(group), score, y, weight)[0]


@pytest.mark.parametrize("weighted", [False, True])
def test_measures_are_those_of_each_group_alone(weighted):
    group, score, y, weight = made_rows(3)
    weight = weight if weighted else np.ones(score.size)
    measures = summed(group, score, y, weight).measures(0.9)
    kinds = set()
    for k in range(group[-1] + 1):
        mine = (group == k) & (weight > 0)
        s, t, u = score[mine], y[mine], weight[mine]
        found = [float(values[k]) for values in measures]
        rows = (t.sum(), (~t).sum())
        assert found[:2] == [*rows]
        assert found[2] == pytest.approx(u.sum(), rel=1e-14)
        kinds.add(min(*rows, 2))
        if min(rows) == 0:
            assert np.isnan(found[3:]).all()
            continue
        assert found[3] == pytest.approx(roc_auc_score(t, s, sample_weight=u), abs=1e-13)
        if min(rows) == 1:
            assert np.isnan(found[4:]).all()
            continue
        expected = auc_interval(ScoreTable.of(s, t, u), 0.9)
        assert found[4:] == pytest.approx([expected.lower, expected.upper], abs=1e-12)
    assert kinds == {0, 1, 2}


@pytest.mark.parametrize("cuts", [[1], [2], [3], [5], [1, 3, 6], range(1, 12)])
def test_rows_in_several_batches_are_the_same_to_the_bit(cuts):
    """Batches end within groups, within ties and between groups."""
    group = np.array([0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2])
    score = np.array([1.0, 1.0, 1.0, 2.0, 2.0, 0.5, 0.5, 0.5, -1.0, 0.0, -0.0, 3.0])
    y = np.array([1, 0, 0, 1, 0, 0, 1, 1, 0, 1, 0, 1], bool)
    weight = np.array([1.0, 0.3, 0.0, 2.0, 1.0, 1.1, 0.7, 0.2, 1.0, 1.0, 2.5, 1.0])
    parts, before, earlier = [], None, None
    for first, last in itertools.pairwise([0, *cuts, group.size]):
        here = slice(first, last)
        start = before if group[first] == earlier else None
        sums, before = GroupSums.of(ends_of(group[here]), score[here], y[here], weight[here], start)
        parts = parts[:-1] if start is not None else parts
        parts.extend(sums.values)
        earlier = group[last - 1]
    np.testing.assert_array_equal(parts, summed(group, score, y, weight).values)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_group_in_parts_by_score(weighted):
    rng = np.random.default_rng(0)
    score = np.sort(np.round(rng.normal(size=5000), 2))
    y = rng.random(5000) < 0.01 + 0.02 * (score > 0)
    weight = rng.uniform(0.1, 9, 5000) if weighted else np.ones(5000)
    bounds = np.searchsorted(score, [-10.0, -2.0, -1.99, 0.5, 0.6, 10.0])
    parts = [
        GroupSums.of(np.array([b - a]), score[a:b], y[a:b], weight[a:b])[0]
        for a, b in itertools.pairwise(bounds)
    ]
    expected = auc_interval(ScoreTable.of(score, y, weight))
    orders = (
        ((parts[0].merge(parts[1])).merge(parts[2])).merge(parts[3].merge(parts[4])),
        parts[0].merge(parts[1].merge(parts[2].merge(parts[3].merge(parts[4])))),
    )
    for sums in orders:
        measures = sums.measures(0.95)
        found = [float(values[0]) for values in measures[3:]]
        assert found == pytest.approx(expected[:3], rel=1e-12)
    if not weighted:
        values = [sums.values[0, :9] for sums in orders]
        np.testing.assert_array_equal(*values)


def exact_variance(score, y):
    """DeLong's variance of rows of weight 1, by all pairs in fractions."""
    positive, negative = score[y], score[~y]
    half = [[Fraction(int(a > b)) + Fraction(int(a == b), 2) for b in negative] for a in positive]
    auc = sum(map(sum, half)) / (len(positive) * len(negative))
    total = Fraction(0)
    for table in (half, list(zip(*half, strict=True))):
        means = [sum(row) / len(row) for row in table]
        total += sum((m - auc) ** 2 for m in means) / (len(means) * (len(means) - 1))
    return auc, total


def test_no_digits_are_lost_near_auc_1():
    """One lost pair among 10^4: the variance is 1e-8, of placements near 1."""
    score = np.arange(200.0)
    y = score >= 100
    y[[99, 100]] = [True, False]
    auc, variance = exact_variance(score, y)
    found = summed(np.zeros(200, int), score, y, np.ones(200)).measures(0.95)
    assert found.auc[0] == float(auc) == 0.9999
    own = 4 * auc * (1 - auc) * 99
    least = (auc * (1 - auc) / 100 + own * variance) / (1 + own)
    factor = 1.959963984540054**2 * float(least / (auc * (1 - auc)))
    middle, spread = float(auc) + factor / 2, float(auc * (1 - auc))
    reach = math.sqrt(factor * (spread + factor / 4))
    expected = [(middle + sign * reach) / (1 + factor) for sign in (-1, 1)]
    assert [found.lower[0], found.upper[0]] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("size", [1e-100, 1e100])
def test_extreme_weights(size):
    score, y = np.array([1.0, 2, 2, 3, 4]), np.array([0, 1, 0, 0, 1], bool)
    plain = summed(np.zeros(5, int), score, y, np.ones(5)).measures(0.95)
    found = summed(np.zeros(5, int), score, y, np.full(5, size)).measures(0.95)
    np.testing.assert_allclose(found[3:], plain[3:], rtol=1e-12)
    outweighed = np.array([1, 1, 1e100, 1, 1e-100])
    found = summed(np.zeros(5, int), score, y, outweighed).measures(0.95)
    expected = auc_interval(ScoreTable.of(score, y, outweighed))
    assert [found.auc[0], found.lower[0], found.upper[0]] == pytest.approx(expected[:3])


def test_certain_and_constant_scores():
    group = np.repeat([0, 1, 2], 6)
    score = np.tile([1.0, 2, 3, 4, 5, 6], 3)
    y = np.concatenate([score[:6] > 3, score[:6] <= 3, score[:6] % 2 == 0])
    score[12:] = 0.3
    found = summed(group, score, y, np.full(18, 0.7)).measures(0.95)
    for k, s in enumerate(np.split(score, 3)):
        expected = auc_interval(ScoreTable.of(s, y[group == k], np.full(6, 0.7)))
        assert (found.auc[k], found.lower[k], found.upper[k]) == pytest.approx(expected[:3])
    assert found.auc[2] == 0.5
    assert found.upper[0] == 1 == found.auc[0]


def test_levels_are_probabilities():
    with pytest.raises(ConfigError, match="level = 95"):
        summed(np.zeros(1, int), np.ones(1), np.ones(1, bool), np.ones(1)).measures(95)
