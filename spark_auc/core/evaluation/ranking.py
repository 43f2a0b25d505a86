"""Measures of a ranking as sums over ranges of scores, from which an exact report is made.

A `ScoreTable` of a range of scores gives the range's share of every measure, so that no machine
holds all scores (see `ScoreTable.within`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

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
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.evaluation.thresholds import Criterion, class_ratio, cost_ratio, f1, fpr_budget
from spark_auc.core.state.rules import FROM_0_ON, NOT_EMPTY
from spark_auc.core.state.schema import Schema, reals
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.core.types import Float


@dataclass(frozen=True)
class RankingOptions:
    """Settings of the measures of a ranking.

    Parameters
    ----------
    max_fpr
        Greatest false positive rate of the partial AUC, in (0, 1].
    cost
        Cost of a false negative divided by that of a false positive, > 0.
    budget
        Greatest false positive rate of the threshold "fprBudget", in [0, 1].
    points
        Approximate number of points of the curves, >= 8.
    probabilities
        Whether scores are probabilities; calibration is then measured too.
    bins
        Number of bins of the reliability curve, of equal weight.
    """

    max_fpr: float = 0.1
    cost: float = 1.0
    budget: float = 0.01
    points: int = 1000
    probabilities: bool = False
    bins: int = 20

    @cached_property
    def criteria(self) -> Mapping[str, Criterion]:
        """The criteria for the choice of thresholds, by name."""
        return {
            "classRatio": class_ratio,
            "f1": f1,
            "cost": cost_ratio(self.cost),
            "fprBudget": fpr_budget(self.budget),
        }


@dataclass(frozen=True, eq=False)
class Ranking(SchemaState):
    """Measures of a range of scores; `merge` gives those of the union of neighbouring ranges.

    Parameters
    ----------
    pairs : (3,)
        Weight of the pairs won, tied and lost; each is counted in the range of its higher row.
    deviations : (2, 3)
        For the positive and the negative rows, the sums of u^2, u^2 (V - c) and u^2 (V - c)^2 over
        their placements V (`delong.placements`), with a centre c.
    areas : (2,)
        Average precision, and area under the ROC curve up to the greatest rate.
    swept : (3, k)
        Threshold, tp and fp of points of the curves: points spaced evenly along the curve, and the
        best point of the range by each criterion, so that the best of all ranges is included.
    losses : (1,)
        Sum of log losses; nan unless scores are probabilities.
    reliability : (3, bins)
        Sums of probability, of positive weight and of weight; nan unless scores are probabilities.
    """

    SCHEMA: ClassVar[Schema] = Schema(
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

    pairs: Float
    deviations: Float
    areas: Float
    swept: Float
    losses: Float
    reliability: Float

    @classmethod
    def of(cls, table: ScoreTable, centre: float, options: RankingOptions) -> Ranking:
        """Measure a table, or a range of a table.

        Parameters
        ----------
        table
            The table.
        centre
            A number near the AUC, the same for all ranges, which avoids cancellation in the sums
            of squares.
        options
            Settings of the measures.

        Raises
        ------
        ConfigError
            A setting is out of range.
        DataError
            The table has one class only, or scores are no probabilities.
        """
        swept = sweep(table)
        best = [int(np.argmax(criterion(swept))) for criterion in options.criteria.values()]
        points = swept.take(np.union1d(swept.spaced(options.points), best))
        deviation = placements(table) - centre
        losses, reliability = np.full(1, np.nan), np.full((3, options.bins), np.nan)
        if options.probabilities:
            losses = np.array([calibration.total_log_loss(table)])
            reliability = calibration.reliability_sums(table, options.bins)
        return cls(
            np.array(pair_weights(table)),
            np.stack([(table.squares * deviation**k).sum(axis=1) for k in range(3)], axis=1),
            np.array((average_precision(table), partial_area(table, options.max_fpr))),
            np.stack(points[:3]),
            losses,
            reliability,
        )

    def merge(self, below: Ranking) -> Ranking:
        """The measures of the union of this range and the range immediately below it."""
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

    def products(self, centre: float) -> Float:
        """Sums ``(2, 1, 1)`` of u^2 (V - AUC)^2 for `delong.auc_covariance`."""
        shift = self.auc - centre
        total, first, second = self.deviations.T
        spread: Float = second - 2 * shift * first + shift**2 * total
        return np.maximum(spread, 0.0)[:, None, None]

    def sweep(self, class_sums: Float) -> Sweep:
        """The stored points of the curves, for rows with class sums ``(3, 2)``."""
        return Sweep(*self.swept, *map(float, class_sums[0]))
