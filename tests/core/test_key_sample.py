"""Samples of rows by the hash of their group."""

from __future__ import annotations

import numpy as np
import pytest

from spark_auc.core.batch import Batch
from spark_auc.core.row_source import rows_where
from spark_auc.core.sampling.folds import Folds
from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.errors import ConfigError

N = 40_000
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2))
BATCH = Batch(X, RNG.random(N) < 0.5)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.999])
def test_the_share_of_the_rows(share):
    """Within 5 standard deviations of a binomial number."""
    inside = KeySample(share, 7).inside(BATCH)
    assert abs(inside.mean() - share) < 5 * np.sqrt(share * (1 - share) / N)
    np.testing.assert_array_equal(KeySample(share, 7).outside(BATCH), ~inside)
    assert (inside != KeySample(share, 8).inside(BATCH)).any()


def test_the_side_of_a_row_is_that_of_its_group():
    sample = KeySample(0.5)
    order = RNG.permutation(N)
    np.testing.assert_array_equal(sample.inside(BATCH.take(order)), sample.inside(BATCH)[order])
    # Rows of equal features are on one side, whatever their labels and weights.
    other = BATCH._replace(y=~BATCH.y, weight=np.full(N, 3.0))
    np.testing.assert_array_equal(sample.inside(other), sample.inside(BATCH))
    keys = BATCH._replace(group=RNG.integers(50, size=N).astype(np.uint64))
    inside = sample.inside(keys)
    for key in range(50):
        assert np.unique(inside[keys.group == key]).size == 1
    assert np.unique(inside).size == 2


def test_both_sides_are_all_rows():
    sample = KeySample(0.25, 3)
    sides = (rows_where(side) for side in (sample.inside, sample.outside))
    batches = [BATCH, BATCH.take(np.arange(100))]
    rows = [np.concatenate([b.X for b in side(iter(batches))]) for side in sides]
    assert sum(map(len, rows)) == N + 100
    assert not {*map(tuple, rows[0].tolist())} & {*map(tuple, rows[1].tolist())}


@pytest.mark.parametrize("seed", [0, 5])
def test_folds_of_the_other_rows_are_balanced(seed):
    """With the same random numbers for both, the others would miss the first folds."""
    others = BATCH.take(np.flatnonzero(KeySample(0.5, seed).outside(BATCH)))
    counts = np.bincount(Folds(5, seed).of(others), minlength=5)
    expected = others.y.size / 5
    assert ((counts - expected) ** 2 / expected).sum() < 24  # chi-squared, 4 degrees: 1 in 10^4


def test_limited_samples_are_parts():
    sample = KeySample(0.5, 2)
    assert sample.limited(10**6, N) == sample
    assert sample.limited(N, 0) == sample
    smaller = sample.limited(1000, N)
    assert smaller.share == 0.025
    inside = smaller.inside(BATCH)
    assert abs(inside.sum() - 1000) < 5 * np.sqrt(1000)
    assert not (inside & sample.outside(BATCH)).any()


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, np.nan, np.inf])
def test_shares_out_of_range(share):
    with pytest.raises(ConfigError, match="found share ="):
        KeySample(share)
    with pytest.raises(ConfigError, match="found seed = -1"):
        KeySample(0.5, -1)
