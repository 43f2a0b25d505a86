"""The pairs of numeric columns whose interaction lowers the all-pairs squared loss most."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from spark_auc.core.kernels import compiled
from spark_auc.core.types import Bool, Float, Int
from spark_auc.core.validation import check_whole
from spark_auc.errors import DataError
from spark_auc.features.pair_histograms import HATS, PairHistograms

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
# Pairs whose tables are in memory at a time.
_CHUNK = 4096
# A variance of gains up to this is that of rounding: additive effects span all cells of the pair.
_ROUNDING = 1e-24


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
    odds = n_plus**2 / u2[0] / (n_minus**2 / u2[1])
    out = np.zeros((residual.shape[0], 4))
    uniform = np.random.default_rng(0).random((_DRAWS, _CELLS))
    normal = special.ndtri(uniform)
    for begin in range(0, residual.shape[0], _CHUNK):
        some = slice(begin, begin + _CHUNK)
        own, count, total = (_in_cells(values[some]) for values in (residual, rows, sums))
        cells = _Cells.of(own, count, total, target, odds)
        pairs, loss = np.flatnonzero(cells.has_both_labels()), _Loss.of(cells)
        _measure(cells, loss, pairs, target, squares, uniform, normal, out[some])
    gain, mean, variance, third = out.T
    return np.column_stack([gain, mean, _chances(gain - mean, variance, third)])


def _chances(excess: Float, variance: Float, third: Float) -> Float:
    """The chances ``(p,)`` of an excess over the mean, by a shifted chi-squared variable."""
    chance = np.ones(excess.size)
    for k in np.flatnonzero(variance > _ROUNDING):
        skewness = max(third[k] / variance[k] ** 1.5, 1e-2)
        freedom = 8.0 / skewness**2
        least = freedom + np.sqrt(2.0 * freedom / variance[k]) * excess[k]
        chance[k] = special.chdtrc(freedom, max(least, 0.0))
    return chance


class _Cells(NamedTuple):
    """What is known of the cells of ``p`` pairs; arrays are ``(p, 65)``.

    Parameters
    ----------
    residual, rows, mean
        Sums of the ``r_i``, numbers of rows and mean scores.
    share, none
        Expected shares of positive rows, and the chance of no row of the rarer label.
    """

    residual: Float
    rows: Float
    mean: Float
    share: Float
    none: Float

    @classmethod
    def of(cls, residual: Float, count: Float, sums: Float, target: Float, odds: float) -> _Cells:
        """The cells; those of too few expected rows are moved to the last one."""
        share = _shares(count, sums, target, odds)
        few = np.minimum(share, 1.0 - share) * count < _LEAST_EXPECTED
        few[:, -1] = False
        for values in (residual, count, sums):
            values[:, -1] += (values * few).sum(axis=1)
            values[few] = 0.0
        share = _shares(count, sums, target, odds)
        mean = np.divide(sums, count, out=np.zeros_like(sums), where=count > 0.0)
        whole = np.where(count > 0.0, np.maximum(np.floor(count + 0.5), 1.0), 0.0)
        none = np.exp(whole * np.log1p(-np.minimum(share, 1.0 - share)))
        return cls(residual, whole, mean, share, none)

    def by_label(self) -> Float:
        """Expected numbers of rows ``(2, p, 65)`` of the positive and of the negative label."""
        return np.stack([self.rows * self.share, self.rows * (1.0 - self.share)])

    def has_both_labels(self) -> Bool:
        """Whether rows of both labels are expected ``(p,)``.

        They are not where all scores are beyond the targets.
        """
        has_rows: Bool = np.all(self.by_label().sum(axis=2) > 0.0, axis=0)
        return has_rows


def _in_cells(bins: Float) -> Float:
    """Sums ``(p, 65)`` in cells of sums ``(p, 9, 9)`` in bins."""
    present = bins[:, :HATS, :HATS].reshape(bins.shape[0], HATS * HATS)
    missing = bins[:, HATS].sum(axis=1) + bins[:, :HATS, HATS].sum(axis=1)
    return np.column_stack([present, missing])


def _in_effects(cells: Float) -> Float:
    """Sums ``(..., 17)`` in the rows and columns of a table, and its last cell."""
    table = cells[..., :-1].reshape(*cells.shape[:-1], HATS, HATS)
    return np.concatenate([table.sum(axis=-1), table.sum(axis=-2), cells[..., -1:]], axis=-1)


def _shares(count: Float, sums: Float, target: Float, odds: float) -> Float:
    """The expected shares of positive rows of cells; 0 in empty ones."""
    mean = np.divide(sums, count, out=np.zeros_like(sums), where=count > 0.0)
    up = odds * np.maximum(mean - target[1], 0.0)
    both = up + np.maximum(target[0] - mean, 0.0)
    share: Float = np.divide(up, both, out=np.full_like(up, 0.5), where=both > 0.0)
    return np.where(count > 0.0, share, 0.0)


class _Loss(NamedTuple):
    """The quadratic of the effects of cells, for ``p`` pairs.

    Parameters
    ----------
    total, difference : (p, 65)
        ``p_+ + p_-`` and ``p_+ - p_-``.
    factor : (p, 17, 17)
        The Cholesky factor of the quadratic of additive effects, with 0 for dependent ones.
    """

    total: Float
    difference: Float
    factor: Float

    @classmethod
    def of(cls, cells: _Cells) -> _Loss:
        """The quadratic for the expected shares."""
        labels = cells.by_label()
        sums = labels.sum(axis=2, keepdims=True)
        positive, negative = labels / np.where(sums > 0.0, sums, 1.0)
        total, difference = positive + negative, positive - negative
        return cls(total, difference, _factor(_additive(total, difference)))


def _additive(total: Float, difference: Float) -> Float:
    """``Z'(diag(D) + delta delta' / 2) Z`` ``(p, 17, 17)``."""
    effects = _in_effects(difference)
    A = 0.5 * effects[:, :, None] * effects[:, None]
    table = total[:, :-1].reshape(-1, HATS, HATS)
    A[:, HATS:-1, :HATS] += table.transpose(0, 2, 1)
    A[:, :HATS, HATS:-1] += table
    diagonal = np.arange(_EFFECTS)
    A[:, diagonal, diagonal] += _in_effects(total)
    return A


def _factor(A: Float) -> Float:
    """The Cholesky factors ``(p, 17, 17)``, of columns of 0 for effects that depend on others."""
    L = np.zeros_like(A)
    for k in range(_EFFECTS):
        column = A[:, k:, k] - (L[:, k:, :k] * L[:, None, k, :k]).sum(axis=2)
        pivot = column[:, :1]
        # Rounding may make it negative.
        root = np.sqrt(np.maximum(pivot, 0.0))
        is_free = pivot > _LEAST_PIVOT * A[:, k, k, None]
        L[:, k:, k] = np.divide(column, root, out=np.zeros_like(column), where=is_free)
    return L


@compiled()
def _measure(
    cells: _Cells,
    loss: _Loss,
    pairs: Int,
    target: Float,
    squares: float,
    uniform: Float,
    normal: Float,
    out: Float,
) -> None:
    """Write gain, and mean, variance and third central moment of the gains of draws ``(p, 4)``."""
    positive, R = np.empty(_CELLS), np.empty(_CELLS)
    effects, gains = np.empty(_EFFECTS), np.empty(uniform.shape[0])
    for pair in pairs:
        for cell in range(_CELLS):
            R[cell] = cells.residual[pair, cell]
        gain = _gain(loss, pair, R, effects)
        exceeded = made = 0
        for draw in range(uniform.shape[0]):
            if draw >= _LEAST_DRAWS and exceeded >= _EXCEEDED:
                break
            n_plus = n_minus = own = 0.0
            for cell in range(_CELLS):
                positive[cell] = _positives(
                    cells, pair, cell, uniform[draw, cell], normal[draw, cell]
                )
                n_plus += positive[cell]
                n_minus += cells.rows[pair, cell] - positive[cell]
            if n_plus <= 0.0 or n_minus <= 0.0:
                continue
            for cell in range(_CELLS):
                above = (target[0] - cells.mean[pair, cell]) / n_plus
                below = (target[1] - cells.mean[pair, cell]) / n_minus
                up, down = positive[cell], cells.rows[pair, cell] - positive[cell]
                R[cell] = up * above + down * below
                own += up * above**2 + down * below**2
            if own > 0.0:
                gains[made] = _gain(loss, pair, R, effects) * squares / own
                exceeded += gains[made] >= gain
                made += 1
        out[pair, 0] = gain
        for draw in range(made):
            out[pair, 1] += gains[draw] / made
        for draw in range(made):
            centred = gains[draw] - out[pair, 1]
            out[pair, 2] += centred**2 / made
            out[pair, 3] += centred**3 / made


@compiled()
def _gain(loss: _Loss, pair: int, R: Float, effects: Float) -> float:
    """The gain of an effect for each cell beyond that of additive ones; overwrites ``effects``."""
    for k in range(_EFFECTS):
        effects[k] = 0.0
    of_cells = along = length = 0.0
    for cell in range(_CELLS):
        total, difference = loss.total[pair, cell], loss.difference[pair, cell]
        if total > 0.0:
            ratio = difference / total
            of_cells += R[cell] * R[cell] / total
            along += R[cell] * ratio
            length += difference * ratio
        if cell == HATS * HATS:
            effects[2 * HATS] += R[cell]
        else:
            effects[cell // HATS] += R[cell]
            effects[HATS + cell % HATS] += R[cell]
    gain = of_cells - along * along / (2.0 + length)
    L = loss.factor[pair]
    for k in range(_EFFECTS):
        value = effects[k]
        for m in range(k):
            value -= L[k, m] * effects[m]
        effects[k] = value / L[k, k] if L[k, k] > 0.0 else 0.0
        gain -= effects[k] * effects[k]
    # At least 0 but for rounding.
    return max(gain, 0.0)


@compiled()
def _positives(cells: _Cells, pair: int, cell: int, uniform: float, normal: float) -> float:
    """A quantile of the number of positive rows of a cell."""
    count, share = cells.rows[pair, cell], cells.share[pair, cell]
    variance = count * share * (1.0 - share)
    if variance > _NORMAL:
        skew = (1.0 - 2.0 * share) * (normal * normal - 1.0) / 6.0
        value = np.floor(count * share + np.sqrt(variance) * normal + skew + 0.5)
        return float(min(max(value, 0.0), count))
    rare = min(share, 1.0 - share)
    below = uniform if share <= 0.5 else 1.0 - uniform
    chance, value, odds = cells.none[pair, cell], 0.0, rare / (1.0 - rare)
    while below >= chance and value < count:
        below -= chance
        value += 1.0
        chance *= (count - value + 1.0) / value * odds
    return value if share <= 0.5 else count - value
