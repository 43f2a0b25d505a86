"""K-fold cross-validation of penalties: one pass for all moments, one for all validation scores.

Every row's fold is a function of its key and a seed. The moments of a fold's training rows are
those of all rows less the fold's own, so that no row is read twice for training; and one more
pass scores each row with the weights of every penalty that its fold did not help to train.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.accumulator import PairAccumulator
from spark_auc.core.batch import Batch
from spark_auc.core.draws import folds
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


@dataclass(frozen=True)
class CrossValidation:
    """Settings of a selection.

    Parameters
    ----------
    folds
        Number ``k`` of folds.
    seed
        What the folds are a function of, with the row's key.
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

    folds: int
    seed: int
    tol: float
    max_iter: int
    on_failure: OnFailure
    one_standard_error: bool
    max_bins: int
    at_once: int

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
                raise _one_class(k, self.folds)
            low, high = histogram.auc_bounds()
            widest = max(widest, (high - low) / 2)
            table[i, k] = auc(histogram.table)
        return table, widest

    def _scoring(self, weights: dict[int, Float]) -> Fold:
        folds_of, max_bins = (self.seed, self.folds), self.max_bins

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
                mine = folds(batch, *folds_of)
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

    def by_moments(self, rows: Folding) -> list[PairMoments]:
        """Moments of each fold's own rows, from one pass where they fit in memory together."""
        own: list[PairMoments] = []
        dimension = rows.dimension
        for start in range(0, self.folds, self.at_once):
            wanted = range(start, min(start + self.at_once, self.folds))
            parts = rows.fold(
                self._folding(wanted, dimension),
                (MomentsTile,),
                state_bytes=len(wanted) * PairMoments.nbytes(dimension),
                what=f"moments of {dimension} features in {len(wanted)} folds",
            )
            for k in wanted:
                names = part_names(dimension)
                mine = {name: cast(MomentsTile, parts[f"{k}:{name}"]) for name in names}
                own.append(PairMoments.of_parts(mine, dimension))
        for k, part in enumerate(own):
            if not (part.positive.rows and part.negative.rows):
                raise _one_class(k, self.folds)
        return own

    def _folding(self, wanted: Sequence[int], dimension: int) -> Fold:
        folds_of = (self.seed, self.folds)

        def fold(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
            accumulators = {k: PairAccumulator(dimension) for k in wanted}
            for batch in batches:
                mine = folds(batch, *folds_of)
                for k, accumulator in accumulators.items():
                    part = batch.take(np.flatnonzero(mine == k))
                    accumulator.add(part.X, part.y, part.weight)
            for k in wanted:
                for name, tile in accumulators.pop(k).parts():
                    yield f"{k}:{name}", tile

        return fold

    def by_rows(self, rows: LocalRows) -> list[LocalRows]:
        """Each fold's training rows."""
        count, seed = self.folds, self.seed

        def others(k: int) -> Change:
            return some(lambda batch: folds(batch, seed, count) != k)

        return [rows.changed(others(k)) for k in range(count)]


def _one_class(fold: int, count: int) -> DataError:
    return DataError(
        f"found rows of one class only in fold {fold + 1} of {count}, expected both in every "
        "fold; use fewer folds, or set keyCol if many rows are equal"
    )
