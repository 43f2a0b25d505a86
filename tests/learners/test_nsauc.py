"""Losses, averages, merging and optimum of NSAUC."""

import numpy as np
import pytest
from scipy import optimize, sparse
from sklearn.cluster import KMeans
from sklearn.metrics import roc_auc_score

from spark_auc.errors import ConfigError, ConvergenceError
from spark_auc.learners.nsauc import NSAUC
from tests import data
from tests.learners import references
from tests.learners.test_learners import rows


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("averaging", [True, False])
@pytest.mark.parametrize(
    ("gamma", "lambda2", "rskip", "askip"),
    [(0.3, 1e-3, 16, 16), (0.5, 1e-10, 1, 1), (0.2, 20.0, 5, 7), (0.3, 0.1, 7, 2000)],
)
def test_steps_of_the_pseudocode(form, loss, averaging, gamma, lambda2, rskip, askip):
    X, y = rows()
    learner = NSAUC(11, gamma, lambda2, loss, averaging, rskip, askip, seed=3)
    for start in range(0, 1000, 200):
        learner.learn(form(X[start : start + 200]), y[start : start + 200])
    if not learner.averaged:
        # The weights are the iterate then, as without averaging.
        learner.averaging = False
    expected = references.nsauc(X, y, learner, 200)
    assert expected.any()
    np.testing.assert_allclose(learner.w, expected, rtol=0, atol=1e-9)


def test_no_penalty_leaves_the_steps_as_long():
    X, y = rows()
    plain, least = NSAUC(11, 0.1, 0.0), NSAUC(11, 0.1, 1e-13)
    plain.learn(X, y)
    least.learn(X, y)
    np.testing.assert_allclose(plain.w, least.w, rtol=1e-6)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_many_steps_reach_the_optimum_over_all_pairs(loss):
    X, y = rows(300)
    D = (X[y][:, None] - X[~y]).reshape(-1, 11)
    power = {"hinge": 1, "squared_hinge": 2}[loss]

    def objective(w):
        return 0.05 * w @ w + (np.maximum(0, 1 - D @ w) ** power).mean() / power

    # The corners of so many pairs' hinges make a nearly smooth mean.
    best = optimize.minimize(objective, np.zeros(11), method="L-BFGS-B")
    learner = NSAUC(11, 1.0, 0.1, loss, seed=1)
    for _ in range(1000):
        learner.learn(X, y)
    np.testing.assert_allclose(objective(learner.w), best.fun, rtol=1e-3)
    assert np.abs(learner.w - best.x).max() < 0.02 * np.abs(best.x).max()


def test_average_stays_true_over_many_steps():
    X, y = rows(20000, 30)
    learner = NSAUC(30, 0.01, 0.1, rskip=4, askip=3)
    for start in range(0, 20000, 1000):
        block = slice(start, start + 1000)
        learner.learn(sparse.csr_matrix(X[block]), y[block])
    expected = references.nsauc(X, y, learner, 1000)
    np.testing.assert_allclose(learner.w, expected, rtol=0, atol=1e-9)
    assert learner.averaged == 20000 // 3


@pytest.mark.parametrize("averaging", [True, False])
def test_merge_counts_the_start_once(averaging):
    X, y = rows(4000)
    start = NSAUC(11, 0.5, 0.01, averaging=averaging)
    start.learn(X[:1000], y[:1000])
    parts = []
    for lot in (slice(1000, 3000), slice(3000, 4000)):
        parts.append(NSAUC.from_bytes(start.to_bytes()))
        parts[-1].learn(X[lot], y[lot])
    one, other = parts
    merged = one.merge(other, start)
    np.testing.assert_allclose(
        merged.iterate, (2 * one.iterate + other.iterate) / 3, rtol=0, atol=1e-12
    )
    assert merged.steps == 4000
    if averaging:
        total = 3000 // 16 * one.w + 2000 // 16 * other.w - 1000 // 16 * start.w
        np.testing.assert_allclose(merged.w, total / merged.averaged, rtol=0, atol=1e-12)
    before = merged.w
    merged.learn(X, y)
    assert (merged.w != before).any()
    with pytest.raises(ConfigError, match="equal settings"):
        one.merge(NSAUC(11, 0.5, 0.02, averaging=averaging))


def test_steps_that_diverge_are_refused():
    X, y = rows()
    learner = NSAUC(11, 10.0, 1e-6, "squared_hinge")
    for _ in range(30):
        learner.learn(X, y)
        assert learner.w.shape == (11,)
    with pytest.raises(ConvergenceError, match="too long"):
        learner.score(X)


def test_embedded_magic_telescope_events():
    table = np.genfromtxt(data.path("magic04.csv"), delimiter=",", dtype=str)
    X, y = table[:, :-1].astype(float), table[:, -1] == "g"
    order = np.random.default_rng(0).permutation(y.size)
    X, y = X[order], y[order]
    X = (X - X.mean(0)) / X.std(0)
    landmarks = KMeans(200, n_init=1, max_iter=5, random_state=0).fit(X[::4]).cluster_centers_

    def kernel(A):
        apart = (A**2).sum(1)[:, None] + (landmarks**2).sum(1) - 2 * A @ landmarks.T
        return np.exp(-apart / X.shape[1])

    values, vectors = np.linalg.eigh(kernel(landmarks))
    embedded = kernel(X) @ (vectors / np.sqrt(values))
    train, test = slice(0, 15216), slice(15216, None)
    learner, last = NSAUC(200, 1.0), NSAUC(200, 1.0, averaging=False)
    for _ in range(5):
        learner.learn(embedded[train], y[train])
        last.learn(embedded[train], y[train])
    reached, unaveraged = (roc_auc_score(y[test], n.score(embedded[test])) for n in (learner, last))
    assert reached > 0.905
    assert reached > unaveraged + 0.002
