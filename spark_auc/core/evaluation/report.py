"""What an evaluation found: one AUC with how sure it is, curves, thresholds and groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from spark_auc.core.evaluation.calibration import error_of, reliability_of
from spark_auc.core.evaluation.delong import (
    AUCInterval,
    auc_covariance,
    effective_rows,
    has_spread,
    interval_of,
)
from spark_auc.core.evaluation.ranking import Ranking, RankingOptions
from spark_auc.core.evaluation.roc import Sweep, standardized_area
from spark_auc.core.evaluation.score_table import FloatArray, ScoreTable
from spark_auc.core.evaluation.thresholds import OperatingPoint, best_threshold
from spark_auc.core.labels import Label

_BINS = 50


class GroupAUC(NamedTuple):
    """AUC among the rows of one group; None where it or its interval is not defined."""

    value: str | None
    positive: int
    negative: int
    weight: float
    auc: float | None
    lower: float | None
    upper: float | None


@dataclass(frozen=True)
class Groups:
    """AUC by value of a column."""

    column: str
    rows: tuple[GroupAUC, ...]

    @property
    def weighted_mean(self) -> float | None:
        """Mean of the groups' AUCs by their weight of rows (GAUC: Zhu et al. 2017, Eq. 1).

        Groups of one class have no AUC and no part in it; None if there are no others.
        """
        known = [(g.auc, g.weight) for g in self.rows if g.auc is not None]
        if not known:
            return None
        values, weights = np.array(known).T
        return float(values @ weights / weights.sum())


@dataclass(frozen=True, eq=False)
class AUCReport:
    """An evaluation of scored rows.

    Parameters
    ----------
    asked
        What was measured.
    ranking
        The measures.
    centre
        That about which its deviations are.
    histogram
        The table of a histogram of the scores.
    classes
        The positive and the negative label.
    level
        Confidence level of the intervals.
    bounds
        What contains the exact AUC, where the measures were taken from a histogram.
    groups
        AUC by group, where asked for.
    """

    asked: RankingOptions
    ranking: Ranking
    centre: float
    histogram: ScoreTable
    classes: tuple[Label, Label]
    level: float = 0.95
    bounds: tuple[float, float] | None = None
    groups: Groups | None = None

    @property
    def auc(self) -> float:
        """AUC: P(s+ > s-) + P(s+ = s-) / 2."""
        return self.ranking.auc

    @cached_property
    def variance(self) -> float:
        """DeLong's variance of the AUC; nan unless `delong.has_spread`."""
        if not has_spread(self.histogram.class_sums()):
            return float("nan")
        products = self.ranking.products(self.centre)
        return float(auc_covariance(self.histogram.class_sums(), products)[0, 0])

    @cached_property
    def interval(self) -> AUCInterval:
        """Confidence interval made on the logit scale."""
        return interval_of(self.auc, self.variance, self.histogram.class_sums(), self.level)

    @cached_property
    def linear_interval(self) -> AUCInterval:
        """Confidence interval made on the plain scale."""
        sums = self.histogram.class_sums()
        return interval_of(self.auc, self.variance, sums, self.level, "linear")

    @property
    def average_precision(self) -> float:
        """Average precision (scikit-learn's definition)."""
        return float(self.ranking.areas[0])

    @property
    def partial_auc(self) -> float:
        """Standardized area up to the greatest false positive rate asked for (McClish 1989)."""
        return standardized_area(float(self.ranking.areas[1]), self.asked.max_fpr)

    @property
    def log_loss(self) -> float | None:
        """Mean log loss; None unless scores were said to be probabilities."""
        total = float(self.ranking.losses[0])
        return None if np.isnan(total) else total / float(self.histogram.class_sums()[0].sum())

    @property
    def calibration_error(self) -> float | None:
        """Expected calibration error over bins of equal weight; None as `log_loss`."""
        sums = self.ranking.reliability
        return None if np.isnan(sums).any() else error_of(sums)

    @property
    def sweep(self) -> Sweep:
        """Exact points of all curves, about as many as asked for."""
        return self.ranking.sweep(self.histogram.class_sums())

    @cached_property
    def thresholds(self) -> Mapping[str, OperatingPoint]:
        """The best threshold of all scores by each criterion."""
        return {
            name: best_threshold(self.sweep, criterion)
            for name, criterion in self.asked.criteria.items()
        }

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON takes it: None for what is infinite or not defined."""
        interval, linear = self.interval, self.linear_interval
        return {
            "auc": self.auc,
            "interval": {
                "level": interval.level,
                "scale": interval.scale,
                "lower": interval.lower,
                "upper": interval.upper,
                "linear": [linear.lower, linear.upper],
                "smallSample": interval.small_sample,
            },
            "bounds": list(self.bounds) if self.bounds else None,
            "averagePrecision": self.average_precision,
            "partialAUC": {
                "maxFPR": self.asked.max_fpr,
                "area": float(self.ranking.areas[1]),
                "standardized": self.partial_auc,
            },
            "logLoss": self.log_loss,
            "calibrationError": self.calibration_error,
            "classes": self._classes(),
            "curve": self._curve(),
            "distribution": self._distribution(),
            "reliability": self._reliability(),
            "thresholds": {k: _numbers(p._asdict()) for k, p in self.thresholds.items()},
            "groups": self.groups
            and {
                "column": self.groups.column,
                "weightedMean": self.groups.weighted_mean,
                "rows": [group._asdict() for group in self.groups.rows],
            },
        }

    def _classes(self) -> dict[str, Any]:
        sums = self.histogram.class_sums()
        effective = effective_rows(sums)
        return {
            name: {
                "label": self.classes[k],
                "rows": int(sums[2, k]),
                "weight": float(sums[0, k]),
                "effectiveRows": float(effective[k]),
            }
            for k, name in enumerate(("positive", "negative"))
        }

    def _curve(self) -> dict[str, list[float | None]]:
        threshold, tp, fp, positive, negative = self.sweep
        with np.errstate(invalid="ignore"):
            curve = {
                "threshold": threshold,
                "tpr": tp / positive,
                "fpr": fp / negative,
                "precision": tp / (tp + fp),
                "share": (tp + fp) / (positive + negative),
                "lift": tp / (tp + fp) * (positive + negative) / positive,
            }
        return {name: _finite(values) for name, values in curve.items()}

    def _distribution(self) -> dict[str, list[float | None]]:
        """Shares of each class by score, scores beyond 99.8% of the rows in the end bins."""
        score, weight = self.histogram.score, self.histogram.weight
        share = np.cumsum(weight.sum(axis=0)) / weight.sum()
        low, high = score[np.searchsorted(share, (0.001, 0.999)).clip(max=score.size - 1)]
        if high == low:
            # Beside a large number, 1 is nothing.
            low, high = (low, low + 1.0) if abs(low) < 1e9 else (min(low, 0.0), max(low, 0.0))
        # By halves, for which the doubles are wide enough.
        edges = 2 * np.linspace(low / 2, high / 2, _BINS + 1)
        inside = score.clip(edges[0], edges[-1])
        shares = [np.histogram(inside, edges, weights=w)[0] / w.sum() for w in weight]
        names = ("edges", "positive", "negative")
        return {n: _finite(v) for n, v in zip(names, (edges, *shares), strict=True)}

    def _reliability(self) -> dict[str, list[float | None]] | None:
        if self.calibration_error is None:
            return None
        values = reliability_of(self.ranking.reliability)
        names = ("predicted", "observed", "weight")
        return {n: _finite(v) for n, v in zip(names, values, strict=True)}


def _finite(values: FloatArray) -> list[float | None]:
    return [float(v) if np.isfinite(v) else None for v in values]


def _numbers(fields: Mapping[str, float]) -> dict[str, float | None]:
    return dict(zip(fields, _finite(np.array(list(fields.values()))), strict=True))
