"""The result of an evaluation: AUC with confidence interval, curves, thresholds and groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from spark_auc.core import html
from spark_auc.core.evaluation.calibration import error_of, reliability_of
from spark_auc.core.evaluation.delong import (
    AUCInterval,
    auc_covariance,
    effective_rows,
    has_spread,
    interval_of,
)
from spark_auc.core.evaluation.groups import Groups
from spark_auc.core.evaluation.measures import MEASURES, RankingOptions
from spark_auc.core.evaluation.ranking import Ranking
from spark_auc.core.evaluation.roc import Sweep
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.evaluation.thresholds import OperatingPoint, best_threshold
from spark_auc.core.labels import Label
from spark_auc.core.types import Float

_BINS = 50


@dataclass(frozen=True, eq=False)
class AUCReport:
    """An evaluation of scored rows.

    Parameters
    ----------
    asked
        Settings of the measures.
    ranking
        The measures.
    centre
        Centre of the deviations in ``ranking``.
    histogram
        Table of a histogram of the scores.
    classes
        The positive and the negative label.
    level
        Confidence level of the intervals, in (0, 1).
    bounds
        Lower and upper bound on the exact AUC, if the measures are those of a histogram.
    groups
        AUC by group, if a group column is set.
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
        """DeLong's variance of the AUC; nan if it is not defined (`delong.has_spread`)."""
        if not has_spread(self.histogram.class_sums()):
            return float("nan")
        products = self.ranking.products(self.centre)
        return float(auc_covariance(self.histogram.class_sums(), products)[0, 0])

    @cached_property
    def interval(self) -> AUCInterval:
        """Confidence interval by Wilson's method."""
        return interval_of(self.auc, self.variance, self.histogram.class_sums(), self.level)

    @cached_property
    def linear_interval(self) -> AUCInterval:
        """Confidence interval on the linear scale."""
        sums = self.histogram.class_sums()
        return interval_of(self.auc, self.variance, sums, self.level, "linear")

    @cached_property
    def measures(self) -> Mapping[str, float | None]:
        """Each of the `measures.MEASURES`; None where scores must be probabilities and are not."""
        sums = self.histogram.class_sums()
        shares = zip(MEASURES.items(), self.ranking.shares, strict=True)
        return {name: m.of(float(share), self.asked, sums) for (name, m), share in shares}

    @property
    def average_precision(self) -> float:
        """Average precision (scikit-learn's definition)."""
        return cast(float, self.measures["averagePrecision"])

    @property
    def partial_auc(self) -> float:
        """Standardized area up to the false positive rate ``max_fpr`` (McClish 1989)."""
        return cast(float, self.measures["partialAUC"])

    @property
    def log_loss(self) -> float | None:
        """Mean log loss in nats; None unless scores are probabilities."""
        return self.measures["logLoss"]

    @property
    def calibration_error(self) -> float | None:
        """Expected calibration error over bins of equal weight; None unless probabilities."""
        sums = self.ranking.reliability
        return None if np.isnan(sums).any() else error_of(sums)

    @property
    def sweep(self) -> Sweep:
        """Exact points of all curves, about ``points`` of the settings."""
        return self.ranking.sweep(self.histogram.class_sums())

    @cached_property
    def thresholds(self) -> Mapping[str, OperatingPoint]:
        """The best threshold by each criterion."""
        return {
            name: best_threshold(self.sweep, criterion)
            for name, criterion in self.asked.criteria.items()
        }

    def _repr_html_(self) -> str:
        found = self.as_dict()
        low, high = found["interval"]["lower"], found["interval"]["upper"]
        interval = "" if low is None else f", {self.level:.0%} interval {low:.4f} to {high:.4f}"
        points = [[name, *point.values()] for name, point in found["thresholds"].items()]
        return html.page(
            f"AUC {self.auc:.4f}{interval}",
            html.curve("ROC curve", found["curve"]["fpr"], found["curve"]["tpr"]),
            html.table(["measure", "value"], [(m.title, found[n]) for n, m in MEASURES.items()]),
            html.table(["threshold of", "score", "TPR", "FPR", "precision"], points),
        )

    def as_dict(self) -> dict[str, Any]:
        """The report for JSON; None replaces infinite and undefined values."""
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
            "maxFPR": self.asked.max_fpr,
            **self.measures,
            "calibrationError": self.calibration_error,
            "classes": self._classes(),
            "curve": self._curve(),
            "distribution": self._distribution(),
            "reliability": self._reliability(),
            "thresholds": {k: _numbers(p._asdict()) for k, p in self.thresholds.items()},
            "groups": None if self.groups is None else self.groups.as_dict(),
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
        """Shares of each class by score; the end bins include the outer 0.1 % on either side."""
        score, weight = self.histogram.score, self.histogram.weight
        share = np.cumsum(weight.sum(axis=0)) / weight.sum()
        low, high = score[np.searchsorted(share, (0.001, 0.999)).clip(max=score.size - 1)]
        if high == low:
            # A range of width 1 around a large number would be lost to rounding.
            low, high = (low, low + 1.0) if abs(low) < 1e9 else (min(low, 0.0), max(low, 0.0))
        # Halves, so that the range does not overflow.
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


def _finite(values: Float) -> list[float | None]:
    return [float(v) if np.isfinite(v) else None for v in values]


def _numbers(fields: Mapping[str, float]) -> dict[str, float | None]:
    return dict(zip(fields, _finite(np.array(list(fields.values()))), strict=True))
