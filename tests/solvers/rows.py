"""Optimality of weights, computed from the rows themselves in extended precision."""

import numpy as np

Long = np.longdouble


def long_quadratic(X, y, u=None, scale=None):
    """``Sigma`` and ``mu`` of all pairs, from rows less the first: an offset costs no digits."""
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X).astype(Long)
    X = X - X[0]
    u = np.ones(len(y), Long) if u is None else u.astype(Long)
    if scale is not None:
        X = X / scale.astype(Long)
    means, Sigma = [], 0.0
    for mine in (y, ~y):
        share = u[mine] / u[mine].sum()
        means.append(share @ X[mine])
        centred = X[mine] - means[-1]
        Sigma = Sigma + (centred * share[:, None]).T @ centred
    mu = means[0] - means[1]
    return Sigma + np.outer(mu, mu), mu


def violations(Sigma, mu, penalty, w):
    """Of each coordinate, in the units of a certificate; and the objective."""
    w = w.astype(Long)
    g = Sigma @ w - mu + Long(penalty.l2) * w
    at_zero = np.maximum(np.abs(g) - penalty.l1, 0)
    violation = np.where(w != 0, np.abs(g + penalty.l1 * np.sign(w)), at_zero)
    curvature = np.diag(Sigma) + penalty.l2
    units = np.sqrt(np.where(curvature > 0, curvature, 1))
    objective = w @ Sigma @ w / 2 - w @ mu + penalty.l1 * np.abs(w).sum()
    return violation / units, objective + penalty.l2 * (w @ w) / 2
