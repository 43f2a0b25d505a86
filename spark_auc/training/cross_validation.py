"""K-fold cross-validation of penalties: one pass for all moments, one for all validation scores.

`spark_auc.core.sampling.folds` defines the fold of a row. The moments of a fold's training rows
are the merge of the moments of all other rows, so training reads each row once. One more pass
scores each row with the weights of every penalty, trained on the other folds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TypeAlias

import numpy as np

from spark_auc.core.labels import LabelCounts
from spark_auc.core.memory import FOLDS_AT_ONCE, give_back
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.curves import Curves
from spark_auc.core.moments.objective import Quadratic
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.parallel import blas_of, cpus, in_threads
from spark_auc.core.row_source import Folding, complements
from spark_auc.core.sampling.folds import Folds, GroupCounts
from spark_auc.core.types import Float
from spark_auc.errors import ConvergenceError
from spark_auc.solvers.candidates import Candidate, Selection, choice
from spark_auc.solvers.path import path
from spark_auc.solvers.solution import Solution
from spark_auc.training.fold_moments import columns_of_folds, moments_of_folds
from spark_auc.training.held_out import single_class
from spark_auc.training.prior import Prior
from spark_auc.training.trials import TRIED

_log = logging.getLogger(__name__)

# From the weights (d, l) of each of k folds to AUCs (l, k) and their greatest uncertainty.
HeldOutAUC: TypeAlias = Callable[[Sequence[Float]], tuple[Float, float]]
# From the weights (d, l) of the first folds by the l penalties that remain, and the numbers of
# these, to the penalties to leave out, with the reasons.
Trial: TypeAlias = Callable[[Sequence[Float], Sequence[int]], Mapping[int, str]]
# The quadratic of a fold's training rows, with the divisors (d,) of its columns; and whether
# penalties have the prior's centre, with their smoothness.
_Part: TypeAlias = tuple[tuple[Quadratic, Float | None], tuple[bool, float | None]]
_Solved: TypeAlias = tuple[dict[int, Solution], Float | None]
# Results of a function of a part, in the order of the parts.
InOrder: TypeAlias = Callable[[Callable[[_Part], _Solved], Iterable[_Part]], Iterator[_Solved]]


@dataclass(frozen=True)
class CrossValidation:
    """Settings of cross-validation.

    Parameters
    ----------
    held_out
        The fold of each row.
    tol, max_iter
        Settings of the solver; see `path`.
    one_standard_error
        Choose the strongest penalty whose AUC is within one standard error of the best, among the
        penalties with the best one's elasticNetParam and centre.
    at_once
        Number of folds whose moments one pass computes.
    passes
        Number of concurrent passes.
    prior
        Centre of the penalties that have one, scaled to each fold's training rows.
    curves
        Blocks of weights whose roughness has a penalty.
    level_of_left_out
        Level of the log at which a penalty that is left out is named.
    """

    held_out: Folds
    tol: float
    max_iter: int
    one_standard_error: bool
    at_once: int
    passes: int = 1
    prior: Prior | None = None
    curves: Curves = field(default_factory=Curves)
    level_of_left_out: int = logging.WARNING

    @property
    def folds(self) -> int:
        """Number ``k`` of folds."""
        return self.held_out.count

    def select(
        self,
        candidates: Sequence[Candidate],
        training: Iterable[tuple[Quadratic, Float | None]],
        held_out: HeldOutAUC,
        in_order: InOrder | None = None,
    ) -> Selection:
        """Solve each penalty on each fold's training rows, and choose by AUC on the fold.

        A penalty that misses the tolerance in a fold is left out, with its reason.

        Parameters
        ----------
        candidates
            The ``l`` penalties.
        training
            The quadratic of each fold's training rows, and the divisors ``(d,)`` of its columns.
            Only those of `FOLDS_AT_ONCE` folds are in memory at a time.
        held_out
            Measures the weights of each fold on its held-out rows.
        in_order
            See `train`.

        Raises
        ------
        ConvergenceError
            No penalty was solved in all folds.
        """
        weights, left_out = self.train(candidates, training, in_order)
        solved = [i for i, reason in enumerate(left_out) if reason is None]
        auc = np.full((len(candidates), self.folds), np.nan)
        nonzeros = np.full(len(candidates), np.nan)
        weights = [np.ascontiguousarray(W[:, solved]) for W in weights]
        give_back()
        auc[solved], uncertainty = held_out(weights)
        nonzeros[solved] = np.mean([np.count_nonzero(W, axis=0) for W in weights], axis=0)
        chosen = choice(candidates, auc, one_standard_error=self.one_standard_error)
        return Selection(tuple(candidates), auc, uncertainty, nonzeros, tuple(left_out), chosen)

    def train(
        self,
        candidates: Sequence[Candidate],
        training: Iterable[tuple[Quadratic, Float | None]],
        in_order: InOrder | None = None,
        trial: Trial | None = None,
    ) -> tuple[list[Float], list[str | None]]:
        """The weights ``(d, l)`` of each fold, and why each penalty was left out (or None).

        ``in_order`` maps a function over the folds and degrees of smoothness, such as that of a
        `Lockstep`. Default: in threads, `FOLDS_AT_ONCE` at a time. A trial may leave penalties out
        after the first folds, or raise an error that ends the training.
        """
        # From strong to weak: each solution is a warm start of the next.
        order = sorted(
            range(len(candidates)),
            key=lambda i: (candidates[i].elasticNetParam, -candidates[i].regParam),
        )
        kinds: dict[tuple[bool, float | None], list[int]] = {}
        for i in order:
            kinds.setdefault((candidates[i].prior, candidates[i].smoothness), []).append(i)
        weights = list[Float]()
        left_out: list[str | None] = [None] * len(candidates)
        dropped: Mapping[int, str] = {}

        def solve(part: _Part) -> _Solved:
            (quadratic, scale), (has_prior, smoothness) = part
            numbers = [i for i in kinds[has_prior, smoothness] if not left_out[i]]
            loss = quadratic
            if has_prior and self.prior:
                loss = self.prior.centred(quadratic, scale).quadratic
            loss = self.curves.quadratic(loss, smoothness)
            penalties = [candidates[i].penalty for i in numbers]
            solutions = path(loss, penalties, tol=self.tol, max_iter=self.max_iter)
            with blas_of(loss.occurring().size):
                return dict(zip(numbers, solutions, strict=True)), scale

        in_order = in_order or partial(in_threads, threads=min(FOLDS_AT_ONCE, cpus()))
        folds = iter(training)
        for most in (TRIED, None) if trial else (None,):
            kept = [kind for kind, own in kinds.items() if not all(left_out[i] for i in own)]
            parts = ((fold, kind) for fold in islice(folds, most) for kind in kept)
            solved = in_order(solve, parts)
            while of_fold := list(islice(solved, len(kept))):
                k, scale = len(weights) + 1, of_fold[0][1]
                solutions = {i: one for found, _ in of_fold for i, one in found.items()}
                for i, solution in solutions.items():
                    if not solution.converged and left_out[i] is None:
                        left_out[i] = f"fold {k}: {solution.certificate.problem()}"
                        words = "the penalty %s is left out: %s"
                        _log.log(self.level_of_left_out, words, candidates[i], left_out[i])
                W = np.zeros((next(iter(solutions.values())).w.size, len(candidates)))
                for i, solution in solutions.items():
                    W[:, i] = self.curves.weights(solution.w, candidates[i].smoothness)
                weights.append(W if scale is None else W / scale[:, None])
                _log.info("solved %d penalties in fold %d of %d", len(solutions), k, self.folds)
                if None not in left_out:
                    reason = next(left_out[i] for i in order if i not in dropped)
                    raise ConvergenceError(
                        f"found none of {len(candidates)} penalties solved in every fold, expected "
                        f"at least one; {reason}"
                    )
            if trial and most and most < self.folds:
                inside = [i for i, reason in enumerate(left_out) if reason is None]
                dropped = trial([W[:, inside] for W in weights], inside)
                for i, reason in dropped.items():
                    left_out[i] = reason
        return weights, left_out

    def by_moments(self, rows: Folding) -> tuple[CrossValidation, list[PairMoments], LabelCounts]:
        """Balance the folds over these rows and compute the moments of each fold's rows.

        One pass if the moments of all folds fit in memory together. The pass also counts the
        groups of rows. If a class has few groups, they are dealt to the folds, and the pass is
        repeated. Counting in a pass of its own would cost every other data set a second pass.

        Returns
        -------
        cross_validation
            These settings with the balanced folds.
        moments
            The pair moments of each fold's rows, then those of the rows of no fold, if any.
        labels
            Number of rows of each label.

        Raises
        ------
        DataError
            A fold has rows of one class only, or all rows of a class are of one group.
        """
        count, step = self.held_out.parts, self.at_once
        ranges = [range(k, min(k + step, count)) for k in range(0, count, step)]
        fold_moments: list[PairMoments] = []
        labels = LabelCounts()
        for held_out, parts, counts in in_threads(
            lambda numbers: self._moments_of_folds(numbers, rows), ranges, self.passes
        ):
            if held_out is not self.held_out:
                return replace(self, held_out=held_out).by_moments(rows)
            fold_moments += parts
            labels = counts
            give_back()
        for k, moments in enumerate(fold_moments[: self.folds]):
            if not (moments.positive.rows and moments.negative.rows):
                raise single_class(k, self.held_out)
        return self, fold_moments, labels

    def _moments_of_folds(
        self, numbers: range, rows: Folding
    ) -> tuple[Folds, list[PairMoments], LabelCounts]:
        """The balanced folds, moments of the numbered unbalanced folds, and label counts."""
        counting = not numbers.start and self.held_out.by_hash
        parts, labels, groups = moments_of_folds(rows, self.held_out, numbers, counting=counting)
        return self._balanced(groups) if counting else self.held_out, parts, labels

    def by_columns(self, rows: Folding) -> tuple[CrossValidation, list[ColumnMoments]]:
        """Balance the folds over these rows, and compute column moments; see `by_moments`.

        Returns
        -------
        cross_validation
            These settings with the balanced folds.
        columns
            The column moments of the training rows of each fold.

        Raises
        ------
        DataError
            A fold has rows of one class only, or all rows of a class are of one group.
        """
        counting, parts = self.held_out.by_hash, self.held_out.parts
        own, groups = columns_of_folds(rows, self.held_out, parts, counting=counting)
        if counting and (held_out := self._balanced(groups)) is not self.held_out:
            return replace(self, held_out=held_out).by_columns(rows)
        for k, columns in enumerate(own[: self.folds]):
            if not columns.rows.all():
                raise single_class(k, self.held_out)
        return self, complements(own)[: self.folds]

    def _balanced(self, counts: GroupCounts) -> Folds:
        """The folds with the groups of small classes dealt out; see `Folds.dealt`."""
        folds = self.held_out.assigned(counts)
        if folds is not self.held_out:
            groups = [
                f"{'' if complete else 'more than '}{side.size}"
                for side, complete in zip(counts.groups, counts.complete, strict=True)
            ]
            fewer = folds.count < self.folds
            _log.log(
                logging.WARNING if fewer else logging.INFO,
                "found %s groups of positive rows and %s groups of negative rows: balanced them "
                "over %d folds%s",
                *groups,
                folds.count,
                f", instead of the {self.folds} requested" if fewer else "",
            )
        return folds
