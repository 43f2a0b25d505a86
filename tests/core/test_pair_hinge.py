"""The all-pairs squared hinge against loops over all pairs."""

import numpy as np
import pytest
from scipy import sparse

from spark_auc.core.batch import Batch
from spark_auc.core.hinge import pair_hinge
from spark_auc.core.hinge.margins import Margins
from spark_auc.core.hinge.pair_hinge import PairHinge
from spark_auc.core.hinge.row_scores import RowScores
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.row_source import ArrayRows
from spark_auc.errors import ConfigError, DataError
from tests.laws import Case, check_laws

D = 6
L2 = 0.07


def cut(X, y, u, sizes=(1, 40, 3)):
    parts = np.split(np.arange(len(y)), np.cumsum(sizes))
    batches = tuple(Batch(X[p], y[p], None if u is None else u[p]) for p in parts)
    return ArrayRows(batches, X.shape[1])


def hinge(X, y, u=None, l2=L2, scale=None, **how):
    rows = cut(X, y, u, **how)
    return PairHinge(rows, ColumnMoments.fold(rows.batches, X.shape[1]), l2, scale)


def reals():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(120, D)) * (rng.random((120, D)) < 0.7) + 0.3
    y = rng.random(120) < 0.3
    return X, y, rng.uniform(0.2, 3.0, 120), rng.normal(size=D)


def integers():
    """Scores are whole numbers, so that many pairs lie at exactly margin 1 or 0."""
    rng = np.random.default_rng(6)
    X = rng.integers(-2, 3, size=(120, D)).astype(float)
    y = rng.random(120) < 0.4
    return X, y, rng.integers(1, 4, 120).astype(float), np.array([1.0, -1, 0, 1, 0, 0])


def far():
    """Columns far from 0, in which scores nearly cancel."""
    X, y, u, w = reals()
    return X + 1e4, y, u, w


def pairs(X, y, u):
    p, n = np.flatnonzero(y), np.flatnonzero(~y)
    i, j = (a.ravel() for a in np.meshgrid(p, n))
    weight = u[i] * u[j]
    return X[i] - X[j], weight / weight.sum()


def brute(X, y, u, w, l2=L2):
    """Loss, gradient and Hessian of all pairs, one after another."""
    difference, weight = pairs(X, y, u)
    short = 1 - difference @ w
    short[np.abs(short) < 1e-9] = 0.0
    mine = np.maximum(short, 0)
    value = l2 / 2 * w @ w + weight @ mine**2 / 2
    gradient = l2 * w - (weight * mine) @ difference
    violating = difference[short > 0]
    hessian = (violating.T * weight[short > 0]) @ violating + l2 * np.eye(len(w))
    return value, gradient, hessian


def computed(loss, w, directions):
    margins = Margins.of(loss.scores(w))
    products = [
        loss.product(w, z, Margins.of(loss.scores(w, 0 * z, z)), vector=2) for z in directions
    ]
    return loss.value(w, margins), loss.gradient(w, margins).value, np.array(products).T


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, sparse.csr_array])
@pytest.mark.parametrize(("make", "rtol"), [(reals, 1e-10), (integers, 1e-12), (far, 1e-8)])
@pytest.mark.parametrize("weighted", [True, False])
def test_loss_gradient_and_hessian_are_those_of_all_pairs(form, make, rtol, weighted):
    X, y, u, w = make()
    u = u if weighted else np.ones(len(y))
    value, gradient, hessian = computed(hinge(form(X), y, u if weighted else None), w, np.eye(D))
    expected = brute(X, y, u, w)
    assert value == pytest.approx(expected[0], rel=rtol)
    for mine, theirs in ((gradient, expected[1]), (hessian, expected[2])):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=rtol * np.abs(theirs).max())
    np.testing.assert_allclose(hessian, hessian.T, rtol=0, atol=rtol * np.abs(hessian).max())


def test_whole_numbers_do_make_ties_at_margin_1():
    X, y, u, w = integers()
    difference, _ = pairs(X, y, u)
    assert np.count_nonzero(difference @ w == 1) > 100


