"""DSGD by each loss, pair and step: the paper's loop, and the minimum over all pairs of rows."""

import itertools
import math

import numba
import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.metrics import roc_auc_score

from spark_auc.core.noise import uniform
from spark_auc.errors import ConfigError
from spark_auc.learners.dsgd import DSGD
from spark_auc.learners.losses import (
    CURVATURES,
    LOSSES,
    implicit_exponential,
    loss_values,
    sampled_loss,
)

D, N, C = 4, 200, 2.0
RNG = np.random.default_rng(5)
X = RNG.normal(size=(N, D)) * np.array([1.0, 0.5, 0.8, 0.3])
LATENT = X @ [1.0, -1.0, 0.5, 0.0] + 0.5 * RNG.normal(size=N)
Y = LATENT > 0.8
GRADES = np.digitize(LATENT, [-0.5, 0.5, 1.0]).astype(float)

PHI = {
    "squared": lambda z: (1 - z) ** 2,
    "squaredHinge": lambda z: max(0.0, 1 - z) ** 2,
    "logistic": lambda z: math.log(1 + math.exp(-z)),
    "exponential": lambda z: math.exp(-z),
}
DESCENT = {
    "squared": lambda z: 2 * (1 - z),
    "squaredHinge": lambda z: 2 * max(0.0, 1 - z),
    "logistic": lambda z: math.exp(-z) / (1 + math.exp(-z)),
    "exponential": lambda z: math.exp(-z),
}
each_loss = pytest.mark.parametrize("loss", LOSSES)


@numba.cfunc("double(double)")
def huber(z):
    """The negative slope of a Huber loss of the missing margin."""
    return min(max(1.0 - z, -0.5), 0.5)


def objective(w, phi, y):
    """Eq. 3: the mean over all ordered pairs of different rows, and the penalty."""
    s, total = X @ w, 0.0
    for i in range(N):
        for j in range(N):
            if y[i] > y[j]:
                total += 2 * phi(s[i] - s[j])
    return total / (N * (N - 1)) + C / (2 * math.sqrt(N)) * w @ w


def loop(y, descent, pairs, steps, *, rounds=1):
    """Algorithm 2 with the same draws, as printed: the gradient of Eq. 8 for each pair."""
    w, mu = np.zeros(D), C / math.sqrt(N)
    first, second = np.flatnonzero(y), np.flatnonzero(y == 0)
    share = 2 * first.size * second.size / (N * (N - 1))
    for t in range(rounds * N):
        a, b = (uniform(3, 0xDA, 2 * t + k) for k in range(2))
        if pairs == "mixed":
            i, j = first[int(a * first.size)], second[int(b * second.size)]
        else:
            i, j = int(a * N), int(b * (N - 1))
            j += j >= i
        gradient = mu * w
        if y[i] != y[j]:
            high, low = (i, j) if y[i] > y[j] else (j, i)
            difference = X[high] - X[low]
            slope = descent(w @ difference) * (share if pairs == "mixed" else 1)
            gradient = gradient - slope * difference
        w = w - steps(t) * gradient
    return w


@each_loss
@pytest.mark.parametrize("pairs", ["mixed", "uniform"])
@pytest.mark.parametrize("theory", [False, True])
def test_steps_are_those_of_algorithm_2(loss, pairs, theory):
    learner = DSGD(D, 0.2, C, 3, loss=loss, pairs=pairs, theory=theory)
    for _ in range(3):
        learner.learn(X, Y)
    mu = C / math.sqrt(N)
    steps = (lambda t: 1 / (mu * (t + 1))) if theory else (lambda t: 0.2 / (t + 1))
    expected = loop(Y, DESCENT[loss], pairs, steps, rounds=3)
    np.testing.assert_allclose(learner.w, expected, rtol=1e-9, atol=1e-12)


@each_loss
def test_the_minimum_over_all_pairs_is_reached(loss):
    """200 averaged passes after 50, of steps 1 / (20 P h R^2) with the loss's curvature h."""
    share = 2 * Y.sum() * (~Y).sum() / (N * (N - 1))
    length = (X**2).sum(axis=1).mean()
    learner = DSGD(D, 1 / (20 * share * CURVATURES[loss] * length), C, 1, averaging=True, loss=loss)
    for passes in (50, 200):
        learner.stage(N)
        for _ in range(passes):
            learner.learn(X, Y)
    best = minimize(objective, np.zeros(D), (PHI[loss], Y), options={"maxiter": 60}).fun
    assert best * (1 - 1e-9) <= objective(learner.w, PHI[loss], Y) < 1.01 * best


