"""How well scores rank, as sums over ranges of scores: what an exact report needs of each range.

A `ScoreTable` that is a range of a larger one gives its share of every measure, so that no
machine ever holds all scores (see `ScoreTable.within`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spark_auc.core.evaluation import calibration
from spark_auc.core.evaluation.delong import placements
from spark_auc.core.evaluation.roc import (
    Sweep,
    average_precision,
    pair_weights,
    partial_area,
    sweep,
)
from spark_auc.core.evaluation.score_table import FloatArray, ScoreTable
from spark_auc.core.evaluation.thresholds import Criterion, class_ratio, cost_ratio, f1, fpr_budget
from spark_auc.core.state.rules import FROM_0_ON, NOT_EMPTY
from spark_auc.core.state.schema import Schema, reals


@dataclass(frozen=True)
class RankingOptions:
    """What a ranking is measured for.

    Parameters
    ----------
    max_fpr
        Greatest false positive rate of the partial AUC, in (0, 1].
    cost
        Cost of a false negative over that of a false positive, > 0.
    budget
        Greatest false positive rate at which to choose a threshold, in [0, 1].
    points
        About how many points of the curves to keep, >= 8.
    probabilities
        Whether scores claim to be probabilities, and are measured as such.
    bins
        Bins of the reliability curve, of equal weight.
    """

    max_fpr: float = 0.1
    cost: float = 1.0
    budget: float = 0.01
    points: int = 1000
    probabilities: bool = False
    bins: int = 20

    @cached_property
    def criteria(self) -> Mapping[str, Criterion]:
        """By what thresholds are chosen."""
        return {
            "classRatio": class_ratio,
            "f1": f1,
            "cost": cost_ratio(self.cost),
            "fprBudget": fpr_budget(self.budget),
        }


@dataclass(frozen=True, eq=False)
class Ranking:
    """Measures of a range of scores, which `merge` adds up to those of all.

    Attributes
    ----------
    pairs : (3,), weight of the pairs won, tied and lost; each is counted in the range of its
        higher row
    deviations : (2, 3), for the positive and the negative rows, the sums of u^2, u^2 (V - c) and
        u^2 (V - c)^2 over their placements V (`delong.placements`) about the centre c asked for
    areas : (2,), average precision, and area under the ROC curve up to the greatest rate
    swept : (3, k), threshold, tp and fp of the points kept: evenly along the curve, and the best
        of the range by each criterion, so that the best of all is among them
    losses : (1,), sum of log losses; nan unless scores are asked about as probabilities
    reliability : (3, bins), sums of probability, of positive weight and of weight
    """

    pairs: FloatArray
    deviations: FloatArray
    areas: FloatArray
    swept: FloatArray
    losses: FloatArray
    reliability: FloatArray

    @classmethod
    def of(cls, table: ScoreTable, centre: float, asked: RankingOptions) -> Ranking:
        """Measure a table, or a range of one.

        ``centre`` is a number near the AUC, the same for all ranges: it keeps the sums of
        squares from cancelling.
        """
        swept = sweep(table)
        best = [int(np.argmax(criterion(swept))) for criterion in asked.criteria.values()]
        kept = swept.kept(np.union1d(swept.spread(asked.points), best))
        deviation = placements(table) - centre
        losses, reliability = np.full(1, np.nan), np.full((3, asked.bins), np.nan)
        if asked.probabilities:
            losses = np.array([calibration.total_log_loss(table)])
            reliability = calibration.reliability_sums(table, asked.bins)
        return cls(
            np.array(pair_weights(table)),
            np.stack([(table.squares * deviation**k).sum(axis=1) for k in range(3)], axis=1),
            np.array((average_precision(table), partial_area(table, asked.max_fpr))),
            np.stack(kept[:3]),
            losses,
            reliability,
        )

    def merge(self, below: Ranking) -> Ranking:
        """Return the measures of this range and of the range right below it."""
        return Ranking(
            self.pairs + below.pairs,
            self.deviations + below.deviations,
            self.areas + below.areas,
            # The first point of the lower range is the last of the upper one.
            np.hstack((self.swept, below.swept[:, 1:])),
            self.losses + below.losses,
            self.reliability + below.reliability,
        )

    @property
    def auc(self) -> float:
        """AUC of all rows; see `roc.auc`."""
        won, tied, lost = self.pairs
        return float((won + tied / 2) / (won + tied + lost))

    def products(self, centre: float) -> FloatArray:
        """Sums (2, 1, 1) of u^2 (V - AUC)^2, as `delong.auc_covariance` takes them."""
        shift = self.auc - centre
        total, first, second = self.deviations.T
        spread: FloatArray = second - 2 * shift * first + shift**2 * total
        return np.maximum(spread, 0.0)[:, None, None]

    def sweep(self, class_sums: FloatArray) -> Sweep:
        """The points kept, of rows with these class sums."""
        return Sweep(*self.swept, *map(float, class_sums[0]))

    def to_bytes(self) -> bytes:
        """Versioned bytes."""
        return _SCHEMA.encode(vars(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> Ranking:
        """The measures that `to_bytes` stored; `ModelFormatError` if they are none."""
        return _SCHEMA.restore(data, cls)


_SCHEMA = Schema(
    "Ranking",
    1,
    {
        "pairs": reals(3, rule=FROM_0_ON),
        "deviations": reals(2, 3),
        "areas": reals(2),
        "swept": reals(3, "k", rule=NOT_EMPTY),
        "losses": reals(1),
        "reliability": reals(3, "bins"),
    },
)
