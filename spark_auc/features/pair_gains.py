"""The pairs of numeric columns whose interaction lowers the all-pairs squared loss most."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from spark_auc.core.kernels import compiled
from spark_auc.core.types import Float
from spark_auc.core.validation import check_whole
from spark_auc.errors import DataError
from spark_auc.features.pair_histograms import BINS, HATS, PairHistograms

# The cells of present values, and one for the rows in which a value of the pair is missing.
_CELLS = HATS * HATS + 1
# Effects of the rows and of the columns of a table, and of its last cell.
_EFFECTS = 2 * HATS + 1
# A pivot below this share of its diagonal element is rounding: its effect depends on the others.
_LEAST_PIVOT = 1e-10


class PairGain(NamedTuple):
    """What the interaction of a pair of columns would add to a model.

    Parameters
    ----------
    first, second
        Numbers of the columns, ``first < second``.
    gain
        The reduction of the mean pairwise squared loss over the rows by an effect for each cell,
        beyond that by effects of the bins of each column.
    noise
        About the gain expected without an interaction.
    rate
        The false discovery rate: about the share of pairs without an interaction among those that
        are as far beyond noise as this one, or further [1]_. Without an interaction, the gain in
        units of its expectation is taken as chi-squared over its degrees of freedom.

    References
    ----------
    .. [1] Y. Benjamini, Y. Hochberg. Controlling the False Discovery Rate: A Practical and Powerful
       Approach to Multiple Testing. J. R. Stat. Soc. B 57 (1995), 289-300.
    """

    first: int
    second: int
    gain: float
    noise: float
    rate: float


def best_pairs(histograms: PairHistograms, count: int) -> tuple[PairGain, ...]:
    """The pairs with the greatest differences of gain and noise, descending, at most ``count``.

    Equal differences are in the order of the columns. Gains are those of single pairs: the sum over
    several is not the gain of all, and a pair may gain from the interaction of columns that are
    correlated with its own.

    Raises
    ------
    ConfigError
        ``count`` is not a whole number of at least 1.
    DataError
        A class has no rows.
    """
    check_whole("count", count, 1)
    gains = pair_gains(histograms)
    order = np.argsort(gains[:, 1] - gains[:, 0], kind="stable")[:count]
    first, second = np.triu_indices(histograms.dimension, 1)
    rows = np.column_stack([gains[:, :2], _rates(gains)])
    return tuple(PairGain(int(first[k]), int(second[k]), *rows[k].tolist()) for k in order)


def _rates(gains: Float) -> Float:
    """The false discovery rate ``(p,)`` of each pair."""
    gain, noise, freedom = gains.T
    tested = (noise > 0.0) & (freedom > 0.0)
    chance = np.ones(gain.size)
    units = gain[tested] / noise[tested]
    chance[tested] = special.chdtrc(freedom[tested], freedom[tested] * units)
    order = np.argsort(chance, kind="stable")
    rates = chance[order] * gain.size / np.arange(1, gain.size + 1)
    out = np.empty(gain.size)
    out[order] = np.minimum.accumulate(rates[::-1])[::-1]
    return out


def pair_gains(histograms: PairHistograms) -> Float:
    """Gain, noise and degrees of freedom ``(p, 3)`` of all pairs of columns; see `PairGain`.

    Scores ``f`` have the mean squared loss ``E[(1 - f_i + f_j)^2]`` over pairs of a positive row
    ``i`` and a negative row ``j``. With class weights ``n_k`` and means ``m_k`` of the scores, half
    of its gradient with respect to ``f_i`` is ``-r_i``:

        ``r_i = u_i (1 + m_- - f_i) / n_+`` for a positive row,
        ``r_j = u_j (m_+ - 1 - f_j) / n_-`` for a negative row,

    so that the classes have the targets ``1 + m_-`` and ``m_+ - 1``. An effect ``g`` of cells
    changes the loss by ``-2 g'R + g'Q g``, where ``R`` is the sum of the ``r`` in each cell and,
    with the shares ``p_k`` of a class in each cell,

        ``Q = diag(p_+ + p_-) - p_+ p_-' - p_- p_+'``.

    The greatest reduction is ``R'Q^-1 R`` over all effects, and ``(Z'R)'(Z'Q Z)^-1 Z'R`` over the
    additive ones, ``g = Z h``. A constant effect changes nothing, so that
    ``diag(p_+ + p_-) + (p_+ - p_-)(p_+ - p_-)' / 2`` may stand for ``Q``; its inverse is explicit.

    Without an interaction the ``r`` of a cell are independent with mean 0 after the additive fit.
    The scores that minimise the loss tell the odds of a row's label, so that the expectation of
    ``r_i^2`` is ``(1 + m_- - f_i) (f_i - m_+ + 1) / (n_+ n_-)`` for weight 1. This gives the share
    of each cell in the sum of all ``r_i^2``, with the mean score of a cell for each of its rows,
    and an average for the variance of the scores within cells.

    Raises
    ------
    DataError
        A class has no rows.
    """
    n = histograms.totals[:, 0]
    if not (n > 0).all():
        raise DataError(
            f"found positive rows of weight {n[0]:g} and negative rows of weight {n[1]:g}, "
            "expected rows of both classes; pass more rows"
        )
    n_plus, n_minus = n.tolist()
    mean = histograms.totals[:, 1] / n
    target = np.array([1.0 + mean[1], mean[0] - 1.0])
    _, _, u2, u2f, u2f2 = histograms.totals.T
    squares = ((target**2 * u2 - 2.0 * target * u2f + u2f2) / n**2).sum()
    shares = histograms.weight / n[:, None, None, None]
    scores = histograms.score
    residual = (target[0] * shares[0] - scores[0] / n_plus) + (
        target[1] * shares[1] - scores[1] / n_minus
    )
    out = np.zeros((residual.shape[0], 3))
    variance = squares * _noise_shares(histograms, target)
    _gains(np.ascontiguousarray(shares), residual, variance, out)
    return out


def _noise_shares(histograms: PairHistograms, target: Float) -> Float:
    """The share ``(p, 9, 9)`` of each cell in the expected sum of the ``r_i^2``."""
    weight, score = histograms.weight.sum(axis=0), histograms.score.sum(axis=0)
    mean = np.divide(score, weight, out=np.zeros_like(score), where=weight > 0.0)
    _, _, u2, _, u2f2 = histograms.totals.sum(axis=0)
    total = weight.sum(axis=(1, 2), keepdims=True)
    between = (score * mean).sum(axis=(1, 2), keepdims=True) / total
    within = np.maximum(u2f2 / u2 - between, 0.0)
    product = (target[0] - mean) * (mean - target[1]) - within
    expected = weight * np.maximum(product, 0.0)
    sums = expected.sum(axis=(1, 2), keepdims=True)
    # Scores beyond all targets say nothing about cells.
    shares: Float = np.where(sums > 0.0, expected / np.where(sums > 0.0, sums, 1.0), weight / total)
    return shares


@compiled()
def _gains(shares: Float, residual: Float, variance: Float, out: Float) -> None:
    """Write the rows of `pair_gains`; the sums have one order, whatever the processor."""
    D, delta, R, V = np.empty(_CELLS), np.empty(_CELLS), np.empty(_CELLS), np.empty(_CELLS)
    A, effects = np.empty((_EFFECTS, _EFFECTS)), np.empty(_EFFECTS)
    last = HATS * HATS
    for pair in range(out.shape[0]):
        D[:], delta[:], R[:], V[:] = 0.0, 0.0, 0.0, 0.0
        for k in range(BINS):
            for m in range(BINS):
                cell = k * HATS + m if k < HATS and m < HATS else last
                positive, negative = shares[0, pair, k, m], shares[1, pair, k, m]
                D[cell] += positive + negative
                delta[cell] += positive - negative
                R[cell] += residual[pair, k, m]
                V[cell] += variance[pair, k, m]
        gain, expected = _of_cells(D, delta, R, V)
        _additive(D, delta, A)
        _factor(A)
        effects[:] = 0.0
        for cell in range(_CELLS):
            _to_effects(cell, R[cell], effects)
        gain -= _squared_norm(A, effects)
        for cell in range(_CELLS):
            if V[cell] > 0.0:
                effects[:] = 0.0
                _to_effects(cell, 1.0, effects)
                expected -= V[cell] * _squared_norm(A, effects)
        # Both are at least 0 but for rounding.
        out[pair, 0], out[pair, 1] = max(gain, 0.0), max(expected, 0.0)
        for cell in range(_CELLS):
            out[pair, 2] += D[cell] > 0.0
        for k in range(_EFFECTS):
            out[pair, 2] -= A[k, k] > 0.0


@compiled()
def _of_cells(D: Float, delta: Float, R: Float, V: Float) -> tuple[float, float]:
    """The gain of an effect for each cell, and its expectation under noise of variance ``V``."""
    gain = along = length = expected = twisted = 0.0
    for cell in range(D.size):
        if D[cell] > 0.0:
            ratio = delta[cell] / D[cell]
            gain += R[cell] * R[cell] / D[cell]
            along += R[cell] * ratio
            length += delta[cell] * ratio
            expected += V[cell] / D[cell]
            twisted += V[cell] * ratio * ratio
    return gain - along * along / (2.0 + length), expected - twisted / (2.0 + length)


@compiled()
def _to_effects(cell: int, value: float, effects: Float) -> None:
    """Add a value of a cell to the effects of its row and of its column."""
    if cell == HATS * HATS:
        effects[2 * HATS] += value
    else:
        effects[cell // HATS] += value
        effects[HATS + cell % HATS] += value


@compiled()
def _additive(D: Float, delta: Float, A: Float) -> None:
    """Write ``Z'(diag(D) + delta delta' / 2) Z``, of which the lower triangle is used."""
    effects = np.zeros(_EFFECTS)
    A[:] = 0.0
    for cell in range(D.size):
        _to_effects(cell, delta[cell], effects)
        if cell == HATS * HATS:
            A[2 * HATS, 2 * HATS] += D[cell]
        else:
            k, m = cell // HATS, HATS + cell % HATS
            A[k, k] += D[cell]
            A[m, m] += D[cell]
            A[m, k] += D[cell]
    for k in range(_EFFECTS):
        for m in range(k + 1):
            A[k, m] += 0.5 * effects[k] * effects[m]


@compiled()
def _factor(A: Float) -> None:
    """Cholesky factor in the lower triangle, with a diagonal of 0 for dependent effects."""
    for k in range(A.shape[0]):
        pivot = A[k, k]
        for m in range(k):
            pivot -= A[k, m] * A[k, m]
        independent = pivot > _LEAST_PIVOT * A[k, k]
        root = np.sqrt(pivot) if independent else 0.0
        A[k, k] = root
        for i in range(k + 1, A.shape[0]):
            value = A[i, k]
            for m in range(k):
                value -= A[i, m] * A[k, m]
            A[i, k] = value / root if independent else 0.0


@compiled()
def _squared_norm(L: Float, b: Float) -> float:
    """``b'(L L')^-1 b`` over the independent effects; overwrites ``b``."""
    total = 0.0
    for k in range(b.size):
        if L[k, k] > 0.0:
            value = b[k]
            for m in range(k):
                value -= L[k, m] * b[m]
            b[k] = value / L[k, k]
            total += b[k] * b[k]
        else:
            b[k] = 0.0
    return total
