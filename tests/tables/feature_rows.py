"""Labelled and weighted rows in every form of features, and tables of them."""

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

from spark_auc.core.moments.operator import labelled_pair_moments
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.tables.columns import TrainingColumns
from spark_auc.tables.encoders import encode_vectors
from spark_auc.tables.features import PreparedFeatures
from spark_auc.tables.rows import TableRows

N, D = 300, 6
RNG = np.random.default_rng(5)
X = np.round(RNG.normal(size=(N, D)) * (RNG.random((N, D)) < 0.7), 3)
X[:, 0] += 5
Y = RNG.random(N) < 0.3
U = RNG.uniform(0.5, 2, N)


def vectors(kind="mixed"):
    """Rows of dense or sparse vectors, or of both in turn."""
    dense, sparse = encode_vectors(X), encode_vectors(csr_array(X))
    if kind == "mixed":
        turns = np.arange(N) + np.where(np.arange(N) % 2, N, 0)
        features = pa.concat_arrays([dense, sparse]).take(pa.array(turns))
    else:
        features = {"dense": dense, "sparse": sparse}[kind]
    return pa.table({"features": features, "label": Y.astype(float), "u": U})


def arrays():
    """Rows of arrays, of indices and values, and of numbers."""
    kept = [np.flatnonzero(x).astype(np.int32) for x in X]
    return pa.table(
        {
            "features": list(X),
            "i": kept,
            "v": [X[r, k] for r, k in enumerate(kept)],
            "label": Y.astype(int),
            "u": U,
            **{f"x.{j}": X[:, j] for j in range(D)},
        }
    )


def moments(table, features="features", dimension=None, weight="u", positive=None, label="label"):
    """Pair moments of a table of any engine, and its labels."""
    resolved = PreparedFeatures.resolve(table, features, dimension)
    rows = TableRows.of(table, TrainingColumns.resolve(table, resolved, label, positive, weight))
    return labelled_pair_moments(rows)


def assert_same(found):
    """Assert that moments are those of the rows in arrays."""
    a, b = found.quadratic(), PairMoments.of(X, Y, U).quadratic()
    size = np.sqrt(np.outer(b.Sigma.diagonal(), b.Sigma.diagonal()))
    assert (np.abs(a.Sigma.toarray() - b.Sigma.toarray()) <= 1e-12 * size).all()
    np.testing.assert_allclose(a.mu, b.mu, rtol=1e-12, atol=1e-13)
