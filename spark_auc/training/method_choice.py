"""Comparison of candidate models that are subsets of one union of features, in few passes.

One pass computes the pair moments of the union on each fold. The moments of a candidate are a
submatrix, from which its penalties are solved without rows. One more pass scores the held-out rows
with all candidates and penalties. Candidates with too many features for a matrix are solved by
passes over rows in memory. So is the squared hinge, which has no moments; it begins with the
weights of the squared loss.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from spark_auc.core.moments.operator import column_moments
from spark_auc.core.row_source import ArrayRows, RowSource
from spark_auc.core.types import Float, Int
from spark_auc.errors import ConvergenceError, ResourceError
from spark_auc.solvers.candidates import Candidate, Selection, choice, ridge_grid
from spark_auc.training.blocks import ADDITIVE, Blocks, Method, fitting, unions
from spark_auc.training.candidate_quadratics import (
    CandidateQuadratics,
    RowQuadratics,
    UnionMoments,
)
from spark_auc.training.costs import CountedWork, Work, steps_on_rows
from spark_auc.training.cross_validation import CrossValidation, Trial
from spark_auc.training.fold_rows import occurring, to_columns
from spark_auc.training.held_out import held_out_auc, held_out_measures
from spark_auc.training.hinge_candidates import HingeFolds
from spark_auc.training.method_result import MethodComparison, MethodResult
from spark_auc.training.penalty import cross_validation_of, histogram_bins, warn_of_weaker
from spark_auc.training.settings import MethodSettings, TrainingSettings
from spark_auc.training.trials import LEAST, OutdoneError, raise_if_outdone, weaker_curves

_log = logging.getLogger(__name__)

# Relative tolerance of penalties that are solved by passes over rows, and rank held-out rows only.
_ROUGH = 1e-3
# Greatest number of rows for the squared hinge.
_HINGE_ROWS = 100_000


def compare_methods(rows: RowSource, blocks: Blocks, settings: MethodSettings) -> MethodComparison:
    """Measure all declared candidates on the same held-out folds.

    Parameters
    ----------
    rows
        All rows, with the features of the union. Rows of one group are in one fold.
    blocks
        The features of each block; see `spark_auc.training.blocks`.
    settings
        Folds, and limits.

    Raises
    ------
    ConvergenceError
        No candidate was solved.
    DataError
        A value is unusable, or a fold has rows of one class only.
    ResourceError
        The moments of no block fit in memory, and the rows do not fit or are too many.
    """
    rows = rows.gathered_within(rows.memory.rows_limit) or rows
    work = replace(settings.work, rows=_count(rows), folds=settings.folds.count)
    settings = replace(settings, work=work)
    parts, largest = settings.folds.parts, settings.largest
    kept, left_out = fitting(blocks, rows.memory, parts, largest)
    if left_out:
        # Hashed features have many columns that occur in no row.
        varies = column_moments(rows).varies()
        # A knot at which no row is has a height all the same.
        varies[: settings.curves.end] = True
        blocks = {name: columns[varies[columns]] for name, columns in blocks.items()}
        blocks = {name: columns for name, columns in blocks.items() if columns.size}
        kept, left_out = fitting(blocks, rows.memory, parts, largest)
    for name, reason in left_out.items():
        _log.info("the block %s has no moments: %s", name, reason)
    names = dict.fromkeys([*unions(tuple(blocks)), *unions(tuple(kept))])
    results = _counted([Method(name) for name in names], blocks, settings)
    methods = [method for method, result in results.items() if not result.left_out]
    needed = {name for method in methods for name in method.blocks}
    blocks = {name: columns for name, columns in blocks.items() if name in needed}
    kept = {name: columns for name, columns in kept.items() if name in needed}
    compared = _Comparison.of(rows, blocks, kept, left_out, settings)
    squared = compared.squared(methods)
    fit = [squared[method] for method in methods if {*method.blocks} <= {*kept}]
    if compared.moments is None and any(map(_unsolved, fit)):
        _log.info("making the matrix, to solve the penalties that steps on the rows did not")
        compared = _Comparison.of(rows, blocks, kept, left_out, settings, by_steps=False)
        squared = compared.squared(methods)
    results |= {m: replace(found, work=results[m].work) for m, found in squared.items()}
    comparison = MethodComparison(tuple(results.values()), compared.folds.held_out)
    if not comparison.measured:
        raise ConvergenceError(f"found no candidate solved: {comparison.results[0].left_out}")
    if settings.hinge and comparison.choice.blocks != settings.without_hinge:
        hinge = compared.hinge(comparison.choice, work.left(comparison.work))
        comparison = comparison.with_results([hinge])
    chosen = comparison.choice
    if chosen.selection:
        warn_of_weaker(chosen.selection)
    _log.info(
        "chose %s: mean AUC %.4f on the held-out folds that chose it",
        *(chosen.name, chosen.auc.mean()),
    )
    return comparison


@dataclass(frozen=True, eq=False)
class _Comparison:
    """The moments of the union on the rows of each fold, and the rows.

    Parameters
    ----------
    rows
        All rows.
    blocks
        The columns of each block.
    left_out
        Why blocks are not in the union.
    settings
        See `MethodSettings`.
    folds
        The balanced folds, and the settings of the solver.
    moments
        The moments of the union; None without a block, or where steps on the rows take less time.
    """

    rows: RowSource
    blocks: Blocks
    left_out: Mapping[str, str]
    settings: MethodSettings
    folds: CrossValidation
    moments: UnionMoments | None

    @classmethod
    def of(
        cls,
        rows: RowSource,
        blocks: Blocks,
        kept: Blocks,
        left_out: Mapping[str, str],
        settings: MethodSettings,
        by_steps: bool = True,
    ) -> _Comparison:
        """The comparison of some rows, after one pass over them.

        With ``by_steps`` there are no moments where steps on the rows take less time for the
        features of single columns that occur.
        """
        solver, moments = TrainingSettings(folds=settings.folds), None
        gathered = _gathered(rows, settings.wide_rows)
        union = Method(tuple(kept)).columns(kept) if kept else np.zeros(0, dtype=np.int64)
        work = Work(len(ridge_grid(1.0)), settings.folds.count, rough=True)
        if by_steps and not isinstance(gathered, str):
            # With few features of single columns, weak penalties are often the best. Steps on the
            # rows do not reach them, whatever the number of pairs.
            found = np.intersect1d(kept.get(ADDITIVE, union), occurring(gathered))
            by_steps = bool(steps_on_rows(gathered.batches, found.size, work))
        if kept and not (by_steps and isinstance(gathered, ArrayRows)):
            part = _with_columns(rows, union)
            inside = {name: np.searchsorted(union, columns) for name, columns in kept.items()}
            moments, folds = UnionMoments.of(part, inside, cross_validation_of(part, solver))
        else:
            if isinstance(gathered, str):
                reasons = [f"{name}: {reason}" for name, reason in left_out.items()]
                raise ResourceError("; ".join([*reasons, gathered]))
            folds, _ = cross_validation_of(gathered, solver).by_columns(gathered)
        return cls(rows, blocks, left_out, settings, folds, moments)

    def squared(self, methods: Sequence[Method]) -> dict[Method, MethodResult]:
        """The candidates with the squared loss; one pass measures all that have moments."""
        results: dict[Method, MethodResult] = {}
        rival: MethodResult | None = None
        together = [m for m in methods if self.moments and not set(m.blocks) & set(self.left_out)]
        alone = [[method] for method in methods if method not in together]
        gathered = _gathered(self.rows, self.settings.wide_rows)
        factors = self.settings.smoothness
        if factors and not together and self.left_out:
            factors = self.settings.curves.without_matrix(factors)
        for group in [together[:1], together[1:], *alone]:
            if group and self.moments and group[0] in together:
                found = self._measured(group, self.moments, self.folds, factors, rival)
            elif isinstance(gathered, str):
                found = {method: self._without(method, gathered) for method in group}
            else:
                quadratics = RowQuadratics(gathered, self.blocks, self.folds.held_out)
                tol = max(self.folds.tol, _ROUGH)
                rough = replace(self.folds, tol=tol, level_of_left_out=logging.INFO)
                found = self._measured(group, quadratics, rough, factors, rival)
            results |= found
            measured = [result for result in results.values() if result.selection]
            rival = max(measured, key=lambda result: float(result.auc.mean()), default=None)
            # Curves that are smooth beside some features are as smooth beside others.
            chosen = [r.selection.candidate.smoothness for r in found.values() if r.selection]
            factors = tuple(s for s in chosen[:1] if s) or factors
        return {method: results[method] for method in methods}

    def _without(self, method: Method, reason: str) -> MethodResult:
        absent = [name for name in method.blocks if name in self.left_out]
        reason = f"without {', '.join(absent)}: {self.left_out[absent[0]]}; {reason}"
        return self._result(method).without(reason)

    def _result(self, method: Method) -> MethodResult:
        return _unmeasured(method, self.blocks)

    def _taught(self, method: Method) -> bool:
        """Whether a candidate trains on the rows that are in no fold."""
        return not self.settings.knowing & {*method.blocks}

    def _measured(
        self,
        methods: Sequence[Method],
        quadratics: CandidateQuadratics,
        folds: CrossValidation,
        factors: Sequence[float],
        rival: MethodResult | None,
    ) -> dict[Method, MethodResult]:
        """Candidates of the squared loss and these factors of smoothness, measured in one pass."""
        if not methods:
            return {}
        columns = [method.columns(self.blocks) for method in methods]
        union, count = np.unique(np.concatenate(columns)), self.folds.folds
        results: dict[Method, MethodResult] = {}
        solved: dict[Method, tuple[list[Candidate], list[str | None], list[int]]] = {}
        places = {m: np.searchsorted(union, own) for m, own in zip(methods, columns, strict=True)}
        embedded: list[list[Float]] = [[] for _ in range(count)]
        for method in methods:
            start, result = time.process_time(), self._result(method)
            taught = self._taught(method)
            trace = quadratics.trace(method, taught=taught)
            curves = self.settings.curves.of_columns(method.columns(self.blocks))
            smoothness = (factors if curves.spans else ()) or (None,)
            candidates = [
                Candidate(float(value), 0.0, smoothness=s)
                for s in smoothness
                for value in ridge_grid(trace)
            ]
            training = quadratics.training(method, taught=taught)
            trial = self._trial(method, candidates, rival)
            try:
                weights, left_out = replace(folds, curves=curves).train(
                    *(candidates, *training), trial=trial
                )
            except (ConvergenceError, OutdoneError) as error:
                outdone = isinstance(error, OutdoneError)
                _log.info("%s is left out: %s", method.name, error)
                results[method] = replace(result.without(str(error)), outdone=outdone)
                continue
            inside = [i for i, reason in enumerate(left_out) if reason is None]
            for k, W in enumerate(weights):
                full = np.zeros((union.size, len(inside)))
                full[places[method]] = W[:, inside]
                embedded[k].append(full)
            solved[method] = candidates, left_out, inside
            results[method] = replace(result, seconds=time.process_time() - start)
        if not solved:
            return results
        together = [np.concatenate(parts, axis=1) for parts in embedded]
        rows = _with_columns(self.rows, union)
        bins = histogram_bins(rows, count, together[0].shape[1])
        measured, uncertainty, deviations = held_out_measures(
            *(together, rows, self.folds.held_out), max_bins=bins
        )
        first = 0
        for method, (candidates, left_out, inside) in solved.items():
            own = range(first, first + len(inside))
            first = own.stop
            auc, nonzeros = np.full((2, len(candidates), count), np.nan)
            auc[inside] = measured[own]
            nonzeros[inside] = np.stack([(W[:, own] != 0).sum(axis=0) for W in together], axis=1)
            best = choice(candidates, auc, one_standard_error=False)
            selection = Selection(
                *(tuple(candidates), auc, uncertainty, nonzeros.mean(axis=1), tuple(left_out)),
                best,
            )
            added = deviations
            if not isinstance(added, str):
                added = [groups[:, own] for groups in added]
            place = own[inside.index(best)]
            results[method] = replace(
                results[method].measured(selection, added),
                weights=[W[places[method], place] for W in together],
            )
        return results

    def _trial(
        self, method: Method, candidates: Sequence[Candidate], rival: MethodResult | None
    ) -> Trial | None:
        """What leaves penalties out after the first folds.

        None for rows that are few or not in memory, and where there is nothing to compare.

        A candidate is not outdone if a penalty weaker than its best one was not solved.
        """
        several = len({candidate.smoothness for candidate in candidates}) > 1
        if not (several or rival) or not isinstance(self.rows, ArrayRows):
            return None
        positive = sum(int(np.count_nonzero(batch.y)) for batch in self.rows.batches)
        if min(positive, _count(self.rows) - positive) < LEAST:
            return None

        def trial(weights: Sequence[Float], inside: Sequence[int]) -> Mapping[int, str]:
            rows = _with_columns(self.rows, method.columns(self.blocks))
            bins = histogram_bins(rows, len(weights), len(inside))
            auc, _ = held_out_auc(weights, rows, self.folds.held_out, bins)
            remaining = {i: candidates[i] for i in inside}
            best = remaining[inside[int(auc.mean(axis=1).argmax())]]
            weaker = {
                i
                for i, candidate in enumerate(candidates)
                if candidate.regParam < best.regParam and candidate.smoothness == best.smoothness
            }
            if rival and (not weaker or weaker & remaining.keys()):
                raise_if_outdone(auc, rival)
            return weaker_curves(remaining, auc)

        return trial

    def hinge(self, squared: MethodResult, work: CountedWork) -> MethodResult:
        """A candidate with the squared hinge, beginning with its result with the squared loss."""
        assert squared.selection is not None, "a candidate that was measured"
        method = Method(squared.blocks)
        result = self._result(replace(method, loss="hinge"))
        if reason := work.without(seconds := work.hinge(method.blocks)):
            return result.without(reason)
        result = replace(result, work=seconds)
        gathered = _gathered(self.rows, _HINGE_ROWS)
        if isinstance(gathered, str):
            return result.without(gathered)
        columns = method.columns(self.blocks)
        curves = self.settings.curves.of_columns(columns)
        start = time.process_time()
        folds = HingeFolds(gathered, self.folds.held_out, curves)
        found = folds.selection(columns, self._taught(method), squared.weights, squared.selection)
        result = replace(result, seconds=time.process_time() - start)
        if isinstance(found, str):
            return result.without(found)
        selection, added, weights = found
        return replace(result.measured(selection, added), weights=weights)


def _counted(
    methods: Sequence[Method], blocks: Blocks, settings: MethodSettings
) -> dict[Method, MethodResult]:
    """The candidates before they are measured; without those that the budget has no room for."""
    work, results = settings.work, dict[Method, MethodResult]()
    for method in methods:
        result = _unmeasured(method, blocks)
        factors = 1 if results else max(len(settings.smoothness), 1)
        seconds = work.squared(method.blocks, result.dimension, factors)
        reason = work.without(seconds) if results else None
        if reason:
            _log.info("%s is left out: %s", method.name, reason)
            results[method] = result.without(reason)
        else:
            results[method] = replace(result, work=seconds)
            work = work.left(seconds)
    return results


def _unmeasured(method: Method, blocks: Blocks) -> MethodResult:
    columns = method.columns(blocks)
    return MethodResult(method.name, method.blocks, method.loss, columns.size, features=columns)


def _unsolved(result: MethodResult) -> bool:
    """Whether a weaker penalty than those that were solved may rank better."""
    selection = result.selection
    if not selection:
        return not result.outdone
    return selection.weaker_left_out(selection.candidate) > 0


def _with_columns(rows: RowSource, columns: Int) -> RowSource:
    """The rows with some of their columns ``(d,)``, ascending; the same object with all of them."""
    return rows if columns.size == rows.dimension else rows.changed(*to_columns(columns))


def _count(rows: RowSource) -> int:
    if isinstance(rows, ArrayRows):
        return sum(batch.y.size for batch in rows.batches)
    return int(column_moments(rows).rows.sum())


def _gathered(rows: RowSource, most: int) -> ArrayRows | str:
    """The rows in memory, or why candidates that need them are left out."""
    if not isinstance(rows, ArrayRows):
        return "the rows do not fit in this process's memory"
    count = _count(rows)
    if count > most:
        return f"found {count} rows, expected at most {most} for passes in memory"
    return rows
