"""What a model tells of how it was made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from spark_auc.core.types import Float


@dataclass(frozen=True)
class FeatureWeight:
    """A feature's weight, as it applies to raw values and per standard deviation."""

    feature: str
    weight: float
    standardized: float


@dataclass(frozen=True)
class TrainingSummary:
    """How a model was made.

    Parameters
    ----------
    rows
        Rows of each label value.
    positive_weight, negative_weight
        Total row weight of each class.
    largest_weights
        Features by the size of their weight per standard deviation, largest first.
    nonzeros
        Number of weights that are not 0.
    estimated_auc
        AUC on the training rows, if the scores of each class were Gaussian.
    seconds
        Wall time of each phase.
    estimator
        Which pairs were trained on, or the name of the learner that took the rows in turn, which
        has none of what follows.
    certificate
        Evidence of optimality; see `spark_auc.solvers.solution.Certificate`.
    pairs
        Number of draws of each class; None where there are no draws.
    sampling_suboptimality
        What sampling costs the objective, as the draws estimate it.
    sufficient_pairs
        Draws of each class that the paper's Theorem 2 asks for, to be within pairTol with
        probability 0.95; see `spark_auc.core.sampling.sample_size.sufficient_pairs`.
    form
        How the quadratic was held: "tiles" (a matrix), "rows" (in the driver's memory) or
        "passes" (over the DataFrame, one for each step).
    reg_param, elastic_net_param
        The penalty.
    selection
        How it was chosen, where it was: AUC of each candidate on each fold's held-out rows; see
        `spark_auc.solvers.candidates.Selection`.
    held_out
        What rows said of a learner before it took them, and whether it falls short (``short``);
        see `spark_auc.learners.held_out.HeldOut`. None where no row was new.
    """

    rows: dict[str, int]
    positive_weight: float
    negative_weight: float
    largest_weights: tuple[FeatureWeight, ...]
    nonzeros: int
    estimated_auc: float
    seconds: dict[str, float]
    estimator: str
    certificate: dict[str, Any] | None = None
    pairs: int | None = None
    sampling_suboptimality: float | None = None
    sufficient_pairs: int | None = None
    form: str | None = None
    reg_param: float | None = None
    elastic_net_param: float | None = None
    selection: dict[str, Any] | None = None
    held_out: dict[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON takes them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> TrainingSummary:
        """The summary that `as_dict` gave."""
        weights = tuple(FeatureWeight(**w) for w in fields["largest_weights"])
        return cls(**{**fields, "largest_weights": weights})


def largest_weights(
    w: Float, scale: Float, names: Sequence[str] | None, count: int = 30
) -> tuple[FeatureWeight, ...]:
    """The features whose weight times standard deviation ``scale`` is largest."""
    standardized = w * scale
    order = np.argsort(-np.abs(standardized), kind="stable")[:count]
    return tuple(
        FeatureWeight(names[j] if names else str(j), float(w[j]), float(standardized[j]))
        for j in order
        if w[j]
    )
