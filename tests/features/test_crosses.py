"""Hashed conjunctions against a dictionary of pairs."""

from itertools import combinations

import numpy as np
import pytest
from scipy import sparse

from spark_auc.errors import ResourceError
from spark_auc.features.crosses import CrossMap


def some_rows(n=60, d=40, density=0.15, seed=0):
    rng = np.random.default_rng(seed)
    return sparse.random(n, d, density, "csr", random_state=rng, data_rvs=rng.standard_normal)


def mixed(x):
    """SplitMix64's finaliser, in whole numbers of any size."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


def crossed(X, bits, seed):
    """By definition, over a dictionary a row."""
    dense, d = X.toarray(), X.shape[1]
    out = np.zeros((X.shape[0], d + 2**bits))
    salt = mixed(((seed ^ 0xC5) + 0x9E3779B97F4A7C15) % 2**64)
    for i, row in enumerate(dense):
        out[i, :d] = row
        for a, b in combinations(np.flatnonzero(row).tolist(), 2):
            out[i, d + mixed(mixed(salt ^ a) ^ b) % 2**bits] += row[a] * row[b]
    return out


@pytest.mark.parametrize(("bits", "seed"), [(1, 0), (4, 7), (12, 2**62)])
def test_the_definition(bits, seed):
    X = some_rows()
    mapped = CrossMap(40, bits, seed).transform(X)
    np.testing.assert_allclose(mapped.toarray(), crossed(X, bits, seed), rtol=0, atol=1e-12)
    assert mapped.has_sorted_indices
    for i in range(60):
        indices = mapped.indices[mapped.indptr[i] : mapped.indptr[i + 1]]
        assert (np.diff(indices) > 0).all()


def test_every_pair_has_a_column_where_there_are_enough():
    X = sparse.csr_matrix(np.triu(np.ones((12, 12))) * np.arange(1, 13))
    mapped = CrossMap(12, 24, 3).transform(X)
    m = np.arange(12, 0, -1)
    np.testing.assert_array_equal(np.diff(mapped.indptr), m + m * (m - 1) // 2)
    values = {(a * b) for a, b in combinations(range(1, 13), 2)}
    assert set(mapped[0, 12:].data) == values


def test_a_rank_of_pairs_that_no_sum_of_features_has():
    # Equal or not: of two one-hot columns, only the pairs tell.
    a, b = np.repeat([0, 1], 2), np.tile([2, 3], 2)
    X = sparse.csr_matrix((np.ones(8), np.column_stack([a, b]).ravel(), np.arange(0, 9, 2)))
    mapped = CrossMap(4, 10).transform(X).toarray()
    y = np.array([1.0, 0, 0, 1])
    for Z, solved in ((X.toarray(), False), (mapped, True)):
        w = np.linalg.lstsq(Z, y, rcond=None)[0]
        assert np.allclose(Z @ w, y) == solved


def test_rows_stored_in_any_way_give_the_same():
    X = some_rows()
    expected = CrossMap(40, 8).transform(X)
    halves = sparse.csr_matrix(
        (
            np.concatenate([[x / 2, 0.0, x / 2] for x in X.data]),
            np.concatenate([[j, (j + 1) % 40, j] for j in X.indices]),
            3 * X.indptr,
        ),
        X.shape,
    )
    before = halves.data.copy(), halves.indices.copy()
    mapped = CrossMap(40, 8).transform(halves)
    np.testing.assert_array_equal(mapped.indices, expected.indices)
    np.testing.assert_allclose(mapped.data, expected.data, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(halves.data, before[0])
    np.testing.assert_array_equal(halves.indices, before[1])


def test_pairs_spread_evenly():
    d = 400
    made = CrossMap(d, 8).transform(sparse.csr_matrix(np.ones((1, d))))
    counts = made.toarray()[0, d:]
    expected = d * (d - 1) / 2 / 256
    assert counts.sum() == d * (d - 1) / 2
    # Chi-squared of 255 degrees of freedom: within five standard deviations.
    assert abs(((counts - expected) ** 2 / expected).sum() - 255) < 5 * np.sqrt(2 * 255)


def test_more_pairs_than_a_matrix_holds_are_refused():
    X = sparse.csr_matrix(np.ones((1, 70_000)))
    with pytest.raises(ResourceError, match="fewer rows"):
        CrossMap(70_000, 10).transform(X)
