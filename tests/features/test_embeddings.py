"""What every embedding must do, as one suite over all of them."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from spark_auc.core.state.codec import encode
from spark_auc.errors import ConfigError, DataError, ModelFormatError
from spark_auc.features.composition import Composition
from spark_auc.features.crosses import CrossMap
from spark_auc.features.embedding import generator
from spark_auc.features.fourier import FourierMap
from spark_auc.features.kernels import Kernel
from spark_auc.features.network import NetworkMap
from spark_auc.features.nystroem import NystroemMap
from spark_auc.features.restore import restore
from spark_auc.features.robust_scale import RobustScale
from spark_auc.features.splines import Splines
from spark_auc.features.thresholds import ThresholdMap
from spark_auc.features.value_counts import ValueCounts

D = 7


def rows(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) * (rng.random((n, D)) < 0.6)
    return X, X @ rng.normal(size=D) + X[:, 0] ** 2 > 0.5


def dense(X):
    return X.toarray() if sparse.issparse(X) else X


def nystroem(kernel, rank=None):
    return lambda seed: NystroemMap.of_landmarks(rows(20, seed)[0], kernel, rank)


def splines(seed):
    quantiles = np.quantile(rows(200, seed)[0], np.linspace(0, 1, 12), axis=0)
    return Splines.of_knots([np.unique(column) for column in quantiles.T])


def scaled(seed):
    return RobustScale.of([ValueCounts.of(x).weighted() for x in rows(200, seed)[0].T])


# Each made from a seed, of its random numbers or of the rows that it is made from.
MAPS = {
    "splines": splines,
    "gaussian": nystroem(Kernel("gaussian", 5.0)),
    "far": lambda seed: NystroemMap.of_landmarks(
        rows(20, seed)[0] + 5.0 * (np.arange(D) == 2), Kernel("gaussian", 5.0)
    ),
    "laplacian": nystroem(Kernel("laplacian", 5.0)),
    "polynomial": nystroem(Kernel("polynomial", 2.0, 3, 0.5)),
    "linear": nystroem(Kernel("linear")),
    "rank": nystroem(Kernel("gaussian", 5.0), 6),
    "fourier": lambda seed: FourierMap.random(D, 4.0, 40, seed),
    "thresholds": lambda seed: ThresholdMap.random(np.zeros(D), np.ones(D), 40, seed),
    "random network": lambda seed: NetworkMap.random(D, 40, seed=seed),
    "trained network": lambda seed: NetworkMap.trained(*rows(), max_iter=20, seed=seed),
    "crosses": lambda seed: CrossMap(D, 5, seed),
    "scaled": scaled,
    "composition": lambda seed: Composition((scaled(seed), FourierMap.random(D, 4.0, 40, seed))),
}
each = pytest.mark.parametrize("make", MAPS.values(), ids=MAPS)


@each
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, sparse.csr_array])
def test_dense_and_sparse_rows_give_the_same(make, form):
    X = rows()[0]
    made = make(0)
    given = form(X)
    mapped, expected = made.transform(given), made.transform(X)
    assert (mapped.shape, mapped.dtype) == ((300, made.dimension), np.float64)
    assert sparse.issparse(mapped) == sparse.issparse(expected)
    np.testing.assert_allclose(dense(mapped), dense(expected), rtol=0, atol=1e-11)
    np.testing.assert_array_equal(dense(given), X)


@each
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_each_row_by_itself(make, form):
    X = form(rows()[0])
    made = make(0)
    whole = dense(made.transform(X))
    parts = [made.transform(X[a:b]) for a, b in [(0, 0), (0, 1), (1, 2), (2, 119), (119, 300)]]
    np.testing.assert_allclose(np.vstack([dense(p) for p in parts]), whole, rtol=0, atol=1e-12)


def bits(mapped):
    """The rows' bytes: of values, and of their columns where they are sparse."""
    if not sparse.issparse(mapped):
        return set(map(bytes, mapped))
    ends = zip(mapped.indptr[:-1], mapped.indptr[1:], strict=True)
    return {bytes(mapped.data[a:b]) + bytes(mapped.indices[a:b]) for a, b in ends}


