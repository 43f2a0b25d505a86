"""AUC in bounded memory: a mergeable histogram of scores, with guaranteed bounds.

The bins do not depend on the data: a bin is a run of 2^shift consecutive doubles, so that all
machines use the same bins for scores of any range. Only non-empty bins are stored. The shift is the
least for which they are at most ``max_bins``, a function of the set of rows and not of the order of
merges.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.double_bins import bin_starts, least_shift
from spark_auc.core.evaluation.roc import pair_weights
from spark_auc.core.evaluation.score_table import ScoreTable, weighed
from spark_auc.core.state.rules import FROM_0_ON, INCREASING
from spark_auc.core.state.schema import Schema, Values, array, reals
from spark_auc.core.types import Float
from spark_auc.errors import ConfigError


@dataclass(frozen=True, eq=False)
class ScoreHistogram:
    """Class weights in at most ``max_bins`` bins of scores. Create it with `of` or `zero`.

    Merging is commutative in every bit. It is associative in every bit for whole weights (sums
    below 2^53); for other weights the bins are the same and the sums differ by rounding.

    Parameters
    ----------
    table
        The bins as a `ScoreTable`, each at its least score. Measures of
        `spark_auc.core.evaluation.roc` and `delong` take the scores of a bin as ties.
    shift
        Binary logarithm of the number of doubles in a bin; for 0 the histogram is exact.
    max_bins
        Greatest number of bins, >= 2. A bin takes 56 bytes.
    """

    table: ScoreTable
    shift: int
    max_bins: int

    @classmethod
    def zero(cls, max_bins: int = 1 << 16) -> ScoreHistogram:
        """The histogram of no rows, the identity of `merge`."""
        return cls._fitted(ScoreTable.zero(), 0, max_bins)

    @classmethod
    def of(
        cls,
        scores: Float,
        y: NDArray[np.bool_],
        weight: Float | None = None,
        max_bins: int = 1 << 16,
    ) -> ScoreHistogram:
        """The histogram of rows; arguments and `DataError` as in `ScoreTable.of`.

        Raises
        ------
        ConfigError
            ``max_bins`` is less than 2.
        """
        scores = np.asarray(scores, np.float64)
        weight_shape = scores.shape if weight is None else np.shape(weight)
        invalid = {scores.shape, weight_shape} != {(scores.size,)} or not np.isfinite(scores).all()
        if scores.size <= max_bins or invalid:
            return cls.of_table(ScoreTable.of(scores, y, weight), max_bins)
        # Binning first avoids the sums by distinct score.
        weighted = scores if weight is None else scores[np.asarray(weight) != 0]
        shift = least_shift(np.sort(weighted) + 0.0, max_bins)
        binned = ScoreTable.of(bin_starts(scores + 0.0, shift), y, weight)
        return cls._fitted(binned, shift, max_bins)

    @classmethod
    def of_table(cls, table: ScoreTable, max_bins: int = 1 << 16) -> ScoreHistogram:
        """The histogram of the rows of a table; raises `ConfigError` for ``max_bins`` below 2."""
        return cls._fitted(table, 0, max_bins)

    @classmethod
    def _fitted(cls, table: ScoreTable, shift: int, max_bins: int) -> ScoreHistogram:
        """The histogram with the least shift >= ``shift`` for at most ``max_bins`` bins."""
        if max_bins < 2:
            raise ConfigError(f"found max_bins = {max_bins}, expected at least 2; set max_bins")
        shift = max(shift, least_shift(table.score, max_bins))
        return cls(ScoreTable.grouped(bin_starts(table.score, shift), table.sums), shift, max_bins)

    def merge(self, other: ScoreHistogram) -> ScoreHistogram:
        """The histogram of both sets of rows; raises `ConfigError` unless ``max_bins`` agree."""
        if self.max_bins != other.max_bins:
            raise ConfigError(
                f"found histograms of {self.max_bins} and {other.max_bins} bins, expected the "
                "same max_bins; build both with one value"
            )
        shift = max(self.shift, other.shift)
        return self._fitted(self.table.merge(other.table), shift, self.max_bins)

    def coarsened(self, shift: int = 0, max_bins: int | None = None) -> ScoreHistogram:
        """The histogram with at most ``max_bins`` bins, of at least ``2^shift`` doubles."""
        return self._fitted(self.table, max(shift, self.shift), max_bins or self.max_bins)

    def auc_bounds(self) -> tuple[float, float]:
        """Lower and upper bound on the exact AUC of the rows.

        They count the pairs within a bin as lost and as won; their mean, `auc(histogram.table)`,
        counts them as ties. Guaranteed for whole weights with a product of the class weights below
        2^53, and otherwise up to the rounding of the sums.

        Raises
        ------
        DataError
            The rows are of one class only.
        """
        won, tied, lost = pair_weights(self.table)
        pairs = won + tied + lost
        if self.shift == 0:  # a bin is a single score, so the ties are real
            won, tied = won + tied / 2, 0.0
        return won / pairs, (won + tied) / pairs

    def ranges(self, rows: int) -> tuple[Float, Float]:
        """Divide the scores into ranges of whole bins with about ``rows`` rows each.

        Returns
        -------
        starts : (r,)
            The least score of each range, ascending; the first is -inf.
        outside : (r, 2, 3, 2)
            The sums of the other rows, which `ScoreTable.within` takes for the range's table.
        """
        last = np.cumsum(self.table.sums[2].sum(axis=0))
        # A bin is the first of a range if it includes a row whose index is a multiple of `rows`.
        before = np.append(0.0, last[:-1])
        first = np.flatnonzero(np.ceil(before / rows) * rows < last)
        below = np.cumsum(np.pad(self.table.sums, ((0, 0), (0, 0), (1, 0))), axis=2)
        above = np.cumsum(np.pad(self.table.sums[..., ::-1], ((0, 0), (0, 0), (1, 0))), axis=2)
        ends = np.append(first[1:], last.size)
        outside = np.stack((below[..., first], above[..., last.size - ends]))
        starts = np.append(-np.inf, self.table.score[first[1:]])
        return starts, np.moveaxis(outside, 3, 0)

    def to_bytes(self) -> bytes:
        """Versioned bytes, 56 per bin."""
        facts = np.array([self.shift, self.max_bins], np.int64)
        table = {"score": self.table.score, "sums": self.table.sums}
        return _SCHEMA.encode({"facts": facts, **table})

    @classmethod
    def from_bytes(cls, data: bytes) -> ScoreHistogram:
        """The histogram that `to_bytes` stored; raises `ModelFormatError` for other bytes."""
        values = _SCHEMA.decode(data)
        return cls(ScoreTable(values["score"], values["sums"]), *values["facts"].tolist())


def _binned(values: Values) -> str | None:
    score, (shift, max_bins) = values["score"], values["facts"].tolist()
    if not (0 <= shift <= 64 and max(2, score.size) <= max_bins):
        return f"it has {score.size} bins of 2^{shift} doubles, of at most {max_bins} bins"
    if not np.array_equal(bin_starts(score, shift), score):
        return "its scores are not the starts of bins"
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