@pytest.mark.parametrize("tails", [0, 1])
def test_steps_on_the_exponential_loss_never_diverge(tails):
    """Explicit steps diverge in a third of such orders of normal rows."""
    rng = np.random.default_rng(12)
    X = rng.normal(size=(3000, 6)) / (rng.uniform(0.05, 1.0, (3000, 1)) ** tails)
    y = X @ rng.normal(size=6) + 2 * rng.normal(size=3000) > 2.5
    share = 2 * y.mean() * (1 - y.mean())
    gamma = 0.25 / (share * 2 * (X**2).sum(axis=1).mean())
    best = roc_auc_score(y, X @ np.linalg.lstsq(X, y - y.mean(), rcond=None)[0])
    for seed in range(20):
        learner = DSGD(6, gamma, 1.0, seed, averaging=True, loss="exponential")
        for size in (750, 1500, 3000):
            learner.stage(size)
            learner.learn(X[:size], y[:size])
        assert roc_auc_score(y, X @ learner.w) > best - 0.02


def test_an_implicit_step_takes_the_slope_after_it():
    for step, length, z in itertools.product((1e-6, 0.1, 3.0), (1e-3, 1.0, 50.0), (-900, -3, 0, 9)):
        u = implicit_exponential(step, length, float(z))
        assert math.log(u) == pytest.approx(math.log(step) - z - length * u, rel=1e-9)
    assert implicit_exponential(0.1, 1.0, 900.0) == 0.0
    assert implicit_exponential(0.1, 0.0, -5.0) == 0.0


def test_graded_labels_and_a_loss_of_ones_own():
    learner = DSGD(D, 0.1, C, 3, pairs="uniform")
    learner.learn(X, GRADES, descent=huber)
    assert np.unique(GRADES).size == 4
    expected = loop(
        GRADES, lambda z: min(max(1 - z, -0.5), 0.5), "uniform", lambda t: 0.1 / (t + 1)
    )
    np.testing.assert_allclose(learner.w, expected, rtol=1e-9)
    with pytest.raises(ConfigError, match="labels of type float64 for mixed pairs"):
        DSGD(D).learn(X, GRADES)


@each_loss
def test_values(loss):
    z = np.linspace(-3, 3, 41)
    np.testing.assert_allclose(loss_values(loss, z), [PHI[loss](v) for v in z], rtol=1e-12)
    slopes = np.diff([PHI[loss](v) for v in z]) / np.diff(z)
    middle = [DESCENT[loss](v) for v in (z[1:] + z[:-1]) / 2]
    np.testing.assert_allclose(-slopes, middle, atol=0.02)
    assert np.isfinite(loss_values(loss, np.array([-700.0, 700.0]))).all()


@each_loss
def test_the_standard_error_of_sampled_pairs(loss):
    rng = np.random.default_rng(2)
    samples = [(rng.normal(0.5, 0.5, 80), rng.normal(-0.5, 0.7, 120)) for _ in range(400)]
    found = np.array([sampled_loss(loss, *sample) for sample in samples])
    expected = loss_values(loss, rng.normal(1.0, np.hypot(0.5, 0.7), 400_000)).mean()
    spread = found[:, 0].std()
    assert abs(found[:, 0].mean() - expected) < 5 * spread / 20
    assert np.median(found[:, 1]) == pytest.approx(spread, rel=0.1)


def test_settings_and_states():
    learner = DSGD(D, 0.2, C, 3, loss="logistic", pairs="uniform")
    learner.learn(X, Y)
    again = DSGD.from_bytes(learner.to_bytes())
    assert (again.loss, again.pairs, again.theory) == ("logistic", "uniform", False)
    merged = learner.merge(again)
    assert (merged.loss, merged.pairs) == ("logistic", "uniform")
    with pytest.raises(ConfigError, match="found loss = squared, expected logistic"):
        learner.merge(DSGD(D, 0.2, C, 3, pairs="uniform"))
    for wrong, message in (
        ({"loss": "hinge"}, "found loss 'hinge', expected one of squared,"),
        ({"pairs": "all"}, "found pairs 'all', expected one of mixed, uniform"),
        ({"theory": True, "averaging": True}, "expected no averaging"),
        ({"theory": True, "c": 0.0}, "c > 0"),
    ):
        with pytest.raises(ConfigError, match=message):
            DSGD(D, **wrong)
    # Uniform pairs of one class still shrink the weights; a single row has no pair.
    before = learner.w
    learner.learn(X[~Y], Y[~Y])
    assert 0 < np.abs(learner.w).sum() < np.abs(before).sum()
    drawn = learner.drawn
    learner.learn(X[:1], Y[:1])
    assert learner.drawn == drawn
