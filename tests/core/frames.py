"""Random frames that are hard on sums, and their pairs one by one in extended precision."""

import numpy as np
from scipy import sparse

from spark_auc.core.batch import WEIGHTS, Batch

EPS = float(np.finfo(float).eps)
VALUES = [0.0, 1.0, -7.0, 0.1, 1 / 3, 1e-3, 1e8 + 0.1, 12345.678]


def column(rng, y):
    """One column ``(n,)``."""
    n, value = y.size, rng.choice(VALUES)
    kinds = [
        lambda: np.full(n, value),
        lambda: np.where(y, value, rng.choice(VALUES)),
        lambda: (rng.random(n) < 0.3) * rng.choice([1.0, 0.1]),
        lambda: np.where(np.arange(n) == rng.integers(n), rng.normal(), value),
        lambda: rng.normal(size=n) * 10.0 ** rng.integers(-8, 9),
        lambda: np.where(rng.random(n) < 0.9, value, 0.0),
        lambda: rng.integers(-2, 3, n) / 3,
        lambda: rng.choice([-1e8, -1e3, 1e3, 1e6, 1e8]) + rng.normal(size=n),
    ]
    return kinds[rng.integers(len(kinds))]()


def weights(rng, n):
    """Row weights ``(n,)`` > 0, or None."""
    kind = rng.integers(9)
    if kind == 0:
        return None
    if kind <= 4:
        return np.full(n, [0.1, 1 / 3, 1e-3, 1e12][kind - 1])
    if kind == 5:
        return rng.uniform(0.1, 3.0, n)
    if kind == 6:
        return rng.choice([0.1, 1 / 3, 0.7, 3.0], n)
    if kind == 7:
        return 10.0 ** rng.uniform(-12, 12, n)
    return np.where(rng.random(n) < 0.2, WEIGHTS[0], 1.0)


def frame(rng):
    """Rows ``X`` ``(n, d)``, some repeated, ``y`` and their weights ``(n,)`` or None."""
    n, d = int(rng.integers(4, 31)), int(rng.integers(1, 7))
    y = rng.random(n) < rng.choice([0.2, 0.5])
    y[:4] = True, False, True, False
    X = np.stack([column(rng, y) for _ in range(d)], axis=1)
    rows = rng.integers(0, n, n) if rng.random() < 0.2 else np.arange(n)
    rows[:4] = np.arange(4)
    return X[rows], y[rows], weights(rng, n)


def stored(rng, X):
    """The rows dense or sparse, with zeros that are stored, and values in two parts."""
    form = rng.integers(4)
    if form == 0:
        return X.copy()
    if form == 1:
        return sparse.csr_matrix(X)
    n, d = X.shape
    kept = (X != 0) | (rng.random(X.shape) < 0.5)
    row, at = np.nonzero(kept)
    value = X[row, at]
    if form == 3:
        row, at = np.concatenate([row, row]), np.concatenate([at, at])
        value = np.concatenate([value / 2, value / 2])
    order = np.argsort(row, kind="stable")
    starts = np.searchsorted(row[order], np.arange(n + 1))
    return sparse.csr_matrix((value[order], at[order], starts), (n, d))


def batches(rng, X, y, u):
    """The rows in some batches, in any order and forms."""
    parts = np.array_split(rng.permutation(y.size), rng.integers(1, 6))
    return [Batch(stored(rng, X[p]), y[p], None if u is None else u[p]) for p in parts if p.size]


def all_pairs(X, y, u):
    """``mu`` and ``Sigma`` over all pairs, one by one, in extended precision."""
    X = X.astype(np.longdouble)
    u = np.ones(y.size, np.longdouble) if u is None else u.astype(np.longdouble)
    D = (X[y][:, None, :] - X[~y][None, :, :]).reshape(-1, X.shape[1])
    share = np.outer(u[y] / u[y].sum(), u[~y] / u[~y].sum()).ravel()
    return share @ D, (D * share[:, None]).T @ D


def deviation(X, u):
    """Standard deviation ``(d,)`` of all rows, in extended precision."""
    X = X.astype(np.longdouble)
    u = np.ones(len(X), np.longdouble) if u is None else u.astype(np.longdouble)
    share = u / u.sum()
    variance = share @ (X - share @ X) ** 2
    n = max(len(X), u.sum())
    return np.sqrt(variance * n / (n - 1))


def counted_pairs(X, y, u=None):
    """``mu`` and ``Sigma`` over all pairs, from the weights of equal rows in extended precision."""
    u = np.ones(y.size) if u is None else u
    means, covariances = [], []
    for mine in (y, ~y):
        values, place = np.unique(np.column_stack([X[mine], u[mine]]), axis=0, return_inverse=True)
        values = values.astype(np.longdouble)
        share = np.bincount(place.ravel()) * values[:, -1]
        share /= share.sum()
        means.append(share @ values[:, :-1])
        centred = values[:, :-1] - means[-1]
        covariances.append((centred * share[:, None]).T @ centred)
    delta = means[0] - means[1]
    return delta, covariances[0] + covariances[1] + np.outer(delta, delta)


def exact_pairs(X, y):
    """``mu`` and ``Sigma`` over all pairs, from rows about their means in extended precision."""
    means, Sigma = [], 0
    for mine in (y, ~y):
        rows = X[mine].astype(np.longdouble)
        means.append(rows.mean(axis=0))
        rows -= means[-1]
        blocks = [rows[k : k + 512].T @ rows[k : k + 512] for k in range(0, len(rows), 512)]
        Sigma = Sigma + sum(blocks) / len(rows)
    mu = means[0] - means[1]
    return mu, Sigma + np.outer(mu, mu)
