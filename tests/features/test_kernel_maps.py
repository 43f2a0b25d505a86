"""The Nystroem map and random Fourier features against the kernels that they approximate."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics import pairwise

from spark_auc.errors import DataError
from spark_auc.features.fourier import FourierMap
from spark_auc.features.kernels import Kernel
from spark_auc.features.nystroem import NystroemMap

# A kernel, and scikit-learn's name and arguments of the same.
KERNELS = {
    "gaussian": (Kernel("gaussian", 4.0), "rbf", {"gamma": 0.25}),
    "laplacian": (Kernel("laplacian", 5.0), "laplacian", {"gamma": 0.2}),
    "polynomial": (
        Kernel("polynomial", 2.0, 3, 0.7),
        "polynomial",
        {"gamma": 0.5, "degree": 3, "coef0": 0.7},
    ),
    "linear": (Kernel("linear", 2.0), "polynomial", {"gamma": 0.5, "degree": 1, "coef0": 0}),
}
each = pytest.mark.parametrize(("kernel", "name", "arguments"), KERNELS.values(), ids=KERNELS)


def some_rows(n=150, d=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


@each
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_kernels(kernel, name, arguments, form):
    X, U = some_rows() * (some_rows(seed=2) > 0), some_rows(1100, seed=1)
    expected = pairwise.pairwise_kernels(X, U, metric=name, **arguments)
    np.testing.assert_allclose(kernel.between(form(X), U), expected, rtol=1e-12, atol=1e-13)


def test_far_columns_do_not_cancel():
    X, U = some_rows(), some_rows(30, seed=1)
    kernel = Kernel("gaussian", 4.0)
    np.testing.assert_allclose(
        kernel.between(X + 1e6, U + 1e6), kernel.between(X, U), rtol=0, atol=1e-8
    )


@each
def test_scikit_learn_has_the_same_inner_products(kernel, name, arguments):
    X = some_rows()
    expected = Nystroem(kernel=name, n_components=25, random_state=0, **arguments).fit(X)
    made = NystroemMap.of_landmarks(X[expected.component_indices_], kernel)
    mapped, theirs = made.transform(X), expected.transform(X)
    products = theirs @ theirs.T
    if made.dimension < 25:
        # scikit-learn divides what rounding leaves of an eigenvalue of 0 by 1e-12, and is off by
        # 2e-9. Landmarks that span all features of a kernel give the kernel itself.
        products = pairwise.pairwise_kernels(X, metric=name, **arguments)
    np.testing.assert_allclose(mapped @ mapped.T, products, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("far", [0.0, 30.0])
@pytest.mark.parametrize(("d", "v"), [(2, 25), (4, 25), (4, 150), (10, 400), (50, 300)])
def test_the_rank_is_that_of_the_kernel(d, v, far):
    U = some_rows(v, d) + far
    for kernel, rank in (
        (Kernel("linear", 2.0), d),
        (Kernel("polynomial", 2.0 * d, 2), (d + 1) * (d + 2) // 2),
        # Nothing but what rounding makes of the repeated half.
        (Kernel("gaussian", 0.1 * d), v),
    ):
        landmarks = np.vstack([U, U]) if kernel.name == "gaussian" else U
        values = np.linalg.eigvalsh(kernel.between(landmarks, landmarks))[::-1]
        if rank >= len(landmarks) or values[rank - 1] < 1e-9 * values[0]:
            continue
        assert NystroemMap.of_landmarks(landmarks, kernel).dimension == rank
        # A hundredth of what is taken for rounding is more than rounding.
        allowed = 0.64 * np.finfo(float).eps * len(landmarks) * values[0]
        assert np.abs(values[rank:]).max() < allowed


@each
def test_all_rows_as_landmarks_give_the_kernel(kernel, name, arguments):
    X = some_rows()
    exact = pairwise.pairwise_kernels(X, metric=name, **arguments)
    made = NystroemMap.of_landmarks(X, kernel)
    mapped = made.transform(X)
    np.testing.assert_allclose(mapped @ mapped.T, exact, rtol=0, atol=1e-8 * exact.max())
    # As many as there are monomials, where the kernel has finitely many features.
    assert made.dimension == {"linear": 4, "polynomial": 35}.get(kernel.name, 150)


def test_the_error_falls_with_landmarks():
    X, kernel = some_rows(), Kernel("gaussian", 4.0)
    exact = kernel.between(X, X)
    errors = []
    for v in (5, 10, 20, 40, 80, 150):
        mapped = NystroemMap.of_landmarks(X[:v], kernel).transform(X)
        residual = exact - mapped @ mapped.T
        # What landmarks leave of a kernel is a kernel.
        assert np.linalg.eigvalsh(residual)[0] > -1e-8
        np.testing.assert_allclose(residual[:v, :v], 0, atol=1e-8)
        errors.append(np.linalg.norm(residual))
    assert (np.diff(errors) < 0).all()
    assert errors[-1] < 1e-7 < errors[0]


def test_low_rank_is_the_best_of_the_landmarks():
    U, kernel = some_rows(60), Kernel("laplacian", 5.0)
    made = NystroemMap.of_landmarks(U, kernel, 7)
    assert made.dimension == 7
    left, values, right = np.linalg.svd(kernel.between(U, U))
    mapped = made.transform(U)
    np.testing.assert_allclose(
        mapped @ mapped.T, (left[:, :7] * values[:7]) @ right[:7], rtol=0, atol=1e-10
    )
    np.testing.assert_allclose((mapped**2).sum(axis=0), values[:7], rtol=1e-10)
    assert NystroemMap.of_landmarks(U, kernel, 99).dimension == 60


def test_landmarks_may_repeat():
    U, X, kernel = some_rows(20), some_rows(50, seed=1), Kernel("gaussian", 4.0)
    once, twice = (NystroemMap.of_landmarks(V, kernel) for V in (U, np.vstack([U, U])))
    assert twice.dimension == 20
    a, b = once.transform(X), twice.transform(X)
    np.testing.assert_allclose(a @ a.T, b @ b.T, rtol=0, atol=1e-8)


def test_more_rows_than_are_mapped_at_a_time():
    made = NystroemMap.of_landmarks(some_rows(5), Kernel("gaussian", 4.0))
    X = some_rows(9001)
    expected = made.kernel.between(X, made.landmarks) @ made.projection
    np.testing.assert_allclose(made.transform(X), expected, rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("landmarks", "kernel"),
    [
        (np.empty((0, 3)), Kernel()),
        (np.zeros((4, 3)), Kernel("linear")),
        (np.full((4, 3), np.nan), Kernel()),
        (np.full((4, 3), 1e200), Kernel("polynomial")),
    ],
)
def test_useless_landmarks_are_refused(landmarks, kernel):
    with pytest.raises(DataError, match=r"landmarks .* expected .*; give"):
        NystroemMap.of_landmarks(landmarks, kernel)


def test_fourier_features_approximate_the_gaussian():
    X = some_rows(60)
    exact = pairwise.rbf_kernel(X, gamma=1 / 3)
    above = np.triu_indices(60)
    errors = []
    for features in (100, 400, 1600, 6400):
        mapped = FourierMap.random(4, 3.0, features, seed=features).transform(X)
        assert np.abs(mapped).max() <= np.sqrt(2 / features)
        error = (mapped @ mapped.T - exact)[above]
        # A standard error is at most 1 / sqrt(F); the largest of 1,830 stays within five.
        assert np.abs(error).max() < 5 / np.sqrt(features)
        errors.append(np.sqrt((error**2).mean()))
    ratio = np.array(errors[:-1]) / errors[1:]
    assert (ratio > 1.5).all()
    assert (ratio < 2.7).all()


def test_fourier_features_are_unbiased():
    X = some_rows(8)
    exact = pairwise.rbf_kernel(X, gamma=1 / 3)
    products = []
    for seed in range(200):
        mapped = FourierMap.random(4, 3.0, 50, seed).transform(X)
        products.append(mapped @ mapped.T)
    error = np.mean(products, axis=0) - exact
    assert np.abs(error).max() < 5 / np.sqrt(200 * 50)
