"""Rows told apart against counting, and estimates from draws of repeated rows against all rows."""

from collections import Counter

import numpy as np
import pytest

from spark_auc.core.batch import Batch, stacked
from spark_auc.core.evaluation.roc import auc
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.moments.objective import ElasticNet
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.sampling.draws import FirstArrivals
from spark_auc.core.sampling.repeats import Repeats, distinct_keys
from spark_auc.core.sampling.sample_size import GroupSums, estimated_suboptimality
from spark_auc.solvers.path import solve

KINDS, N, D = 128, 20_000, 6


def repeated(seed=0, places=7, n=N, weighted=False):
    """Rows of few kinds, each with both labels, read from some places."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(KINDS, size=n)
    X = rng.normal(size=(KINDS, D))[kind]
    y = rng.random(n) < 1 / (1 + np.exp(1 - X @ np.linspace(-0.8, 0.8, D)))
    weight = rng.choice([0.5, 1.0, 2.0], KINDS)[kind] if weighted else None
    return Batch(X, y, weight, place=np.sort(rng.integers(places, size=n)))


def apart(batch, by_place, sizes=1000):
    # The last part is empty where there are fewer rows.
    cuts = np.arange(sizes, batch.y.size + sizes, sizes)
    parts = [batch.take(rows) for rows in np.split(np.arange(batch.y.size), cuts)]
    return stacked(list(distinct_keys(by_place)(iter(parts))))


@pytest.mark.parametrize("by_place", [False, True])
def test_identities_do_not_depend_on_the_order_within_a_place(by_place):
    batch = repeated()
    order = np.lexsort((np.random.default_rng(1).random(N), batch.place))
    mine, other = apart(batch, by_place), apart(batch.take(order), by_place, 777)
    np.testing.assert_array_equal(np.sort(mine.key), np.sort(other.key))
    # Whoever has an identity, it is a row of the same content.
    for x in (mine, other):
        assert x.place is None
    a, b = np.argsort(mine.key, kind="stable"), np.argsort(other.key, kind="stable")
    np.testing.assert_array_equal(mine.X[a], other.X[b])
    np.testing.assert_array_equal(mine.y[a], other.y[b])


def test_copies_are_counted():
    batch = repeated()
    met, seen = Repeats(), Counter()
    for start in range(0, N, 997):
        part = batch.take(np.arange(start, min(start + 997, N)))
        first, second, copies = met.identities(part)
        for place, key, found in zip(part.place, part.keys(), copies, strict=True):
            assert found == seen[place, key]
            seen[place, key] += 1
        np.testing.assert_array_equal(first[copies > 0], second[copies > 0])
        np.testing.assert_array_equal(first[copies == 0], part.keys()[copies == 0])
    assert np.unique(apart(batch, True).key).size == N
    firsts = sum(count > 0 for count in seen.values())
    assert np.unique(apart(batch, False).key).size == N - firsts + len({k for _, k in seen})


def test_rows_without_copies_are_drawn_alike_in_any_partitioning():
    rng = np.random.default_rng(3)
    batch = Batch(rng.normal(size=(500, 2)), rng.random(500) < 0.3)
    keys = apart(batch._replace(place=np.repeat(np.arange(5), 100)), False).key
    np.testing.assert_array_equal(keys, batch.keys())
    # A table grows many times over.
    many = Batch(rng.normal(size=(100_000, 1)), rng.random(100_000) < 0.3)
    first, second, copies = Repeats().identities(many)
    assert not copies.any()
    assert np.unique(second).size == np.unique(first).size == 100_000


def test_a_key_tells_copies_apart_and_rows_of_one_key_are_drawn_each_by_itself():
    batch = repeated()
    told = batch._replace(key=np.arange(N).astype(np.uint64))
    _, _, copies = Repeats().identities(told)
    assert not copies.any()
    users = batch._replace(key=(np.arange(N) % 9).astype(np.uint64))
    assert np.unique(apart(users, True).key).size == N


def test_a_place_is_read_at_once():
    batch = repeated()
    with pytest.raises(ValueError, match="place 0 after those of another place"):
        Repeats().identities(batch._replace(place=np.arange(N) % 2))


def drawn(batch, seed, pairs):
    first = FirstArrivals.zero(pairs).update(batch, seed)
    return first, first.draws(seed, pairs)


def in_pairs(batch, draws):
    """The k-th positive and the k-th negative draw."""
    rows, moments = draws.arrivals(batch)
    rows = rows[np.argsort(moments)]
    return rows[batch.y[rows]], rows[~batch.y[rows]]


def test_only_a_sample_that_met_copies_of_two_places_is_tied():
    batch, rng = repeated(), np.random.default_rng(0)
    known, _ = drawn(apart(batch, False), 1, 2000)
    assert known.tied()
    assert not drawn(apart(batch, True), 1, 2000)[0].tied()
    distinct = Batch(rng.normal(size=(N, 2)), batch.y, place=batch.place)
    assert not drawn(apart(distinct, False), 1, 2000)[0].tied()
    assert not drawn(apart(batch._replace(place=None), False), 1, 2000)[0].tied()


def test_the_last_draw_ties_with_the_first_that_is_none():
    twice = Batch(np.ones((4, 1)), np.array([True, True, False, False]))
    twice = apart(twice._replace(place=np.array([0, 1, 1, 2])), False)
    assert not FirstArrivals.zero(1).update(twice, 0).tied()
    assert FirstArrivals.zero(2).update(twice, 0).tied()


@pytest.mark.parametrize("weighted", [False, True])
def test_estimates_from_repeated_rows_are_unbiased(weighted):
    """Means over seeds of both estimators' mu and Sigma against those of all pairs."""
    batch = apart(repeated(weighted=weighted), True)
    exact = PairMoments.of(batch.X, batch.y, batch.weight).quadratic()
    truth = np.append(exact.Sigma.toarray().ravel(), exact.mu)
    found = {"complete": [], "paired": []}
    for seed in range(200):
        draws = drawn(batch, seed, 64)[1]
        some = draws.drawn(batch)
        assert some.weight[some.y].sum() == some.weight[~some.y].sum() == 64
        of_all = PairMoments.of(some.X, some.y, some.weight).quadratic()
        found["complete"].append(np.append(of_all.Sigma.toarray().ravel(), of_all.mu))
        plus, minus = in_pairs(batch, draws)
        pair = batch.X[plus] - batch.X[minus]
        found["paired"].append(np.append((pair.T @ pair / 64).ravel(), pair.mean(axis=0)))
    for estimates in found.values():
        error = np.std(estimates, axis=0, ddof=1) / np.sqrt(len(estimates))
        # 27 distinct numbers, two estimators: beyond four errors once in 300 runs at random.
        assert np.abs((np.mean(estimates, axis=0) - truth) / error).max() < 4


