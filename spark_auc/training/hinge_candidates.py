"""Held-out AUC of the pairwise squared hinge of rows in memory, from the squared loss's weights."""

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
from spark_auc.solvers.candidates import Candidate, Selection, choice
from spark_auc.solvers.truncated_newton import truncated_newton
from spark_auc.training.fold_rows import FoldRows, to_columns
from spark_auc.training.held_out import held_out_auc, held_out_deviations
from spark_auc.training.hinge_problem import hinge_problem

# Penalties that are tried, relative to the squared loss's penalty times the share of pairs that
# violate the margin. This share of the curvature remains for the hinge.
_FACTORS = (3.0, 1.0, 0.3)
# Relative tolerance of a solution that ranks held-out rows only.
_TOL, _STEPS = 1e-3, 100
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
    standardize
        Whether the penalty applies to columns of unit variance.
    curves
        Curves among the features of the candidate.
    """

    rows: ArrayRows
    folds: Folds
    standardize: bool
    curves: Curves = field(default_factory=Curves)

    def selection(
        self, columns: Int, taught: bool, starts: Sequence[Float], squared: Candidate
    ) -> tuple[Selection, list[Float] | str]:
        """The AUC of a few penalties on each held-out fold, and the one with the best mean.

        Second, what groups of rows add to the AUCs of those solved; see `held_out_deviations`.

        Parameters
        ----------
        columns : (d,)
            Numbers of the features of the candidate.
        taught
            Whether rows that are in no fold train too.
        starts : (d,)
            The weights of the squared loss for the training rows of each fold.
        squared
            Its penalty.
        """
        rows, smoothness = self.rows.changed(*to_columns(columns)), squared.smoothness
        training = list(FoldRows(rows, self.folds).training(taught))
        share = np.mean([violating(r, w) for r, w in zip(training, starts, strict=True)])
        factor = squared.regParam * float(share)
        candidates = [replace(squared, regParam=factor * f) for f in _FACTORS]
        left_out: list[str | None] = [None] * len(candidates)
        weights = []
        for k, (part, start) in enumerate(zip(training, starts, strict=True)):
            W = np.empty((columns.size, len(candidates)))
            moments = column_moments(part)
            scale = moments.standard_deviation() if self.standardize else None
            unit = np.ones(columns.size) if scale is None else scale
            w = self.curves.coordinates(start * unit, smoothness)
            hinge = hinge_problem(part, moments, 0.0, scale, self.curves, smoothness)
            for i, candidate in enumerate(candidates):
                of_penalty = replace(hinge, l2=candidate.regParam)
                solution = truncated_newton(of_penalty, None, tol=_TOL, max_iter=_STEPS, start=w)
                w = W[:, i] = solution.w
                if not solution.converged and left_out[i] is None:
                    left_out[i] = f"fold {k + 1}: {solution.certificate.problem()}"
            weights.append(self.curves.weights(W, smoothness) / unit[:, None])
        measured, uncertainty = held_out_auc(weights, rows, self.folds, _BINS)
        nonzeros = np.mean([np.count_nonzero(W, axis=0) for W in weights], axis=0)
        unsolved = [reason is not None for reason in left_out]
        if not all(unsolved):
            measured[unsolved], nonzeros[unsolved] = np.nan, np.nan
        chosen = choice(candidates, measured, one_standard_error=False)
        selection = Selection(
            tuple(candidates), measured, uncertainty, nonzeros, tuple(left_out), chosen
        )
        solved = [W[:, [reason is None for reason in left_out]] for W in weights]
        return selection, held_out_deviations(solved, rows, self.folds)


def violating(rows: ArrayRows, w: Float) -> float:
    """The share of pairs that violate margin 1 by weights ``w`` ``(d,)``."""
    batch = rows.joined()
    scores = settled_scores(batch.X, w)
    return 1.0 - auc(ScoreTable.of(scores - batch.y, batch.y, batch.weight))
