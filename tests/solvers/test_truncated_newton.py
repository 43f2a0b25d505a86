"""The all-pairs squared hinge against solvers that see every pair."""

import logging

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.metrics import roc_auc_score
from sklearn.svm import LinearSVC

from spark_auc.core.batch import Batch
from spark_auc.core.hinge.pair_hinge import PairHinge
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import ArrayRows
from spark_auc.errors import ConvergenceError
from spark_auc.solvers import truncated_newton as truncated_newton_module
from spark_auc.solvers.truncated_newton import truncated_newton
from tests.data import path


class Counted:
    """Rows that count the passes over them."""

    def __init__(self, rows):
        self.rows, self.dimension, self.passes = rows, rows.dimension, 0

    def fold(self, *args, **kwargs):
        self.passes += 1
        return self.rows.fold(*args, **kwargs)


def problem(seed=0, n=150, d=8):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) / np.sqrt(d)
    y = X @ rng.normal(size=d) + rng.normal(size=n) > 0.7
    return X, y, rng.uniform(0.3, 2.0, n)


def solved(X, y, u=None, l2=0.01, sizes=(20, 33), start=True, scale=None, ranges=None, **how):
    parts = np.split(np.arange(len(y)), np.cumsum(sizes))
    batches = tuple(Batch(X[p], y[p], None if u is None else u[p]) for p in parts)
    rows = Counted(ArrayRows(batches, X.shape[1]))
    hinge = PairHinge(rows, ColumnMoments.fold(batches, X.shape[1]), l2, scale, ranges)
    quadratic = PairMoments.of(X, y, u).quadratic(scale) if start else None
    how = {"tol": 1e-8, "max_iter": 1000} | how
    solution = truncated_newton(hinge, quadratic, **how)
    return solution, rows.passes


def every_pair(X, y, u, l2):
    """Value and gradient from every pair."""
    p, n = np.flatnonzero(y), np.flatnonzero(~y)
    i, j = (a.ravel() for a in np.meshgrid(p, n))
    difference, weight = X[i] - X[j], u[i] * u[j]
    weight = weight / weight.sum()

    def loss(w):
        short = np.maximum(1 - difference @ w, 0)
        return l2 / 2 * w @ w + weight @ short**2 / 2, l2 * w - (weight * short) @ difference

    return loss


@pytest.mark.parametrize("l2", [1.0, 0.01, 1e-4])
@pytest.mark.parametrize("start", [True, False])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_solution_is_that_of_lbfgs_over_every_pair(l2, start, form):
    X, y, u = problem()
    solution, _ = solved(form(X), y, u, l2, start=start)
    loss = every_pair(X, y, u, l2)
    best = minimize(
        loss, np.zeros(8), jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-10}
    )
    assert solution.certificate.reason == "converged"
    assert solution.certificate.objective == pytest.approx(loss(solution.w)[0], rel=1e-12)
    assert solution.certificate.objective == pytest.approx(best.fun, rel=1e-9)
    np.testing.assert_allclose(solution.w, best.x, rtol=0, atol=1e-4 * np.abs(best.x).max())


def test_solution_is_that_of_a_linear_machine_on_differences():
    X, y, _ = problem(1)
    l2 = 0.02
    difference = (X[y][:, None] - X[~y]).reshape(-1, 8)
    half = len(difference) // 2
    signs = np.where(np.arange(len(difference)) < half, 1.0, -1.0)
    # C sum = E/2 over l2: C = 1 / (2 l2 W+ W-).
    machine = LinearSVC(
        C=1 / (2 * l2 * len(difference)), fit_intercept=False, tol=1e-10, dual=False
    ).fit(difference * signs[:, None], signs)
    solution, _ = solved(X, y, None, l2)
    np.testing.assert_allclose(solution.w, machine.coef_[0], rtol=1e-5)


@pytest.mark.parametrize("l2", [0.3, 1e-3])
def test_certificate_bounds_the_suboptimality_at_every_step(l2):
    X, y, u = problem(2)
    best, _ = solved(X, y, u, l2, tol=1e-12)
    least = best.certificate.objective
    loss = every_pair(X, y, u, l2)
    for steps in range(1, 12):
        for start in (True, False):
            solution, _ = solved(X, y, u, l2, start=start, tol=1e-12, max_iter=steps)
            c = solution.certificate
            value, gradient = loss(solution.w)
            assert c.objective == pytest.approx(value, rel=1e-12)
            units = np.sqrt(PairMoments.of(X, y, u).quadratic().diagonal + l2)
            assert c.kkt == pytest.approx(np.abs(gradient / units).max(), abs=1e-12)
            assert c.kkt >= np.abs(gradient / units).max()
            assert c.gap >= value - least - 1e-14
            assert c.iterations <= steps
    assert best.certificate.gap < 1e-15


