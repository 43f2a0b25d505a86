"""Features that do not occur are left out of the solution, not of the problem."""

import numpy as np
import pytest
from scipy import sparse

from spark_auc.core.moments.objective import ElasticNet
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.solvers import path as path_module
from spark_auc.solvers.path import _path, path, solve
from spark_auc.solvers.prior import centred

D, OCCURRING = 12, np.array([1, 2, 5, 8, 11])
RNG = np.random.default_rng(6)
X = np.zeros((300, D))
X[:, OCCURRING] = RNG.normal(size=(300, OCCURRING.size))
Y = RNG.random(300) < 1.0 / (1.0 + np.exp(-X[:, 1] - X[:, 5]))
PENALTIES = {
    "ridge": [ElasticNet(0.0, 0.1)],
    "ridges": [ElasticNet(0.0, l2) for l2 in np.geomspace(1.0, 1e-3, 8)],
    "elastic nets": [ElasticNet(0.02, 0.01), ElasticNet(0.01, 0.0)],
}


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "CSR"])
@pytest.mark.parametrize("prior", [False, True])
@pytest.mark.parametrize("penalties", PENALTIES.values(), ids=PENALTIES)
def test_the_solution_and_its_certificate_are_those_of_all_features(penalties, prior, form):
    quadratic = PairMoments.of(form(X), Y).quadratic()
    np.testing.assert_array_equal(quadratic.occurring(), OCCURRING)
    if prior:
        # A weight of a feature that does not occur stays as it was.
        w0 = RNG.normal(size=D) * (np.arange(D) % 3 == 0)
        w0[1] = 1.0
        quadratic = centred(quadratic, w0).quadratic
        assert quadratic.origin is not None
        assert 3 in quadratic.occurring()
        assert 4 not in quadratic.occurring()
    ours = list(path(quadratic, penalties, tol=1e-9, max_iter=1000))
    theirs = list(_path(quadratic, penalties, 1e-9, 1000))
    for a, b in zip(ours, theirs, strict=True):
        assert a.converged
        np.testing.assert_allclose(a.w, b.w, atol=1e-8)
        assert a.certificate.objective == pytest.approx(b.certificate.objective, abs=1e-12)
        assert a.certificate.tolerance == pytest.approx(b.certificate.tolerance, rel=1e-12)
    if not prior:
        w = ours[0].w
        assert not np.delete(w, OCCURRING).any()
        residual = quadratic.Sigma.matvec(w) - quadratic.mu
        kkt = penalties[0].kkt(w, residual + penalties[0].l2 * w) / quadratic.units(penalties[0])
        assert kkt.max() <= ours[0].certificate.kkt


def test_no_feature_occurs():
    quadratic = PairMoments.of(np.ones((9, 3)), np.arange(9) < 4).quadratic()
    solution = solve(quadratic, ElasticNet(0.0, 0.1), tol=1e-6, max_iter=10)
    assert solution.converged
    np.testing.assert_array_equal(solution.w, np.zeros(3))


def test_the_solver_sees_the_features_that_occur(monkeypatch):
    seen = []
    original = path_module.ridge

    def spy(quadratic, *args, **kwargs):
        seen.append(quadratic.dimension)
        return original(quadratic, *args, **kwargs)

    monkeypatch.setattr(path_module, "ridge", spy)
    solve(PairMoments.of(X, Y).quadratic(), ElasticNet(0.0, 0.1), tol=1e-6, max_iter=10)
    assert seen == [OCCURRING.size]
