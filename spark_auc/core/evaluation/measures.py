"""Measures of a ranking beside the AUC, and their settings.

A measure has one entry in `MEASURES`. Reports, the result of the job ``evaluate``, its HTML page
and `AUCEvaluator` find it there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from spark_auc.core.evaluation.calibration import total_log_loss
from spark_auc.core.evaluation.roc import average_precision, partial_area, standardized_area
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.evaluation.thresholds import Criterion, class_ratio, cost_ratio, f1, fpr_budget
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


class Measure(NamedTuple):
    """A number that measures how well scores rank, or how accurate probabilities are.

    Parameters
    ----------
    title
        Name in the report and in the documentation.
    share
        The share of a table, or of a range of a table (`ScoreTable.within`). Shares of ranges add
        up to the share of all rows.
    value
        The measure, from the share of all rows, the settings, and the weight of all rows.
    metric
        Name in `AUCEvaluator`, for measures whose larger values are better.
    probabilities
        Whether scores must be probabilities.
    """

    title: str
    share: Callable[[ScoreTable, RankingOptions], float]
    value: Callable[[float, RankingOptions, float], float]
    metric: str | None = None
    probabilities: bool = False

    def of(self, total: float, options: RankingOptions, class_sums: Float) -> float | None:
        """The measure, from the share of all rows and their class sums ``(3, 2)``.

        None for a measure of probabilities if scores are not probabilities.
        """
        if self.probabilities and not options.probabilities:
            return None
        return self.value(total, options, float(class_sums[0].sum()))


MEASURES: Mapping[str, Measure] = MappingProxyType(
    {
        "averagePrecision": Measure(
            "average precision",
            lambda table, _: average_precision(table),
            lambda total, *_: total,
            metric="areaUnderPR",
        ),
        "partialAUC": Measure(
            "partial AUC, standardized",
            lambda table, options: partial_area(table, options.max_fpr),
            lambda total, options, _: standardized_area(total, options.max_fpr),
            metric="partialAUC",
        ),
        "logLoss": Measure(
            "log loss",
            lambda table, _: total_log_loss(table),
            lambda total, _, weight: total / weight,
            probabilities=True,
        ),
    }
)
