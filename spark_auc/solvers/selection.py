"""K-fold cross-validation of penalties: one pass for all moments, one for all validation scores.

`spark_auc.core.folds` says which fold a row is of. The moments of a fold's training rows are merged
from those of the other folds, so that no row is read twice for training; and one more pass scores
each row with the weights of every penalty that its fold did not help to train.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.accumulator import PairAccumulator
from spark_auc.core.batch import Batch
from spark_auc.core.folds import Folds, GroupCounts
from spark_auc.core.moments import PairMoments
from spark_auc.core.moments_tile import MomentsTile, part_names
from spark_auc.core.objective import Quadratic
from spark_auc.core.products import settled_product
from spark_auc.core.roc import auc
from spark_auc.core.rows import Change, Fold, Folding, LocalRows, State, some
from spark_auc.core.score_histogram import ScoreHistogram
from spark_auc.errors import ConvergenceError, DataError
from spark_auc.solvers.candidates import Candidate, Selection, choice
from spark_auc.solvers.path import path
from spark_auc.solvers.solution import OnFailure

Float = NDArray[np.float64]

_log = logging.getLogger(__name__)

_Scored = tuple[Float, NDArray[np.bool_], Float | None]

# Scores that are sorted together, and bytes of weights that travel to the tasks at once.
_SCORES = 1 << 23
_WEIGHT_BYTES = 1 << 26
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
        found[kept], uncertainty = self._validated(weights, validation)
        nonzeros[kept] = np.mean([np.count_nonzero(W, axis=0) for W in weights], axis=0)
        chosen = choice(candidates, found, one_standard_error=self.one_standard_error)
        return Selection(tuple(candidates), found, uncertainty, nonzeros, tuple(left_out), chosen)

    def _validated(self, weights: Sequence[Float], rows: Folding) -> tuple[Float, float]:
        """AUC ``(l, k)`` of each penalty on each fold, and half the widest bounds on it."""
        together = max(1, _WEIGHT_BYTES // weights[0].nbytes)
        found: dict[str, State] = {}
        for start in range(0, self.folds, together):
            part = {k: weights[k] for k in range(start, min(start + together, self.folds))}
            found |= rows.fold(
                self._scoring(part),
                (ScoreHistogram,),
                state_bytes=len(part) * weights[0].shape[1] * 56 * self.max_bins,
                what=f"validation scores of {len(part) * weights[0].shape[1]} models",
            )
        table = np.empty((weights[0].shape[1], self.folds))
        widest = 0.0
        for name, state in found.items():
            k, i = map(int, name.split("/"))
            histogram = cast(ScoreHistogram, state)
            if not (histogram.table.weight.sum(axis=1) > 0).all():
                raise _one_class(k, self.held_out)
            low, high = histogram.auc_bounds()
            widest = max(widest, (high - low) / 2)
            table[i, k] = auc(histogram.table)
        return table, widest

    def _scoring(self, weights: dict[int, Float]) -> Fold:
        held_out_of, max_bins = self.held_out.of, self.max_bins

        models = max(W.shape[1] for W in weights.values())
        size = _SCORES // (models * len(weights))

        def tabulated(k: int, parts: list[_Scored]) -> Iterator[tuple[str, State]]:
            scores, y = (np.concatenate([part[k] for part in parts]) for k in range(2))
            u = None if parts[0][2] is None else np.concatenate([u for _, _, u in parts])
            for i in range(scores.shape[1]):
                yield f"{k}/{i}", ScoreHistogram.of(scores[:, i].copy(), y, u, max_bins)

        def fold(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
            total: dict[str, State] = {}
            waiting: dict[int, list[_Scored]] = {k: [] for k in weights}

            def add(k: int) -> None:
                if waiting[k]:
                    for name, state in tabulated(k, waiting[k]):
                        total[name] = total[name].merge(state) if name in total else state
                    waiting[k].clear()

            for batch in batches:
                mine = held_out_of(batch)
                for k, W in weights.items():
                    held_out = batch.take(np.flatnonzero(mine == k))
                    scores = settled_product(held_out.X, W)
                    waiting[k].append((scores, held_out.y, held_out.weight))
                    if sum(y.size for _, y, _ in waiting[k]) >= size:
                        add(k)
            for k in weights:
                add(k)
            yield from total.items()

        return fold

    def by_moments(self, rows: Folding) -> tuple[CrossValidation, list[PairMoments]]:
        """The settings with the folds of these rows, and moments of each fold's own rows.

        One pass where they fit in memory together. It counts the rows' groups too: only where a
        class turns out to have few is it made again, with these dealt out. A pass of its own
        beforehand would cost all others a reading of the rows.

        Raises
        ------
        DataError
            A fold has rows of one class only, or all rows of a class are of one group.
        """
        own: list[PairMoments] = []
        while len(own) < self.folds:
            wanted = range(len(own), min(len(own) + self.at_once, self.folds))
            dealt, parts = self._own_moments(wanted, rows)
            if dealt is not self.held_out:
                return replace(self, held_out=dealt).by_moments(rows)
            own += parts
        for k, part in enumerate(own):
            if not (part.positive.rows and part.negative.rows):
                raise _one_class(k, self.held_out)
        return self, own

    def _own_moments(self, wanted: range, rows: Folding) -> tuple[Folds, list[PairMoments]]:
        """The folds of these rows, and moments of the wanted ones as they were before."""
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
        return (self._dealt(parts[_GROUPS]) if counting else held_out), own

    def by_rows(self, rows: LocalRows) -> tuple[CrossValidation, list[LocalRows]]:
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
            raise _one_class(int(k), held_out)

        def others(k: int) -> Change:
            return some(lambda batch: held_out.of(batch) != k)

        parts = [rows.changed(others(k)) for k in range(held_out.count)]
        return replace(self, held_out=held_out), parts

    def _dealt(self, counts: State) -> Folds:
        found = cast(GroupCounts, counts)
        dealt = self.held_out.dealt(found)
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


def _one_class(fold: int, folds: Folds) -> DataError:
    return DataError(
        f"found rows of one class only in fold {folds.name(fold)}, expected both in every fold; "
        + (
            "join it with another fold in foldCol"
            if folds.names
            else "use fewer folds, or set regParam"
        )
    )
