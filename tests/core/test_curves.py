"""The penalty of the roughness of curves: the same solution as by the full penalty matrix."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize

from spark_auc.core.batch import Batch
from spark_auc.core.moments.curves import Curves, penalty
from spark_auc.core.moments.objective import ElasticNet
from spark_auc.core.moments.operator import operator_quadratic, pair_moments
from spark_auc.core.row_source import ArrayRows
from spark_auc.errors import ConfigError, ResourceError
from spark_auc.solvers.path import solve
from spark_auc.training.ranksvm import train_hinge
from spark_auc.training.settings import HingeSettings


def rows_of(d, n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * rng.uniform(0.1, 5.0, d) + rng.normal(size=d)
    return ArrayRows((Batch(X, rng.random(n) < 0.3),), d)


def differences(rows):
    """All differences of a positive and a negative row, (pairs, d)."""
    X, y = rows.batches[0].X, rows.batches[0].y
    return (X[y][:, None, :] - X[~y][None, :, :]).reshape(-1, X.shape[1])


@pytest.mark.parametrize("smoothness", [0.1, 10.0, 1e4])
@pytest.mark.parametrize("spans", [((0, 5),), ((1, 3), (4, 6)), ((2, 2), (6, 4))])
def test_the_solution_is_that_of_the_full_penalty(spans, smoothness):
    rows, d = rows_of(10), 10
    P = np.eye(d)
    for first, size in spans:
        if size > 2:
            D = np.array(
                [
                    [(i == j) - 2 * (i + 1 == j) + (i + 2 == j) for j in range(size)]
                    for i in range(size - 2)
                ],
                float,
            )
            block = smoothness * 10 / 3 * (size / 24) ** 3 * D.T @ D + 0.1 * np.eye(size)
            P[first : first + size, first : first + size] = block
    pairs = differences(rows)
    expected = np.linalg.solve(pairs.T @ pairs / len(pairs) + 0.7 * P, pairs.mean(axis=0))
    curves = Curves(spans)
    matrix = pair_moments(rows).quadratic()
    for plain in (matrix, operator_quadratic(rows, None)):
        loss = curves.quadratic(plain, smoothness)
        solution = solve(loss, ElasticNet(0.0, 0.7), tol=1e-9, max_iter=100)
        assert solution.converged
        np.testing.assert_allclose(curves.weights(solution.w, smoothness), expected, rtol=1e-8)


def test_products_by_passes_are_those_of_the_matrix():
    rows, curves = rows_of(12), Curves(((1, 4), (6, 5)))
    matrix = curves.quadratic(pair_moments(rows).quadratic(), 3.0).Sigma
    passes = curves.quadratic(operator_quadratic(rows, None), 3.0).Sigma
    full, vectors = matrix.toarray(), np.random.default_rng(2).normal(size=(12, 3))
    np.testing.assert_allclose(passes.matmat(vectors), full @ vectors, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(passes.diagonal(), matrix.diagonal(), rtol=1e-9)
    some = np.array([0, 2, 7, 11])
    found = passes.restricted(some).toarray()
    np.testing.assert_allclose(found, full[np.ix_(some, some)], rtol=1e-9, atol=1e-9)


def test_many_tiles_are_changed_as_one_matrix():
    d, curves = 1300, Curves(((0, 20), (500, 40), (800, 3)))
    loss = pair_moments(rows_of(d, 60)).quadratic()
    changed = curves.quadratic(loss, 3.0)
    T = np.eye(d)
    for first, size in curves.spans:
        inside = slice(first, first + size)
        # P = R'R, so that T = R^-1 makes T'PT the identity.
        T[inside, inside] = np.linalg.inv(np.linalg.cholesky(penalty(size, 3.0)).T)
    np.testing.assert_allclose(changed.Sigma.toarray(), T.T @ loss.Sigma.toarray() @ T, atol=1e-10)
    np.testing.assert_allclose(changed.mu, T.T @ loss.mu, atol=1e-12)
    u = np.random.default_rng(1).normal(size=d)
    np.testing.assert_allclose(curves.weights(u, 3.0), T @ u, atol=1e-12)
    # The matrix before stays as it is.
    np.testing.assert_array_equal(
        loss.Sigma.toarray(), pair_moments(rows_of(d, 60)).quadratic().Sigma.toarray()
    )


def test_bounds_of_rounding_hold_for_errors_of_all_signs():
    rng = np.random.default_rng(2)
    loss = pair_moments(rows_of(8)).quadratic()
    curves = Curves(((1, 6),))
    changed = curves.quadratic(loss, 5.0)
    root = np.sqrt(loss.blur * loss.diagonal)
    unit = np.sqrt(changed.blur * changed.diagonal)
    T = np.eye(8)
    T[1:7, 1:7] = np.linalg.inv(np.linalg.cholesky(penalty(6, 5.0)).T)
    for _ in range(50):
        error = np.outer(root, root) * rng.choice([-1.0, 1.0], (8, 8))
        assert (np.abs(T.T @ error @ T) <= np.outer(unit, unit) * (1 + 1e-12)).all()
        of_mu = loss.mu_rounding * np.sqrt(loss.diagonal) * rng.choice([-1.0, 1.0], 8)
        assert (
            np.abs(T.T @ of_mu) <= changed.mu_rounding * np.sqrt(changed.diagonal) * (1 + 1e-12)
        ).all()


def test_a_straight_line_has_no_roughness():
    heights = np.linspace(-3.0, 8.0, 7)
    assert heights @ penalty(7, 1e6) @ heights == pytest.approx(0.1 * heights @ heights)


def test_the_unit_does_not_depend_on_the_number_of_knots():
    rough = []
    for count in (25, 49, 97):
        x = np.linspace(0.0, 1.0, count)
        v = np.sin(3.0 * x)
        rough.append(v @ (penalty(count, 1.0) - penalty(count, 0.0)) @ v)
    np.testing.assert_allclose(rough, rough[-1], rtol=0.15)


def test_blocks_follow_the_columns_that_are_kept():
    curves = Curves(((0, 4), (5, 3), (9, 3)))
    kept = np.array([0, 1, 2, 3, 5, 7, 9, 10, 11])
    assert curves.of_columns(kept) == Curves(((0, 4), (6, 3)))
    assert curves.of_columns(np.arange(12)) == curves
    assert curves.of_columns(np.array([1, 2, 3])) == Curves()
    assert (curves.end, Curves().end) == (12, 0)


def test_without_a_smoothness_nothing_changes():
    loss, u = pair_moments(rows_of(6)).quadratic(), np.arange(6.0)
    assert Curves(((0, 4),)).quadratic(loss, None) is loss
    np.testing.assert_array_equal(Curves(((0, 4),)).weights(u, None), u)


def test_what_is_refused():
    with pytest.raises(ConfigError, match="without common features"):
        Curves(((0, 5), (4, 3)))


def test_without_a_matrix_there_is_one_factor_and_few_heights():
    few, many = Curves(((0, 5),)), Curves(((0, 1000), (1000, 1049)))
    assert few.without_matrix((0.1, 1.0, 10.0)) == (1.0,)
    assert few.without_matrix((7.0,)) == (7.0,)
    assert many.without_matrix((7.0,)) == ()
    loss = operator_quadratic(rows_of(2049, 20), None)
    with pytest.raises(ResourceError, match=r"2049 heights.*at most 2048.*lower numKnots"):
        many.quadratic(loss, 1.0)


def test_the_hinge_has_the_full_penalty_too():
    rows, curves, smoothness = rows_of(7, 120), Curves(((1, 5),)), 4.0
    P = np.eye(7)
    P[1:6, 1:6] = penalty(5, smoothness)
    pairs = differences(rows)

    def objective(w):
        short = np.maximum(0.0, 1.0 - pairs @ w)
        value = 0.02 / 2 * w @ P @ w + (short**2).mean() / 2
        return value, 0.02 * P @ w - (short[:, None] * pairs).mean(axis=0)

    options = {"gtol": 1e-10, "maxiter": 10_000}
    expected = optimize.minimize(objective, np.zeros(7), jac=True, method="BFGS", options=options)
    settings = HingeSettings(0.02, standardize=False, tol=1e-9, curves=curves)
    result = train_hinge(rows, replace(settings, smoothness=smoothness))
    np.testing.assert_allclose(result.w, expected.x, rtol=1e-5, atol=1e-7)
    assert result.penalty.smoothness == smoothness
    # The statistics are those of the rows as they are.
    np.testing.assert_allclose(result.columns.delta, pairs.mean(axis=0))
    score = rows.batches[0].X @ result.w
    mean = [score[side].mean() for side in (rows.batches[0].y, ~rows.batches[0].y)]
    np.testing.assert_allclose(result.scores.mean[:, 0], mean)
