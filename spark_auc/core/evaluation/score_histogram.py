"""AUC in bounded memory: a mergeable histogram of scores, with guaranteed bounds.

The bins come from no data: they are the doubles, in order, cut at every 2^shift of them, so that
scores of any range fall into bins that all machines agree on. Only bins in use are kept, and the
shift is the least at which they are few enough: a function of the set of rows, not of the order
in which they were merged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.evaluation.roc import pair_weights
from spark_auc.core.evaluation.score_table import FloatArray, ScoreTable, weighed
from spark_auc.core.state.rules import FROM_0_ON, INCREASING
from spark_auc.core.state.schema import Schema, Values, array, reals
from spark_auc.errors import ConfigError

_SIGN = np.uint64(1 << 63)


def _keys(scores: FloatArray) -> NDArray[np.uint64]:
    """Return the rank of each double among all: IEEE 754 orders by sign and magnitude."""
    bits = scores.view(np.uint64)
    keys: NDArray[np.uint64] = np.where(bits & _SIGN, ~bits, bits | _SIGN)
    return keys


_LOWEST = _keys(np.array([np.finfo(np.float64).min]))[0]


def _bin_starts(scores: FloatArray, shift: int) -> FloatArray:
    """Return the least finite double of each score's bin: a score of the same bin itself."""
    width = np.uint64(shift)
    keys = np.maximum(_keys(scores) >> width << width, _LOWEST)
    starts: FloatArray = np.where(keys & _SIGN, keys ^ _SIGN, ~keys).view(np.float64)
    return starts


def _least_shift(ordered: FloatArray, max_bins: int) -> int:
    """Return the least shift at which ascending scores fall into at most max_bins bins."""
    keys = _keys(ordered)
    # Neighbours part at the highest bit in which they differ, so the bins are few enough once
    # the max_bins-th largest difference is shifted away.
    parting = keys[1:] ^ keys[:-1]
    if parting.size < max_bins:
        return 0
    return int(np.partition(parting, -max_bins)[-max_bins]).bit_length()


