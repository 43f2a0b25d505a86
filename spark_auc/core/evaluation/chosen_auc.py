"""The AUC of a model that was chosen by its AUC on the same held-out rows.

The best of several AUCs is too high, since it is best by chance too. The bootstrap bias correction
of Tsamardinos, Greasidou & Borboudakis 2018 (BBC-CV) draws the held-out rows anew, chooses among
the models by the rows drawn, with the same rule, and measures the chosen one on the rows that were
not drawn. No model is trained again.

Here both AUCs are taken to first order: a row adds its deviation p (V - AUC) times the number of
its draws minus 1, with the placements V and shares p of `spark_auc.core.evaluation.delong`. Rows
that were not drawn deviate the other way, so the chosen model is measured at its AUC minus the
deviation that chose it. Groups of rows are drawn, each Poisson(1) times.

Models of different folds share most of their training rows, so their AUCs on the ``k`` folds are
correlated by 1/k, and the variance of their mean is 1 + k/(k-1) times that of independent folds
(Nadeau & Bengio 2003). A second draw, common to all folds, adds the second term to the measure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, factorial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.batch import hashed_shares
from spark_auc.core.evaluation.delong import has_spread, placements
from spark_auc.core.evaluation.roc import auc
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.types import Float, Int, Keys

LEVEL = 0.95
"""Confidence level of the intervals."""

# Draws of all rows; the ends of an interval then err by about 5% of its width.
_DRAWS = 1_000
# Groups of a fold are drawn one by one up to so many, and above in so many lots of groups.
_LOTS = 1_024
# Poisson(1) numbers, each as often as its probability says of 2^16: to draw from them takes a sixth
# of the time of NumPy's generator.
_CHANCES = [exp(-1) / factorial(k) for k in range(9)]
_TIMES = np.diff(np.rint(65_536 * np.cumsum([0.0, *_CHANCES]))).astype(int)
_POISSON = np.repeat(np.arange(9.0), _TIMES)
# Salts: different uses of one seed must not share random numbers.
_LOT, _DRAW = 0x107, 0xD4A


def deviations(
    scores: Float, y: NDArray[np.bool_], weight: Float | None, groups: Keys
) -> tuple[Float, Float | str]:
    """The AUC of each model on one fold's held-out rows, and what each group of rows adds to it.

    Parameters
    ----------
    scores : (n, l)
        Scores of the rows by ``l`` models.
    y : (n,)
        True for positive rows.
    weight : (n,), optional
        Row weights. Default: 1.
    groups : (n,)
        Hash of the group of each row.

    Returns
    -------
    auc : (l,)
        The AUCs.
    deviations : (g, l)
        The sums of the groups, or of lots of them, in the order of their hashes; or the reason why
        there are none.

    Raises
    ------
    DataError
        All rows are of one class.
    """
    if np.unique(groups).size > _LOTS:
        groups = (hashed_shares(groups, 0, _LOT) * _LOTS).astype(np.uint64)
    lots, lot = np.unique(groups, return_inverse=True)
    aucs, out = np.empty(scores.shape[1]), np.empty((lots.size, scores.shape[1]))
    u, spread = np.ones(y.size) if weight is None else weight, True
    for i, column in enumerate(scores.T):
        table = ScoreTable.of(column, y, weight)
        aucs[i] = auc(table)
        sums = table.class_sums()
        if not (spread := bool(has_spread(sums))):
            continue
        # The factor makes the variance of the draws DeLong's.
        share = 1.0 / np.sqrt(sums[0] ** 2 - sums[1])
        V = placements(table)
        centred = V - (V * table.weight).sum(axis=1, keepdims=True) / sums[0][:, None]
        # Scores of rows without weight are not in the table.
        place = np.minimum(np.searchsorted(table.score, column), table.score.size - 1)
        added = np.where(y, share[0] * centred[0, place], share[1] * centred[1, place])
        out[:, i] = np.bincount(lot, added * u, lots.size)
    return aucs, out if spread else "a class has fewer than two held-out rows in a fold"


class ChosenAUC(NamedTuple):
    """The AUC of the chosen model, corrected for the choice.

    Parameters
    ----------
    auc
        The mean over the draws.
    lower, upper
        Ends of the interval that holds `LEVEL` of the draws, in [0, 1].
    """

    auc: float
    lower: float
    upper: float


class Redrawn(NamedTuple):
    """How far AUCs deviate in each draw of the held-out rows.

    Parameters
    ----------
    folds : (b, l, k)
        The deviation of each of ``l`` models on each of ``k`` folds, in ``b`` draws.
    common : (b, l)
        That of its mean by the training rows that folds share.
    """

    folds: Float
    common: Float

    @classmethod
    def of(cls, added: Sequence[Float], seed: int) -> Redrawn:
        """The draws of rows with the `deviations` ``(g, l)`` of each fold, for a 64-bit seed."""
        folds, other = (_drawn(added, seed, salt) for salt in range(2))
        k = len(added)
        return cls(folds, np.sqrt(k / (k - 1)) * other.mean(axis=2))

    def of_models(self, models: slice) -> Redrawn:
        """The deviations of some of the models."""
        return Redrawn(self.folds[:, models], self.common[:, models])


def corrected(auc: Float, redrawn: Redrawn, rule: Callable[[Float], Int]) -> ChosenAUC:
    """The AUC of the model that a rule chooses, corrected for the choice.

    Parameters
    ----------
    auc : (l, k)
        AUC of each model on each fold; NaN for models that are not candidates.
    redrawn
        The draws.
    rule
        From AUCs ``(b, l, k)`` of all draws to the numbers ``(b,)`` of the models chosen.
    """
    chosen = rule(auc + redrawn.folds)
    deviation = redrawn.folds.mean(axis=2) + redrawn.common
    left_out = (auc.mean(axis=1) - deviation)[np.arange(chosen.size), chosen]
    tail = (1 - LEVEL) / 2
    ends = np.quantile(left_out, (tail, 1 - tail))
    return ChosenAUC(*map(float, np.clip([left_out.mean(), *ends], 0, 1)))


def _drawn(added: Sequence[Float], seed: int, salt: int) -> Float:
    """The sums ``(b, l, k)`` of the deviations of the groups, as often as they are drawn."""
    parts = []
    for k, groups in enumerate(added):
        random = np.random.default_rng([seed & (1 << 64) - 1, _DRAW, salt, k])
        places = random.integers(0, _POISSON.size, (_DRAWS, groups.shape[0]), dtype=np.uint16)
        parts.append((_POISSON[places] - 1.0) @ groups)
    return np.stack(parts, axis=2)
