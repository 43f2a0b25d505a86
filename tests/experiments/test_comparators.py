"""The comparators against their pseudocode, and what every learner must keep."""

import math

import numpy as np
import pytest
from scipy import sparse

from experiments.comparators.adaauc import AdaAUC
from experiments.comparators.ftrl import FTRL
from experiments.comparators.logistic import OLR
from experiments.comparators.minibatch import MiniBatch
from experiments.comparators.oam import OAM
from experiments.comparators.olp import OLP
from experiments.comparators.uniexp import UniExp
from spark_auc.core.evaluation.roc import auc
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.noise import uniform
from spark_auc.errors import ConfigError, ConvergenceError, DataError, ModelFormatError

from . import comparator_references as reference

ROWS, DIMENSION = 1000, 8

# Settings under which each branch of an algorithm is taken within the rows.
CASES = {
    "OAMseq": (OAM, reference.oam_sequential, {"penalty": 0.05, "buffer": 20, "seed": 3}),
    "OAMgra": (OAM, reference.oam_gradient, {"penalty": 0.01, "buffer": 20, "seed": 4}),
    "OLP": (OLP, reference.olp, {"eta": 1.0, "radius": 0.6, "buffer": 40, "seed": 5}),
    "AdaAUC": (AdaAUC, reference.ada_auc, {"eta": 0.1, "lambda2": 1.0, "delta": 1e-8}),
    "Uni-Exp": (UniExp, reference.uni_exp, {"eta": 0.01}),
    "OLR": (OLR, reference.olr, {"eta": 0.9, "lambda2": 0.8}),
    "FTRL": (FTRL, reference.ftrl, {"alpha": 0.1, "beta": 1.0, "lambda1": 2.0, "lambda2": 0.5}),
    "MB-PHL": (MiniBatch, reference.mini_batch_hinge, {"eta": 0.5, "lambda2": 0.1, "batch": 30}),
    "MB-PSL": (MiniBatch, reference.mini_batch_squared, {"eta": 0.1, "lambda2": 0.1, "batch": 30}),
}
VARIANT = {
    "OAMseq": {"sequential": True},
    "OAMgra": {"sequential": False},
    "MB-PHL": {"hinge": True},
    "MB-PSL": {"hinge": False},
}
every = pytest.mark.parametrize("name", CASES)
dense_and_csr = pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])


def problem(seed=0):
    """Rows with some zeros, a fifth of them positive and shifted."""
    rng = np.random.default_rng(seed)
    y = rng.random(ROWS) < 0.2
    X = rng.normal(size=(ROWS, DIMENSION)) + np.outer(y, np.linspace(-1, 1, DIMENSION))
    return X * (rng.random(X.shape) < 0.7), y


def learner(name, **settings):
    made, _, given = CASES[name]
    return made(DIMENSION, **given | VARIANT.get(name, {}) | settings)


def learned(name, X, y):
    made = learner(name)
    made.learn(X, y)
    return made


def area(learner, X, y):
    return auc(ScoreTable.of(learner.score(X), y))


@every
@dense_and_csr
def test_weights_are_those_of_the_pseudocode(name, form):
    X, y = problem()
    _, published, settings = CASES[name]
    expected = published(X, y, **settings)
    np.testing.assert_allclose(learned(name, form(X), y).w, expected, rtol=1e-9, atol=1e-12)


@every
@dense_and_csr
def test_pieces_and_bytes_between_change_no_bit(name, form):
    X, y = problem()
    whole = learned(name, form(X), y)
    resumed = learner(name)
    for piece in np.split(np.arange(ROWS), [0, 1, 7, 41, 500, 777]):
        resumed.learn(form(X)[piece], y[piece])
        resumed = type(resumed).from_bytes(resumed.to_bytes())
    assert resumed.to_bytes() == whole.to_bytes()
    np.testing.assert_array_equal(resumed.score(X), whole.score(X))