def test_single_precision_and_column_order():
    X, y, u, w = reals()
    for form in (X.astype(np.float32), np.asfortranarray(X)):
        found = computed(hinge(form, y, u), w, np.eye(D))
        for mine, theirs in zip(found, brute(form.astype(float), y, u, w), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-5)


def test_scaled_columns_are_those_divided():
    X, y, u, w = reals()
    scale = np.random.default_rng(7).uniform(0.5, 4.0, D)
    mine = computed(hinge(X, y, u, scale=scale), w, np.eye(D))
    for a, b in zip(mine, brute(X / scale, y, u, w), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    divided = hinge(X / scale, y, u)
    np.testing.assert_allclose(hinge(X, y, u, scale=scale).mu, divided.mu, rtol=1e-12)
    np.testing.assert_allclose(
        hinge(X, y, u, scale=scale).diagonal(), divided.diagonal(), rtol=1e-12
    )


def test_at_zero_it_is_the_all_pairs_quadratic():
    X, y, u, _ = reals()
    loss = hinge(X, y, u)
    value, gradient, hessian = computed(loss, np.zeros(D), np.eye(D))
    assert value == pytest.approx(0.5)
    np.testing.assert_allclose(gradient, -loss.mu, rtol=1e-12)
    np.testing.assert_allclose(np.diag(hessian), loss.diagonal(), rtol=1e-12)


def test_where_no_pair_violates_the_penalty_is_left():
    X = np.array([[3.0], [4.0], [0.0], [-1.0]])
    y, w = np.array([True, True, False, False]), np.array([1.0])
    value, gradient, hessian = computed(hinge(X, y, sizes=()), w, np.eye(1))
    assert (value, gradient[0], hessian[0, 0]) == (L2 / 2, L2, L2)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("make", [reals, far])
def test_a_hessian_of_finely_rounded_margins_is_the_hessian(form, make):
    X, y, u, w = make()
    scale = np.linspace(0.5, 2, D)
    loss = hinge(form(X * scale), y, u, scale=scale)
    gradient, hessian = loss.derivatives(w, Margins.of(loss.scores(w)))
    _, slopes, exact = brute(X, y, u, w)
    exact = exact - L2 * np.eye(D)
    for mine, theirs in ((gradient.value, slopes), (hessian.toarray(), exact)):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-9 * np.abs(theirs).max())


@pytest.mark.parametrize("make", [reals, integers])
def test_a_rounded_hessian_is_that_of_pairs_of_bins(make, monkeypatch):
    monkeypatch.setattr(pair_hinge, "_BINS", 5)
    X, y, u, w = make()
    loss = hinge(X, y, u)
    margins = Margins.of(loss.scores(w))
    at = np.searchsorted(margins.bins(5).edges, X @ w - y)
    i, j = (a.ravel() for a in np.meshgrid(np.flatnonzero(y), np.flatnonzero(~y)))
    violating = (at[j] > at[i]) + 0.5 * (at[j] == at[i])
    assert (violating == 0.5).any()
    difference, weight = pairs(X, y, u)
    expected = (difference.T * weight * violating) @ difference
    gradient, hessian = loss.derivatives(w, margins)
    rounded = hessian.toarray()
    np.testing.assert_allclose(gradient.value, brute(X, y, u, w)[1], rtol=0, atol=1e-12)
    np.testing.assert_allclose(rounded, expected, rtol=0, atol=1e-12 * np.abs(expected).max())
    assert np.linalg.eigvalsh(rounded)[0] >= -1e-12


def test_a_hessian_where_no_pair_violates_is_zero():
    X = np.array([[5.0], [6.0], [-5.0]])
    loss = hinge(X, np.array([True, True, False]), sizes=())
    w = np.ones(1)
    assert loss.derivatives(w, Margins.of(loss.scores(w)))[1].toarray() == 0


