"""Sums over the rows of each class in ranges of scores: a mergeable state of bounded size.

The place of a row is its score, less the margin 1 for a positive row: a pair violates the margin
if its negative row has the higher place. A range is a run of 2^shift consecutive doubles of
``place + 1`` (``place - 1`` below 0). Ranges are thus of equal width within 1 of 0, where the
margin is the unit, and of equal relative width far from it. Only ranges with rows are kept. The
shift is the least for which they are at most ``most``, a function of the set of rows and not of
the order of merges, as in `spark_auc.core.evaluation.score_histogram`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.double_bins import least_shift
from spark_auc.core.state.rules import INCREASING
from spark_auc.core.state.schema import Field, Schema, Values, reals
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.core.types import Float

# Signed scores, their signed changes along a direction, weights and classes of some rows ``(n,)``.
SignedRows: TypeAlias = tuple[Float, Float, Float, NDArray[np.bool_]]

# Rows that a task holds before it adds them to the ranges.
_HELD = 1 << 18


def places(v: Float, y: NDArray[np.bool_]) -> Float:
    """The places ``(n,)`` of rows with signed scores ``v`` ``(n,)``; see `margins`."""
    return np.where(y, -v, v)


def anchors(place: Float, shift: int) -> Float:
    """The `stretched` place nearest to 0 in the range of each place ``(n,)``."""
    return _truncated(stretched(place), shift)


def stretched(place: Float) -> Float:
    """Places ``(n,)`` with 1 added to their size, in the same order but for rounding to ties."""
    # Adding 0 replaces -0.0 by 0.0, which is in another range.
    return place + np.copysign(1.0, place + 0.0)


def unstretched(value: Float) -> Float:
    """The places ``(n,)`` of `stretched` ones."""
    return value - np.copysign(1.0, value)


def _truncated(value: Float, shift: int) -> Float:
    width = np.uint64(shift)
    size = (np.abs(value).view(np.uint64) >> width << width).view(np.float64)
    return np.copysign(np.maximum(size, 1.0), value)


def _in_bounds(values: Values) -> str | None:
    anchor, shift, most = values["anchor"], int(values["shift"]), int(values["most"])
    if not (0 <= shift < 64 and max(2, anchor.size) <= most):
        return f"it has {anchor.size} ranges of 2^{shift} doubles, of at most {most}"
    if not np.array_equal(_truncated(anchor, shift), anchor):
        return "its anchors are not those of ranges"
    return None


@dataclass(frozen=True, eq=False)
class ScoreRanges(SchemaState):
    """Sums by class in at most ``most`` ranges of places. Create it with `of` or `zero`.

    Parameters
    ----------
    anchor : (m,)
        The anchor of each range, ascending; see `anchors`.
    sums : (5, 2, m)
        Sums over the positive and the negative rows (axis 1) of each range: weight, excess, squared
        excess, change, and change times excess, all times the weight. The excess is the distance of
        a row's place from the anchor of its range, the change that of its score along a direction.
    shift
        Binary logarithm of the number of doubles in a range.
    most
        Greatest number of ranges, >= 2. A range takes 88 bytes.
    """

    SCHEMA: ClassVar[Schema] = Schema(
        "ScoreRanges",
        1,
        {
            "anchor": reals("m", rule=INCREASING),
            "sums": reals(5, 2, "m"),
            "shift": Field(("<i8",)),
            "most": Field(("<i8",)),
        },
        _in_bounds,
    )

    anchor: Float
    sums: Float
    shift: int
    most: int

    @staticmethod
    def nbytes(most: int) -> int:
        """Size in bytes of ``most`` ranges."""
        return 88 * most

    @classmethod
    def zero(cls, most: int) -> ScoreRanges:
        """The ranges of no rows, the identity of `merge`."""
        return cls(np.empty(0), np.empty((5, 2, 0)), 0, most)

    @classmethod
    def of(cls, rows: SignedRows, most: int) -> ScoreRanges:
        """The ranges of rows.

        Parameters
        ----------
        rows
            Signed scores, their signed changes, weights, and classes of the rows.
        most
            Greatest number of ranges.
        """
        v, r, u, y = rows
        place, change = places(v, y), places(r, y)
        anchor = stretched(place)
        excess = place - unstretched(anchor)
        terms = u * np.stack([np.ones_like(v), excess, excess * excess, change, change * excess])
        return cls._fitted(anchor, np.where((y, ~y), terms[:, np.newaxis], 0.0), 0, most)

    @classmethod
    def fold(cls, parts: Iterable[SignedRows], most: int) -> ScoreRanges:
        """The ranges of parts of rows, of which few are held in memory at the same time."""
        ranges, held, count = cls.zero(most), [], 0
        for part in parts:
            held.append(part)
            count += part[0].size
            if count >= _HELD:
                ranges = ranges.merge(cls.of(_joined(held), most))
                held, count = [], 0
        return ranges.merge(cls.of(_joined(held), most)) if held else ranges

    @classmethod
    def _fitted(cls, anchor: Float, sums: Float, shift: int, most: int) -> ScoreRanges:
        """The ranges of narrower ones in any order, with the least shift >= ``shift``."""
        order = np.argsort(anchor, kind="stable")
        narrow, sums = anchor[order], sums[:, :, order]
        shift = max(shift, least_shift(narrow, most))
        wide = _truncated(narrow, shift)
        first = np.flatnonzero(np.append(True, wide[1:] != wide[:-1])[: wide.size])
        moved = unstretched(narrow) - unstretched(wide)
        weight, excess, square, change, both = sums
        shifted = np.stack(
            [
                weight,
                excess + moved * weight,
                square + moved * (2.0 * excess + moved * weight),
                change,
                both + moved * change,
            ]
        )
        if first.size < wide.size:
            shifted = np.add.reduceat(shifted, first, axis=2)
        return cls(wide[first], shifted, shift, most)

    def merge(self, other: ScoreRanges) -> ScoreRanges:
        """The ranges of both sets of rows."""
        shift = max(self.shift, other.shift)
        return self._fitted(
            np.concatenate([self.anchor, other.anchor]),
            np.concatenate([self.sums, other.sums], axis=2),
            shift,
            self.most,
        )


def _joined(parts: list[SignedRows]) -> SignedRows:
    v, r, u, y = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return v, r, u, y
