"""K-fold cross-validation of penalties: one pass for all moments, one for all validation scores.

`spark_auc.core.sampling.folds` says which fold a row is of. The moments of a fold's training rows
are merged from those of the other folds, so that no row is read twice for training; one more pass
scores each row with the weights of every penalty that its fold did not help to train.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from spark_auc.core.batch import Batch, Change
from spark_auc.core.labels import LabelCounts
from spark_auc.core.moments.accumulator import PairAccumulator
from spark_auc.core.moments.moments_tile import MomentsTile, part_names
from spark_auc.core.moments.objective import Quadratic
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import ArrayRows, Folding, State, rows_where
from spark_auc.core.sampling.folds import Folds, GroupCounts
from spark_auc.core.types import Float
from spark_auc.errors import ConvergenceError
from spark_auc.solvers.candidates import Candidate, Selection, choice
from spark_auc.solvers.path import path
from spark_auc.solvers.solution import OnFailure
from spark_auc.training.held_out import held_out_auc, one_class

_log = logging.getLogger(__name__)

_GROUPS = "groups"


@dataclass(frozen=True)
class CrossValidation:
    """Settings of a selection.

    Parameters
    ----------
    held_out
        Which fold each row is of.
    tol, max_iter, on_failure
        As for one fit.
    one_standard_error
        Choose the strongest penalty whose AUC is within one standard error of the best, of those
        with the best's elasticNetParam.
    max_bins
        Distinct scores per fold and penalty up to which AUC is exact.
    at_once
        Folds whose moments fit in memory together; the others are read in turn.
    """

    held_out: Folds
    tol: float
    max_iter: int
    on_failure: OnFailure
    one_standard_error: bool
    max_bins: int
    at_once: int

    @property
    def folds(self) -> int:
        """Number ``k`` of folds."""
        return self.held_out.count

    def of(
        self,
        candidates: Sequence[Candidate],
        training: Iterable[tuple[Quadratic, Float | None]],
        validation: Folding,
    ) -> Selection:
        """Solve each penalty on each fold's training rows and rank the fold's own rows with it.

        A penalty that is not solved to the tolerance in some fold is left out, with its reason.
        Where none is solved and ``on_failure`` is "warn", all are taken as they are.

        Parameters
        ----------
        candidates
            The penalties.
        training
            The quadratic of each fold's training rows, and by what its columns were divided;
            the next is made when the one before is done with.
        validation
            All rows.

        Raises
        ------
        ConvergenceError
            No penalty was solved in all folds and ``on_failure`` is "raise".
        DataError
            A fold has rows of one class only.
        """
        order = sorted(
            range(len(candidates)),
            key=lambda i: (candidates[i].elasticNetParam, -candidates[i].regParam),
        )
        weights = []
        left_out: list[str | None] = [None] * len(candidates)
        for k, (quadratic, scale) in enumerate(training):
            W = np.zeros((quadratic.dimension, len(candidates)))
            # What is left out need not be solved again, unless all may be taken in the end.
            wanted = [i for i in order if not left_out[i] or self.on_failure == "warn"]
            penalties = [candidates[i].penalty for i in wanted]
            solved = path(quadratic, penalties, tol=self.tol, max_iter=self.max_iter)
            for i, solution in zip(wanted, solved, strict=True):
                W[:, i] = solution.w
                if not solution.converged:
                    left_out[i] = f"fold {k + 1}: {solution.certificate.problem()}"
                    _log.warning("%s is left out: %s", candidates[i], left_out[i])
            weights.append(W if scale is None else W / scale[:, None])
            _log.info("fold %d of %d: %d penalties solved", k + 1, self.folds, len(wanted))
            if None not in left_out and self.on_failure == "raise":
                raise ConvergenceError(
                    f"found none of {len(candidates)} penalties solved in every fold, expected "
                    f"one at least; {left_out[order[0]]}"
                )
        if None not in left_out:
            _log.warning("no penalty was solved in every fold; all are taken as they are")
            left_out = [None] * len(candidates)
        kept = [i for i, reason in enumerate(left_out) if reason is None]
        weights = [W[:, kept] for W in weights]
        found = np.full((len(candidates), self.folds), np.nan)
        nonzeros = np.full(len(candidates), np.nan)
        found[kept], uncertainty = held_out_auc(weights, validation, self.held_out, self.max_bins)
        nonzeros[kept] = np.mean([np.count_nonzero(W, axis=0) for W in weights], axis=0)
        chosen = choice(candidates, found, one_standard_error=self.one_standard_error)
        return Selection(tuple(candidates), found, uncertainty, nonzeros, tuple(left_out), chosen)

    def by_moments(self, rows: Folding) -> tuple[CrossValidation, list[PairMoments], LabelCounts]:
        """The settings with these rows' folds, moments of each fold's own rows, and label counts.

        One pass where they fit in memory together. It counts the rows' groups too: only where a
        class turns out to have few is it made again, with these dealt out. A pass of its own
        beforehand would cost all others a reading of the rows.

        Raises
        ------
        DataError
            A fold has rows of one class only, or all rows of a class are of one group.
        """
        own: list[PairMoments] = []
        labels = LabelCounts()
        while len(own) < self.folds:
            wanted = range(len(own), min(len(own) + self.at_once, self.folds))
            dealt, parts, labels = self._own_moments(wanted, rows)
            if dealt is not self.held_out:
                return replace(self, held_out=dealt).by_moments(rows)
            own += parts
        for k, part in enumerate(own):
            if not (part.positive.rows and part.negative.rows):
                raise one_class(k, self.held_out)
        return self, own, labels

    def _own_moments(
        self, wanted: range, rows: Folding
    ) -> tuple[Folds, list[PairMoments], LabelCounts]:
        """The rows' folds, moments of the wanted ones as they were before, and label counts."""
        dimension, held_out = rows.dimension, self.held_out
        counting = not wanted.start and held_out.by_hash

        def fold(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
            accumulators = {k: PairAccumulator(dimension) for k in wanted}
            counts = GroupCounts.zero(held_out.enough)
            for read in batches:
                batch = read._replace(group=read.groups())
                if counting:
                    counts = counts.update(batch)
                mine = held_out.of(batch)
                for k, accumulator in accumulators.items():
                    part = batch.take(np.flatnonzero(mine == k))
                    accumulator.add(part.X, part.y, part.weight)
            for k in wanted:
                for name, tile in accumulators.pop(k).parts():
                    yield f"{k}:{name}", tile
            if counting:
                yield _GROUPS, counts

        parts = rows.fold(
            fold,
            (MomentsTile, GroupCounts),
            state_bytes=len(wanted) * PairMoments.nbytes(dimension) + 32 * held_out.enough,
            what=f"moments of {dimension} features in {len(wanted)} folds",
        )
        names = part_names(dimension)
        own = [
            PairMoments.of_parts(
                {name: cast(MomentsTile, parts[f"{k}:{name}"]) for name in names}, dimension
            )
            for k in wanted
        ]
        return (self._dealt(parts[_GROUPS]) if counting else held_out), own, parts.labels

    def by_rows(self, rows: ArrayRows) -> tuple[CrossValidation, list[ArrayRows]]:
        """The settings with the folds of these rows, and each fold's training rows.

        Raises
        ------
        DataError
            A fold has rows of one class only, or all rows of a class are of one group.
        """
        held_out = self.held_out
        if held_out.by_hash:
            counts = GroupCounts.zero(held_out.enough)
            for batch in rows.batches:
                counts = counts.update(batch)
            held_out = self._dealt(counts)

        counts_of = np.zeros((held_out.count, 2), np.int64)
        for batch in rows.batches:
            np.add.at(counts_of, (held_out.of(batch), (~batch.y).astype(int)), 1)
        for k in np.flatnonzero((counts_of == 0).any(axis=1)):
            raise one_class(int(k), held_out)

        def others(k: int) -> Change:
            return rows_where(lambda batch: held_out.of(batch) != k)

        parts = [rows.changed(others(k)) for k in range(held_out.count)]
        return replace(self, held_out=held_out), parts

    def _dealt(self, counts: State) -> Folds:
        found = cast(GroupCounts, counts)
        dealt = self.held_out.assigned(found)
        if dealt is not self.held_out:
            groups = [
                f"{'' if complete else 'more than '}{side.size}"
                for side, complete in zip(found.groups, found.complete, strict=True)
            ]
            fewer = "" if dealt.count == self.folds else f", instead of the {self.folds} asked for"
            _log.log(
                logging.WARNING if fewer else logging.INFO,
                "%s groups of positive rows and %s of negative ones are dealt out to %d folds%s",
                *groups,
                dealt.count,
                fewer,
            )
        return dealt
