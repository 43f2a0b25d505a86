"""Random thresholds and tanh networks against their definitions."""

import numpy as np
import pytest
from scipy import optimize, sparse, stats
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.neural_network import MLPClassifier

from spark_auc.errors import DataError
from spark_auc.features.network import NetworkMap, _Loss
from spark_auc.features.thresholds import ThresholdMap


def rings(n=600, d=6, seed=0):
    """Positive where far from the centre: no linear score ranks these rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (X[:, :2] ** 2).sum(axis=1) + 0.3 * rng.normal(size=n) > 2


def test_thresholds_by_definition():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5))
    X[3, 2], X[4] = np.nan, np.inf
    made = ThresholdMap.random(np.zeros(5), np.ones(5), 60, 1)
    expected = [
        [float(row[c] > t) for c, t in zip(made.columns, made.thresholds, strict=True)] for row in X
    ]
    np.testing.assert_array_equal(made.transform(X), expected)


def test_thresholds_are_as_wide_as_their_columns():
    mean, deviation = np.array([0.0, -50.0, 1e6, 3.0]), np.array([1.0, 20.0, 1e3, 0.0])
    made = ThresholdMap.random(mean, deviation, 8000, 3)
    for j in range(4):
        mine = made.thresholds[made.columns == j]
        assert abs(mine.size - 2000) < 5 * np.sqrt(8000 * 3 / 16)
        if deviation[j]:
            assert stats.kstest((mine - mean[j]) / deviation[j], "norm").pvalue > 1e-4
        else:
            assert (mine == mean[j]).all()


def test_thresholds_need_finite_columns():
    with pytest.raises(DataError, match="not finite"):
        ThresholdMap.random(np.zeros(2), np.array([1.0, np.nan]))


def test_a_random_network_by_definition():
    X = rings(20)[0]
    made = NetworkMap.random(6, 30, 1.5, 2)
    expected = [
        [np.tanh(sum(row * made.weights[:, f]) + made.offsets[f]) for f in range(30)] for row in X
    ]
    np.testing.assert_allclose(made.transform(X), expected, rtol=0, atol=1e-14)


def test_a_random_network_spreads_as_told():
    made = NetworkMap.random(50, 4000, 0.7, 0)
    reached = rings(200, 50)[0] @ made.weights
    assert reached.std() == pytest.approx(0.7, rel=0.03)
    assert made.offsets.std() == pytest.approx(0.7, rel=0.05)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_the_gradient(form):
    X, y = rings(50)
    u = np.random.default_rng(1).uniform(0.1, 3, 50)
    loss = _Loss(form(X), np.where(y, 1.0, -1.0), u / u.sum(), 3, 0.1)
    at = np.random.default_rng(2).normal(size=6 * 3 + 3 + 3 + 1)
    expected = optimize.approx_fprime(at, lambda p: loss(p)[0], 1e-7)
    np.testing.assert_allclose(loss(at)[1], expected, rtol=0, atol=1e-6)
    weights, offsets, output, last = loss.unpacked(at)
    score = np.tanh(X @ weights + offsets) @ output + last
    penalty = 0.05 * ((weights**2).sum() + (output**2).sum())
    by_definition = log_loss(y, 1 / (1 + np.exp(-score)), sample_weight=u) + penalty
    assert loss(at)[0] == pytest.approx(by_definition, rel=1e-12)


def test_training_is_as_good_as_scikit_learns():
    X, y = rings()
    theirs = MLPClassifier(
        (3,), "tanh", solver="lbfgs", alpha=1e-4 * y.size, max_iter=500, random_state=0
    ).fit(X, y)
    made = NetworkMap.trained(X, y, max_iter=500)
    assert made.dimension == 3
    loss = _Loss(X, np.where(y, 1.0, -1.0), np.full(y.size, 1 / y.size), 3, 1e-4)

    def best(weights, offsets):
        """The least loss over the output's weights, the hidden layer as it is."""
        hidden = np.tanh(X @ weights + offsets)

        def of_output(p):
            return loss(np.concatenate([weights.ravel(), offsets, p]))[0]

        return optimize.minimize(of_output, np.zeros(hidden.shape[1] + 1)).fun

    assert best(made.weights, made.offsets) < 1.05 * best(theirs.coefs_[0], theirs.intercepts_[0])


def test_a_trained_layer_ranks_what_no_linear_score_does():
    X, y = rings(2000)
    Z, z = rings(2000, seed=1)

    def ridge(X, Z):
        delta = X[y].mean(axis=0) - X[~y].mean(axis=0)
        C = np.cov(X[y].T) + np.cov(X[~y].T) + 1e-4 * np.eye(delta.size)
        return roc_auc_score(z, Z @ np.linalg.solve(C, delta))

    made = NetworkMap.trained(X, y, features=8)
    assert ridge(X, Z) < 0.6
    assert ridge(made.transform(X), made.transform(Z)) > 0.97


def test_weights_count_rows():
    X, y = rings(200)
    times = np.random.default_rng(0).integers(1, 4, 200)
    repeated = np.repeat(np.arange(200), times)
    a = NetworkMap.trained(X, y, times.astype(float), max_iter=5)
    b = NetworkMap.trained(X[repeated], y[repeated], max_iter=5)
    np.testing.assert_allclose(a.weights, b.weights, rtol=0, atol=1e-8)


def test_rows_that_train_nothing_are_refused():
    X, y = rings(50)
    with pytest.raises(DataError, match="both classes"):
        NetworkMap.trained(X, np.ones(50, bool))
    X[0, 0] = np.nan
    with pytest.raises(DataError, match="not finite"):
        NetworkMap.trained(X, y)