def test_batches_and_their_order_do_not_matter():
    X, y, u = problem(3)
    one, _ = solved(X, y, u, sizes=())
    many, _ = solved(X, y, u, sizes=tuple([7] * 20))
    turned, _ = solved(X[::-1].copy(), y[::-1], u[::-1].copy())
    for other in (many, turned):
        np.testing.assert_allclose(other.w, one.w, rtol=1e-10)
        assert other.certificate.iterations == one.certificate.iterations


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("start", [True, False])
def test_columns_far_from_zero(form, start):
    """The certificate of rows moved by 1e6 is that of all their pairs in extended precision."""
    X, y, u = problem(5)
    X = X + 1e6
    solution, _ = solved(form(X), y, u, start=start, tol=1e-6)
    long, weights = X.astype(np.longdouble), u.astype(np.longdouble)
    _, gradient = every_pair(long, y, weights, np.longdouble(0.01))(solution.w)
    units = np.sqrt(PairMoments.of(X, y, u).quadratic().diagonal + 0.01)
    assert solution.certificate.reason == "converged"
    assert np.abs(gradient / units).max() <= solution.certificate.kkt


def test_scaled_columns():
    X, y, u = problem(4)
    scale = np.geomspace(0.1, 100, 8)
    for start in (True, False):
        mine, _ = solved(X * scale, y, u, scale=scale, start=start)
        plain, _ = solved(X, y, u, start=start)
        np.testing.assert_allclose(mine.w, plain.w, rtol=1e-6, atol=1e-9)


def test_passes_are_two_a_step_and_without_a_matrix_one_more_for_each_gradient(caplog):
    X, y, u = problem(5, 400)
    for start in (True, False):
        caplog.clear()
        with caplog.at_level(logging.INFO):
            solution, passes = solved(X, y, u, start=start)
        newton = sum("Newton step" in r.getMessage() for r in caplog.records)
        assert passes == 2 * solution.certificate.iterations + (2 if start else newton)
        assert "step length" in caplog.text
    # A tolerance that the ridge solution meets costs one pass for scores and one for derivatives.
    assert solved(X, y, u, tol=10.0)[1] == 2


def hessians_and_steps(monkeypatch, caplog, **how):
    """How many Hessians were formed, and Newton steps made."""
    formed, derivatives = [], PairHinge.derivatives
    with monkeypatch.context() as patch, caplog.at_level(logging.INFO):
        caplog.clear()
        patch.setattr(
            PairHinge, "derivatives", lambda *args: formed.append(1) or derivatives(*args)
        )
        X, y, u = problem(5, 400)
        solution, passes = solved(X, y, u, **how)
    assert solution.certificate.reason == "converged"
    return len(formed), sum("Newton step" in r.getMessage() for r in caplog.records), passes


def test_the_last_step_is_foretold_and_forms_no_hessian(monkeypatch, caplog):
    formed, steps, passes = hessians_and_steps(monkeypatch, caplog)
    assert steps >= 3
    assert (formed, passes) == (steps, 2 * steps + 2)
    # If it is foretold wrongly, the Hessian takes one more pass.
    monkeypatch.setattr(truncated_newton_module._Point, "foretells", lambda *_: True)
    formed, also, passes = hessians_and_steps(monkeypatch, caplog)
    assert (formed, also, passes) == (steps, steps, 2 * steps + 2 + steps - 1)


@pytest.mark.parametrize("start", [True, False])
def test_ranges_lead_to_the_solution_of_every_pair_and_grow_as_needed(start, caplog):
    X, y, u = problem(2, 400)
    best, _ = solved(X, y, u, start=start, tol=1e-10)
    with caplog.at_level(logging.INFO):
        found, _ = solved(X, y, u, start=start, tol=1e-7, ranges=8)
    c, (value, gradient) = found.certificate, every_pair(X, y, u, 0.01)(found.w)
    units = np.sqrt(PairMoments.of(X, y, u).quadratic().diagonal + 0.01)
    assert "more ranges" in caplog.text
    assert c.reason == "converged"
    assert np.abs(gradient / units).max() <= c.kkt
    assert abs(c.objective - value) <= c.error + 1e-14
    assert value - best.certificate.objective <= c.gap + 1e-14
    np.testing.assert_allclose(found.w, best.w, atol=1e-4 * np.abs(best.w).max())


