"""The training summary that a model stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from spark_auc.core import html
from spark_auc.core.types import Float
from spark_auc.solvers.candidates import Candidate


@dataclass(frozen=True)
class FeatureWeight:
    """A feature's weight per unit of the raw value and per standard deviation."""

    feature: str
    weight: float
    standardized: float


@dataclass(frozen=True)
class TrainingSummary:
    """Statistics of the training run that made a model.

    Parameters
    ----------
    rows
        Number of rows of each label value.
    positive_weight, negative_weight
        Total row weight of each class.
    largest_weights
        Features with the largest absolute weight per standard deviation, in descending order.
    nonzeros
        Number of nonzero weights.
    estimated_auc
        AUC on the training rows under Gaussian scores in each class; None for models of approximate
        covariances without rows.
    seconds
        Wall time of each phase.
    estimator
        The pairs trained on ("exact", "paired", "complete"), or the name of an online learner, for
        which the fields from ``certificate`` to ``selection`` are None.
    certificate
        Evidence of optimality; see `spark_auc.solvers.solution.Certificate`.
    pairs
        Number of draws of each class; None without draws.
    sampling_suboptimality
        Estimated cost of sampling in units of the objective.
    theorem2
        Draws of each class that Theorem 2 of MBA requires to be within pairTol with probability
        0.95: ``corrected`` and ``printed`` with the constants of the proof and of Eq. 18, both with
        ``1 / (4 lambda2)`` for ``|w|^2``, and ``estimated`` with the proof's constants and
        ``|w|^2`` of the solution, which bounds nothing. None in place of a number that is not
        finite. They depend on ``spectralNorm`` (of the drawn pairs), ``squaredRowNorm`` (the
        largest of a row) and ``squaredWeightNorm``, in squared units of the columns trained on; see
        `spark_auc.core.sampling.sample_size.sufficient_pairs`.
    form
        Storage of the quadratic: "tiles" (a matrix), "rows" (in the driver's memory) or "passes"
        (one pass over the DataFrame per solver step).
    reg_param, elastic_net_param
        The penalty.
    smoothness
        Factor of the roughness of curves in it; see `spark_auc.core.moments.curves.Curves`. None
        without one.
    trees
        Share of trees in a sum with a linear model, whose penalty these are, and 1 of trees alone;
        see `spark_auc.training.tree_candidates`. None without trees as they grew.
    selection
        AUC of each candidate penalty on each held-out fold; see
        `spark_auc.solvers.candidates.Selection`. None if the penalty was fixed.
    held_out
        AUC of a learner on rows before it learned them, and whether it is too low (``short``);
        see `spark_auc.learners.held_out.HeldOut`. None if no row was new.
    segments
        Segment column, and estimated AUC by strength of shrinkage and by segment; see
        `spark_auc.training.segments.SegmentRankers`. None without segments.
    prior
        Factor of the prior in the centre of the penalty, and numbers of features; see
        `spark_auc.training.prior.Prior.report`. None without a prior.
    max_fpr
        Greatest false positive rate that a second step trained for; None without one.
    covariance
        How covariances are approximated: ``covariance`` ("head" or "lowRank"), ``headSize`` or
        ``covarianceRank``, and ``exactTraceShare``, the share of the trace of Sigma that is exact.
        The certificate, which has the same fields, is of this approximation. None if they are
        exact.
    head
        Numbers of the columns whose covariances are exact, ascending; None unless covariances are
        of a head.
    saddle
        Averages of a, b and alpha of SOLAM; see `spark_auc.learners.solam.SOLAM.averages`. None for
        other learners.
    """

    rows: dict[str, int]
    positive_weight: float
    negative_weight: float
    largest_weights: tuple[FeatureWeight, ...]
    nonzeros: int
    estimated_auc: float | None
    seconds: dict[str, float]
    estimator: str
    certificate: dict[str, Any] | None = None
    pairs: int | None = None
    sampling_suboptimality: float | None = None
    theorem2: dict[str, float | None] | None = None
    form: str | None = None
    reg_param: float | None = None
    elastic_net_param: float | None = None
    selection: dict[str, Any] | None = None
    held_out: dict[str, Any] | None = None
    segments: dict[str, Any] | None = None
    prior: dict[str, Any] | None = None
    max_fpr: float | None = None
    covariance: dict[str, Any] | None = None
    head: list[int] | None = None
    saddle: dict[str, float] | None = None
    smoothness: float | None = None
    trees: float | None = None

    @property
    def candidate(self) -> Candidate:
        """The penalty of the weights."""
        centred = self.prior is not None and self.prior["scale"] is not None
        factors = self.reg_param or 0.0, self.elastic_net_param or 0.0
        return Candidate(*factors, centred, self.smoothness, self.trees)

    def _repr_html_(self) -> str:
        certificate, selection = self.certificate or {}, self.selection or {}
        facts = {
            "rows": ", ".join(f"{label}: {count}" for label, count in self.rows.items()),
            "estimator": self.estimator,
            "regParam": self.reg_param,
            "elasticNetParam": self.elastic_net_param,
            "smoothness": self.smoothness,
            "nonzero weights": self.nonzeros,
            "AUC estimated on the training rows": self.estimated_auc,
            "KKT residual": certificate.get("kkt"),
            "reason to stop": certificate.get("reason"),
        }
        parts = [html.table(["training", ""], facts.items())]
        if candidates := selection.get("candidates"):
            keys = ["regParam", "elasticNetParam", "auc", "standardError", "leftOut"]
            keys += [name for name in ("smoothness", "trees") if name in candidates[0]]
            rows = [[candidate[key] for key in keys] for candidate in candidates]
            chosen = f"candidate {selection['chosen'] + 1} is chosen"
            parts.append(html.page(f"AUC of held-out folds: {chosen}", html.table(keys, rows)))
        weights = [(w.feature, w.weight, w.standardized) for w in self.largest_weights]
        head = ["feature", "weight", "weight per deviation"]
        parts.append(html.page("Largest weights", html.table(head, weights)))
        return "".join(parts)

    def renamed(self, names: Mapping[str, str]) -> TrainingSummary:
        """The summary with other names of features, by those in it."""
        weights = (
            replace(weight, feature=names.get(weight.feature, weight.feature))
            for weight in self.largest_weights
        )
        return replace(self, largest_weights=tuple(weights))

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON types."""
        fields = asdict(self)
        # Summaries of earlier versions do not have these fields.
        later = (
            "segments",
            "prior",
            "max_fpr",
            "covariance",
            "head",
            "saddle",
            "smoothness",
            "trees",
        )
        for name in later:
            if fields[name] is None:
                del fields[name]
        return fields

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> TrainingSummary:
        """The summary from the fields of `as_dict`."""
        weights = tuple(FeatureWeight(**w) for w in fields["largest_weights"])
        # Earlier versions stored a number of pairs in which the trace stood for the spectral norm.
        known = {name: value for name, value in fields.items() if name != "sufficient_pairs"}
        return cls(**{**known, "largest_weights": weights})


def largest_weights(
    w: Float, scale: Float, names: Sequence[str] | None, count: int = 30
) -> tuple[FeatureWeight, ...]:
    """The features with the largest absolute weight per standard deviation.

    Parameters
    ----------
    w : (d,)
        Weights of raw columns.
    scale : (d,)
        Standard deviations of the columns.
    names
        Names of the features; without names, a feature is called by its number.
    count
        Largest number of features to return; zero weights are left out.
    """
    standardized = w * scale
    order = np.argsort(-np.abs(standardized), kind="stable")[:count]
    return tuple(
        FeatureWeight(names[j] if names else str(j), float(w[j]), float(standardized[j]))
        for j in order
        if w[j]
    )
