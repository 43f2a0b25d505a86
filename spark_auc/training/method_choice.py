"""Comparison of candidate models that are subsets of one union of features, in few passes.

One pass computes the pair moments of the union on each fold. The moments of a candidate are a
submatrix, from which its penalties are solved without rows. One more pass scores the held-out rows
with all candidates and penalties. The squared hinge has no moments: it is solved on rows in memory,
from the weights of the squared loss.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce

import numpy as np

from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.objective import Quadratic
from spark_auc.core.moments.operator import column_moments
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import ArrayRows, RowSource
from spark_auc.core.sampling.folds import Folds
from spark_auc.core.types import Float
from spark_auc.errors import ConvergenceError, ResourceError
from spark_auc.solvers.candidates import Candidate, Selection, choice, ridge_grid
from spark_auc.solvers.ridge import LARGEST_DIRECT
from spark_auc.training.blocks import Blocks, Method, fitting, unions
from spark_auc.training.cross_validation import CrossValidation
from spark_auc.training.held_out import held_out_auc
from spark_auc.training.hinge_candidates import HingeFolds, restricted
from spark_auc.training.method_result import MethodComparison, MethodResult, best_mean
from spark_auc.training.penalty import cross_validation_of, histogram_bins, in_memory
from spark_auc.training.settings import TrainingSettings

_log = logging.getLogger(__name__)

# The hinge is tried for candidates whose squared loss is at most this far behind the best in AUC.
_REACH = 0.01


@dataclass(frozen=True)
class MethodSettings:
    """Settings of `compare_methods`.

    Parameters
    ----------
    folds
        The folds; rows that taught features are in none (`Folds.never_held_out`).
    knowing
        Names of the blocks whose features know the labels of these rows, such as leaves. Candidates
        with one of them do not train on these rows; the others do.
    standardize
        Whether the penalty applies to columns of unit variance.
    hinge
        Whether the squared hinge is tried.
    hinge_rows
        Greatest number of rows for it.
    largest
        Greatest number of features of the union.
    """

    folds: Folds = field(default_factory=lambda: Folds(5))
    knowing: frozenset[str] = frozenset()
    standardize: bool = False
    hinge: bool = True
    hinge_rows: int = 100_000
    largest: int = LARGEST_DIRECT


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
        The moments of no block fit in memory.
    """
    parts = settings.folds.parts
    here = rows.gathered_within(rows.memory.rows_limit) if settings.hinge else None
    if here is not None:
        rows = here
    kept, left_out = fitting(blocks, rows.memory, parts, settings.largest)
    if left_out:
        # Hashed features have many columns that occur in no row.
        varies = column_moments(rows).varies()
        blocks = {name: columns[varies[columns]] for name, columns in blocks.items()}
        blocks = {name: columns for name, columns in blocks.items() if columns.size}
        kept, left_out = fitting(blocks, rows.memory, parts, settings.largest)
    if not kept:
        raise ResourceError("; ".join(f"{name}: {reason}" for name, reason in left_out.items()))
    names = list(dict.fromkeys([*unions(tuple(blocks)), *unions(tuple(kept))]))
    union = Method(tuple(kept)).columns(kept)
    kept = {name: np.searchsorted(union, columns) for name, columns in kept.items()}
    if union.size < rows.dimension:
        rows = rows.changed(partial(map, partial(restricted, union)), union.size)
    compared = _Comparison.of(rows, kept, settings)

    methods = [Method(name) for name in names]
    possible = [method for method in methods if set(method.blocks) <= set(kept)]
    squared = compared.squared(possible)
    best = best_mean(list(squared.values()))
    results = []
    for method in methods:
        hinge = replace(method, loss="hinge")
        if method not in squared:
            absent = ", ".join(name for name in method.blocks if name in left_out)
            reason = f"without {absent}: {left_out[absent.split(', ')[0]]}"
            size = sum(blocks[name].size for name in method.blocks)
            empty = [_result(m, size).without(reason) for m in (method, hinge)]
            results += empty if settings.hinge else empty[:1]
            continue
        results.append(squared[method])
        if settings.hinge:
            results.append(compared.hinge(hinge, squared[method], best))
    comparison = MethodComparison(tuple(results), compared.folds.held_out)
    if not any(result.selection for result in results):
        raise ConvergenceError(f"found no candidate solved: {results[0].left_out}")
    chosen = comparison.results[comparison.chosen]
    _log.info("chose %s: mean AUC %.4f on held-out folds", chosen.name, chosen.auc.mean())
    return comparison


def _result(method: Method, dimension: int) -> MethodResult:
    return MethodResult(method.name, method.blocks, method.loss, dimension)


