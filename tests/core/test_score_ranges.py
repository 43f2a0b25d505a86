"""The all-pairs squared hinge from ranges of scores, against loops over all pairs."""

import numpy as np
import pytest
from scipy import sparse

from spark_auc.core.batch import Batch
from spark_auc.core.hinge import pair_hinge
from spark_auc.core.hinge.margins import Margins
from spark_auc.core.hinge.pair_hinge import PairHinge
from spark_auc.core.hinge.score_ranges import ScoreRanges
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.products import settled_scores
from spark_auc.core.row_source import ArrayRows
from tests.core.test_pair_hinge import L2, D, brute, cut, far, integers, pairs, reals
from tests.laws import Case, check_laws


def heavy():
    """Weights and scores over many orders of magnitude."""
    X, y, _, w = reals()
    rng = np.random.default_rng(8)
    return X * 10.0 ** rng.integers(-3, 4, (len(y), 1)), y, 10.0 ** rng.uniform(-6, 6, len(y)), w


def near():
    """Nearly equal scores: all rows of a class are in one range."""
    X, y, u, w = reals()
    return X * 1e-9, y, u, w


def at_margin():
    """Margins that differ from 1 by rounding or by very little."""
    rng = np.random.default_rng(9)
    y = rng.random(120) < 0.5
    score = y + rng.choice([0.0, 1e-16, -1e-13, 1e-7, 0.25], 120)
    X = np.column_stack([score, *rng.normal(size=(D - 1, 120))])
    return X, y, rng.uniform(0.5, 2, 120), np.eye(D)[0]


MADE = [reals, integers, far, heavy, near, at_margin]


def hinge(X, y, u, most, scale=None):
    rows = cut(X, y, u)
    return PairHinge(rows, ColumnMoments.fold(rows.batches, X.shape[1]), L2, scale, most)


def exact(X, y, u, w):
    """Loss and gradient of all pairs in extended precision."""
    long = [np.asarray(a, np.longdouble) for a in (X, u, w)]
    difference, weight = pairs(long[0], y, long[1])
    short = np.maximum(1 - difference @ long[2], 0)
    value = L2 / 2 * (long[2] @ long[2]) + weight @ short**2 / 2
    return value, L2 * long[2] - (weight * short) @ difference


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("most", [2, 3, 7, 30, 1 << 12])
@pytest.mark.parametrize("make", MADE)
def test_errors_are_within_their_bounds(make, most, form):
    X, y, u, w = make()
    scale = np.linspace(0.5, 2, D)
    loss = hinge(form(X * scale), y, u, most, scale)
    margins = loss.in_ranges(w, w)
    value, slopes = exact(X, y, u, w)
    gradient, also = loss.gradient(w, margins), loss.derivatives(w, margins)[0]
    rounding = 1e-12 * (1 + np.abs(X).max() * (np.abs(w).max() + 1)) ** 2
    assert abs(loss.value(w, margins) - value) <= loss.value_error(margins) + rounding
    assert (np.abs(gradient.value - slopes) <= gradient.error + rounding).all()
    for mine, theirs in zip(also, gradient, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=rounding)


def test_bounds_are_not_idle():
    """With few ranges there is an error; a bound is of its size, and falls with more ranges."""
    X, y, u, w = reals()
    value, slopes = exact(X, y, u, w)
    before = np.inf
    for most in (4, 8, 16, 32, 64):
        loss = hinge(X, y, u, most)
        margins = loss.in_ranges(w, w)
        error = np.abs(loss.gradient(w, margins).value - slopes).max()
        bound = loss.gradient(w, margins).error.max()
        assert error > 1e-9
        assert bound < before / 1.2
        assert loss.value_error(margins) < 100 * abs(loss.value(w, margins) - value)
        before = bound


@pytest.mark.parametrize("make", [reals, integers, far])
def test_many_ranges_are_exact(make):
    X, y, u, w = make()
    loss, z = hinge(X, y, u, 1 << 12), np.linspace(-1, 1, D)
    margins = loss.in_ranges(w, z)
    value, slopes, hessian = brute(X, y, u, w)
    gradient = loss.gradient(w, margins)
    assert loss.value(w, margins) == pytest.approx(value, rel=1e-8)
    assert margins.loss_error() <= 1e-12 * np.outer(u[y], u[~y]).sum()
    size = np.abs(hessian).max()
    np.testing.assert_allclose(gradient.value, slopes, atol=1e-8 * np.abs(slopes).max())
    assert loss.slope(w, z, margins, 1) == pytest.approx(
        slopes @ z, abs=1e-8 * np.abs(slopes).max()
    )
    if make is reals:  # no ties at margin 1, of which the table counts half
        product = loss.product(w, z, margins)
        np.testing.assert_allclose(product, hessian @ z, atol=1e-9 * size)


