"""The result of a training run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spark_auc.core.labels import LabelCounts
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.gaussian import class_ratio_threshold, estimated_auc
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.types import Float, Int
from spark_auc.solvers.candidates import Candidate, Selection
from spark_auc.solvers.solution import Certificate
from spark_auc.training.summary import TrainingSummary, largest_weights


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """Weights, their certificate, and statistics of the training run.

    Parameters
    ----------
    w : (d,)
        Weights of raw columns.
    scores
        Moments of the scores of the training rows, as one column.
    columns, labels
        Column moments and label counts of the training rows.
    estimator
        The pairs trained on ("exact", "paired", "complete"), or the name of the learner.
    seconds
        Wall time of each phase.
    certificate
        Evidence of optimality, for the weights of the scaled columns if columns are standardised;
        None for learners without an objective.
    form
        Storage of the quadratic; see `spark_auc.training.problem.Problem.form`.
    penalty, selection
        The penalty, and the cross-validation that chose it; no selection if it was fixed.
    pairs
        Number of draws of each class; None without draws.
    suboptimality, theorem2
        Estimated cost of sampling in units of the objective, and the number of draws that Theorem
        2 of MBA requires; see `spark_auc.training.summary.TrainingSummary`.
    held_out
        AUC of a learner on rows before it learned them; see
        `spark_auc.learners.held_out.HeldOut`.
    moments
        The pair moments, if ``keep_moments`` was set.
    prior
        The use of the prior; see `spark_auc.training.prior.Prior.report`. None without a prior.
    max_fpr
        Greatest false positive rate of the second step; see `spark_auc.training.second_step`. None
        without one.
    covariance
        The approximation of the covariances; see `spark_auc.training.summary.TrainingSummary`.
        None if they are exact.
    head
        Columns of the head of approximate covariances; None without one.
    estimated
        Whether the moments of the scores tell their AUC; approximate covariances do not.
    saddle
        Averages of the other variables of SOLAM; see `spark_auc.learners.solam.SOLAM.averages`.
    """

    w: Float
    scores: ColumnMoments
    columns: ColumnMoments
    labels: LabelCounts
    estimator: str
    seconds: dict[str, float]
    certificate: Certificate | None = None
    form: str | None = None
    penalty: Candidate | None = None
    selection: Selection | None = None
    pairs: int | None = None
    suboptimality: float | None = None
    theorem2: dict[str, float | None] | None = None
    held_out: dict[str, Any] | None = None
    moments: PairMoments | None = None
    prior: dict[str, Any] | None = None
    max_fpr: float | None = None
    covariance: dict[str, Any] | None = None
    head: tuple[int, ...] | None = None
    estimated: bool = True
    saddle: dict[str, float] | None = None

    def widened(self, features: Int, dimension: int) -> TrainingResult:
        """The result with all of ``dimension`` features, those outside ``(k,)`` of which are 0."""
        w = np.zeros(dimension)
        w[features] = self.w
        return replace(self, w=w, columns=self.columns.widened(features, dimension))

    @property
    def threshold(self) -> float:
        """Threshold above which the rows have about the total weight of the positive class."""
        return class_ratio_threshold(self.scores)

    def sentence(self) -> str:
        """The result in one sentence, for the log."""
        rows = ", ".join(f"{count} of label {value!r}" for value, count in self.labels.rows.items())
        seconds = ", ".join(f"{phase} {value:.1f} s" for phase, value in self.seconds.items())
        text = f"trained {self.w.size} weights by {self.estimator!r} on rows: {rows}"
        if self.form is not None:
            text += f"; form of the quadratic: {self.form}"
        if self.covariance is not None:
            given = dict(self.covariance)
            kind, share = given.pop("covariance"), given.pop("exactTraceShare")
            text += f"; covariance {kind!r} ({given}), of which {share:.1%} of the trace is exact"
        if self.max_fpr is not None:
            text += f"; second step for false positive rates up to {self.max_fpr:g}"
        if self.penalty is not None:
            text += f"; {self.penalty}"
        if self.certificate is not None:
            text += (
                f"; {self.certificate.reason} after {self.certificate.iterations} iterations with "
                f"a KKT residual of {self.certificate.kkt:.3g} (tolerance "
                f"{self.certificate.tolerance:.3g})"
            )
        return f"{text}; {seconds}"

    def summary(self, names: Sequence[str] | None = None) -> TrainingSummary:
        """The summary that is stored with a model.

        Parameters
        ----------
        names
            Names of the ``d`` features; None if they have no names.
        """
        certificate, penalty, selection = self.certificate, self.penalty, self.selection
        return TrainingSummary(
            rows={str(value): count for value, count in self.labels.rows.items()},
            positive_weight=float(self.columns.weight[0]),
            negative_weight=float(self.columns.weight[1]),
            largest_weights=largest_weights(self.w, self.columns.standard_deviation(), names),
            nonzeros=int((self.w != 0).sum()),
            estimated_auc=estimated_auc(self.scores) if self.estimated else None,
            seconds=self.seconds,
            estimator=self.estimator,
            # It holds for the approximate covariances.
            certificate=(
                None
                if certificate is None
                else dict(certificate.as_dict()) | (self.covariance or {})
            ),
            pairs=self.pairs,
            sampling_suboptimality=self.suboptimality,
            theorem2=self.theorem2,
            form=self.form,
            reg_param=None if penalty is None else penalty.regParam,
            elastic_net_param=None if penalty is None else penalty.elasticNetParam,
            smoothness=None if penalty is None else penalty.smoothness,
            trees=None if penalty is None else penalty.trees,
            selection=None if selection is None else selection.as_dict(),
            held_out=self.held_out,
            prior=self.prior,
            max_fpr=self.max_fpr,
            covariance=self.covariance,
            head=None if self.head is None else list(self.head),
            saddle=self.saddle,
        )
