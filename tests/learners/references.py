"""The published algorithms in plain Python, slowly, written from the papers' pseudocode.

Each takes dense rows in order and returns the weights. Statistics are taken anew from all rows
seen, and pairs and draws come from a second implementation of the counted random numbers.
"""

import math

import numpy as np

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def _mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def uniform(seed, stream, number):
    start = _mix((_mix((seed + GOLDEN) & MASK) + stream * GOLDEN) & MASK)
    return ((_mix((start + (number + 1) * GOLDEN) & MASK) >> 12) + 0.5) / 2**52


def normals(seed, stream, count):
    out = []
    for i in range(0, count + 1, 2):
        radius = math.sqrt(-2 * math.log(uniform(seed, stream, i)))
        angle = 2 * math.pi * uniform(seed, stream, i + 1)
        out += [radius * math.cos(angle), radius * math.sin(angle)]
    return np.array(out[:count])


def _opauc_step(w, x, sign, c, S, eta, lambda2):
    D = x - c
    return w - eta * (lambda2 * w - sign * D + D * (D @ w) + S @ w)


def opauc(X, y, eta, lambda2):
    w, seen = np.zeros(X.shape[1]), {True: [], False: []}
    for x, label in zip(X, map(bool, y), strict=True):
        seen[label].append(x)
        other = np.array(seen[not label])
        if other.size:
            S = np.cov(other.T, bias=True).reshape(w.size, w.size)
            w = _opauc_step(w, x, 1 if label else -1, other.mean(0), S, eta, lambda2)
    return w


def opauc_low_rank(X, y, eta, lambda2, tau, seed):
    w = np.zeros(X.shape[1])
    seen, drawn = {True: [], False: []}, {True: [], False: []}
    for t, (x, label) in enumerate(zip(X, map(bool, y), strict=True), 1):
        seen[label].append(x)
        drawn[label].append(normals(seed, t, tau) / math.sqrt(tau))
        other, R = np.array(seen[not label]), np.array(drawn[not label])
        if other.size:
            c = other.mean(0)
            A = other.T @ R - np.outer(c, R.sum(0))
            S = A @ A.T / len(other)
            w = _opauc_step(w, x, 1 if label else -1, c, S, eta, lambda2)
    return w


def opauc_projected(X, y, H, eta, lambda2):
    return H @ opauc(X @ H, y, eta, lambda2)


def solam(*given, **settings):
    return solam_averages(*given, **settings)[0]


def solam_averages(X, y, zeta, R, kappa, u=None, horizon=1):
    w, a, b, alpha = np.zeros(X.shape[1]), 0.0, 0.0, 0.0
    total, average, seen, positive = 0.0, np.zeros(X.shape[1]), 0.0, 0.0
    others = np.zeros(3)
    for t, (x, label) in enumerate(zip(X, y, strict=True), 1):
        weight = 1.0 if u is None else u[t - 1]
        seen, positive = seen + weight, positive + weight * label
        p, gamma, s = positive / seen, zeta / math.sqrt(max(t, horizon)), w @ x
        if label:
            Fw, Fa, Fb = 2 * (1 - p) * (s - a) * x - 2 * (1 + alpha) * (1 - p) * x, -1, 0
            Fa *= 2 * (1 - p) * (s - a)
            Falpha = -2 * (1 - p) * s - 2 * p * (1 - p) * alpha
        else:
            Fw, Fa, Fb = 2 * p * (s - b) * x + 2 * (1 + alpha) * p * x, 0, -2 * p * (s - b)
            Falpha = 2 * p * s - 2 * p * (1 - p) * alpha
        average = (total * average + gamma * w) / (total + gamma)
        others = (total * others + gamma * np.array([a, b, alpha])) / (total + gamma)
        total += gamma
        gamma *= weight
        w = w - gamma * Fw
        w *= min(1.0, R / max(np.linalg.norm(w), 1e-300))
        a, b = np.clip([a - gamma * Fa, b - gamma * Fb], -R * kappa, R * kappa)
        alpha = np.clip(alpha + gamma * Falpha, -2 * R * kappa, 2 * R * kappa)
    return average, others


def dsgd(X, y, gamma, c, seed, block, averaging=False):
    w, t, total = np.zeros(X.shape[1]), 0, np.zeros(X.shape[1])
    for start in range(0, len(y), block):
        rows, labels = X[start : start + block], y[start : start + block]
        P, N, m = rows[labels], rows[~labels], len(labels)
        share = 2 * len(P) * len(N) / (m * (m - 1))
        for _ in range(m):
            D = P[int(uniform(seed, 0xDA, 2 * t) * len(P))]
            D = D - N[int(uniform(seed, 0xDA, 2 * t + 1) * len(N))]
            gradient = -2 * share * (1 - w @ D) * D + c / math.sqrt(m) * w
            w = w - gamma / (1 if averaging else t + 1) * gradient
            total, t = total + w, t + 1
    return total / t if averaging else w


def nsauc(X, y, settings, block):
    """Algorithm 3 with an average that divides by q + 1, q from 0."""
    lam, t, q = settings.lambda2, 0, 0
    t0 = 1 / (settings.gamma * lam)
    w, average = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    rcount, acount = settings.rskip, settings.askip
    for start in range(0, len(y), block):
        rows, labels = X[start : start + block], y[start : start + block]
        P, N = rows[labels], rows[~labels]
        for _ in range(len(labels)):
            D = P[int(uniform(settings.seed, 0xA5, 2 * t) * len(P))]
            D = D - N[int(uniform(settings.seed, 0xA5, 2 * t + 1) * len(N))]
            t += 1
            if (margin := w @ D) < 1:
                slope = 1 if settings.loss == "hinge" else 1 - margin
                w = w + slope * D / (lam * (t + t0))
            rcount, acount = rcount - 1, acount - 1
            if rcount == 0:
                w, rcount = w - settings.rskip / (t + t0) * w, settings.rskip
            if acount == 0:
                average, q, acount = (q * average + w) / (q + 1), q + 1, settings.askip
    return average if settings.averaging else w
