"""Products with the second moments of all pairs, of several parts in one pass, by all pairs."""

import numpy as np
import pytest
from scipy import sparse

from spark_auc.core.batch import Batch
from spark_auc.core.moments import operator, pair_products
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.operator import fold_quadratics, operator_quadratic
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import ArrayRows

D, N, PARTS = 9, 80, 3


def rows(form, far, weighted, rng):
    X = rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.4)
    if far:
        X[:, 2] += 1e6
        X[:, 5] = 1e6 + rng.normal(size=N)
    X[:, 7] = 0.0
    y, part = rng.random(N) < 0.3, rng.integers(PARTS, size=N)
    weight = rng.integers(1, 4, N).astype(float) if weighted else None
    batch = Batch(X if form == "dense" else sparse.csr_matrix(X), y, weight, group=part)
    batches = tuple(batch.take(k) for k in np.array_split(np.arange(N), 4))
    return ArrayRows(batches, D), X, y, batch.weights, part


def by_all_pairs(X, y, u):
    """``Sigma`` from every pair; columns are shifted, which changes no difference."""
    shifted = X - np.median(X, axis=0)
    D = (shifted[y][:, None] - shifted[~y][None]).reshape(-1, X.shape[1])
    pairs = np.outer(u[y], u[~y]).ravel()
    return (D * (pairs / pairs.sum())[:, None]).T @ D


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("most", [40, 2])
def test_each_fold_leaves_out_its_rows(form, far, weighted, most, monkeypatch):
    monkeypatch.setattr(pair_products, "_MOST", most)
    rng = np.random.default_rng(8)
    source, X, y, u, part = rows(form, far, weighted, rng)
    columns = [
        ColumnMoments.of(Batch(X[part != k], y[part != k], u[part != k])) for k in range(PARTS)
    ]
    scale = np.linspace(0.5, 2.0, D)
    folds = [(column, None if k else scale) for k, column in enumerate(columns)]
    passes, quadratics = fold_quadratics(source, lambda batch: batch.groups(), folds)
    V = rng.normal(size=(D, 2))

    def products(quadratic):
        return quadratic.Sigma.matvec(V[:, 0]), quadratic.Sigma.matmat(V)

    for k, (one, both) in enumerate(passes.map(products, quadratics)):
        expected = by_all_pairs(X[part != k], y[part != k], u[part != k])
        if not k:
            expected = expected / np.outer(scale, scale)
        size = np.sqrt(np.diag(expected))
        bound = 1e-9 * np.outer(size, size @ np.abs(V))
        assert (np.abs(both - expected @ V) <= bound).all()
        np.testing.assert_allclose(one, both[:, 0], rtol=1e-9, atol=bound[:, 0].max())
        features = np.array([0, 2, 5, 8])
        np.testing.assert_allclose(
            quadratics[k].Sigma.restricted(features).toarray(),
            expected[np.ix_(features, features)],
            atol=1e-9 * (size[features] ** 2).max(),
        )


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 9, 17, 40])
def test_products_do_not_depend_on_the_other_vectors_of_a_pass(far, count):
    rng = np.random.default_rng(count)
    source = rows("sparse", far, True, rng)[0]
    Sigma, V = operator_quadratic(source, None).Sigma, rng.normal(size=(D, count))
    alone = np.column_stack([Sigma.matvec(v) for v in V.T])
    np.testing.assert_allclose(Sigma.matmat(V), alone, rtol=1e-11, atol=1e-12 * abs(alone).max())


def test_each_row_of_a_panel_is_one_line_of_the_cache():
    table = pair_products._lines(7)
    assert table.shape == (7, 8)
    assert not table.any()
    assert (table.ctypes.data + table.strides[0] * np.arange(7)) % 64 == pytest.approx(0)


def test_rows_in_memory_are_folded_in_parts_whatever_the_processors(monkeypatch):
    rng = np.random.default_rng(5)
    source = rows("sparse", False, True, rng)[0]
    v = rng.normal(size=D)
    whole = operator_quadratic(source, None)
    monkeypatch.setattr("spark_auc.core.row_source._PART_ENTRIES", 32)
    taken = []

    def of(threads):
        monkeypatch.setattr("spark_auc.core.parallel.cpus", lambda: threads)
        quadratic = operator_quadratic(source, None)
        taken.append(len(source._parts(8)))
        return quadratic.Sigma.matvec(v)

    one, three = of(1), of(3)
    assert taken == [4, 4]
    np.testing.assert_array_equal(one, three)
    np.testing.assert_allclose(one, whole.Sigma.matvec(v), rtol=1e-12)
    moments = PairMoments.fold(source.batches, D)
    np.testing.assert_allclose(one, moments.quadratic().Sigma.matvec(v), rtol=1e-9, atol=1e-12)
    labels = operator.labelled_column_moments(source)[1]
    assert sum(labels.rows.values()) == N