@pytest.mark.parametrize("most", [3, 20, 1 << 12])
@pytest.mark.parametrize("make", [reals, integers, near, at_margin])
def test_a_rounded_hessian_is_that_of_pairs_of_bins(make, most, monkeypatch):
    monkeypatch.setattr(pair_hinge, "_BINS", 9)
    X, y, u, w = make()
    loss = hinge(X, y, u, most)
    margins = loss.in_ranges(w, w)
    score = settled_scores(X, w)
    at = margins.bins(9).places(np.where(y, 1 - score, score), y)
    assert make is not reals or most == 3 or 6 <= np.unique(at).size <= 11
    i, j = (a.ravel() for a in np.meshgrid(np.flatnonzero(y), np.flatnonzero(~y)))
    violating = (at[j] > at[i]) + 0.5 * (at[j] == at[i])
    difference, weight = pairs(X, y, u)
    expected = (difference.T * weight * violating) @ difference
    found = loss.derivatives(w, margins)[1].toarray()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("most", [3, 20])
@pytest.mark.parametrize("make", MADE)
def test_products_are_those_of_a_symmetric_positive_matrix(make, most):
    X, y, u, w = make()
    loss = hinge(X, y, u, most)
    H = np.array([loss.product(w, z, loss.in_ranges(w, z)) for z in np.eye(D)])
    size = np.abs(H).max()
    np.testing.assert_allclose(H, H.T, rtol=0, atol=1e-9 * size)
    assert np.linalg.eigvalsh(H)[0] >= -1e-9 * size
    rounded = loss.derivatives(w, loss.in_ranges(w, w))[1].toarray()
    assert np.linalg.eigvalsh(rounded)[0] >= -1e-9 * size


def test_the_slope_is_the_derivative_of_the_value_of_every_pair():
    X, y, u, w = reals()
    z = np.linspace(-1, 1, D)
    loss = hinge(X, y, u, 50)
    margins = loss.in_ranges(w, z)
    gradient = loss.gradient(w, margins)
    assert loss.slope(w, z, margins, 1) == pytest.approx(gradient.value @ z, rel=1e-11)


def test_a_line_of_ranges_leads_to_its_points():
    X, y, u, w = reals()
    z = np.linspace(-1, 1, D)
    ranges, gathered = hinge(X, y, u, 1 << 12), hinge(X, y, u, None)
    for step in (0.0, 0.3, 2.0):
        one, other = ranges.line(w, z)(step), gathered.line(w, z)(step)
        assert isinstance(other, Margins)
        assert one.loss() == pytest.approx(other.loss(), rel=1e-9)
        assert one.slope(1) == pytest.approx(other.slope(1), rel=1e-9)


def test_rows_of_one_class_in_a_part_and_batches_do_not_matter():
    X, y, u, w = reals()
    order = np.argsort(y, kind="stable")
    one = hinge(X, y, u, 16).in_ranges(w, w).ranges
    rows = ArrayRows(tuple(Batch(X[i : i + 1], y[i : i + 1], u[i : i + 1]) for i in order), D)
    other = PairHinge(rows, ColumnMoments.fold(rows.batches, D), L2, None, 16).in_ranges(w, w)
    np.testing.assert_array_equal(one.anchor, other.ranges.anchor)
    np.testing.assert_allclose(one.sums, other.ranges.sums, atol=1e-9)


def test_ranges_are_bounded_and_as_narrow_as_they_may_be():
    rng = np.random.default_rng(1)
    v, y = rng.standard_cauchy(10_000), rng.random(10_000) < 0.3
    rows = (v, v, np.ones(10_000), y)
    ranges = ScoreRanges.of(rows, 500)
    assert 250 <= ranges.anchor.size <= 500
    assert len(ranges.to_bytes()) < ScoreRanges.nbytes(500) + 1000
    assert ScoreRanges.of(rows, 20_000).shift == 0


def view(ranges):
    """Sums at the first row of each range, about the place 0."""
    start = ranges.anchor - np.copysign(1.0, ranges.anchor)
    weight, excess, square, change, both = ranges.sums
    out = np.zeros((6, 2, 16))
    out[:5, :, : start.size] = (
        weight,
        excess + start * weight,
        square + start * (2 * excess + start * weight),
        change,
        both + start * change,
    )
    out[5, :, : start.size] = start
    return out.ravel() / 100


def test_laws():
    X, y, u, w = (a[:60] for a in reals())
    v = np.where(y, 1 - X @ w, X @ w)
    case = Case(
        ScoreRanges.zero(16), lambda i: ScoreRanges.of((v[i], 2 * v[i], u[i], y[i]), 16), view, 60
    )
    check_laws(case)
