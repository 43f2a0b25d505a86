"""The all-pairs squared hinge of rows whose curves have a penalty of their roughness."""

from __future__ import annotations

import numpy as np

from spark_auc.core.hinge.pair_hinge import PairHinge
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.curves import Curves
from spark_auc.core.moments.operator import pair_moments
from spark_auc.core.row_source import RowSource
from spark_auc.core.types import Float
from spark_auc.training.fold_rows import to_columns


def hinge_problem(
    rows: RowSource,
    columns: ColumnMoments,
    l2: float,
    scale: Float | None,
    curves: Curves,
    smoothness: float | None,
    ranges: int | None = None,
) -> PairHinge:
    """The hinge of some rows; with a smoothness, one pass over the features of curves.

    Parameters
    ----------
    rows, columns, l2, scale, curves, smoothness, ranges
        See `PairHinge`.

    Raises
    ------
    ResourceError
        The moments of the curves do not fit in memory.
    """
    if smoothness is None or not curves.spans:
        return PairHinge(rows, columns, l2, scale, ranges)
    unit = np.ones(rows.dimension) if scale is None else scale
    squares = columns.squares / unit**2
    of_curves = rows.changed(*to_columns(np.arange(curves.end)))
    loss = curves.quadratic(pair_moments(of_curves).quadratic(unit[: curves.end]), smoothness)
    squares[: curves.end] = loss.diagonal
    return PairHinge(rows, columns, l2, scale, ranges, curves, smoothness, squares)
