"""The published pseudocode in plain Python: dense rows, no state, no thought for speed.

Each takes rows ``(n, d)`` and labels, and the settings of the learner of its name.
"""

import math
from functools import partial

import numpy as np

from tests.learners.references import uniform


def oam(X, y, *, sequential, penalty, buffer, seed):
    w, kept, seen = np.zeros(X.shape[1]), {True: [], False: []}, {True: 0, False: 0}
    for x, own in zip(X, y.tolist(), strict=True):
        e, opposite = (1 if own else -1), kept[not own]
        c = penalty * max(1, seen[not own] / buffer)
        seen[own] += 1
        if len(kept[own]) < buffer:
            kept[own].append(x)
        else:
            place = math.floor(uniform(seed, int(own), seen[own]) * seen[own])
            if place < buffer:
                kept[own][place] = x
        if sequential:
            for b in opposite:
                loss = max(0.0, 1 - e * w @ (x - b))
                squared = (x - b) @ (x - b)
                w = w + min(c / 2, loss / squared if squared else math.inf) * e * (x - b)
        else:
            wrong = [x - b for b in opposite if e * w @ (x - b) <= 1]
            w = w + c / 2 * e * np.sum(wrong, axis=0) if wrong else w
    return w


def olp(X, y, *, eta, radius, buffer, seed):
    w, mean, kept = np.zeros(X.shape[1]), np.zeros(X.shape[1]), []
    for t, row in enumerate(zip(X, np.where(y, 1, -1), strict=True), 1):
        x, e = row
        gradient = np.zeros(X.shape[1])
        for b, other in kept:
            if other != e and e * w @ (x - b) <= 1:
                gradient -= e * (x - b) / len(kept)
        w = w - eta / math.sqrt(t) * gradient
        w = w * min(1.0, radius / max(np.linalg.norm(w), 1e-300))
        mean = mean + (w - mean) / t
        drawn = [math.floor(uniform(seed, slot, t) * t) for slot in range(buffer)]
        if len(kept) < buffer:
            kept.append(row)
        elif t == buffer + 1:
            kept = [[*kept, row][place] for place in drawn]
        else:
            kept = [row if d == t - 1 else b for b, d in zip(kept, drawn, strict=True)]
    return mean


def ada_auc(X, y, *, eta, lambda2, delta):
    w, squares, earlier = np.zeros(X.shape[1]), np.zeros(X.shape[1]), {True: [], False: []}
    for x, own in zip(X, y.tolist(), strict=True):
        earlier[own].append(x)
        if not earlier[not own]:
            continue
        e, others = (1 if own else -1), np.array(earlier[not own])
        # The pairs of this row with each row of the other class, which the moments stand for.
        D = x - others
        g = lambda2 * w + (D @ w - e) @ D / len(others)
        squares = squares + g**2
        w = w - eta * g / (delta + np.sqrt(squares))
        w = w / max(1.0, math.sqrt(lambda2) * np.linalg.norm(w))
    return w


def uni_exp(X, y, *, eta):
    w = np.zeros(X.shape[1])
    for t, x in enumerate(X, 1):
        e = 1 if y[t - 1] else -1
        share = np.mean(y[:t] == y[t - 1])
        w = w + eta * math.exp(-e * w @ x) * e * x / (2 * share)
    return w


def olr(X, y, *, eta, lambda2):
    w, b = np.zeros(X.shape[1]), 0.0
    for t, (x, label) in enumerate(zip(X, y, strict=True), 1):
        p = 1 / (1 + math.exp(-w @ x - b))
        w = w - eta / math.sqrt(t) * ((p - label) * x + lambda2 * w)
        b = b - eta / math.sqrt(t) * (p - label)
    return w


def ftrl(X, y, *, alpha, beta, lambda1, lambda2):
    X = np.column_stack([X, np.ones(len(X))])
    free = np.arange(X.shape[1]) == X.shape[1] - 1
    l1, l2 = np.where(free, 0.0, lambda1), np.where(free, 0.0, lambda2)
    z, n = np.zeros((2, X.shape[1]))

    def weights():
        shrunk = (np.sign(z) * l1 - z) / ((beta + np.sqrt(n)) / alpha + l2)
        return np.where(np.abs(z) <= l1, 0.0, shrunk)

    for x, label in zip(X, y, strict=True):
        w = weights()
        g = (1 / (1 + math.exp(-w @ x)) - label) * x
        z = z + g - (np.sqrt(n + g**2) - np.sqrt(n)) / alpha * w
        n = n + g**2
    return weights()[:-1]


def mini_batch(X, y, *, hinge, eta, lambda2, batch):
    w, t = np.zeros(X.shape[1]), 0
    for start in range(0, len(y) - batch + 1, batch):
        rows, labels = X[start : start + batch], y[start : start + batch]
        pairs = [a - b for a in rows[labels] for b in rows[~labels]]
        if not pairs:
            continue
        t += 1
        slopes = [(w @ D < 1) * 1.0 if hinge else 1 - w @ D for D in pairs]
        w = w - eta / math.sqrt(t) * (lambda2 * w - np.dot(slopes, pairs) / len(pairs))
    return w


oam_sequential, oam_gradient = (partial(oam, sequential=each) for each in (True, False))
mini_batch_hinge, mini_batch_squared = (partial(mini_batch, hinge=each) for each in (True, False))
