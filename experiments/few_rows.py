"""The all-pairs ridge of many small training sets, from the products of their rows.

With fewer rows than features, a ridge is solved in the space of the rows: one eigendecomposition of
a matrix between the training rows gives the weights of all penalties, and the scores that training
without one row would give this row. Each problem has as many positive as negative training rows.
"""

from __future__ import annotations

import numpy as np

from spark_auc.core.types import Float

# Penalties, relative to the trace of the sum of the classes' covariances.
RELATIVE = 10.0 ** np.arange(-4, 2)


class _Ridge:
    """Products ``a' X (S + penalty)^-1 X' b`` for coefficients of rows, ``S = (C X)' (C X)``.

    Parameters
    ----------
    gram : (P, n, n)
        Products of all rows, those of the training part and others, in each of ``P`` problems.
    centring : (k, n)
        ``C``, which makes centred and weighted training rows.
    penalties : (P, L)
        Penalties.
    """

    def __init__(self, gram: Float, centring: Float, penalties: Float) -> None:
        products = gram @ centring.T
        values, vectors = np.linalg.eigh(centring @ products)
        self._gram, self._penalties = gram, penalties[:, None, :]
        self._projected = products @ vectors
        self._inverse = 1 / (values[:, :, None] + self._penalties)

    def __call__(self, a: Float, b: Float) -> Float:
        """The products ``(P, m, L)`` of ``m`` coefficient vectors, ``a`` and ``b`` ``(m, n)``."""
        whole = np.einsum("mj,pmj->pm", b, a @ self._gram)
        inside = ((a @ self._projected) * (b @ self._projected)) @ self._inverse
        return np.asarray((whole[:, :, None] - inside) / self._penalties)


def _centring(rows: int, first: float, second: float) -> Float:
    """The matrix ``(n, n)`` that centres both classes and divides their rows by the factors."""
    half = rows // 2
    centring = np.eye(rows)
    for part, factor in ((slice(half), first), (slice(half, rows), second)):
        centring[part, part] -= 1 / half
        centring[part] /= np.sqrt(factor)
    return centring


def _means(rows: int) -> tuple[Float, Float]:
    """Coefficients of the mean positive and the mean negative row."""
    positive = np.repeat([2 / rows, 0.0], rows // 2)
    return positive, positive[::-1]


def held_out_scores(gram: Float, penalties: Float) -> tuple[Float, Float]:
    """Scores of each row by the ridge of all other rows, from one decomposition for each class.

    Without row ``i`` of ``m`` in its class, the class's covariance is ``m / (m - 1)`` times what it
    was, minus a matrix of rank one; the first part is the same for all rows of the class, and the
    second is inverted by the formula of Sherman and Morrison.

    Parameters
    ----------
    gram : (P, n, n)
        Products of training rows, the positive half first.
    penalties : (P, L)
        Penalties of the mean squared loss of pairs.

    Returns
    -------
    tuple
        Scores ``(P, n / 2, L)`` of positive and of negative rows, from the middle between the
        means of the classes that they were scored by: these scores compare across rows.
    """
    # Scores of the other class are those of the mirrored problem, whose weights are the negative.
    return _of_positives(gram, penalties), -_of_positives(gram[:, ::-1, ::-1], penalties)[:, ::-1]


def _of_positives(gram: Float, penalties: Float) -> Float:
    rows = gram.shape[1]
    m = rows // 2
    positive, negative = _means(rows)
    own = np.eye(rows)[:m]
    deviation = own - positive
    mean = positive - deviation / (m - 1)
    difference, place = mean - negative, own - (mean + negative) / 2
    ridge = _Ridge(gram, _centring(rows, m - 1, m), penalties)
    across = ridge(difference, deviation)
    factor = 1 / ((m - 1) ** 2 / m - ridge(deviation, deviation))
    gap = ridge(difference, difference) + factor * across**2
    scores = ridge(difference, place) + factor * across * ridge(deviation, place)
    return np.asarray(scores / (1 + gap))


def chosen(gram: Float) -> Float:
    """Penalties ``(P,)`` with the least squared loss of all pairs of held-out scores.

    The AUC of so few rows is equal for many penalties; the loss is not.
    """
    rows = gram.shape[1]
    centring = _centring(rows, rows // 2, rows // 2)
    trace = np.einsum("ij,pji->p", centring.T @ centring, gram)
    penalties = trace[:, None] * RELATIVE
    positive, negative = held_out_scores(gram, penalties)
    gap = 1 - positive.mean(axis=1) + negative.mean(axis=1)
    loss = gap**2 + positive.var(axis=1) + negative.var(axis=1)
    return np.asarray(penalties[np.arange(len(gram)), loss.argmin(axis=1)])


def new_scores(gram: Float, rows: int, penalties: Float) -> Float:
    """Scores of other rows by the ridge of all training rows.

    Parameters
    ----------
    gram : (P, n, n)
        Products of rows: first training rows, their positive half first, then the others.
    rows
        Number of training rows.
    penalties : (P,)
        Penalties.

    Returns
    -------
    array
        Scores ``(P, n - rows)``.
    """
    n = gram.shape[1]
    centring = np.pad(_centring(rows, rows // 2, rows // 2), ((0, 0), (0, n - rows)))
    positive, negative = (np.pad(mean, (0, n - rows)) for mean in _means(rows))
    difference = np.tile(positive - negative, (n - rows, 1))
    ridge = _Ridge(gram, centring, penalties[:, None])
    scores = ridge(difference, np.eye(n)[rows:]) / (1 + ridge(difference[:1], difference[:1]))
    return np.asarray(scores[:, :, 0])
