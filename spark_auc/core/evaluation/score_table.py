"""The weight of each class at each distinct score: all that any measure of a ranking needs.

Rows are needed only to build the table, so a cluster may aggregate them first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.batch import WEIGHTS, usable_weights
from spark_auc.core.state.rules import FROM_0_ON, INCREASING
from spark_auc.core.state.schema import Field, Schema, Values, reals
from spark_auc.errors import DataError

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """The class weights at each distinct score: a mergeable summary that loses nothing of AUC.

    Build it with `of` (rows) or `grouped` (an aggregate); both validate.

    Attributes
    ----------
    score : (m,) distinct finite scores, ascending
    sums : (3, 2, m), the sums at each score of weight, squared weight and 1 (axis 0) over the
        positive and the negative rows (axis 1)
    outside : (2, 3, 2), where the table is a range of a larger one (see `within`): the same sums
        over the rows below and above (axis 0) all of its scores

    With whole-number weights the sums are exact below 2^53, so that neither the order of rows
    nor that of merges can change a bit. With other weights the order of rows still cannot, and
    `merge` is commutative in every bit but associative to rounding.
    """

    score: FloatArray
    sums: FloatArray
    outside: FloatArray = field(default_factory=lambda: np.zeros((2, 3, 2)))

    @classmethod
    def zero(cls) -> ScoreTable:
        """Return the table of no rows: the identity of `merge`."""
        return cls.grouped(np.empty(0), np.empty((3, 2, 0)))

    @classmethod
    def of(
        cls, scores: FloatArray, y: NDArray[np.bool_], weight: FloatArray | None = None
    ) -> ScoreTable:
        """Tabulate rows: scores (n,), y (n,) true where positive, weight (n,), default 1.

        Weights are 0, or as of `Batch`; rows of weight 0 count as absent. One class only, or no
        rows, is a valid part of a larger table, and refused by the measures that need both. Raises
        DataError as `grouped`, and for labels that are not boolean or lengths that differ.
        """
        scores, y = np.asarray(scores, dtype=np.float64), np.asarray(y)
        u = np.ones(1) if weight is None else np.asarray(weight, dtype=np.float64)
        shapes = {scores.shape, y.shape, u.shape if weight is not None else y.shape}
        if y.dtype != np.bool_ or shapes != {(scores.size,)}:
            raise DataError(
                f"found scores {scores.shape}, labels {y.dtype}{y.shape} and weights {u.shape}; "
                "expected one-dimensional arrays of one length and boolean labels: pass "
                "y == positive_label"
            )
        if weight is None:
            # Rows that all count 1 are counted, for which sorting the scores alone is enough.
            ordered = np.sort(scores)
            starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: ordered.size])
            rows, scores, positives = np.diff(starts, append=y.size), ordered[starts], scores[y]
            places = np.searchsorted(scores, np.sort(positives))
            positive = np.bincount(places, minlength=scores.size).astype(np.float64)
            counts = np.stack((positive, rows - positive))
            return cls.grouped(scores, np.broadcast_to(counts, (3, *counts.shape)))
        u = np.where((u == 0) | usable_weights(u), u, np.nan)  # which `grouped` refuses
        powers = np.stack((u, u * u, np.ones_like(u)))
        return cls.grouped(scores, np.where((y, ~y), powers[:, np.newaxis], 0.0))

    @classmethod
    def grouped(cls, score: FloatArray, sums: FloatArray) -> ScoreTable:
        """Tabulate groups of rows, in any order, scores possibly repeated (shapes as the fields).

        Raises DataError, with counts, when a score is not finite or a sum is not finite or < 0.
        """
        bad_scores = np.count_nonzero(~np.isfinite(score))
        bad_sums = np.count_nonzero(~(np.isfinite(sums) & (sums >= 0)).all(axis=(0, 1)))
        if bad_scores or bad_sums:
            raise DataError(
                f"found {bad_scores} NaN or infinite scores and {bad_sums} unusable weights among "
                f"{score.size} rows; expected finite scores, and weights of 0 or from {WEIGHTS[0]} "
                f"to {WEIGHTS[1]}: filter or repair these rows"
            )
        kept = sums[0].any(axis=0)
        if not kept.all():
            score, sums = score[kept], sums[..., kept]
        score = score + 0.0  # makes -0.0 the 0.0 it equals
        if np.any(score[1:] <= score[:-1]):
            # Equal scores too are put in order: sums of fractions must not depend on how rows
            # arrive.
            whole = np.array_equal(sums[0], np.floor(sums[0]))
            order = (
                np.argsort(score, kind="stable")
                if whole
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
        """Return the table of both sets of rows."""
        return self.union((self, other))

    @classmethod
    def union(cls, tables: Sequence[ScoreTable]) -> ScoreTable:
        """Return the table of the rows of all: `merge` of many at once."""
        return cls.grouped(
            np.concatenate([table.score for table in tables]),
            np.concatenate([table.sums for table in tables], axis=-1),
        )

    def between(self, first: int, last: int) -> ScoreTable:
        """Return the scores numbered first to last - 1, as a table of their own."""
        return ScoreTable(self.score[first:last], self.sums[..., first:last])

    def to_bytes(self) -> bytes:
        """Versioned bytes of a table that is no range; whole numbers take as few as they need."""
        sums = self.sums
        if sums.size and sums.max() < 2**32 and np.array_equal(sums, np.floor(sums)):
            sums = sums.astype(np.min_scalar_type(int(sums.max())))
        return _SCHEMA.encode({"score": self.score, "sums": sums})

    @classmethod
    def from_bytes(cls, data: bytes) -> ScoreTable:
        """The table that `to_bytes` stored; `ModelFormatError` if it is none."""
        parts = _SCHEMA.decode(data)
        return cls(parts["score"], parts["sums"].astype(np.float64))

    def within(self, outside: FloatArray) -> ScoreTable:
        """Return the table as a range of a larger one.

        Measures then refer to the whole: curves are the range's stretch of the whole curve, and
        weights of pairs, areas and averages are the range's share, which over all ranges add up.
        """
        return replace(self, outside=outside)

    @property
    def weight(self) -> FloatArray:
        """Weight of the positive and of the negative rows at each score, (2, m)."""
        return self.sums[0, ...]

    @property
    def squares(self) -> FloatArray:
        """Sum of the squared weights of the positive and of the negative rows, (2, m)."""
        return self.sums[1, ...]

    def class_sums(self) -> FloatArray:
        """Return the sums of weight, squared weight and 1 over each class, (3, 2)."""
        total: FloatArray = self.sums.sum(axis=2) + self.outside.sum(axis=0)
        return total

    @property
    def rows(self) -> tuple[int, int]:
        """Numbers of positive and of negative rows of weight above 0."""
        positive, negative = self.class_sums()[2]
        return int(positive), int(negative)

    def totals(self) -> tuple[float, float]:
        """Return the weight of each class; DataError unless both are present."""
        positive, negative = self.class_sums()[0]
        if not 1e-300 < positive * negative < 1e300:
            raise DataError(
                f"found {self.rows[0]} positive rows of weight {positive:g} and {self.rows[1]} "
                f"negative rows of weight {negative:g}; expected some of both classes: check the "
                "positive label, widen the selection of rows, or rescale extreme weights"
            )
        return float(positive), float(negative)

    def below(self) -> FloatArray:
        """Return the class weights strictly below each score, (2, m)."""
        # Shifted sums: subtracting a score's own weight would leave residues where the truth is 0.
        shifted = np.column_stack((self.outside[0, 0], self.weight))[:, :-1]
        return np.cumsum(shifted, axis=1)


def weighed(values: Values) -> str | None:
    """What is wrong with the sums of a stored table, if anything is."""
    return None if values["sums"][0].any(axis=0).all() else "some of its scores have no weight"


# Whole numbers take as few bytes as they need.
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
