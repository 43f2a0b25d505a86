"""Folds and draws of random rows with repeats: what holds for each of them."""

from collections import Counter
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from spark_auc.core.batch import Batch, stacked
from spark_auc.core.row_source import ArrayRows
from spark_auc.core.sampling.draws import FirstArrivals
from spark_auc.core.sampling.folds import Folds, GroupCounts
from spark_auc.core.sampling.repeats import distinct_keys
from spark_auc.errors import DataError
from spark_auc.training.cross_validation import CrossValidation
from tests.fuzz.inputs import inputs

pytestmark = pytest.mark.fuzz


@st.composite
def frames(draw):
    """Rows of few or many kinds, sparse or dense, weighted or not, some with keys, in places."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, kinds = draw(st.integers(1, 400)), draw(st.sampled_from([1, 2, 3, 7, 30, 10_000]))
    X = rng.integers(-2, 3, (min(kinds, n), draw(st.integers(1, 3)))).astype(float)
    if kinds > n:
        X += rng.normal(size=X.shape)
    kind = (rng.random(n) ** draw(st.sampled_from([1, 4])) * len(X)).astype(int)
    y = rng.random(n) < draw(st.sampled_from([0.01, 0.2, 0.5, 0.99]))
    weight = rng.choice([0.25, 1.0, 3.0], n) if draw(st.booleans()) else None
    key = rng.integers(0, 40, n).astype(np.uint64) if draw(st.booleans()) else None
    place = np.sort(rng.integers(0, draw(st.integers(1, 5)), n))
    rows = X[kind] if draw(st.booleans()) else sparse.csr_matrix(X[kind])
    return Batch(rows, y, weight, key, key, place), rng


def split(batch, rng, ordered):
    """The rows in batches, in another order within their places or just in another order."""
    order = rng.permutation(batch.y.size)
    if ordered:
        order = order[np.argsort(batch.place[order], kind="stable")]
    cuts = np.sort(rng.integers(0, order.size + 1, 3))
    return [batch.take(part) for part in np.split(order, cuts)]


def content(batch):
    dense = batch.X if isinstance(batch.X, np.ndarray) else batch.X.toarray()
    columns = [dense, batch.y[:, None], batch.weights[:, None]]
    return np.column_stack([c.astype(float) for c in columns])


@inputs(2000)
@given(frames(), st.integers(2, 9), st.integers(-5, 5))
def test_folds(frame, count, seed):
    batch, rng = frame
    zero = GroupCounts.zero(Folds(count, seed).enough)
    counts = [reduce(GroupCounts.update, split(batch, rng, ordered=False), zero) for _ in "ab"]
    assert counts[0].to_bytes() == counts[1].to_bytes()
    groups = batch.groups()
    kinds = [np.unique(groups[mine]) for mine in (batch.y, ~batch.y)]
    if min(kind.size for kind in kinds) < 2:
        with pytest.raises(DataError, match="set regParam"):
            Folds(count, seed).assigned(counts[0])
        return
    dealt = Folds(count, seed).assigned(counts[0])
    found = dealt.of(batch)
    assert dealt.count == min(count, *(kind.size for kind in kinds))
    assert len(set(zip(groups.tolist(), found.tolist(), strict=True))) == np.unique(groups).size
    for mine in (batch.y, ~batch.y):
        rows = np.bincount(found[mine], minlength=dealt.count)
        assert rows.size == dealt.count
        assert rows.min() > 0
    shares = [np.bincount(found[m], minlength=dealt.count) / m.sum() for m in (batch.y, ~batch.y)]
    _, places = np.unique(groups, return_inverse=True)
    of_groups = [np.bincount(places[m]) / m.sum() for m in (batch.y, ~batch.y)]
    # A group goes where loads times its shares are least, so below their mean over the folds.
    squares = sum(np.sum(share**2) for share in of_groups)
    bound = 2 / dealt.count + (1 - 1 / dealt.count) * squares
    assert np.sum(np.square(shares)) <= bound + 1e-12
    # Rows in memory, and moments of rows that lie anywhere, go by the same folds.
    settings = CrossValidation(
        Folds(count, seed),
        tol=1e-6,
        max_iter=9,
        one_standard_error=False,
        at_once=3,
    )
    rows = ArrayRows(tuple(p for p in split(batch, rng, ordered=False) if p.y.size), 1)
    rows = ArrayRows(rows.batches, batch.X.shape[1])
    by_rows, others = settings.by_columns(rows)
    by_moments, own, _ = settings.by_moments(rows)
    for other in (by_rows, by_moments):
        np.testing.assert_array_equal(other.held_out.of(batch), found)
    for k, (columns, moments) in enumerate(zip(others, own, strict=True)):
        assert columns.rows.sum() == np.count_nonzero(found != k)
        assert moments.positive.rows == np.count_nonzero(batch.y & (found == k))


@inputs(2000)
@given(frames(), st.integers(1, 60), st.integers(-5, 5), st.booleans())
def test_draws(frame, count, seed, by_place):
    batch, rng = frame
    if batch.y.all() or not batch.y.any():
        return
    apart = [stacked(list(distinct_keys(by_place)(iter(split(batch, rng, True))))) for _ in "ab"]
    firsts = []
    for rows in apart:
        whole = FirstArrivals.zero(count + 1).update(rows, seed)
        cut = rng.integers(0, rows.y.size + 1)
        parts = [rows.take(np.arange(*ends)) for ends in ((0, cut), (cut, rows.y.size))]
        known = [FirstArrivals.zero(count + 1).update(part, seed) for part in parts]
        assert known[1].merge(known[0]).to_bytes() == whole.to_bytes()
        firsts.append(whole)
    # The order of rows within a place changes neither moments nor what is drawn.
    assert firsts[0].to_bytes() == firsts[1].to_bytes()
    drawn = [
        first.draws(seed, count).drawn(rows) for first, rows in zip(firsts, apart, strict=True)
    ]
    totals = [
        Counter(map(tuple, np.column_stack([content(d._replace(weight=None)), d.weight])))
        for d in drawn
    ]
    assert totals[0] == totals[1]
    ties = firsts[0].tied()
    if by_place:
        assert np.unique(apart[0].key).size == batch.y.size
        assert not ties
    if not ties:
        for mine in (drawn[0].y, ~drawn[0].y):
            assert drawn[0].weight[mine].sum() == count
    # Rows without copies are drawn alike wherever they lie.
    if not by_place and np.unique(apart[0].key).size == batch.y.size and not batch.place.any():
        moved = batch._replace(place=np.sort(rng.integers(0, 9, batch.y.size)))
        names = np.column_stack([content(batch), np.zeros(batch.y.size)])
        if batch.key is not None:
            names[:, -1] = batch.key
        if len(np.unique(names, axis=0)) == batch.y.size:
            other = stacked(list(distinct_keys(False)(iter([moved]))))
            np.testing.assert_array_equal(np.sort(other.key), np.sort(apart[0].key))
