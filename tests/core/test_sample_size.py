"""The number of pairs: the bound as corrected, and the estimate against repeated sampling."""

import math

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import binom

from spark_auc.core.batch import Batch
from spark_auc.core.moments.objective import ElasticNet
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.moments.spectral_norm import spectral_norm
from spark_auc.core.moments.tiles import SymmetricTiles
from spark_auc.core.sampling.draws import FirstArrivals
from spark_auc.core.sampling.sample_size import (
    GroupSums,
    estimated_suboptimality,
    sufficient_pairs,
)
from spark_auc.errors import ConfigError
from spark_auc.solvers.path import solve


def test_bound_by_hand():
    """Both terms of Eq. 18 as corrected, each where it is the larger."""
    first = 32 * math.log(4 * 10 / 0.05) * (30.0 * 2.0 * 0.25 + 0.1 * 2.0 * 0.5 / 3) / 0.01
    assert sufficient_pairs(0.1, 0.05, 10, 30.0, 2.0, 0.5) == math.ceil(first)
    second = 32 * 2.0 * 0.5 / 0.01 * (math.sqrt(2 * math.log(2 / 0.05)) + 1) ** 2
    assert sufficient_pairs(0.1, 0.05, 1, 1e-6, 2.0, 0.5) == math.ceil(second)
    second = 4 * 2.0 * 0.5 / 0.01 * (math.sqrt(2 * math.log(4 / 0.05)) + 1) ** 2
    found = sufficient_pairs(0.1, 0.05, 1, 1e-6, 2.0, 0.5, printed=True)
    assert found == math.ceil(second)
    # The first term is the same in both.
    found = sufficient_pairs(0.1, 0.05, 10, 30.0, 2.0, 0.5, printed=True)
    assert found == math.ceil(first)


def test_the_printed_inequality_of_means_is_false():
    """Eq. 35 for rows of +-1, so that R_x is 1: 50 differences have the mean (K - 50) / 25."""
    probability = 2 * binom.cdf(30, 100, 0.5)
    printed, corrected = (np.exp(-0.5 * (0.8 * 50**0.5 / L - 1) ** 2) for L in (1.0, 2**0.5))
    assert probability == pytest.approx(7.85e-5, rel=1e-3)
    assert printed == pytest.approx(1.96e-5, rel=1e-2)
    assert printed < probability < corrected


@pytest.mark.parametrize("d", [1, 20, 21, 300])
def test_spectral_norm(d):
    A = np.random.default_rng(d).normal(size=(2 * d, d)) * np.geomspace(1, 3, d)
    found = spectral_norm(SymmetricTiles.of(A.T @ A))
    assert found == pytest.approx(np.linalg.norm(A, 2) ** 2, rel=2e-3)
    assert spectral_norm(SymmetricTiles.of(np.zeros((d, d)))) == 0.0


@pytest.mark.parametrize(("epsilon", "norm"), [(1e-200, 0.5), (0.1, 1e200), (1e-170, 1e-170)])
def test_bound_beyond_double_precision(epsilon, norm):
    assert sufficient_pairs(epsilon, 0.05, 10, 3.0, 2.0, norm) is None


@pytest.mark.parametrize("place", range(6))
def test_bound_of_nonsense(place):
    given = [0.1, 0.05, 10, 3.0, 2.0, 0.5]
    given[place] = 0
    with pytest.raises(ConfigError, match="found epsilon"):
        sufficient_pairs(*given)


def made():
    rng = np.random.default_rng(4)
    y = rng.random(3000) < 0.2
    return Batch(rng.normal(size=(3000, 5)) + 0.4 * y[:, None], y)


def grouped(batch, seed, pairs, groups):
    first = FirstArrivals.zero(pairs).update(batch, seed)
    rows, moments = first.draws(seed, pairs).arrivals(batch)
    cuts = first.cuts(pairs, groups)
    places = [np.searchsorted(c, moments, "right") for c in cuts]
    group = np.where(batch.y[rows], *places).astype(np.uint64)
    return batch.take(rows)._replace(key=group)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_gradients_of_groups(form):
    """Each group's gradient is that of its own pairs."""
    batch = grouped(made(), 1, 200, 4)
    w = np.linspace(-1, 1, 5)
    rows = batch._replace(X=form(batch.X))
    halves = [rows.take(np.arange(k, rows.y.size, 2)) for k in (0, 1)]
    sums = GroupSums.fold(halves[:1], 4, w).merge(GroupSums.fold(halves[1:], 4, w))
    again = GroupSums.from_bytes(sums.to_bytes())
    for k, gradient in enumerate(again.gradients()):
        mine = batch.take(np.flatnonzero(batch.key == k))
        assert mine.y.sum() == 50
        quadratic = PairMoments.of(mine.X, mine.y).quadratic()
        expected = quadratic.Sigma.matvec(w) - quadratic.mu
        np.testing.assert_allclose(gradient, expected, atol=1e-12)


def test_estimate_is_what_sampling_costs():
    """On average over samples, the excess of the exact objective at their solutions."""
    batch, pairs, l2 = made(), 400, 0.05
    penalty = ElasticNet(0.0, l2)
    exact = PairMoments.of(batch.X, batch.y).quadratic()
    best = solve(exact, penalty, tol=1e-10, max_iter=100).certificate.objective
    estimates, excesses = [], []
    for seed in range(60):
        drawn = grouped(batch, seed, pairs, 32)
        # The pairs of one group, the k-th positive with the k-th negative, as differences.
        order = np.argsort(drawn.key, kind="stable")
        rows = drawn.take(order)
        difference = rows.X[rows.y] - rows.X[~rows.y]
        Sigma, mu = difference.T @ difference / pairs, difference.mean(axis=0)
        w = np.linalg.solve(Sigma + l2 * np.eye(5), mu)
        of_pair = difference * (difference @ w - 1)[:, None]
        gradients = np.array([part.mean(axis=0) for part in np.array_split(of_pair, 25)])
        hessian = Sigma + l2 * np.eye(5)
        estimates.append(
            estimated_suboptimality(gradients, lambda g, h=hessian: np.linalg.solve(h, g))
        )
        value = exact.value(w, exact.Sigma.matvec(w)) + penalty.value(w)
        excesses.append(value - best)
    assert np.mean(estimates) == pytest.approx(np.mean(excesses), rel=0.35)
