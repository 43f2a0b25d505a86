"""Tables of the class weights at each distinct score, from which all measures are computed.

A table is made from rows, or from groups of rows that a cluster has aggregated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.batch import WEIGHTS, usable_weights
from spark_auc.core.state.rules import FROM_0_ON, INCREASING
from spark_auc.core.state.schema import Field, Schema, Values, reals
from spark_auc.core.types import Float
from spark_auc.errors import DataError


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """The class weights at each distinct score, a mergeable and lossless summary of a ranking.

    Create it with `of` (from rows) or `grouped` (from aggregated rows); both validate.

    For whole weights the sums are exact below 2^53 and do not depend on the order of rows or
    merges. For other weights they do not depend on the order of rows; `merge` is commutative in
    every bit, and associative up to rounding.

    Parameters
    ----------
    score : (m,)
        Distinct finite scores, ascending.
    sums : (3, 2, m)
        Sums at each score of weight, squared weight and 1 (axis 0) over the positive and the
        negative rows (axis 1).
    outside : (2, 3, 2)
        For the table of a range of scores (see `within`), the same sums over the rows below and
        above (axis 0) the range; otherwise 0.
    """

    score: Float
    sums: Float
    outside: Float = field(default_factory=lambda: np.zeros((2, 3, 2)))

    @classmethod
    def zero(cls) -> ScoreTable:
        """The table of no rows, the identity of `merge`."""
        return cls.grouped(np.empty(0), np.empty((3, 2, 0)))

    @classmethod
    def of(cls, scores: Float, y: NDArray[np.bool_], weight: Float | None = None) -> ScoreTable:
        """The table of rows.

        Rows of one class, or no rows, make a valid part of a larger table; measures that need both
        classes refuse it.

        Parameters
        ----------
        scores : (n,)
            Scores.
        y : (n,)
            True for positive rows.
        weight : (n,), optional
            Row weights, within `WEIGHTS`, or 0 to leave a row out. Default: 1.

        Raises
        ------
        DataError
            Labels are not boolean, lengths differ, a score is not finite, or a weight is out of
            range.
        """
        scores, y = np.asarray(scores, dtype=np.float64), np.asarray(y)
        u = np.ones(1) if weight is None else np.asarray(weight, dtype=np.float64)
        shapes = {scores.shape, y.shape, u.shape if weight is not None else y.shape}
        if y.dtype != np.bool_ or shapes != {(scores.size,)}:
            raise DataError(
                f"found scores {scores.shape}, labels {y.dtype}{y.shape} and weights {u.shape}, "
                "expected one-dimensional arrays of one length and boolean labels; pass "
                "y == positive_label"
            )
        if weight is None:
            # Rows of weight 1 are counted, which needs a sort of the scores alone.
            ordered = np.sort(scores)
            starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: ordered.size])
            rows, scores, positives = np.diff(starts, append=y.size), ordered[starts], scores[y]
            positions = np.searchsorted(scores, np.sort(positives))
            positive = np.bincount(positions, minlength=scores.size).astype(np.float64)
            counts = np.stack((positive, rows - positive))
            return cls.grouped(scores, np.broadcast_to(counts, (3, *counts.shape)))
        u = np.where((u == 0) | usable_weights(u), u, np.nan)  # `grouped` refuses NaN
        powers = np.stack((u, u * u, np.ones_like(u)))
        return cls.grouped(scores, np.where((y, ~y), powers[:, np.newaxis], 0.0))

    @classmethod
    def grouped(cls, score: Float, sums: Float) -> ScoreTable:
        """The table of groups of rows.

        Parameters
        ----------
        score : (g,)
            Scores of the groups, in any order and possibly repeated.
        sums : (3, 2, g)
            Sums over the rows of each group; see the class.

        Raises
        ------
        DataError
            A score is not finite, or a sum is not finite and at least 0.
        """
        bad_scores = np.count_nonzero(~np.isfinite(score))
        bad_sums = np.count_nonzero(~(np.isfinite(sums) & (sums >= 0)).all(axis=(0, 1)))
        if bad_scores or bad_sums:
            raise DataError(
                f"found {bad_scores} NaN or infinite scores and {bad_sums} unusable weights among "
                f"{score.size} rows, expected finite scores, and weights of 0 or from {WEIGHTS[0]} "
                f"to {WEIGHTS[1]}; filter or repair these rows"
            )
        weighted = sums[0].any(axis=0)
        if not weighted.all():
            score, sums = score[weighted], sums[..., weighted]
        score = score + 0.0  # replaces -0.0 by 0.0
        if np.any(score[1:] <= score[:-1]):
            # Groups of one score are sorted too: sums of fractions must not depend on their order.
            integral = np.array_equal(sums[0], np.floor(sums[0]))
            order = (
                np.argsort(score, kind="stable")
                if integral
                else np.lexsort((*sums[1], *sums[0], score))
            )
            score, sums = score[order], sums.take(order, axis=2)
            starts = np.flatnonzero(np.append(True, score[1:] != score[:-1]))
            if starts.size < score.size:
                score, sums = score[starts], np.add.reduceat(sums, starts, axis=2)
        table = cls(score, sums.view())
        table.score.setflags(write=False)
        table.sums.setflags(write=False)
        return table

    def merge(self, other: ScoreTable) -> ScoreTable:
        """The table of both sets of rows."""
        return self.union((self, other))

    @classmethod
    def union(cls, tables: Sequence[ScoreTable]) -> ScoreTable:
        """The table of the rows of all tables; the `merge` of many tables at once."""
        return cls.grouped(
            np.concatenate([table.score for table in tables]),
            np.concatenate([table.sums for table in tables], axis=-1),
        )

    def between(self, first: int, last: int) -> ScoreTable:
        """The table of the scores with indices ``first`` to ``last - 1``."""
        return ScoreTable(self.score[first:last], self.sums[..., first:last])

    def to_bytes(self) -> bytes:
        """Versioned bytes of a table that is no range; whole sums are stored as short integers."""
        sums = self.sums
        if sums.size and sums.max() < 2**32 and np.array_equal(sums, np.floor(sums)):
            sums = sums.astype(np.min_scalar_type(int(sums.max())))
        return _SCHEMA.encode({"score": self.score, "sums": sums})

    @classmethod
    def from_bytes(cls, data: bytes) -> ScoreTable:
        """The table that `to_bytes` stored; raises `ModelFormatError` for other bytes."""
        values = _SCHEMA.decode(data)
        return cls(values["score"], values["sums"].astype(np.float64))

    def within(self, outside: Float) -> ScoreTable:
        """The table as a range of a larger table.

        Measures then refer to the larger table: a curve is the part of its curve in this range, and
        weights of pairs, areas and averages are the range's share, with the sum over all ranges as
        the total.

        Parameters
        ----------
        outside : (2, 3, 2)
            Sums over the rows below and above the range; see the class.
        """
        return replace(self, outside=outside)

    @property
    def weight(self) -> Float:
        """Weight ``(2, m)`` of the positive and of the negative rows at each score."""
        return self.sums[0, ...]

    @property
    def squares(self) -> Float:
        """Sum of the squared weights ``(2, m)`` of the positive and of the negative rows."""
        return self.sums[1, ...]

    def class_sums(self) -> Float:
        """Sums ``(3, 2)`` of weight, squared weight and 1 over each class."""
        total: Float = self.sums.sum(axis=2) + self.outside.sum(axis=0)
        return total

    @property
    def rows(self) -> tuple[int, int]:
        """Numbers of positive and of negative rows of weight above 0."""
        positive, negative = self.class_sums()[2]
        return int(positive), int(negative)

    def totals(self) -> tuple[float, float]:
        """Weight of the positive and of the negative class.

        Raises
        ------
        DataError
            A class has no rows, or the product of the weights is not within 1e-300 to 1e300.
        """
        positive, negative = self.class_sums()[0]
        if not 1e-300 < positive * negative < 1e300:
            raise DataError(
                f"found {self.rows[0]} positive rows of weight {positive:g} and {self.rows[1]} "
                f"negative rows of weight {negative:g}, expected rows of both classes; check the "
                "positive label, widen the selection of rows, or rescale extreme weights"
            )
        return float(positive), float(negative)

    def below(self) -> Float:
        """Class weights ``(2, m)`` strictly below each score."""
        # The sums are shifted, as subtracting a score's own weight would leave rounding residues.
        shifted = np.column_stack((self.outside[0, 0], self.weight))[:, :-1]
        return np.cumsum(shifted, axis=1)


def weighed(values: Values) -> str | None:
    """The fault of the sums of a stored table, or None."""
    return None if values["sums"][0].any(axis=0).all() else "some of its scores have no weight"


# Whole sums are stored in the shortest integer type.
_SUMS = ("<f8", "|u1", "<u2", "<u4")
_SCHEMA = Schema(
    "ScoreTable",
    1,
    {
        "score": reals("m", rule=INCREASING),
        "sums": Field(_SUMS, (3, 2, "m"), FROM_0_ON),
    },
    weighed,
)
