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
# Draws of labels for each pair. Those after the least number tell how far out a gain is, and are
# not made for pairs that several of the first ones exceed.
_DRAWS, _LEAST_DRAWS, _EXCEEDED = 400, 40, 5
# Expected number of rows of each label below which a cell has no effect of its own: a single row
# of it would outweigh all others.
_LEAST_EXPECTED = 0.1
# Variance of a number of positive rows from which its quantiles are those of a normal variable.
_NORMAL = 9.0


class PairGain(NamedTuple):
    """What the interaction of a pair of columns would add to a model.

    Parameters
    ----------
    first, second
        Numbers of the columns, ``first < second``.
    gain
        About the reduction of the mean pairwise squared loss over the rows by an effect for each
        cell, beyond that by effects of the bins of each column; see `pair_gains`.
    noise
        The mean gain without an interaction, for labels drawn by the scores.
    rate
        The false discovery rate: about the share of pairs without an interaction among those that
        are as far beyond noise as this one, or further [1]_. The chances are those of `pair_gains`.
        "Without an interaction" means that effects of single columns add to the scores of least
        squares, which follow probabilities: effects that add to the log-odds may show as a weak
        interaction.

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
    rows = np.column_stack([gains[:, :2], false_rates(gains[:, 2])])
    return tuple(PairGain(int(first[k]), int(second[k]), *rows[k].tolist()) for k in order)


def false_rates(chance: Float) -> Float:
    """The false discovery rate ``(p,)`` of each pair."""
    order = np.argsort(chance, kind="stable")
    rates = chance[order] * chance.size / np.arange(1, chance.size + 1)
    out = np.empty(chance.size)
    out[order] = np.minimum.accumulate(rates[::-1])[::-1]
    return out


def pair_gains(histograms: PairHistograms) -> Float:
    """Gain, noise and chance of so great a gain ``(p, 3)`` of all pairs; see `PairGain`.

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

    Without an interaction labels depend on the scores alone. Scores that minimise the loss tell the
    odds of a positive label: ``E[r_i] = 0`` if they are

        ``n_+ (f_i - m_+ + 1) / (n_- (1 + m_- - f_i))``.

    The gain is that for the shares ``p_k`` that these odds give, at the mean score of each cell.
    Shares of the rows would hide interactions of rare positives, which fill fewer cells the more
    they gather in some. Cells in which less than 0.1 rows of a class are expected share an effect
    with the rows of missing values.

    Gains without an interaction are those of numbers of positive rows that are drawn for each cell
    by the odds: the noise is their mean. Gains of the rows and of the draws are compared in units
    of their sums of ``r_i^2``, since labels vary less where scores differ within cells. The chance
    is that of a chi-squared variable with the mean, variance and skewness of up to 400 draws, which
    are the same in each run.

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
    # Rows of the mean weight of their class.
    per_weight = (n / u2)[:, None, None, None]
    rows = (per_weight * histograms.weight).sum(axis=0)
    sums = (per_weight * scores).sum(axis=0)
    uniform = np.random.default_rng(0).random((_DRAWS, _CELLS))
    out = np.zeros((residual.shape[0], 4))
    _gains(
        *(residual, squares, rows, sums, target),
        *(n_plus**2 / u2[0] / (n_minus**2 / u2[1]), uniform, special.ndtri(uniform), out),
    )
    gain, mean, variance, third = out.T
    return np.column_stack([gain, mean, _chances(gain - mean, variance, third)])


def _chances(excess: Float, variance: Float, third: Float) -> Float:
    """The chances ``(p,)`` of an excess over the mean, by a shifted chi-squared variable."""
    chance = np.ones(excess.size)
    for k in np.flatnonzero(variance > 0.0):
        skewness = max(third[k] / variance[k] ** 1.5, 1e-2)
        freedom = 8.0 / skewness**2
        least = freedom + np.sqrt(2.0 * freedom / variance[k]) * excess[k]
        chance[k] = special.chdtrc(freedom, max(least, 0.0))
    return chance


