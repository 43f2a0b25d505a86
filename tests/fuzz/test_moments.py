"""Moments of random frames, by whatever way, against all pairs in extended precision.

An error of ``Sigma_ij`` is measured against ``sqrt(Sigma_ii Sigma_jj)``. A sum of n products is
in error by n units in the last place, relative to the squares about the origin from which it is
made, and the condition ``kappa_j`` is what these are of ``Sigma_jj``. The origin is a column's
mean (``kappa`` about 1, whatever the offset), and 0 where some batch has it; where rows are
subtracted, the squares are those of all rows before. Products of a weight and two values lose
to underflow, besides, what is below the smallest double over the class's weight.
"""

from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.operator import operator_quadratic
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import ArrayRows
from spark_auc.errors import DataError
from tests.core.frames import EPS, all_pairs, batches, counted_pairs, deviation, frame, weights
from tests.fuzz.inputs import inputs

pytestmark = pytest.mark.fuzz
SMALLEST = float(np.nextafter(0, 1))
SEED = st.integers(0, 2**32 - 1)


def squares(X, y, u, moments):
    """Mean squares ``(d,)`` about the origins, of both classes, in extended precision."""
    u = np.ones(y.size) if u is None else u
    total = np.zeros(X.shape[1], np.longdouble)
    for mine, origin in ((y, moments.positive.origin), (~y, moments.negative.origin)):
        share = u[mine].astype(np.longdouble)
        share /= share.sum()
        values = X[mine].astype(np.longdouble)
        about = np.where(origin == 0, 0, share @ values)
        total += share @ (values - about) ** 2
    return total


def check(moments, X, y, u, before=None):
    """Moments of these rows; ``before`` are the mean squares of those that others were part of."""
    mu, Sigma = all_pairs(X, y, u)
    n, diagonal = len(y), np.diag(Sigma)
    size = squares(X, y, u, moments) if before is None else before
    # What the sums may have lost, with what the values' own last places are.
    largest = np.abs(X).max(axis=0)
    v = np.ones(n) if u is None else u
    underflow = 8 * n * SMALLEST / min(v[y].sum(), v[~y].sum())
    lost = 8 * EPS * (n + 8) * size + underflow
    last = (64 * EPS * largest) ** 2
    found = moments.quadratic()
    S, columns = found.Sigma.toarray(), moments.columns()
    varies, sd = columns.varies(), columns.standard_deviation()

    constant = np.ptp(X, axis=0) == 0
    for zero in (S[constant], S[:, constant], found.mu[constant]):
        assert not zero.any()
    assert (sd[constant] == 1.0).all()
    assert not S[~varies].any()
    assert not varies[constant].any()
    assert not found.mu[~varies].any()
    sure = diagonal > 4 * (lost + last)
    assert varies[sure].all()

    at = np.flatnonzero(sure)
    root = np.sqrt(diagonal[at])
    kappa = 1 + size[at] / diagonal[at]
    allowed = 16 * EPS * (n + 8)
    error = np.abs(S[np.ix_(at, at)] - Sigma[np.ix_(at, at)])
    limit = allowed * np.sqrt(np.outer(kappa, kappa)) * np.outer(root, root)
    assert (error <= limit + underflow).all()
    assert (np.abs(found.mu[at] - mu[at]) / root <= allowed * np.sqrt(kappa)).all()
    return varies


def check_deviation(columns, X, y, u):
    """Deviations over all rows, of the condition of squares about 0 at the worst."""
    exact, largest = deviation(X, u), np.abs(X).max(axis=0)
    sure = exact > 1e-6 * largest
    error = np.abs(columns.standard_deviation()[sure] / exact[sure] - 1)
    assert (error <= 16 * EPS * (len(y) + 8) * (1 + (largest[sure] / exact[sure]) ** 2)).all()


def merged(rng, states):
    """The states merged in any order."""
    states = list(states)
    while len(states) > 1:
        a = states.pop(rng.integers(len(states)))
        b = states.pop(rng.integers(len(states)))
        states.append(a.merge(b))
    return states[0]


@inputs(4000)
@given(seed=SEED)
def test_moments_of_any_rows(seed):
    rng = np.random.default_rng(seed)
    X, y, u = frame(rng)
    d, parts = X.shape[1], batches(rng, X, y, u)
    moments = merged(rng, [PairMoments.of(b.X, b.y, b.weight) for b in parts])
    check(moments, X, y, u)
    check(PairMoments.fold(parts, d), X, y, u)
    check(moments.scale(float(rng.choice([0.1, 1 / 3, 1e-3, 7.0]))), X, y, u)
    check(PairMoments.from_bytes(moments.to_bytes()), X, y, u)
    check_deviation(moments.columns(), X, y, u)

    _, Sigma = all_pairs(X, y, u)
    columns = merged(rng, [ColumnMoments.of(b) for b in parts])
    constant = (X[0] == X).all(axis=0)
    floor = (64 * EPS * np.abs(X).max(axis=0)) ** 2
    for found in (columns, ColumnMoments.fold(parts, d)):
        assert (found.standard_deviation()[constant] == 1.0).all()
        assert not found.varies()[constant].any()
        assert found.varies()[np.diag(Sigma) > 4 * floor].all()
        check_deviation(found, X, y, u)
    operator = operator_quadratic(ArrayRows(tuple(parts), d), found.standard_deviation())
    assert not operator.Sigma.matvec(rng.normal(size=d))[constant].any()
    assert not operator.mu[constant].any()


