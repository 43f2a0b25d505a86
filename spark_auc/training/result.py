"""What a training run returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spark_auc.core.labels import LabelCounts
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.gaussian import class_ratio_threshold, estimated_auc
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.types import Float
from spark_auc.solvers.candidates import Candidate, Selection
from spark_auc.solvers.solution import Certificate
from spark_auc.training.summary import TrainingSummary, largest_weights


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """Weights, and how they were made.

    Parameters
    ----------
    w
        The weights ``(d,)`` of raw columns.
    scores
        Moments of the training rows' scores, as one column.
    columns, labels
        Column moments and label counts of the training rows.
    estimator
        Which pairs were trained on, or the name of the learner.
    seconds
        Wall time of each phase.
    certificate
        Evidence of optimality, where there is an objective.
    form
        How the quadratic was held; see `spark_auc.training.problem.Problem.form`.
    penalty, selection
        The penalty, and how it was chosen where it was not given.
    pairs
        Number of draws of each class; None where there are no draws.
    suboptimality, sufficient_pairs
        What sampling costs the objective, as the draws estimate it, and the draws that Theorem 2
        asks for.
    held_out
        What rows said of a learner before it took them; see `spark_auc.learners.held_out.HeldOut`.
    moments
        The pair moments, where they are kept.
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
    sufficient_pairs: int | None = None
    held_out: dict[str, Any] | None = None
    moments: PairMoments | None = None

    @property
    def threshold(self) -> float:
        """Score above which about as large a share of weight lies as is positive in training."""
        return class_ratio_threshold(self.scores)

    def summary(self, names: Sequence[str] | None = None) -> TrainingSummary:
        """How the weights were made, for a model that is stored.

        Parameters
        ----------
        names
            Names of the features, where they have some.
        """
        certificate, penalty, selection = self.certificate, self.penalty, self.selection
        return TrainingSummary(
            rows={str(value): count for value, count in self.labels.rows.items()},
            positive_weight=float(self.columns.weight[0]),
            negative_weight=float(self.columns.weight[1]),
            largest_weights=largest_weights(self.w, self.columns.standard_deviation(), names),
            nonzeros=int((self.w != 0).sum()),
            estimated_auc=estimated_auc(self.scores),
            seconds=self.seconds,
            estimator=self.estimator,
            certificate=None if certificate is None else dict(certificate.as_dict()),
            pairs=self.pairs,
            sampling_suboptimality=self.suboptimality,
            sufficient_pairs=self.sufficient_pairs,
            form=self.form,
            reg_param=None if penalty is None else penalty.regParam,
            elastic_net_param=None if penalty is None else penalty.elasticNetParam,
            selection=None if selection is None else selection.as_dict(),
            held_out=self.held_out,
        )
