"""The pair quadratics of candidate models on the training rows of each fold.

The moments of a candidate are a submatrix of those of a union of features. Features that are too
many for a matrix have an operator on rows in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import NamedTuple, Protocol

import numpy as np

from spark_auc.core.batch import Batch
from spark_auc.core.memory import FOLDS_AT_ONCE
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.objective import Quadratic
from spark_auc.core.moments.operator import column_moments, fold_quadratics
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import ArrayRows, RowSource, batchwise, complements
from spark_auc.core.sampling.folds import Folds
from spark_auc.core.types import Float, Int
from spark_auc.solvers.ridge_path import spaces_at_once
from spark_auc.training.blocks import Blocks, Method
from spark_auc.training.cross_validation import CrossValidation, InOrder
from spark_auc.training.fold_moments import columns_of_folds
from spark_auc.training.fold_rows import FoldRows, to_columns


class Training(NamedTuple):
    """What `CrossValidation.train` takes.

    Parameters
    ----------
    quadratics
        The quadratic of each fold's training rows, and the divisors ``(d,)`` of its columns.
    in_order
        What maps a function over them so that they share passes over the rows; None without any.
    """

    quadratics: Iterable[tuple[Quadratic, Float | None]]
    in_order: InOrder | None = None


class CandidateQuadratics(Protocol):
    """The quadratics of candidates; ``taught`` says whether the rows of no fold train too."""

    def trace(self, method: Method, *, taught: bool) -> float:
        """The trace of a candidate's ``Sigma`` of all rows."""

    def training(self, method: Method, *, taught: bool) -> Training:
        """The quadratics of the training rows of each fold."""


@dataclass(frozen=True, eq=False)
class UnionMoments:
    """The moments of a union of features on the rows of each fold.

    Parameters
    ----------
    blocks
        The columns of each block in the union.
    others
        Moments of the rows of all other folds, for each fold.
    taught
        Moments of the rows of no fold, if there are any.
    columns
        Moments of the columns on the rows in folds, and on all rows.
    """

    blocks: Blocks
    others: Sequence[PairMoments]
    taught: PairMoments | None
    columns: tuple[ColumnMoments, ColumnMoments]

    @classmethod
    def of(
        cls, rows: RowSource, blocks: Blocks, folds: CrossValidation
    ) -> tuple[UnionMoments, CrossValidation]:
        """The moments of rows with the features of the union, and the balanced folds; one pass."""
        folds, parts, _ = folds.by_moments(rows)
        taught = parts.pop() if len(parts) > folds.folds else None
        inside = reduce(ColumnMoments.merge, (part.columns() for part in parts))
        everywhere = inside.merge(taught.columns()) if taught else inside
        others = PairMoments.complements(parts)
        return cls(blocks, others, taught, (inside, everywhere)), folds

    def trace(self, method: Method, *, taught: bool) -> float:
        """See `CandidateQuadratics.trace`."""
        squares = self.columns[taught].squares
        return float(squares[method.columns(self.blocks)].sum())

    def training(self, method: Method, *, taught: bool) -> Training:
        """See `CandidateQuadratics.training`."""
        columns = method.columns(self.blocks)
        more = self.taught.of_columns(columns) if taught and self.taught else None

        def quadratics() -> Iterator[tuple[Quadratic, Float | None]]:
            for others in self.others:
                part = others.of_columns(columns)
                if more is not None:
                    part = part.merge(more)
                yield part.quadratic(None), None

        return Training(quadratics())


@dataclass(frozen=True, eq=False)
class RowQuadratics:
    """Quadratics without a matrix, by passes over rows in memory.

    Parameters
    ----------
    rows
        All rows.
    blocks
        The columns of each block.
    folds
        The balanced folds.
    """

    rows: ArrayRows
    blocks: Blocks
    folds: Folds

    def trace(self, method: Method, *, taught: bool) -> float:
        """See `CandidateQuadratics.trace`."""
        return float(column_moments(self._rows(method, taught)).squares.sum())

    def training(self, method: Method, *, taught: bool) -> Training:
        """See `CandidateQuadratics.training`."""
        rows, count = self._rows(method, taught), self.folds.count
        own, _ = columns_of_folds(rows, self.folds, self.folds.parts)
        columns = complements(own)[:count]
        # Once, and not in each pass.
        numbered = rows.changed(batchwise(self._numbered))
        scales = [None] * count
        given = list(zip(columns, scales, strict=True))
        passes, quadratics = fold_quadratics(numbered, _number, given)
        at_once = max(FOLDS_AT_ONCE, spaces_at_once(rows.dimension))
        return Training(zip(quadratics, scales, strict=True), partial(passes.map, at_once=at_once))

    def _numbered(self, batch: Batch) -> Batch:
        """A batch with the fold of each row as its group."""
        return batch._replace(group=self.folds.of(batch).astype(np.uint64))

    def _rows(self, method: Method, taught: bool) -> ArrayRows:
        """The rows with a candidate's columns; without those of no fold unless they train."""
        rows = self.rows.changed(*to_columns(method.columns(self.blocks)))
        return rows if taught else FoldRows(rows, self.folds).inside()


def _number(batch: Batch) -> Int:
    return batch.groups().astype(np.int64)
