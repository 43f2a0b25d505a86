"""Measures of ranges of scores add up to those of all scores, which have oracles of their own."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from spark_auc.core.evaluation import calibration, delong, roc
from spark_auc.core.evaluation.measures import MEASURES, RankingOptions
from spark_auc.core.evaluation.ranking import Ranking
from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.evaluation.thresholds import best_threshold
from spark_auc.errors import DataError

ASKED = RankingOptions(max_fpr=0.3, cost=7.0, budget=0.05, points=40, probabilities=True, bins=7)


def rows(seed, n, levels, weighted):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.3
    y[:2] = True, False
    s = 1 / (1 + np.exp(-rng.normal(size=n) - y))
    if levels:
        s = np.round(s * levels) / levels
    u = rng.uniform(0.1, 3.0, n) if weighted else np.ones(n)
    return s, y, u


def in_ranges(s, y, u, size, bins):
    """The table of each range, from the top, as executors would make them."""
    starts, outside = ScoreHistogram.of(s, y, u, bins).ranges(size)
    owner = np.searchsorted(starts, s, side="right") - 1
    for k in reversed(range(starts.size)):
        mine = owner == k
        assert mine.any()
        yield ScoreTable.of(s[mine], y[mine], u[mine]).within(outside[k])


@pytest.mark.parametrize("size", [1, 13, 100, 10_000])
@pytest.mark.parametrize("bins", [16, 1 << 16])
@pytest.mark.parametrize(
    ("levels", "weighted"), [(None, False), (9, False), (9, True), (None, True)]
)
def test_ranges_add_up(size, bins, levels, weighted):
    s, y, u = rows(size, 400, levels, weighted)
    parts = list(in_ranges(s, y, u, size, bins))
    found = reduce(Ranking.merge, (Ranking.of(part, 0.7, ASKED) for part in parts))
    table = ScoreTable.of(s, y, u)
    for part in parts:
        np.testing.assert_allclose(part.class_sums(), table.class_sums(), rtol=1e-12)
    close = pytest.approx
    assert found.auc == close(roc.auc(table), abs=1e-13)
    shares = dict(zip(MEASURES, found.shares, strict=True))
    assert shares["averagePrecision"] == close(roc.average_precision(table), abs=1e-13)
    area = roc.partial_area(table, 0.3)
    assert shares["partialAUC"] == close(area, abs=1e-13)
    assert shares["logLoss"] == close(calibration.total_log_loss(table), rel=1e-12)
    np.testing.assert_allclose(
        found.reliability, calibration.reliability_sums(table, 7), rtol=1e-12, atol=1e-12
    )
    covariance = delong.auc_covariance(table.class_sums(), found.products(0.7))
    assert float(covariance[0, 0]) == close(delong.auc_variance(table), rel=1e-11)
    swept = found.sweep(table.class_sums())
    assert (np.diff(swept.threshold) < 0).all()
    for criterion in ASKED.criteria.values():
        best, expected = (
            best_threshold(swept, criterion),
            best_threshold(roc.sweep(table), criterion),
        )
        if weighted:
            assert criterion(swept).max() == close(criterion(roc.sweep(table)).max(), rel=1e-12)
        else:
            assert best == close(expected, nan_ok=True, rel=1e-12)


def test_whole_weights_give_the_same_bits_in_any_order():
    s, y, u = rows(3, 500, 50, False)
    u = np.ceil(u * 3)
    results = []
    for seed in range(3):
        p = np.random.default_rng(seed).permutation(500)
        parts = in_ranges(s[p], y[p], u[p], 60, 32)
        results.append(reduce(Ranking.merge, (Ranking.of(t, 0.7, ASKED) for t in parts)).to_bytes())
    assert len(set(results)) == 1
    assert Ranking.from_bytes(results[0]).to_bytes() == results[0]


def test_only_probabilities_have_a_log_loss():
    s, y, u = rows(4, 100, None, False)
    found = Ranking.of(ScoreTable.of(s, y, u), 0.5, RankingOptions())
    assert np.isnan(found.shares).tolist() == [m.probabilities for m in MEASURES.values()]
    assert np.isnan(found.reliability).all()
    with pytest.raises(DataError, match="outside"):
        Ranking.of(ScoreTable.of(s * 4 - 1, y, u), 0.5, ASKED)