@dataclass(frozen=True, eq=False)
class _Comparison:
    """The moments of the union on the rows of each fold.

    Parameters
    ----------
    rows
        All rows, with the columns of the union.
    blocks
        The columns of each block.
    settings
        See `MethodSettings`.
    folds
        The balanced folds, and the settings of the solver.
    others
        Moments of the rows of all other folds, for each fold.
    taught
        Moments of the rows of no fold, if there are any.
    columns
        Moments of the columns on the rows in folds, and on all rows.
    weights
        The best weights of the squared loss of each candidate in each fold.
    """

    rows: RowSource
    blocks: Blocks
    settings: MethodSettings
    folds: CrossValidation
    others: Sequence[PairMoments]
    taught: PairMoments | None
    columns: tuple[ColumnMoments, ColumnMoments]
    weights: dict[Method, list[Float]] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: RowSource, blocks: Blocks, settings: MethodSettings) -> _Comparison:
        """The comparison of some rows, after one pass over them."""
        rows = in_memory(rows, settings.folds.parts)
        solver = TrainingSettings(folds=settings.folds, standardize=settings.standardize)
        folds, parts, _ = cross_validation_of(rows, solver).by_moments(rows)
        count = folds.folds
        taught = parts.pop() if len(parts) > count else None
        inside = reduce(ColumnMoments.merge, (part.columns() for part in parts))
        everywhere = inside.merge(taught.columns()) if taught else inside
        others = PairMoments.complements(parts)
        return cls(rows, blocks, settings, folds, others, taught, (inside, everywhere))

    def _trains_taught(self, method: Method) -> bool:
        return self.taught is not None and not self.settings.knowing & {*method.blocks}

    def _training(self, method: Method) -> Iterator[tuple[Quadratic, Float | None]]:
        """The quadratic of each fold's training rows, and the divisors of its columns."""
        columns = method.columns(self.blocks)
        taught = None
        if self.taught is not None and self._trains_taught(method):
            taught = self.taught.of_columns(columns)
        for others in self.others:
            part = others.of_columns(columns)
            if taught is not None:
                part = part.merge(taught)
            scale = part.columns().standard_deviation() if self.settings.standardize else None
            yield part.quadratic(scale), scale

    def _penalties(self, method: Method) -> list[Candidate]:
        """The default grid of a candidate."""
        moments = self.columns[self._trains_taught(method)]
        squares = moments.variance.sum(axis=0) + moments.delta**2
        if self.settings.standardize:
            squares = squares / moments.standard_deviation() ** 2
        trace = float(squares[method.columns(self.blocks)].sum())
        return [Candidate(float(value), 0.0) for value in ridge_grid(trace)]

    def squared(self, methods: Sequence[Method]) -> dict[Method, MethodResult]:
        """The candidates with the squared loss; one pass measures all of them."""
        union, count = self.rows.dimension, self.folds.folds
        results: dict[Method, MethodResult] = {}
        solved: dict[Method, tuple[list[Candidate], list[str | None], list[int]]] = {}
        embedded: list[list[Float]] = [[] for _ in range(count)]
        for method in methods:
            columns, start = method.columns(self.blocks), time.process_time()
            candidates = self._penalties(method)
            result = _result(method, columns.size)
            try:
                weights, left_out = self.folds.train(candidates, self._training(method))
            except ConvergenceError as error:
                results[method] = result.without(str(error))
                continue
            inside = [i for i, reason in enumerate(left_out) if reason is None]
            for k, W in enumerate(weights):
                full = np.zeros((union, len(inside)))
                full[columns] = W[:, inside]
                embedded[k].append(full)
            solved[method] = candidates, left_out, inside
            results[method] = replace(result, seconds=time.process_time() - start)
        if not solved:
            return results
        together = [np.concatenate(parts, axis=1) for parts in embedded]
        bins = histogram_bins(self.rows, count, together[0].shape[1])
        measured, uncertainty = held_out_auc(together, self.rows, self.folds.held_out, bins)
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
            results[method] = replace(results[method], selection=selection)
            place, columns = own[inside.index(best)], method.columns(self.blocks)
            self.weights[method] = [W[columns, place] for W in together]
        return results

    def hinge(self, method: Method, squared: MethodResult, best: float) -> MethodResult:
        """A candidate with the squared hinge, beginning with its squared loss.

        Parameters
        ----------
        method
            The candidate.
        squared
            Its result with the squared loss.
        best
            The best mean AUC of all candidates with the squared loss.
        """
        result = _result(method, squared.dimension)
        if squared.selection is None:
            return result.without(f"as with the squared loss: {squared.left_out}")
        count = int(self.columns[1].rows.sum())
        if not isinstance(self.rows, ArrayRows):
            return result.without("the rows do not fit in this process's memory")
        if count > self.settings.hinge_rows:
            return result.without(
                f"found {count} rows, expected at most {self.settings.hinge_rows} for the hinge"
            )
        behind = best - float(squared.auc.mean())
        if behind > _REACH:
            return result.without(
                f"its squared loss is {behind:.4f} behind the best, more than {_REACH}"
            )
        start = time.process_time()
        folds = HingeFolds(self.rows, self.folds.held_out, self.settings.standardize)
        selection = folds.selection(
            method.columns(self.blocks),
            self._trains_taught(method),
            self.weights[replace(method, loss="squared")],
            squared.selection.candidate.regParam,
        )
        if None not in selection.left_out:
            return result.without(str(selection.left_out[0]))
        return replace(result, selection=selection, seconds=time.process_time() - start)
