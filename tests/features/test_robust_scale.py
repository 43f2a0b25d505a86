"""The robust scale of raw columns, and its composition with the maps of kernels."""

from statistics import NormalDist

import numpy as np
import pytest
from scipy import sparse

from spark_auc.core.state.codec import decode, encode
from spark_auc.errors import ConfigError, ModelFormatError
from spark_auc.features.composition import Composition
from spark_auc.features.fourier import FourierMap
from spark_auc.features.kernels import Kernel
from spark_auc.features.nystroem import NystroemMap
from spark_auc.features.restore import restore
from spark_auc.features.robust_scale import RobustScale
from spark_auc.features.splines import Splines
from spark_auc.features.value_counts import ValueCounts

RNG = np.random.default_rng(5)


def scale_of(X):
    return RobustScale.of([ValueCounts.of(x).weighted() for x in X.T])


def scores(x):
    """Gaussian scores of mid-ranks by definition, standardised."""
    ranks = np.array([(x < v).mean() + (x == v).mean() / 2 for v in x])
    z = np.array([NormalDist().inv_cdf(rank) for rank in ranks])
    return (z - z.mean()) / z.std()


def heavy(n=640):
    """Columns of few values with heavy tails."""
    many_zeros = np.where(RNG.random(n) < 0.9, 0, RNG.integers(0, 99, n))
    return np.column_stack([16.0 ** RNG.geometric(0.5, n), many_zeros])


def test_columns_without_heavy_tails_are_standardised():
    X = np.column_stack([RNG.normal(size=500), RNG.gamma(4.0, size=500), RNG.random(500) < 0.01])
    X = X * [1.0, 1e9, 1.0] + [1e6, 0.0, 0.0]
    expected = (X - X.mean(axis=0)) / X.std(axis=0)
    np.testing.assert_allclose(scale_of(X).transform(X), expected, rtol=0, atol=1e-8)


def test_columns_with_heavy_tails_have_scores():
    X = heavy()
    made = scale_of(X)
    assert made.knots.size > 4
    # All values of the first column are knots.
    np.testing.assert_allclose(made.transform(X)[:, 0], scores(X[:, 0]), rtol=0, atol=1e-12)
    assert np.abs(made.transform(X)[:, 1] - scores(X[:, 1])).max() < 0.2
    x = np.concatenate([RNG.standard_cauchy(5000), np.zeros(3000)])[:, None]
    mapped = scale_of(x).transform(x)[:, 0]
    assert np.corrcoef(mapped, scores(x[:, 0]))[0, 1] > 0.99
    assert np.abs(mapped).max() < 5
    np.testing.assert_allclose([mapped.mean(), mapped.std()], [0, 1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("change", [np.cbrt, lambda x: 1e12 * x**3 - 1e9, lambda x: 2**-40 * x])
def test_monotone_changes_of_heavy_columns_change_no_bit(change):
    X = np.column_stack([16.0**k for k in RNG.geometric(0.5, (3, 640))])
    a, b = scale_of(X), scale_of(change(X))
    assert a.heights.tobytes() == b.heights.tobytes()
    Z, W = a.transform(X), b.transform(change(X))
    assert Z.tobytes() == W.tobytes()
    kernels = [NystroemMap.of_landmarks(S[:20], Kernel("gaussian", 3.0)) for S in (Z, W)]
    first, second = (
        Composition((s, k)).transform(rows)
        for s, k, rows in zip((a, b), kernels, (X, change(X)), strict=True)
    )
    assert first.tobytes() == second.tobytes()


@pytest.mark.filterwarnings("error")
def test_columns_that_no_division_scales():
    n = 300
    normal = RNG.normal(size=n)
    X = np.column_stack(
        [
            np.full(n, 7.0),
            RNG.normal(size=n) * 1e300,
            np.where(np.arange(n) % 2, 1.7e308, -1.7e308),
            np.where(np.arange(n) == 5, 1e300, normal),
            np.full(n, np.nan),
            1e12 + RNG.integers(0, 3, n),
            RNG.normal(size=n) * 5e-324,
        ]
    )
    made = scale_of(X)
    mapped = made.transform(X)
    np.testing.assert_allclose(mapped.std(axis=0), made.varies(), rtol=1e-12)
    np.testing.assert_array_equal(made.varies(), [0, 1, 1, 1, 0, 1, 1])
    # One outlier leaves the others about where they are.
    others = np.arange(n) != 5
    assert np.corrcoef(mapped[others, 3], normal[others])[0, 1] > 0.95
    between = made.transform(np.zeros((1, 7)))
    assert np.isfinite(between).all()
    assert between[0, 2] == pytest.approx(0.0, abs=1e-12)


def test_missing_and_infinite_values():
    X = np.array([[1.0], [2.0], [3.0], [4.0]])
    made = scale_of(np.vstack([X, [[np.nan], [np.inf]]]))
    mapped = made.transform(np.array([[np.nan], [-np.inf], [np.inf], [-0.0], [9.0]]))[:, 0]
    low, high = made.heights[[0, -1]]
    np.testing.assert_array_equal(mapped, [0.0, low, high, low, high])
    assert made.takes_missing
    assert Composition((made, FourierMap.random(1, 1.0, 3))).takes_missing
    assert not Composition((FourierMap.random(1, 1.0, 3),)).takes_missing


def test_sparse_rows_hold_zeros():
    X = np.where(RNG.random((50, 3)) < 0.5, 0.0, heavy(50)[:, [0, 0, 1]])
    made = scale_of(X)
    for form in (sparse.csr_matrix, sparse.csr_array):
        np.testing.assert_array_equal(made.transform(form(X)), made.transform(X))


X = np.column_stack([heavy(), np.full(640, 7.0)])


def test_names_of_a_composition():
    scale, splines = scale_of(X), Splines.of_knots([[0.0, 1.0], [], [2.0]])
    columns = ["a", "b", "c"]
    assert scale.names(columns) == tuple(columns)
    assert Composition((scale, splines)).names(columns) == splines.names(columns)
    assert Composition((FourierMap.random(3, 1.0, 3), splines)).names(columns) is None


def test_maps_that_do_not_fit():
    for maps in ((), (scale_of(X), FourierMap.random(4, 1.0, 3))):
        with pytest.raises(ConfigError, match=r"found .*expected .*; "):
            Composition(maps)


def test_stored_compositions():
    made = Composition((scale_of(X), FourierMap.random(3, 1.0, 4)))
    back = restore(made.to_bytes())
    assert back.to_bytes() == made.to_bytes()
    np.testing.assert_array_equal(back.transform(X), made.transform(X))
    parts = {k: bytes(v) for k, v in decode("Composition", 1, made.to_bytes()).items()}
    for wrong in (
        {},
        parts | {"maps/1": made.to_bytes()},
        {"maps/0": parts["maps/1"], "maps/1": parts["maps/1"]},
        {"maps/0": ValueCounts.zero().to_bytes()},
    ):
        with pytest.raises(ModelFormatError, match=r"found .*expected"):
            restore(encode("Composition", 1, wrong))
