"""Subtract rows from stored moments, and refuse rows that contradict them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from spark_auc.core.moments.class_moments import ClassMoments
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.moments.tiles import Tiling
from spark_auc.errors import DataError

# For the rounding of the bound itself.
_SLACK = 1.0 + 1e-12


def without(stored: Sequence[PairMoments], removed: Sequence[PairMoments]) -> list[PairMoments]:
    """The moments of each fold without the removed rows.

    Necessary conditions are checked: moments that satisfy all of them may still be of rows that
    were never added.

    Raises
    ------
    DataError
        The moments contradict each other: rows were removed that were never added.
    """
    remaining = []
    for k, (whole, part) in enumerate(zip(stored, removed, strict=True)):
        try:
            remaining.append(
                PairMoments(
                    _class_without(whole.positive, part.positive),
                    _class_without(whole.negative, part.negative),
                )
            )
        except DataError as error:
            raise DataError(f"fold {k + 1} of {len(stored)}: {error}") from None
    return remaining


def remaining(
    stored: Mapping[str, list[PairMoments]], removed: Mapping[str, Sequence[PairMoments]]
) -> dict[str, list[PairMoments]]:
    """The moments of each segment and fold without the removed rows; errors are those of `without`.

    Segments without removed rows remain as they are.
    """
    if unknown := sorted({*removed} - {*stored}):
        raise DataError(
            f"found no segment {unknown[0]!r} among the stored ones, expected one of "
            f"{sorted(stored)[:10]}; subtract only rows that were stored before"
        )
    left = dict(stored)
    for segment, parts in removed.items():
        try:
            left[segment] = without(stored[segment], parts)
        except DataError as error:
            raise DataError(f"segment {segment!r}, {error}" if segment else str(error)) from None
    return left


def _class_without(whole: ClassMoments, part: ClassMoments) -> ClassMoments:
    difference = whole.subtract(part)
    if not part.rows:
        return difference
    if whole.weight == whole.rows and part.weight != part.rows:
        raise _never_added(part, f"weight {part.weight:g}, where each stored row has weight 1")
    if difference.rows and _impossible_products(difference):
        raise _never_added(part, "products of columns that are impossible")
    return difference


def _impossible_products(left: ClassMoments) -> bool:
    """Whether an entry of the scatter has ``S_ij^2 > S_ii S_jj``, beyond rounding errors."""
    scatter, rounding = left.spread()
    tiling = Tiling(left.dimension)
    padded = np.zeros((2, tiling.blocks * tiling.tile))
    padded[0, : left.dimension] = np.sqrt(scatter + rounding)
    padded[1, : left.dimension] = np.sqrt(rounding)
    roots, errors = padded.reshape(2, tiling.blocks, tiling.tile)
    for tile, (i, j) in zip(left.tiles, tiling.places(), strict=True):
        bound = np.outer(roots[i], roots[j]) + np.outer(errors[i], errors[j])
        if (np.abs(tile.scatter()) > _SLACK * bound).any():
            return True
    return False


def _never_added(part: ClassMoments, found: str) -> DataError:
    return DataError(
        f"found {part.rows} rows to subtract with {found}, expected a part of the stored rows; "
        "subtract only rows that were stored before, with their fold and weight"
    )
