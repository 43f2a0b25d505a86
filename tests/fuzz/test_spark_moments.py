"""Models of random DataFrames against the solution of all pairs in extended precision."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.ml.linalg import Vectors

from spark_auc import MBAClassifier, MBASelector
from spark_auc.errors import ConvergenceError
from tests.core.frames import all_pairs, deviation, frame
from tests.fuzz.inputs import inputs

pytestmark = pytest.mark.fuzz
TOL = 1e-6


def rows(spark, rng, X, y, u):
    """The rows as dense or sparse vectors, in some partitions."""

    def vector(x):
        at = np.flatnonzero(x)
        return Vectors.dense(x) if rng.random() < 0.5 else Vectors.sparse(x.size, at, x[at])

    made = [(k, vector(X[k]), float(y[k]), float(u[k])) for k in rng.permutation(len(y)).tolist()]
    frame = spark.createDataFrame(made, ["id", "features", "label", "u"])
    return frame.coalesce(int(rng.integers(1, 3)))


def solved(S, mu, ridge):
    """The solution of ``(S + ridge I) w = mu`` in extended precision."""
    A = np.column_stack([S + ridge * np.eye(len(mu), dtype=np.longdouble), mu])
    for k in range(len(mu)):
        A[k] /= A[k, k]
        others = np.arange(len(mu)) != k
        A[others] -= np.outer(A[others, k], A[k])
    return A[:, -1]


def usable(seed):
    """A random frame whose class means differ by more than the last places of the values.

    Otherwise training may refuse the frame: the residual of its solution is unknown.
    """
    rng = np.random.default_rng(seed)
    X, y, u = frame(rng)
    u = np.ones(y.size) if u is None else u
    sd, largest = deviation(X, u), np.abs(X).max(axis=0)
    # Weights as far apart as 1e-100 and 1 leave columns that no class of the others has.
    clear = (np.ptp(X, axis=0) == 0) | (sd > 1e-6 * largest)
    X, s = X[:, clear], np.where(sd > 0, sd, 1)[clear]
    varies = np.ptp(X, axis=0) > 0
    if varies.any():
        size = float(np.abs(all_pairs(X, y, u)[0] / s)[varies].max())
        if TOL * size < 64 * np.finfo(float).eps * float((largest[clear] / s)[varies].max()):
            X = X[:, ~varies]
    return rng, X, y, u


def check(model, X, y, u):
    """The weights are those of all pairs, as near as the tolerance says; constants have none."""
    constant = np.ptp(X, axis=0) == 0
    w, ridge = model.scorer.w, model.getRegParam()
    assert not w[constant].any()
    s = np.where(constant, 1, deviation(X, u))
    mu, S = all_pairs(X, y, u)
    exact = solved(S / np.outer(s, s), mu / s, ridge)
    size = float(np.abs(mu / s).max())
    # A residual of tol |mu| moves the solution by no more than its length over the penalty.
    allowed = 2 * (TOL + 1e-9) * size * np.sqrt(len(w)) / ridge
    np.testing.assert_allclose((w * s).astype(float), exact.astype(float), rtol=0, atol=allowed)


@inputs(300)
@given(seed=st.integers(0, 2**32 - 1))
def test_models_of_any_rows(spark, seed):
    rng, X, y, u = usable(seed)
    if not X.shape[1]:
        return
    df = rows(spark, rng, X, y, u)
    ridge = float(rng.choice([1e-3, 0.1, 1.0]))
    check(MBAClassifier(regParam=ridge, tol=TOL, weightCol="u").fit(df), X, y, u)


@inputs(300)
@given(seed=st.integers(0, 2**32 - 1))
def test_penalties_chosen_on_any_rows(spark, seed):
    rng, X, y, u = usable(seed)
    if not X.shape[1]:
        return
    # Rows enough that no fold lacks a class.
    X, y, u = np.tile(X, (16, 1)), np.tile(y, 16), np.tile(u, 16)
    X[:, 0] = np.where(np.arange(y.size) % 5 == 0, rng.normal(size=y.size), 0.1)
    selector = MBASelector(
        regParams=[1e-3, 0.1, 10.0], numFolds=2, keyCol="id", weightCol="u", tol=TOL
    )
    try:
        model = selector.fit(rows(spark, rng, X, y, u))
    except ConvergenceError:
        # With such weights, the class means of a fold may differ by less than their rounding.
        assert u.max() > 1e6 * u.min()
        return
    sd = deviation(X, u)
    if sd[0] > 1e-6 * np.abs(X[:, 0]).max():
        check(model, X, y, u)