@compiled()
def _gains(
    residual: Float,
    squares: float,
    rows: Float,
    sums: Float,
    target: Float,
    odds: float,
    uniform: Float,
    normal: Float,
    out: Float,
) -> None:
    """Write gain, and mean, variance and third central moment of the gains of draws."""
    D, delta, R = np.empty(_CELLS), np.empty(_CELLS), np.empty(_CELLS)
    count, mean, share = np.empty(_CELLS), np.empty(_CELLS), np.empty(_CELLS)
    A, effects, gains = np.empty((_EFFECTS, _EFFECTS)), np.empty(_EFFECTS), np.empty(_DRAWS)
    none, last = np.empty(_CELLS), HATS * HATS
    for pair in range(out.shape[0]):
        R[:], count[:], mean[:], share[:] = 0.0, 0.0, 0.0, 0.0
        for k in range(BINS):
            for m in range(BINS):
                cell = k * HATS + m if k < HATS and m < HATS else last
                R[cell] += residual[pair, k, m]
                count[cell] += rows[pair, k, m]
                mean[cell] += sums[pair, k, m]
        _expect(target, odds, R, count, mean, share, none)
        positives, negatives = (count * share).sum(), (count * (1.0 - share)).sum()
        # Scores beyond all targets say nothing about cells.
        if positives <= 0.0 or negatives <= 0.0:
            continue
        for cell in range(_CELLS):
            positive = count[cell] * share[cell] / positives
            negative = count[cell] * (1.0 - share[cell]) / negatives
            D[cell], delta[cell] = positive + negative, positive - negative
        _additive(D, delta, A)
        _factor(A)
        gain = _gain(D, delta, R, A, effects)
        exceeded = made = 0
        for draw in range(_DRAWS):
            if draw >= _LEAST_DRAWS and exceeded >= _EXCEEDED:
                break
            total = _draw(target, count, mean, share, none, uniform[draw], normal[draw], R)
            if total > 0.0:
                gains[made] = _gain(D, delta, R, A, effects) * squares / total
                exceeded += gains[made] >= gain
                made += 1
        out[pair, 0] = gain
        if made > 0:
            center = gains[:made].mean()
            out[pair, 1] = center
            out[pair, 2] = ((gains[:made] - center) ** 2).mean()
            out[pair, 3] = ((gains[:made] - center) ** 3).mean()


@compiled()
def _expect(
    target: Float, odds: float, R: Float, count: Float, mean: Float, share: Float, none: Float
) -> None:
    """Write the expected share of positive rows, and the chance of no row of the rarer label.

    Cells of too few expected rows are moved to the last one. ``mean`` has sums before.
    """
    last = count.size - 1
    for cell in range(count.size):
        if count[cell] > 0.0:
            up = odds * max(mean[cell] / count[cell] - target[1], 0.0)
            down = max(target[0] - mean[cell] / count[cell], 0.0)
            share[cell] = up / (up + down) if up + down > 0.0 else 0.5
            rare = min(share[cell], 1.0 - share[cell])
            if rare * count[cell] < _LEAST_EXPECTED and cell < last:
                R[last] += R[cell]
                count[last] += count[cell]
                mean[last] += mean[cell]
                R[cell], count[cell], share[cell] = 0.0, 0.0, 0.0
            else:
                mean[cell] /= count[cell]
                count[cell] = max(np.floor(count[cell] + 0.5), 1.0)
                none[cell] = np.exp(count[cell] * np.log1p(-rare))


@compiled()
def _draw(
    target: Float,
    count: Float,
    mean: Float,
    share: Float,
    none: Float,
    uniform: Float,
    normal: Float,
    R: Float,
) -> float:
    """Write the sums of a draw of labels in each cell; its sum of squares, or 0 for one class."""
    positive = np.zeros(_CELLS)
    for cell in range(_CELLS):
        if count[cell] > 0.0:
            positive[cell] = _positives(
                count[cell], share[cell], none[cell], uniform[cell], normal[cell]
            )
    n_plus, n_minus = positive.sum(), (count - positive).sum()
    if n_plus <= 0.0 or n_minus <= 0.0:
        return 0.0
    total = 0.0
    for cell in range(_CELLS):
        if count[cell] > 0.0:
            above = (target[0] - mean[cell]) / n_plus
            below = (target[1] - mean[cell]) / n_minus
            R[cell] = positive[cell] * above + (count[cell] - positive[cell]) * below
            total += positive[cell] * above**2 + (count[cell] - positive[cell]) * below**2
    return total


@compiled()
def _positives(count: float, share: float, none: float, uniform: float, normal: float) -> float:
    """A quantile of a binomial number; ``none`` is the chance of 0 of the rarer label."""
    variance = count * share * (1.0 - share)
    if variance > _NORMAL:
        skew = (1.0 - 2.0 * share) * (normal * normal - 1.0) / 6.0
        value = np.floor(count * share + np.sqrt(variance) * normal + skew + 0.5)
        return float(min(max(value, 0.0), count))
    rare = min(share, 1.0 - share)
    below = uniform if share <= 0.5 else 1.0 - uniform
    chance, value, odds = none, 0.0, rare / (1.0 - rare)
    while below >= chance and value < count:
        below -= chance
        value += 1.0
        chance *= (count - value + 1.0) / value * odds
    return value if share <= 0.5 else count - value


@compiled()
def _gain(D: Float, delta: Float, R: Float, L: Float, effects: Float) -> float:
    """The gain of an effect for each cell beyond that of additive ones; overwrites ``effects``."""
    effects[:] = 0.0
    for cell in range(_CELLS):
        _to_effects(cell, R[cell], effects)
    # At least 0 but for rounding.
    return max(_of_cells(D, delta, R) - _squared_norm(L, effects), 0.0)


@compiled()
def _of_cells(D: Float, delta: Float, R: Float) -> float:
    """The gain of an effect for each cell."""
    gain = along = length = 0.0
    for cell in range(D.size):
        if D[cell] > 0.0:
            ratio = delta[cell] / D[cell]
            gain += R[cell] * R[cell] / D[cell]
            along += R[cell] * ratio
            length += delta[cell] * ratio
    return gain - along * along / (2.0 + length)


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
