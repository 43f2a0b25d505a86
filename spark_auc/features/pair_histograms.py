"""Class weights and scores of rows in the cells of all pairs of numeric columns, from one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.batch import Batch
from spark_auc.core.kernels import compiled
from spark_auc.core.state.rules import FINITE, FROM_0_ON
from spark_auc.core.state.schema import Schema, Size, Values, reals
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.core.types import Float, Int
from spark_auc.errors import ConfigError, DataError
from spark_auc.features.embedding import check_columns
from spark_auc.features.splines import Splines, hat

# Largest number of hats of a column. The bin after the last holds missing values.
HATS = 8
BINS = HATS + 1
# Rows that are counted together, so that their bins and scores stay in the cache.
_CHUNK = 4096
Codes = NDArray[np.uint8]


def _other_pairs(values: Values) -> str | None:
    d = values["dimension"]
    fits = values["weight"].shape[1] == d * (d - 1) // 2
    return None if fits else f"its pairs are not those of {d} columns"


@dataclass(frozen=True, eq=False)
class PairHistograms(SchemaState):
    """Sums over the rows of each class in the 9 x 9 cells of all ``p = d (d - 1) / 2`` pairs.

    Pairs ``a < b`` of columns are in lexicographic order. Bin ``k`` of a column holds the values
    whose largest hat is that of knot ``k`` (of two equal hats the upper one); bin 8 holds missing
    values. Index 0 of the first axis is the positive class.

    The sums do not depend on the targets of the loss, so that states of any rows merge. They lose
    digits if the mean of the scores is many times their deviation.

    Parameters
    ----------
    dimension
        Number of columns ``d``.
    weight : (2, p, 9, 9)
        Total row weight.
    score : (2, p, 9, 9)
        Sum of weight times score.
    totals : (2, 5)
        Sums over all rows of a class, with weights ``u`` and scores ``f``: ``u``, ``u f``, ``u^2``,
        ``u^2 f``, ``u^2 f^2``.
    """

    SCHEMA: ClassVar[Schema] = Schema(
        "PairHistograms",
        1,
        {
            "dimension": Size("d"),
            "weight": reals(2, "p", BINS, BINS, rule=FROM_0_ON),
            "score": reals(2, "p", BINS, BINS, rule=FINITE),
            "totals": reals(2, 5, rule=FINITE),
        },
        _other_pairs,
    )

    dimension: int
    weight: Float
    score: Float
    totals: Float

    @classmethod
    def zero(cls, dimension: int) -> PairHistograms:
        """The sums of no rows of ``dimension`` columns."""
        cells = np.zeros((2, dimension * (dimension - 1) // 2, BINS, BINS))
        return cls(dimension, cells, cells, np.zeros((2, 5)))

    @classmethod
    def of(cls, splines: Splines, batch: Batch, scores: Float) -> PairHistograms:
        """The sums of a batch of rows.

        Parameters
        ----------
        splines
            The knots of the columns.
        batch
            Rows ``(n, d)``, dense, with NaN for missing values.
        scores : (n,)
            Scores of the rows by the model to which pairs are to be added.

        Raises
        ------
        ConfigError
            A column has more than 8 knots.
        DataError
            The rows have another number of columns than the splines, or there is no finite score
            for each row.
        """
        most = int(np.diff(splines.starts).max(initial=0))
        if most > HATS:
            raise ConfigError(
                f"found a column of {most} knots, expected at most {HATS} for pairs; make splines "
                "of fewer knots"
            )
        check_columns(batch.X, splines.input_dimension)
        X = np.ascontiguousarray(batch.X, float)
        if scores.shape != batch.y.shape or not np.isfinite(scores).all():
            raise DataError(
                f"found scores of shape {scores.shape} for {batch.y.size} rows, expected one "
                "finite score for each row; use the scores of these rows"
            )
        state = cls.zero(splines.input_dimension)
        weight, score, totals = state.weight.copy(), state.score.copy(), state.totals.copy()
        for side, in_class in enumerate((batch.y, ~batch.y)):
            rows = np.flatnonzero(in_class)
            u, f = batch.weights[rows], scores[rows]
            totals[side] = u.sum(), u @ f, u @ u, u**2 @ f, u**2 @ f**2
            codes = np.empty((state.dimension, min(rows.size, _CHUNK)), np.uint8)
            for begin in range(0, rows.size, _CHUNK):
                some = slice(begin, begin + _CHUNK)
                _place(X, rows[some], splines.knots, splines.starts, codes)
                _add(codes, u[some], u[some] * f[some], weight[side], score[side])
        return cls(state.dimension, weight, score, totals)

    def merge(self, other: PairHistograms) -> PairHistograms:
        """The sums of both sets of rows; `DataError` for states of other numbers of columns."""
        if self.dimension != other.dimension:
            raise DataError(
                f"found states of {self.dimension} and {other.dimension} columns, expected equal "
                "numbers; merge states of the same splines"
            )
        return PairHistograms(
            self.dimension,
            self.weight + other.weight,
            self.score + other.score,
            self.totals + other.totals,
        )


@compiled()
def _place(X: Float, rows: Int, knots: Float, starts: Int, codes: Codes) -> None:
    """Write the bins of rows of all columns ``(d, at least m)``."""
    for j in range(codes.shape[0]):
        first, last = starts[j], starts[j + 1] - 1
        for i in range(rows.size):
            x = X[rows[i], j]
            if np.isnan(x) or last < first:
                codes[j, i] = BINS - 1
            else:
                low, share = hat(x, knots, first, last)
                codes[j, i] = low - first + (share >= 0.5)


@compiled()
def _add(codes: Codes, u: Float, uf: Float, weight: Float, score: Float) -> None:
    """Add rows ``(m,)`` of one class to the cells ``(p, 9, 9)``."""
    sums, pair = np.empty((BINS * BINS, 2)), 0
    for a in range(codes.shape[0]):
        for b in range(a + 1, codes.shape[0]):
            for k in range(BINS * BINS):
                sums[k, 0] = sums[k, 1] = 0.0
            for i in range(u.size):
                cell = np.uint64(codes[a, i]) * np.uint64(BINS) + np.uint64(codes[b, i])
                sums[cell, 0] += u[i]
                sums[cell, 1] += uf[i]
            for k in range(BINS):
                for m in range(BINS):
                    weight[pair, k, m] += sums[k * BINS + m, 0]
                    score[pair, k, m] += sums[k * BINS + m, 1]
            pair += 1