@dataclass(frozen=True, eq=False)
class ScoreHistogram:
    """Class weights in at most `max_bins` bins of scores. Build it with `of` or `zero`.

    Attributes
    ----------
    table : ScoreTable of the bins, each standing at its least score. It serves every measure of
        `spark_auc.core.evaluation.roc` and `.delong`, with the scores of a bin taken as tied.
    shift : binary logarithm of the number of doubles a bin holds; at 0 the histogram is exact
    max_bins : greatest number of bins, >= 2. A bin takes 56 bytes.

    Merging is commutative in every bit, and associative in every bit when the weights are whole
    (sums below 2^53); other weights keep the same bins and associate to rounding.
    """

    table: ScoreTable
    shift: int
    max_bins: int

    @classmethod
    def zero(cls, max_bins: int = 1 << 16) -> ScoreHistogram:
        """Return the histogram of no rows: the identity of `merge`."""
        return cls._fitted(ScoreTable.zero(), 0, max_bins)

    @classmethod
    def of(
        cls,
        scores: FloatArray,
        y: NDArray[np.bool_],
        weight: FloatArray | None = None,
        max_bins: int = 1 << 16,
    ) -> ScoreHistogram:
        """Count rows; arguments and DataError as in `ScoreTable.of`, ConfigError for max_bins."""
        scores = np.asarray(scores, np.float64)
        given = scores.shape if weight is None else np.shape(weight)
        faulty = {scores.shape, given} != {(scores.size,)} or not np.isfinite(scores).all()
        if scores.size <= max_bins or faulty:
            return cls.of_table(ScoreTable.of(scores, y, weight), max_bins)
        # Binned first, rows need not be summed by distinct score.
        present = scores if weight is None else scores[np.asarray(weight) != 0]
        shift = _least_shift(np.sort(present) + 0.0, max_bins)
        binned = ScoreTable.of(_bin_starts(scores + 0.0, shift), y, weight)
        return cls._fitted(binned, shift, max_bins)

    @classmethod
    def of_table(cls, table: ScoreTable, max_bins: int = 1 << 16) -> ScoreHistogram:
        """Count the rows of a table; ConfigError for max_bins."""
        return cls._fitted(table, 0, max_bins)

    @classmethod
    def _fitted(cls, table: ScoreTable, shift: int, max_bins: int) -> ScoreHistogram:
        """Widen the bins to 2^shift doubles, then on until there are at most max_bins."""
        if max_bins < 2:
            raise ConfigError(f"found max_bins = {max_bins}; expected 2 or more")
        shift = max(shift, _least_shift(table.score, max_bins))
        return cls(ScoreTable.grouped(_bin_starts(table.score, shift), table.sums), shift, max_bins)

    def merge(self, other: ScoreHistogram) -> ScoreHistogram:
        """Return the histogram of both sets of rows; ConfigError unless max_bins agree."""
        if self.max_bins != other.max_bins:
            raise ConfigError(
                f"found histograms of {self.max_bins} and {other.max_bins} bins; expected one "
                "max_bins: build both with the same"
            )
        shift = max(self.shift, other.shift)
        return self._fitted(self.table.merge(other.table), shift, self.max_bins)

    def auc_bounds(self) -> tuple[float, float]:
        """Return bounds that contain the exact AUC of the rows: pairs of one bin lost, or won.

        Guaranteed for whole weights whose classes' product is below 2^53, and otherwise to the
        rounding of the sums. Their mean, `auc(histogram.table)`, takes those pairs as ties.
        """
        won, together, lost = pair_weights(self.table)
        pairs = won + together + lost
        if self.shift == 0:  # a bin is one score, so these are true ties
            won, together = won + together / 2, 0.0
        return won / pairs, (won + together) / pairs

    def ranges(self, rows: int) -> tuple[FloatArray, FloatArray]:
        """Cut the scores into ranges of whole bins, of about `rows` rows each or one bin.

        Returns
        -------
        starts (r,), the least score of each range, ascending, the first being -inf; and outside
        (r, 2, 3, 2), what makes the table of each range one `within` that of all rows.
        """
        last = np.cumsum(self.table.sums[2].sum(axis=0))
        # A bin begins a range if a multiple of `rows` is the number of a row in it.
        before = np.append(0.0, last[:-1])
        first = np.flatnonzero(np.ceil(before / rows) * rows < last)
        below = np.cumsum(np.pad(self.table.sums, ((0, 0), (0, 0), (1, 0))), axis=2)
        above = np.cumsum(np.pad(self.table.sums[..., ::-1], ((0, 0), (0, 0), (1, 0))), axis=2)
        ends = np.append(first[1:], last.size)
        outside = np.stack((below[..., first], above[..., last.size - ends]))
        starts = np.append(-np.inf, self.table.score[first[1:]])
        return starts, np.moveaxis(outside, 3, 0)

    def to_bytes(self) -> bytes:
        """Return versioned bytes, 56 a bin."""
        facts = np.array([self.shift, self.max_bins], np.int64)
        table = {"score": self.table.score, "sums": self.table.sums}
        return _SCHEMA.encode({"facts": facts, **table})

    @classmethod
    def from_bytes(cls, data: bytes) -> ScoreHistogram:
        """Read back `to_bytes`; ModelFormatError for other or truncated bytes."""
        a = _SCHEMA.decode(data)
        return cls(ScoreTable(a["score"], a["sums"]), *a["facts"].tolist())


def _binned(values: Values) -> str | None:
    score, (shift, most) = values["score"], values["facts"].tolist()
    if not (0 <= shift <= 64 and max(2, score.size) <= most):
        return f"there are {score.size} bins of 2^{shift} doubles, of at most {most} bins"
    if not np.array_equal(_bin_starts(score, shift), score):
        return "its scores are not where bins begin"
    return None


_SCHEMA = Schema(
    "ScoreHistogram",
    1,
    {
        "facts": array("<i8", 2),
        "score": reals("m", rule=INCREASING),
        "sums": reals(3, 2, "m", rule=FROM_0_ON),
    },
    weighed,
    _binned,
)
