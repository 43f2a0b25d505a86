"""Hats against their definition and against scikit-learn's."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import SplineTransformer

from spark_auc.features.splines import Splines
from tests.data import path

# Of one to seven knots; the third column was never seen but missing.
KNOTS = [[0.0, 1.0, 4.0], [2.5], [], [-7.0, -1e-3, 0.0, 1e-3, 5.0, 1e4, 1e9], [0.0, 1.0]]
# Knots whose difference overflows.
FAR = [[-1.5e308, 1.5e308]]


def hats(x, knots):
    """The features of one value, by definition."""
    if np.isnan(x):
        return [0.0] * len(knots) + [1.0]
    if not knots:
        return [0.0]
    x = min(max(x, knots[0]), knots[-1])
    out = []
    for k, t in enumerate(knots):
        value = 1.0 if x == t else 0.0
        if k and knots[k - 1] < x < t:
            value = (x - knots[k - 1]) / (t - knots[k - 1])
        if k + 1 < len(knots) and t < x < knots[k + 1]:
            value = (knots[k + 1] - x) / (knots[k + 1] - t)
        out.append(value)
    return [*out, 0.0]


def some_rows(n=400):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, len(KNOTS))) * 10.0 ** rng.integers(-4, 12, (n, len(KNOTS)))
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e308, -1e308, 1.0, 2.5, 5.0, 1e9, 5e-324]
    X[: len(special)] = np.array(special)[:, None]
    return X


@pytest.mark.filterwarnings("error")
def test_the_definition():
    X = some_rows()
    made = Splines.of_knots(KNOTS)
    assert (made.input_dimension, made.dimension) == (5, 13 + 5)
    mapped = made.transform(X)
    expected = [np.concatenate([hats(x, k) for x, k in zip(row, KNOTS, strict=True)]) for row in X]
    np.testing.assert_allclose(mapped.toarray(), expected, rtol=0, atol=1e-14)
    assert mapped.data.all()
    assert mapped.has_canonical_format


def test_hats_of_a_column_sum_to_one():
    X = some_rows()
    mapped = Splines.of_knots(KNOTS).transform(X).toarray()
    ends = np.cumsum([len(k) + 1 for k in KNOTS])
    for j, part in enumerate(np.split(mapped, ends[:-1], axis=1)):
        present = ~np.isnan(X[:, j])
        expected = np.where(present, float(bool(KNOTS[j])), 0.0)
        np.testing.assert_allclose(part[:, :-1].sum(axis=1), expected, rtol=0, atol=1e-15)
        np.testing.assert_array_equal(part[:, -1], ~present)


def test_scikit_learn_has_the_same_hats():
    rng = np.random.default_rng(1)
    X = rng.lognormal(0, 2, (500, 3))
    knots = np.quantile(X, np.linspace(0, 1, 9), axis=0)
    expected = SplineTransformer(degree=1, knots=knots, extrapolation="constant").fit(X)
    made = Splines.of_knots(knots.T)
    Z = np.vstack([X, X * 3, -X])
    hats_only = np.delete(made.transform(Z).toarray(), [9, 19, 29], axis=1)
    np.testing.assert_allclose(hats_only, expected.transform(Z), rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("error")
def test_knots_whose_difference_overflows():
    mapped = Splines.of_knots(FAR).transform(np.array([[-1.7e308], [-0.75e308], [0.0], [1.5e308]]))
    expected = [[1, 0, 0], [0.75, 0.25, 0], [0.5, 0.5, 0], [0, 1, 0]]
    np.testing.assert_allclose(mapped.toarray(), expected, rtol=0, atol=1e-15)


def test_no_columns():
    made = Splines.of_knots([])
    assert made.transform(np.empty((4, 0))).shape == (4, 0)


def test_sparse_rows_hold_zeros():
    X = np.array([[0.0, 2.0], [3.0, 0.0]])
    made = Splines.of_knots([[-1.0, 1.0], [0.0, 2.0]])
    np.testing.assert_array_equal(
        made.transform(sparse.csr_matrix(X)).toarray(),
        [[0.5, 0.5, 0, 0, 1, 0], [0, 1, 0, 1, 0, 0]],
    )


def test_magic04_is_far_from_linear():
    table = np.loadtxt(path("magic04.csv"), delimiter=",", dtype=str)
    X, y = table[:, :10].astype(float), table[:, 10] == "g"
    X, Z, y, z = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
    made = Splines.of_knots([np.unique(q) for q in np.quantile(X, np.linspace(0, 1, 12), axis=0).T])

    def ridge(X, Z):
        delta = X[y].mean(axis=0) - X[~y].mean(axis=0)
        C = np.cov(X[y].T) + np.cov(X[~y].T) + 1e-4 * np.eye(delta.size)
        return roc_auc_score(z, Z @ np.linalg.solve(C, delta))

    assert ridge(X, Z) < 0.84
    assert ridge(made.transform(X).toarray(), made.transform(Z).toarray()) > 0.904
