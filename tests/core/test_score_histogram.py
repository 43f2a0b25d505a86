"""The histogram's laws, its memory, and its bounds around the exact AUC."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from numpy.typing import NDArray

from spark_auc.core.double_bins import _keys, bin_starts
from spark_auc.core.evaluation.roc import auc
from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.types import Float
from spark_auc.errors import ConfigError, DataError, ModelFormatError
from tests.stored import of_version

SHAPES = ["normal", "probability", "tied", "far", "tiny", "constant"]


Rows = tuple[Float, NDArray[np.bool_], Float]


def draw(shape: str, n: int = 3000, seed: int = 0) -> Rows:
    """Scores of very different ranges, labels, and whole weights."""
    rng = np.random.default_rng((seed, SHAPES.index(shape)))
    y = rng.random(n) < 0.2
    y[:2] = True, False
    margin = rng.normal(size=n) + y
    scores = {
        "normal": margin,
        "probability": 1 / (1 + np.exp(-margin)),
        "tied": np.round(margin, 1),
        "far": np.sign(margin) * 10 ** (150 * np.abs(margin) / np.abs(margin).max() * 2),
        "tiny": margin * 5e-324 * 1e3,
        "constant": np.full(n, -0.7),
    }[shape]
    return scores, y, rng.integers(1, 6, n).astype(float)


def test_keys_keep_the_order_of_doubles() -> None:
    big, tiny = np.finfo(np.float64).max, 5e-324
    scores = np.array([-big, -2.5, -1.0, -tiny, 0.0, tiny, 1.0, np.nextafter(1.0, 2), big])
    keys = _keys(scores)
    assert np.all(keys[1:] > keys[:-1])
    assert int(keys[5]) - int(keys[4]) == 1
    np.testing.assert_array_equal(bin_starts(scores, 0), scores)


@pytest.mark.parametrize("shift", [1, 20, 52, 60, 63])
@pytest.mark.parametrize("shape", SHAPES)
def test_bins_are_finite_ordered_and_nested(shape: str, shift: int) -> None:
    scores = np.append(draw(shape)[0], [np.finfo(np.float64).min, np.finfo(np.float64).max])
    scores += 0.0  # a table holds no -0.0
    starts = bin_starts(scores, shift)
    assert np.isfinite(starts).all()
    assert np.all(starts <= scores)
    assert np.all(np.diff(starts[np.argsort(scores)]) >= 0)
    np.testing.assert_array_equal(
        _keys(starts) >> np.uint64(shift), _keys(scores) >> np.uint64(shift)
    )
    finer = bin_starts(scores, shift // 2)
    np.testing.assert_array_equal(bin_starts(finer, shift), starts)


@pytest.mark.parametrize("max_bins", [2, 3, 10, 100, 1000, 100_000])
@pytest.mark.parametrize("shape", SHAPES)
def test_bounds_contain_the_exact_auc(shape: str, max_bins: int) -> None:
    scores, y, u = draw(shape)
    for weight in (None, u):
        exact = auc(ScoreTable.of(scores, y, weight))
        histogram = ScoreHistogram.of(scores, y, weight, max_bins)
        lower, upper = histogram.auc_bounds()
        assert 0 <= lower <= exact <= upper <= 1
        assert auc(histogram.table) == pytest.approx((lower + upper) / 2, abs=1e-15)
        assert histogram.table.score.size <= max_bins
        if histogram.shift == 0:
            assert lower == exact == upper
        else:  # the bins are no wider than they must be
            finer = np.unique(_keys(scores) >> np.uint64(histogram.shift - 1)).size
            assert finer > max_bins


def test_bins_are_merged_only_when_they_are_too_many() -> None:
    scores, y = np.array([1.0, 1.25, 1.5, 1.75]), np.array([True, False, True, False])
    sizes = [ScoreHistogram.of(scores, y, max_bins=m).table.score.size for m in (4, 3, 2)]
    assert sizes == [4, 2, 2]


def test_bounds_contain_the_auc_of_fractional_weights_to_rounding() -> None:
    scores, y, _ = draw("normal")
    u = np.random.default_rng(5).exponential(size=y.size)
    lower, upper = ScoreHistogram.of(scores, y, u, 50).auc_bounds()
    assert lower - 1e-14 <= auc(ScoreTable.of(scores, y, u)) <= upper + 1e-14


def test_the_bounds_are_reached() -> None:
    """Two labelings that only move rows inside the bins attain the two ends."""
    scores = np.array([1.0, 1.0 + 2**-50, 1.0 + 2**-49, -3.0])
    best, worst = (np.array(y) for y in ([False, False, True, False], [True, False, False, False]))
    ends = [auc(ScoreTable.of(scores, y)) for y in (worst, best)]
    for y in (worst, best):
        assert ScoreHistogram.of(scores, y, max_bins=2).auc_bounds() == pytest.approx(tuple(ends))


def test_a_default_histogram_of_many_scores_is_tight() -> None:
    scores, y, _ = draw("probability", 300_000)
    lower, upper = ScoreHistogram.of(scores, y).auc_bounds()
    assert upper - lower < 1e-4


@pytest.mark.parametrize("max_bins", [2, 64, 1 << 16])
@pytest.mark.parametrize("shape", SHAPES)
def test_merging_is_an_algebra_in_every_bit(shape: str, max_bins: int) -> None:
    scores, y, u = draw(shape)
    # Parts of very different range and size, so that they come with different shifts.
    part = np.minimum(np.argsort(np.argsort(np.abs(scores))) * 40 // scores.size, 2)
    parts = [
        ScoreHistogram.of(scores[part == k], y[part == k], u[part == k], max_bins) for k in range(3)
    ]
    whole = ScoreHistogram.of(scores, y, u, max_bins).to_bytes()
    for a, b, c in permutations(parts):
        assert a.merge(b).merge(c).to_bytes() == whole
        assert a.merge(b.merge(c)).to_bytes() == whole
    zero = ScoreHistogram.zero(max_bins)
    for a in parts:
        assert zero.merge(a).to_bytes() == a.merge(zero).to_bytes() == a.to_bytes()


def test_fractional_weights_commute_in_bits_and_associate_to_rounding() -> None:
    scores, y, _ = draw("normal")
    u = np.random.default_rng(6).exponential(size=y.size)
    a, b, c = (ScoreHistogram.of(scores[i::3], y[i::3], u[i::3], 50) for i in range(3))
    assert a.merge(b).to_bytes() == b.merge(a).to_bytes()
    left, right = a.merge(b).merge(c), a.merge(b.merge(c))
    np.testing.assert_array_equal(left.table.score, right.table.score)
    np.testing.assert_allclose(left.table.sums, right.table.sums, rtol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_bytes_round_trip(shape: str) -> None:
    scores, y, u = draw(shape)
    for histogram in (ScoreHistogram.of(scores, y, u, 100), ScoreHistogram.zero(100)):
        data = histogram.to_bytes()
        again = ScoreHistogram.from_bytes(data)
        assert again.to_bytes() == data
        assert (again.shift, again.max_bins) == (histogram.shift, histogram.max_bins)
        np.testing.assert_array_equal(again.table.sums, histogram.table.sums)


def test_other_bytes_are_refused() -> None:
    scores, y, _ = draw("tied")
    data = ScoreHistogram.of(scores, y).to_bytes()
    for broken in (data[:-1], data + b"\0", data[:30], b"", b"PAR1" + data):
        with pytest.raises(ModelFormatError):
            ScoreHistogram.from_bytes(broken)
    for other in (
        ScoreTable.of(scores, y).to_bytes(),
        of_version(data, 2),
    ):
        with pytest.raises(ModelFormatError, match="version 1"):
            ScoreHistogram.from_bytes(other)


def test_bad_input_is_refused() -> None:
    y = np.array([True, False])
    with pytest.raises(DataError, match="1 NaN or infinite scores"):
        ScoreHistogram.of(np.array([np.nan, 1.0]), y)
    with pytest.raises(DataError, match="expected rows of both classes"):
        ScoreHistogram.zero().auc_bounds()
    with pytest.raises(ConfigError, match="max_bins = 1"):
        ScoreHistogram.zero(1)
    with pytest.raises(ConfigError, match="histograms of 10 and 20 bins"):
        ScoreHistogram.zero(10).merge(ScoreHistogram.zero(20))


def test_ranges_take_memory_of_the_bins_alone() -> None:
    table = ScoreTable.of(np.arange(5.0), np.array([True, False, True, False, True]))
    many = ScoreHistogram.of_table(ScoreTable(table.score, table.sums * 1e15), 8)
    starts, outside = many.ranges(2)
    np.testing.assert_array_equal(starts, [-np.inf, 1, 2, 3, 4])
    assert outside.shape == (5, 2, 3, 2)
