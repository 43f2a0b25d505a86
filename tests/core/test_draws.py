"""Draws and folds against what sampling with replacement must give."""

import numpy as np
import pytest
from scipy import sparse, stats

from spark_auc.core.batch import Batch
from spark_auc.core.sampling.draws import Draws, FirstArrivals
from spark_auc.core.sampling.folds import Folds


def rows(n=2000, rate=0.05, seed=0, weighted=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * (rng.random((n, 3)) < [1.0, 0.8, 0.6])
    return Batch(X, rng.random(n) < rate, rng.uniform(0.2, 3, n) if weighted else None)


def first(batches, limit, seed=1):
    state = FirstArrivals.zero(limit)
    for batch in batches:
        state = state.update(batch, seed)
    return state


def test_keys_are_of_the_content():
    batch = rows(weighted=True)
    as_sparse = batch._replace(X=sparse.csr_matrix(batch.X))
    np.testing.assert_array_equal(batch.keys(), as_sparse.keys())
    some = np.arange(50)[::-1]
    np.testing.assert_array_equal(batch.take(some).keys(), batch.keys()[some])
    changed = batch._replace(weight=batch.weight + 1)
    assert not (changed.keys() == batch.keys()).any()
    assert not (batch._replace(y=~batch.y).keys() == batch.keys()).any()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("limit", [1, 40, 5000])
def test_first_draws_are_the_same_however_the_rows_arrive(weighted, limit):
    batch = rows(weighted=weighted)
    order = np.random.default_rng(4).permutation(batch.y.size)
    whole = first([batch], limit)
    parts = [batch.take(p) for p in np.array_split(order, 7)]
    one_by_one = first(parts, limit)
    merged = first(parts[:3], limit).merge(first(parts[3:], limit))
    for other in (one_by_one, merged, FirstArrivals.from_bytes(whole.to_bytes())):
        np.testing.assert_array_equal(other.positive, whole.positive)
        np.testing.assert_array_equal(other.negative, whole.negative)
    drawn = whole.draws(1, limit).drawn(batch)
    assert drawn.weight[drawn.y].sum() == drawn.weight[~drawn.y].sum() == limit


def test_a_larger_sample_contains_the_smaller_one():
    batch = rows()
    known = first([batch], 900)
    small, large = (known.draws(1, count).drawn(batch) for count in (300, 900))
    counts = dict(zip(large.key.tolist(), large.weight, strict=True))
    for key, times in zip(small.key.tolist(), small.weight, strict=True):
        assert times <= counts[key]
    np.testing.assert_array_equal(first([batch], 300).positive, known.positive[:300])


def test_draws_follow_the_weights():
    rng = np.random.default_rng(2)
    weight = np.array([0.5, 1.0, 2.0, 4.0, 0.5, 1.0])
    y = np.array([True, True, True, True, False, False])
    batch = Batch(rng.normal(size=(6, 2)), y, weight)
    total = np.zeros(6)
    for seed in range(300):
        drawn = first([batch], 50, seed).draws(seed, 50)
        total += np.bincount(drawn.arrivals(batch)[0], minlength=6)
    for mine in (y, ~y):
        expected = 300 * 50 * weight[mine] / weight[mine].sum()
        assert total[mine].sum() == 300 * 50
        assert stats.chisquare(total[mine], expected).pvalue > 1e-3


def test_one_positive_row_is_drawn_each_time():
    batch = rows(5000)
    y = np.zeros(5000, bool)
    y[77] = True
    alone = batch._replace(y=y)
    drawn = first([alone], 1000).draws(1, 1000).drawn(alone)
    assert drawn.weight[drawn.y].tolist() == [1000.0]


def test_equal_rows_share_their_fate_and_are_found_all_the_same():
    same = Batch(np.ones((400, 2)), np.arange(400) < 200)
    known = first([same], 30)
    assert known.positive.size == known.negative.size == 30
    assert np.unique(known.positive).size == 1


def test_seeds_and_uses_do_not_share_numbers():
    batch = rows()
    a, b = (set(Draws(s, 1.0, 1.0).arrivals(batch)[0].tolist()) for s in (1, 2))
    assert len(a & b) < 0.8 * len(a)
    chosen = Folds(5, 1).of(batch)
    assert stats.chisquare(np.bincount(chosen, minlength=5)).pvalue > 1e-4
    drawn = Draws(1, 0.3, 0.3).arrivals(batch)[0]
    share = np.bincount(chosen[drawn], minlength=5) / drawn.size
    assert np.abs(share - 0.2).max() < 0.08
    assert not np.array_equal(Folds(5, 2).of(batch), chosen)


def test_a_late_last_arrival_is_not_waited_for():
    batch = Batch(
        np.zeros((4, 0)), np.array([True, True, False, False]), None, np.arange(4, dtype=np.uint64)
    )
    late = np.array([1.0, 1e300])
    found = FirstArrivals(late, late, 2).update(batch, seed=1)
    fresh = FirstArrivals.zero(2).update(batch, seed=1)
    for side in ("positive", "negative"):
        expected = np.sort(np.append(late, getattr(fresh, side)))[:2]
        np.testing.assert_array_equal(getattr(found, side), expected)
