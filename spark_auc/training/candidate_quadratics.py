"""The pair quadratics of candidate models on the training rows of each fold.

The moments of a candidate are a submatrix of those of a union of features. Features that are too
many for a matrix have an operator on rows in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Protocol

from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.objective import Quadratic
from spark_auc.core.moments.operator import column_moments, operator_quadratic
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import ArrayRows, RowSource
from spark_auc.core.sampling.folds import Folds
from spark_auc.core.types import Float
from spark_auc.training.blocks import Blocks, Method
from spark_auc.training.cross_validation import CrossValidation
from spark_auc.training.fold_rows import FoldRows, to_columns


class CandidateQuadratics(Protocol):
    """The quadratics of candidates; ``taught`` says whether the rows of no fold train too."""

    def trace(self, method: Method, *, taught: bool, standardize: bool) -> float:
        """The trace of a candidate's ``Sigma`` of all rows."""
        ...

    def training(
        self, method: Method, *, taught: bool, standardize: bool
    ) -> Iterator[tuple[Quadratic, Float | None]]:
        """The quadratic of each fold's training rows, and the divisors ``(d,)`` of its columns."""
        ...


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

    def trace(self, method: Method, *, taught: bool, standardize: bool) -> float:
        """See `CandidateQuadratics.trace`."""
        squares = _squares(self.columns[taught], standardize)
        return float(squares[method.columns(self.blocks)].sum())

    def training(
        self, method: Method, *, taught: bool, standardize: bool
    ) -> Iterator[tuple[Quadratic, Float | None]]:
        """See `CandidateQuadratics.training`."""
        columns = method.columns(self.blocks)
        more = self.taught.of_columns(columns) if taught and self.taught else None
        for others in self.others:
            part = others.of_columns(columns)
            if more is not None:
                part = part.merge(more)
            scale = part.columns().standard_deviation() if standardize else None
            yield part.quadratic(scale), scale


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

    def trace(self, method: Method, *, taught: bool, standardize: bool) -> float:
        """See `CandidateQuadratics.trace`."""
        rows = self.rows.changed(*to_columns(method.columns(self.blocks)))
        if not taught:
            rows = FoldRows(rows, self.folds).inside()
        return float(_squares(column_moments(rows), standardize).sum())

    def training(
        self, method: Method, *, taught: bool, standardize: bool
    ) -> Iterator[tuple[Quadratic, Float | None]]:
        """See `CandidateQuadratics.training`."""
        rows = self.rows.changed(*to_columns(method.columns(self.blocks)))
        for part in FoldRows(rows, self.folds).training(taught):
            scale = column_moments(part).standard_deviation() if standardize else None
            yield operator_quadratic(part, scale), scale


def _squares(moments: ColumnMoments, standardize: bool) -> Float:
    """The diagonal ``(d,)`` of ``Sigma``."""
    squares = moments.squares
    return squares / moments.standard_deviation() ** 2 if standardize else squares