@each
@pytest.mark.parametrize("far", [0.0, 5.0])
def test_equal_rows_are_mapped_to_the_same_bits(make, far):
    X = rows(150)[0]
    X[:, 2] += far
    equal = np.random.default_rng(1).random(1153) < 0.9
    all_rows = np.empty((1153, D))
    all_rows[equal], all_rows[~equal] = X[0], X[1 : 1154 - equal.sum()]
    made, found = make(0), set()
    for size in (1, 7, 1000, 1153):
        # One by one, a few are enough.
        for start in range(0, min(1153, 50 * size), size):
            some = slice(start, start + size)
            for form in (np.asarray, sparse.csr_matrix, sparse.csr_array):
                mapped = made.transform(form(all_rows[some]))
                found |= bits(mapped[np.flatnonzero(equal[some])])
    moved = np.empty(all_rows.nbytes + 64, np.uint8)[8:-56].view(float).reshape(all_rows.shape)
    moved[:] = all_rows
    found |= bits(made.transform(moved[::2])[np.flatnonzero(equal[::2])])
    assert len(found) == 1


@each
def test_bytes_round_trip(make):
    made = make(0)
    back = restore(made.to_bytes())
    assert type(back) is type(made)
    assert back.to_bytes() == made.to_bytes()
    assert (back.input_dimension, back.dimension) == (D, made.dimension)
    X = rows()[0]
    np.testing.assert_array_equal(dense(back.transform(X)), dense(made.transform(X)))
    for damaged in (made.to_bytes()[:-1], made.to_bytes() + b"\0"):
        with pytest.raises(ModelFormatError):
            restore(damaged)


@each
def test_the_seed_decides(make):
    X = rows()[0]
    assert make(0).to_bytes() == make(0).to_bytes()
    assert make(0).to_bytes() != make(1).to_bytes()
    assert (dense(make(0).transform(X)) != dense(make(1).transform(X))).any()


@each
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_other_dimensions_are_refused(make, form):
    for columns in (D - 1, D + 1):
        with pytest.raises(DataError, match=f"found rows of {columns} features, expected 7"):
            make(0).transform(form(np.ones((3, columns))))


@each
def test_fields_cannot_be_set(make):
    made = make(0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(made, dataclasses.fields(made)[0].name, None)


@pytest.mark.parametrize(
    "data", [b"", b"SAUC", b"no state at all", encode("MomentsTile", 1, {"x": np.zeros(1)})]
)
def test_what_is_no_embedding_is_refused(data):
    with pytest.raises(ModelFormatError, match="expected"):
        restore(data)


def test_random_numbers_are_the_same_everywhere():
    expected = [0.1257302210933933, -0.1321048632913019, 0.6404226504432821]
    np.testing.assert_array_equal(generator(0).standard_normal(3), expected)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Splines.of_knots([[1.0, 1.0]]),
        lambda: Splines.of_knots([[0.0, 1.0], [2.0, 1.0]]),
        lambda: Splines.of_knots([[np.nan]]),
        lambda: Splines.of_knots([[0.0, np.inf]]),
        lambda: Kernel("cosine"),
        lambda: Kernel("gaussian", 0.0),
        lambda: Kernel("polynomial", 1.0, 0),
        lambda: Kernel("polynomial", 1.0, 1.5),
        lambda: Kernel("polynomial", 1.0, 2, -1.0),
        lambda: NystroemMap.of_landmarks(np.eye(3), Kernel(), 0),
        lambda: FourierMap.random(3, np.nan),
        lambda: FourierMap.random(3, 1.0, 0),
        lambda: FourierMap.random(3, 1.0, 5, -1),
        lambda: ThresholdMap.random(np.zeros(2), np.ones(2), 0),
        lambda: NetworkMap.random(3, 0),
        lambda: NetworkMap.random(3, 5, 0.0),
        lambda: NetworkMap.trained(*rows(), features=0),
        lambda: NetworkMap.trained(*rows(), l2=-1.0),
        lambda: NetworkMap.trained(*rows(), max_iter=0),
        lambda: CrossMap(3, 0),
        lambda: CrossMap(3, 31),
        lambda: CrossMap(2**31 - 2, 4),
        lambda: CrossMap(3, 4, -1),
    ],
)
def test_settings_out_of_range_are_refused(make):
    with pytest.raises(ConfigError, match=r"(?s)found .*expected .*; "):
        make()


def test_no_spark_is_imported():
    code = (
        "import sys\n"
        "for name in ('pyspark', 'pyarrow', 'pandas', 'pydantic', 'sklearn'):\n"
        "    sys.modules[name] = None\n"
        "from spark_auc.features.restore import classes\n"
        "assert {'CrossMap', 'NystroemMap', 'Splines'} <= set(classes())\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