def test_too_few_ranges_stall_with_an_honest_bound(monkeypatch):
    monkeypatch.setattr(truncated_newton_module, "_MOST_RANGES", 16)
    X, y, u = problem(2, 400)
    found, _ = solved(X, y, u, tol=1e-7, ranges=8)
    c, (value, gradient) = found.certificate, every_pair(X, y, u, 0.01)(found.w)
    units = np.sqrt(PairMoments.of(X, y, u).quadratic().diagonal + 0.01)
    assert c.reason == "stalled"
    assert c.iterations < 100
    assert c.kkt > c.tolerance
    assert np.abs(gradient / units).max() <= c.kkt
    assert 0 < abs(c.objective - value) <= c.error


def test_whole_numbers_with_equal_columns_and_without_penalty():
    rng = np.random.default_rng(6)
    X = rng.integers(0, 2, (90, 5)).astype(float)
    X = np.hstack([X, X[:, :2], np.zeros((90, 1))])
    y = X[:, 0] + X[:, 2] + rng.integers(0, 2, 90) > 1.5
    loss = every_pair(X, y, np.ones(90), 0.0)
    best = minimize(loss, np.zeros(8), jac=True, method="L-BFGS-B", options={"gtol": 1e-11})
    for start in (True, False):
        solution, _ = solved(X, y, l2=0.0, start=start, tol=1e-7)
        assert solution.certificate.reason == "converged"
        assert solution.certificate.objective == pytest.approx(best.fun, abs=1e-9)
        assert solution.certificate.gap == solution.certificate.objective


def test_without_any_signal_the_weights_are_0():
    X = np.tile(np.array([[1.0, -1.0], [2.0, 0.5]]), (10, 1))
    y = np.arange(20) % 4 < 2
    solution, _ = solved(X, y, sizes=())
    assert not solution.w.any()
    assert solution.certificate.objective == 0.5


def test_tolerance_beyond_rounding_stalls_and_is_never_silent(caplog):
    X, y, u = problem(7)
    for start in (True, False):
        solution, _ = solved(X, y, u, tol=1e-18, start=start, max_iter=10_000)
        assert solution.certificate.reason == "stalled"
        assert solution.certificate.iterations < 500
        assert solution.certificate.kkt < 1e-12
    for short in (solution, solved(X, y, u, max_iter=1)[0]):
        with pytest.raises(ConvergenceError, match="iterations"):
            short.checked("raise")
    solution.checked("warn")
    assert "KKT residual" in caplog.text


def test_magic_ranks_as_published_and_the_quadratic_saves_passes():
    """Khalid et al., Table 2: linear RankSVM 84.47."""
    columns = tuple(range(10))
    where = path("magic04.csv")
    X = np.loadtxt(where, delimiter=",", usecols=columns)
    y = np.loadtxt(where, delimiter=",", usecols=[10], dtype=str) == "g"
    mixed = np.random.default_rng(0).permutation(len(y))
    held_out, rest = mixed[:3804], mixed[3804:]
    scale = X[rest].std(axis=0)
    found = [
        solved(X[rest], y[rest], l2=0.001, scale=scale, start=start, tol=1e-6)
        for start in (True, False)
    ]
    (with_it, few), (without, many) = found
    for solution in (with_it, without):
        assert solution.certificate.reason == "converged"
        assert solution.certificate.gap < 1e-8
    assert with_it.certificate.objective == pytest.approx(without.certificate.objective, rel=1e-8)
    assert few < 0.75 * many
    assert abs(roc_auc_score(y[held_out], X[held_out] / scale @ with_it.w) - 0.845) < 0.015


def test_nearly_separable_rows_with_weak_penalties():
    """Beyond an edge the slope along a direction may be a million times as large as before it."""
    for seed in range(80):
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(10, 60)), int(rng.integers(3, 9))
        X = rng.normal(size=(n, d))
        y = X[:, 0] + rng.choice([0.1, 0.3]) * rng.normal(size=n) > 0.5
        y[:2] = True, False
        l2 = float(10.0 ** rng.integers(-8, -4))
        solution, _ = solved(X, y, l2=l2, sizes=(), start=bool(seed % 2), tol=1e-6)
        assert solution.converged, (seed, solution.certificate)