@every
def test_damaged_bytes_are_refused(name):
    data = learner(name).to_bytes()
    for damaged in (b"", data[:-1], data[:40], data + b"0", data.replace(b"SAUC", b"XXXX")):
        with pytest.raises(ModelFormatError):
            CASES[name][0].from_bytes(damaged)


@every
@dense_and_csr
def test_rows_of_another_dimension_are_refused(name, form):
    X, y = problem()
    made = learned(name, X, y)
    for use in (lambda rows: made.learn(rows, y), made.score):
        with pytest.raises(DataError, match="found rows of 7 features, expected 8"):
            use(form(X[:, 1:]))


@every
def test_rows_of_one_class_do_no_harm(name):
    X, y = problem()
    first = np.flatnonzero(~y)[:100]
    made = learned(name, X[first], y[first])
    assert np.isfinite(made.w).all()
    if name not in {"Uni-Exp", "OLR", "FTRL"}:
        assert not made.w.any()
    made.learn(X, y)
    assert area(made, X, y) > 0.7


@every
def test_held_out_rows_are_ranked(name):
    made = learned(name, *problem())
    assert area(made, *problem(1)) > 0.7


@every
def test_defaults_rank_and_weights_of_rows_are_refused(name):
    X, y = problem()
    made = CASES[name][0](DIMENSION, **VARIANT.get(name, {}))
    made.learn(X, y)
    assert area(made, X, y) > 0.7
    with pytest.raises(ConfigError, match="expected none"):
        made.learn(X, y, np.ones(ROWS))


@pytest.mark.parametrize(
    ("made", "settings"),
    [
        (OAM, {"penalty": 0.0}),
        (OAM, {"buffer": 0}),
        (OAM, {"seed": -1}),
        (OLP, {"eta": math.nan}),
        (OLP, {"radius": 0.0}),
        (OLP, {"buffer": 1.5}),
        (AdaAUC, {"delta": 0.0}),
        (AdaAUC, {"lambda2": -1.0}),
        (UniExp, {"eta": math.inf}),
        (OLR, {"eta": 2.0, "lambda2": 0.5}),
        (FTRL, {"alpha": 0.0}),
        (FTRL, {"lambda1": -1.0}),
        (MiniBatch, {"batch": 1}),
    ],
    ids=str,
)
def test_settings_out_of_range_are_refused(made, settings):
    with pytest.raises(ConfigError, match=r"found .*, expected .*; (change|set) "):
        made(DIMENSION, **settings)


def test_steps_too_long_are_refused():
    with pytest.raises(ConvergenceError, match="reduce the step size"):
        learner("Uni-Exp", eta=1e9).learn(*problem())


def test_a_strong_ridge_penalty_does_not_underflow():
    X, y = problem()
    settings = {"eta": 0.999999, "lambda2": 1.0}
    made = OLR(DIMENSION, **settings)
    for _ in range(20):
        made.learn(X, y)
    expected = reference.olr(np.tile(X, (20, 1)), np.tile(y, 20), **settings)
    np.testing.assert_allclose(made.w, expected, rtol=1e-9, atol=1e-12)


def test_a_reservoir_is_a_uniform_sample():
    """Row k has the value k: each quarter of the rows has a quarter of the slots."""
    rows = 400
    counts = np.zeros(4)
    for seed in range(200):
        made = OAM(1, buffer=10, seed=seed)
        made.learn(np.arange(1.0, rows + 1)[:, None], np.zeros(rows, bool))
        counts += np.histogram(made.kept_values[0], bins=4, range=(1, rows + 1))[0]
    assert np.abs(counts - 500).max() < 5 * math.sqrt(500 * 0.75)


def test_draws_are_uniform():
    drawn = [uniform(7, stream, number) for stream in range(50) for number in range(200)]
    assert 0 <= min(drawn) <= max(drawn) < 1
    assert np.abs(np.histogram(drawn, 10)[0] - 1000).max() < 5 * math.sqrt(900)
