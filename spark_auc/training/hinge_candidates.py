"""Held-out AUC of the pairwise squared hinge of rows in memory, from the squared loss's weights.

Its penalty is that of the squared loss times the share of pairs that violate the margin: this share
of the curvature remains for the hinge. On five tables, a third and three times this penalty rank
within .002 of it, and mostly below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from spark_auc.core.evaluation.roc import auc
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.moments.curves import Curves
from spark_auc.core.moments.operator import column_moments
from spark_auc.core.products import settled_scores
from spark_auc.core.row_source import ArrayRows
from spark_auc.core.sampling.folds import Folds
from spark_auc.core.types import Float, Int
from spark_auc.solvers.candidates import Selection
from spark_auc.solvers.truncated_newton import truncated_newton
from spark_auc.training.fold_rows import FoldRows, to_columns
from spark_auc.training.held_out import held_out_auc, held_out_measures
from spark_auc.training.hinge_problem import hinge_problem
from spark_auc.training.trials import TRIED

# Relative tolerance of a solution that ranks held-out rows only.
_TOL, _STEPS = 3e-3, 100
# Distinct scores of a fold up to which its AUC is exact.
_BINS = 1 << 20


@dataclass(frozen=True, eq=False)
class HingeFolds:
    """Rows in memory, and their folds.

    Parameters
    ----------
    rows
        All rows, with their groups.
    folds
        The fold of each row.
    curves
        Curves among the features of the candidate.
    """

    rows: ArrayRows
    folds: Folds
    curves: Curves = field(default_factory=Curves)

    def selection(
        self, columns: Int, taught: bool, starts: Sequence[Float], squared: Selection
    ) -> tuple[Selection, list[Float] | str, list[Float]] | str:
        """The AUC of each fold, what groups of rows add to it, and weights; or why it is left out.

        It is left out after `TRIED` folds if it is not above the squared loss on them.

        Parameters
        ----------
        columns : (d,)
            Numbers of the features of the candidate.
        taught
            Whether rows that are in no fold train too.
        starts : (d,)
            The weights of the squared loss for the training rows of each fold.
        squared
            Its penalties and their AUCs.
        """
        rows, smoothness = self.rows.changed(*to_columns(columns)), squared.candidate.smoothness
        training = list(FoldRows(rows, self.folds).training(taught))
        share = np.mean([violating(r, w) for r, w in zip(training, starts, strict=True)])
        candidate = replace(squared.candidate, regParam=squared.candidate.regParam * float(share))
        weights = list[Float]()
        for k, (part, start) in enumerate(zip(training, starts, strict=True)):
            moments = column_moments(part)
            w = self.curves.coordinates(start, smoothness)
            hinge = hinge_problem(part, moments, candidate.regParam, None, self.curves, smoothness)
            solution = truncated_newton(hinge, None, tol=_TOL, max_iter=_STEPS, start=w)
            if not solution.converged:
                return f"fold {k + 1}: {solution.certificate.problem()}"
            weights.append(self.curves.weights(solution.w[:, None], smoothness))
            if k + 1 == TRIED < len(training):
                found = held_out_auc(weights, rows, self.folds, _BINS)[0].mean()
                before = squared.auc[squared.chosen, :TRIED].mean()
                if found <= before:
                    return (
                        f"its AUC is {found:.4f} on {TRIED} folds, that of the squared loss "
                        f"{before:.4f}"
                    )
        measured, uncertainty, added = held_out_measures(weights, rows, self.folds, _BINS)
        nonzeros = np.mean([np.count_nonzero(W, axis=0) for W in weights], axis=0)
        selection = Selection((candidate,), measured, uncertainty, nonzeros, (None,), 0)
        return selection, added, [W[:, 0] for W in weights]


def violating(rows: ArrayRows, w: Float) -> float:
    """The share of pairs that violate margin 1 by weights ``w`` ``(d,)``."""
    batch = rows.joined()
    scores = settled_scores(batch.X, w)
    return 1.0 - auc(ScoreTable.of(scores - batch.y, batch.y, batch.weight))
