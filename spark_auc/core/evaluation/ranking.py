"""Measures of a ranking as sums over ranges of scores, from which an exact report is made.

A `ScoreTable` of a range of scores gives the range's share of every measure, so that no machine
holds all scores (see `ScoreTable.within`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from spark_auc.core.evaluation import calibration
from spark_auc.core.evaluation.delong import placements
from spark_auc.core.evaluation.measures import MEASURES, RankingOptions
from spark_auc.core.evaluation.roc import Sweep, pair_weights, sweep
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.state.rules import FROM_0_ON, NOT_EMPTY
from spark_auc.core.state.schema import Schema, reals
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.core.types import Float


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
    shares : (m,)
        The share of each of the ``MEASURES``; nan for those of probabilities unless scores are
        probabilities.
    swept : (3, k)
        Threshold, tp and fp of points of the curves: points spaced evenly along the curve, and the
        best point of the range by each criterion, so that the best of all ranges is included.
    reliability : (3, bins)
        Sums of probability, of positive weight and of weight; nan unless scores are probabilities.
    """

    SCHEMA: ClassVar[Schema] = Schema(
        "Ranking",
        1,
        {
            "pairs": reals(3, rule=FROM_0_ON),
            "deviations": reals(2, 3),
            "shares": reals("m"),
            "swept": reals(3, "k", rule=NOT_EMPTY),
            "reliability": reals(3, "bins"),
        },
    )

    pairs: Float
    deviations: Float
    shares: Float
    swept: Float
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
        shares = [
            measure.share(table, options)
            if options.probabilities or not measure.probabilities
            else np.nan
            for measure in MEASURES.values()
        ]
        reliability = np.full((3, options.bins), np.nan)
        if options.probabilities:
            reliability = calibration.reliability_sums(table, options.bins)
        return cls(
            np.array(pair_weights(table)),
            np.stack([(table.squares * deviation**k).sum(axis=1) for k in range(3)], axis=1),
            np.array(shares),
            np.stack(points[:3]),
            reliability,
        )

    def merge(self, below: Ranking) -> Ranking:
        """The measures of the union of this range and the range immediately below it."""
        return Ranking(
            self.pairs + below.pairs,
            self.deviations + below.deviations,
            self.shares + below.shares,
            # The first point of the lower range is the last of the upper one.
            np.hstack((self.swept, below.swept[:, 1:])),
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