def test_slope_is_the_derivative_along_a_direction():
    X, y, u, w = reals()
    loss, z = hinge(X, y, u), np.random.default_rng(8).normal(size=D)
    margins = Margins.of(loss.scores(w, z))
    assert loss.slope(w, z, margins, 1) == pytest.approx(brute(X, y, u, w)[1] @ z, rel=1e-10)
    moved = Margins.of(margins.scores.combined(np.array([[1.0, 0.3], [0.0, 1.0]])))
    assert loss.value(w + 0.3 * z, moved) == pytest.approx(brute(X, y, u, w + 0.3 * z)[0])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_scores_of_a_row_do_not_depend_on_its_batch(form):
    rng = np.random.default_rng(9)
    X, w, z = rng.normal(size=(1000, 53)), *rng.normal(size=(2, 53))
    y = rng.random(1000) < 0.5
    whole = hinge(form(X), y, sizes=()).scores(w)
    pieces = hinge(form(X), y, sizes=(7, 500, 1, 2)).scores(w, z)
    for mine, theirs in ((pieces.positive, whole.positive), (pieces.negative, whole.negative)):
        np.testing.assert_array_equal(mine[:2], theirs)


def test_order_of_rows_and_of_merges_does_not_matter():
    X, y, u, w = integers()
    w = w * 0.37
    mixed = np.random.default_rng(10).permutation(len(y))
    one, other = hinge(X, y, u), hinge(X[mixed], y[mixed], u[mixed])
    for mine, theirs in zip(
        computed(one, w, np.eye(D)), computed(other, w, np.eye(D)), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-13)
    # Tables of one order serve rows in another.
    np.testing.assert_allclose(
        other.gradient(w, Margins.of(one.scores(w))), one.gradient(w, Margins.of(one.scores(w)))
    )
    known = Margins.of(one.scores(w))
    assert Margins.of(one.scores(w, w), known).positive is known.positive
    assert Margins.of(other.scores(w, w), known).positive is not known.positive


def test_sums_over_a_million_rows_lose_nothing():
    rng = np.random.default_rng(0)
    v, u = rng.normal(size=10**6) + 50.0, rng.uniform(0.5, 2, 10**6)
    lone = np.array([[1.0], [-53.5]])  # a positive row of score 53.5
    margins = Margins.of(RowScores(lone, np.stack([u, v])))
    short = np.maximum(v.astype("g") - np.longdouble(52.5), 0)
    assert margins.loss() == pytest.approx(float((u * short**2).sum() / 2), rel=1e-12)


def view(scores):
    """Rows in the order of their first score."""
    parts = [side[:, np.argsort(side[1])].ravel() for side in (scores.positive, scores.negative)]
    return np.resize(np.concatenate([*parts, [0.0]]), 3 * 60 + 1)


def test_laws_of_row_scores():
    X, y, u, w = (a[:60] for a in reals())
    vectors = np.stack([w, -2 * w + 1])
    case = Case(
        RowScores.zero(2), lambda i: RowScores.of(Batch(X[i], y[i], u[i]), vectors), view, 60
    )
    check_laws(case)


def test_refusals():
    X, y, u, _ = reals()
    with pytest.raises(ConfigError, match="expected >= 0"):
        hinge(X, y, u, l2=-1.0)
    with pytest.raises(DataError, match="expected both classes"):
        hinge(X, y | True, u)


def test_no_edge_lies_where_rounding_could_turn_a_row():
    """Rows of one score but for the last bits, as sums in another order make them."""
    rng = np.random.default_rng(0)
    values = np.array([-0.4, 0.0, 0.3, 0.7])[rng.integers(4, size=400)]
    scores = values + rng.integers(-3, 4, size=400) * 1e-16
    y = rng.random(400) < 0.5
    ones, signed = np.ones(400), np.where(y, -scores, scores)
    table = np.vstack([ones, signed])
    edges = Margins.of(RowScores(table[:, y], table[:, ~y])).bins(256).edges
    assert edges.size
    points = np.where(y, scores - 1.0, scores)
    assert np.abs(np.subtract.outer(edges, points)).min() > 1e-3