@inputs(100_000)
@given(seed=SEED)
def test_sparse_rows_of_few_values_are_within_their_bounds(seed):
    """The moments carry a bound on their rounding, which grows with sums of equal products."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([rng.integers(4, 40), rng.integers(40, 400), 3000], p=[0.5, 0.49, 0.01]))
    d = int(rng.integers(1, 7))
    y = rng.random(n) < rng.choice([0.1, 0.3])
    y[:4] = True, False, True, False
    values = rng.choice([0.1, 0.3, 1.0, 2.0, 1 / 3, 7e-5, 39**-0.5, 1e3 + 0.1], (d, 3))
    kinds = rng.integers(0, 4, d)
    X = np.stack(
        [rng.choice(v[: 1 + k % 3], n) for v, k in zip(values, kinds, strict=True)], axis=1
    )
    X *= rng.random((n, d)) < np.where(kinds == 3, 1.0, rng.uniform(0.05, 0.9, d))
    u = weights(rng, n) if rng.random() < 0.3 else None
    if u is not None and np.ptp(np.log10(u)) > 3:
        u = None
    parts = batches(rng, X, y, u)
    if rng.random() < 0.8:
        parts = [b._replace(X=sparse.csr_matrix(b.X)) for b in parts]
    apart = merged(rng, [PairMoments.of(b.X, b.y, b.weight) for b in parts])
    mu, Sigma = counted_pairs(X, y, u)
    for moments in (PairMoments.fold(parts, d), apart):
        found = moments.quadratic()
        varies = np.flatnonzero(moments.columns().varies())
        root = np.sqrt(np.diag(Sigma)[varies]).astype(float)
        error = np.abs(found.Sigma.toarray() - Sigma)[np.ix_(varies, varies)].astype(float)
        bound = np.sqrt(np.outer(found.blur[varies], found.blur[varies])) + 2 * found.mu_rounding
        assert (error <= bound * np.outer(root, root)).all()
        assert (np.abs(found.mu - mu)[varies] <= found.mu_rounding * root).all()


@inputs(4000)
@given(seed=SEED)
def test_complements_of_folds(seed):
    rng = np.random.default_rng(seed)
    X, y, u = frame(rng)
    fold = rng.integers(0, rng.integers(2, 6), y.size)
    if rng.random() < 0.5:
        # A column that is constant outside a fold, as one of a store is.
        X[:, 0] = np.where(fold == 0, rng.normal(size=y.size), rng.choice([0.0, 1.0, 0.1]))
    own = []
    for k in range(fold.max() + 1):
        mine = fold == k
        some = None if u is None else u[mine]
        parts = batches(rng, X[mine], y[mine], some) if mine.any() else []
        own.append(PairMoments.fold(parts, X.shape[1]))
    if len(own) < 2:
        return
    whole = reduce(PairMoments.merge, own)
    for k, others in enumerate(PairMoments.complements(own)):
        mine = fold != k
        if len(set(y[mine])) == 2:
            check(others, X[mine], y[mine], None if u is None else u[mine])
    check(whole, X, y, u)
    assert not own


@inputs(4000)
@given(seed=SEED)
def test_what_a_deletion_leaves(seed):
    rng = np.random.default_rng(seed)
    X, y, u = frame(rng)
    gone = rng.random(y.size) < rng.uniform(0.1, 0.8)
    gone[:2] = False
    if rng.random() < 0.5:
        X[:, 0] = np.where(gone, rng.normal(size=y.size), rng.choice([0.0, 1.0, 0.1, 1e6]))
    if not gone.any():
        return

    def moments(mine):
        some = None if u is None else u[mine]
        return PairMoments.fold(batches(rng, X[mine], y[mine], some), X.shape[1])

    part, rest = moments(gone), moments(~gone)
    whole = rest.merge(part)
    v = np.ones(y.size) if u is None else u
    share = min(v[side & ~gone].sum() / v[side].sum() for side in (y, ~y))
    if share < 1e-6:
        return
    left = whole.subtract(part)
    kept = None if u is None else u[~gone]
    before = 2 * (squares(X, y, u, whole) + np.abs(X).max(axis=0) ** 2 * EPS)
    # A part that was seen from elsewhere is moved there first.
    apart = sum(
        np.abs(a.origin - b.origin)[None] ** 2
        for a, b in ((whole.positive, part.positive), (whole.negative, part.negative))
    )[0]
    varies = check(left, X[~gone], y[~gone], kept, (before + apart) / share**2)
    again = left.merge(rest)
    constant = (X[~gone] == X[~gone][0]).all(axis=0)
    assert not varies[constant].any()
    assert not again.columns().varies()[constant].any()
    with pytest.raises(DataError, match="to subtract"):
        rest.subtract(whole)