@pytest.mark.parametrize("estimator", ["complete", "paired"])
def test_the_cost_of_sampling_repeated_rows_is_what_is_stated(estimator):
    """Mean over seeds of the cost stated against that of the objective on all pairs."""
    batch, pairs, groups = apart(repeated(), True), 2048, 32
    penalty = ElasticNet(0.0, 0.01)
    exact = PairMoments.of(batch.X, batch.y).quadratic()
    best = solve(exact, penalty, tol=1e-10, max_iter=100)
    right = auc(ScoreTable.of(batch.X @ best.w, batch.y))
    stated, paid = [], []
    for seed in range(100):
        known, draws = drawn(batch, seed, pairs)
        rows, moments = draws.arrivals(batch)
        cuts = known.cuts(pairs, groups)
        group = np.where(
            batch.y[rows], *(np.searchsorted(c, moments, "right") for c in cuts)
        ).astype(np.uint64)
        some = batch.take(rows)._replace(key=group)
        if estimator == "paired":
            plus, minus = in_pairs(batch, draws)
            pair = Batch(batch.X[plus] - batch.X[minus], np.ones(pairs, bool))
            pair = pair._replace(key=(np.arange(pairs) // (pairs // groups)).astype(np.uint64))
            none = Batch(np.zeros((1, D)), np.zeros(1, bool), None, np.zeros(1, np.uint64))
            some = stacked([pair, none])
        quadratic = PairMoments.of(some.X, some.y).quadratic()
        w = solve(quadratic, penalty, tol=1e-10, max_iter=100).w
        assert auc(ScoreTable.of(batch.X @ w, batch.y)) > right - 0.01
        gradients = GroupSums.fold([some], groups, w).gradients()
        hessian = quadratic.Sigma.toarray() + penalty.l2 * np.eye(D)
        stated.append(
            estimated_suboptimality(gradients, lambda g, h=hessian: np.linalg.solve(h, g))
        )
        value = exact.value(w, exact.Sigma.matvec(w)) + penalty.value(w)
        paid.append(value - best.certificate.objective)
    # The mean of what was paid varies by 6 % itself.
    assert np.mean(stated) == pytest.approx(np.mean(paid), rel=0.2)
