"""The laws of merging, over every state class."""

import numpy as np
import pytest
from scipy import sparse

from spark_auc.core import tiles
from spark_auc.core.moments import ClassMoments, PairMoments
from tests.laws import Case, check_laws

N, D = 60, 7
RNG = np.random.default_rng(11)
X = RNG.normal(size=(N, D)) * (RNG.random((N, D)) < 0.6) + np.array([1e3, 5, 0, 0, 0, 0, 0])
Y = RNG.random(N) < 0.4
U = RNG.uniform(0.5, 2.0, N)
SPREAD = np.sqrt(np.average(X**2, axis=0))


def class_view(moments):
    if not moments.rows:
        return np.zeros(1 + D + D * D)
    w = np.eye(D) / SPREAD
    scatter = [moments.variance_along(w[i] + w[j]) for i in range(D) for j in range(D)]
    return np.concatenate([[moments.weight / U.sum()], moments.mean / SPREAD, scatter])


def pair_view(moments):
    return np.concatenate([class_view(moments.positive), class_view(moments.negative)])


CASES = {
    "ClassMoments dense": Case(
        ClassMoments.zero(D), lambda i: ClassMoments.of(X[i], U[i]), class_view, N, inverse=True
    ),
    "ClassMoments sparse": Case(
        ClassMoments.zero(D),
        lambda i: ClassMoments.of(sparse.csr_matrix(X[i]), U[i]),
        class_view,
        N,
        inverse=True,
    ),
    "PairMoments": Case(
        PairMoments.zero(D), lambda i: PairMoments.of(X[i], Y[i], U[i]), pair_view, N, inverse=True
    ),
    "MomentsTile": Case(
        ClassMoments.zero(D).tiles[0],
        lambda i: ClassMoments.of(X[i], U[i]).tiles[0],
        lambda tile: class_view(ClassMoments(D, (tile,))),
        N,
        inverse=True,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_laws(name):
    check_laws(CASES[name])


@pytest.mark.parametrize("name", ["ClassMoments dense", "ClassMoments sparse", "PairMoments"])
def test_laws_of_many_tiles(name, monkeypatch):
    monkeypatch.setattr(tiles, "LARGEST_TILE", 3)
    case = CASES[name]
    zero = type(case.zero).zero(D)
    check_laws(Case(zero, case.of, case.view, N, inverse=True))
