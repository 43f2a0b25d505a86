"""Rows by period, source, segment and fold, and the moments of all pairs by brute force."""

import numpy as np

from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.store.facts import Facts
from spark_auc.store.moment_store import MomentStore

D, K = 5, 3
FACTS = Facts(D, K, seed=1, positive_label="click")
DAYS = ["2026-02-26", "2026-02-27", "2026-02-28", "2026-03-01", "2026-03-03", "2026-03-04"]


def rows(seed, n=8):
    """Rows, labels and weights of one fold; both classes, a sparse and a constant column."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    X[:, 1] *= rng.random(n) < 0.4
    X[:, 2] = 1e3 + 2.0
    y = rng.random(n) < 0.4
    y[:2] = True, False
    return X, y, rng.uniform(0.5, 3.0, n)


def fold_rows(name, k=K):
    """The rows of each fold, by a name."""
    seed = int.from_bytes(name.encode(), "big") % 2**32
    return [rows((seed, fold)) for fold in range(k)]


def folds_of(name):
    return [PairMoments.of(*part) for part in fold_rows(name)]


def filled(path, days=DAYS, source="clicks", facts=FACTS):
    """A store with one source in each period."""
    store = MomentStore(str(path), facts)
    for day in days:
        assert store.put(day, source, folds_of(day + source))
    return store


def bits(moments):
    return moments.to_bytes()


def bits_of(merged):
    return [bits(merged.fold(k)) for k in range(merged.folds)]


def assert_pairs(moments, parts):
    """Assert that moments are those of all pairs of the rows of parts (X, y, weights)."""
    X, y, u = (np.concatenate(a) for a in zip(*parts, strict=True))
    X_p, X_n, u_p, u_n = X[y], X[~y], u[y], u[~y]
    D_pairs = (X_p[:, None] - X_n[None]).reshape(-1, X.shape[1])
    weight = np.outer(u_p, u_n).ravel() / (u_p.sum() * u_n.sum())
    quadratic, Sigma = moments.quadratic(), (D_pairs.T * weight) @ D_pairs
    size = np.sqrt(np.outer(np.diag(Sigma), np.diag(Sigma))) + 1e-9
    assert (np.abs(quadratic.Sigma.toarray() - Sigma) <= 1e-10 * size).all()
    np.testing.assert_allclose(quadratic.mu, weight @ D_pairs, rtol=1e-10, atol=1e-10)
    assert (moments.positive.rows, moments.negative.rows) == (len(X_p), len(X_n))
