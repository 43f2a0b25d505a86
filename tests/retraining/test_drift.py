"""Drift by moments and scores, beside the same measures of the rows."""

import json

import numpy as np
import pytest
from scipy import sparse
from sklearn.covariance import EmpiricalCovariance

from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.errors import ConfigError
from spark_auc.retraining.drift import Limits, drift, nearest, stability_index

RNG = np.random.default_rng


def rows(n, seed, shift=0.0, d=6, share=0.3):
    rng = RNG(seed)
    mixing = RNG(0).normal(size=(d, d))
    return rng.normal(size=(n, d)) @ mixing + shift, rng.random(n) < share


def moments(X, y):
    return PairMoments.of(X, y)


def test_equals_the_measures_of_the_rows():
    (A, a), (B, b) = rows(4000, 1), rows(3000, 2, shift=0.4)
    found = drift(moments(A, a), moments(B, b))
    assert found.reference_prevalence == pytest.approx(a.mean())
    assert found.prevalence == pytest.approx(b.mean())
    difference = B.mean(0) - A.mean(0)
    z = difference / np.sqrt(A.var(0, ddof=1) / 4000 + B.var(0, ddof=1) / 3000)
    by_column = {s.column: s for s in found.shifts}
    for j in range(6):
        assert by_column[j].deviations == pytest.approx(difference[j] / A.std(0, ddof=1)[j])
        assert by_column[j].z == pytest.approx(z[j])
    sizes = [abs(s.deviations) for s in found.shifts]
    assert sizes == sorted(sizes, reverse=True)
    plain = []
    for k in (True, False):
        fitted = EmpiricalCovariance().fit(A[a == k])
        distance = fitted.mahalanobis(B[b == k].mean(0)[None])[0]
        plain.append(distance - 6 * (1 / (a == k).sum() + 1 / (b == k).sum()))
    assert found.distance == pytest.approx(max(plain))
    assert found.psi is None
    assert not found.stops
    assert len(found.warnings) == 2
    json.dumps(found.as_dict(), allow_nan=False)


def test_sparse_and_dense_rows_agree():
    rng = RNG(3)
    A, B = (rng.random((2000, 700)) * (rng.random((2000, 700)) < 0.1) for _ in range(2))
    a, b = rng.random(2000) < 0.4, rng.random(2000) < 0.4
    dense = drift(moments(A, a), moments(B, b))
    stored = drift(moments(sparse.csr_matrix(A), a), moments(sparse.csr_matrix(B), b))
    assert dense.distance == pytest.approx(stored.distance, rel=1e-9)
    assert [s.column for s in dense.shifts] == [s.column for s in stored.shifts]


def test_samples_of_one_distribution_do_not_warn():
    distances, indices = [], []
    for seed in range(40):
        (A, a), (B, b) = rows(3000, 2 * seed + 10, d=40), rows(2000, 2 * seed + 11, d=40)
        found = drift(
            moments(A, a),
            moments(B, b),
            (ScoreHistogram.of(A[:, 0], a), ScoreHistogram.of(B[:, 0], b)),
        )
        assert not found.warnings + found.stops
        distances.append(found.distance)
        indices.append(found.psi)
    # Without the correction the means would be about .07 and .0075.
    assert abs(np.mean(indices)) < 0.002
    assert abs(np.mean(distances)) < 0.035


def test_singular_columns_do_not_count_twice():
    (A, a), (B, b) = rows(4000, 1), rows(3000, 2, shift=0.4)
    twice = [np.hstack([X, X[:, :2], np.ones((len(X), 1))]) for X in (A, B)]
    once = drift(moments(A, a), moments(B, b))
    found = drift(moments(twice[0], a), moments(twice[1], b))
    assert found.distance == pytest.approx(once.distance, rel=1e-6)


def test_a_column_that_was_constant_before():
    (A, a), (B, b) = rows(2000, 1), rows(2000, 2)
    A, B = np.hstack([A, np.zeros((2000, 1))]), np.hstack([B, (RNG(5).random((2000, 1)) < 0.2)])
    found = drift(moments(A, a), moments(B, b))
    assert found.shifts[0].column == 6
    assert found.shifts[0].deviations == pytest.approx(0.5, abs=0.1)
    assert any("column 6" in warning for warning in found.warnings)


def test_constant_columns_that_stay_do_not_move():
    (A, a), (B, b) = rows(500, 1), rows(500, 2)
    A, B = (np.hstack([X, np.full((500, 1), 0.1)]) for X in (A, B))
    by_column = {s.column: s for s in drift(moments(A, a), moments(B, b)).shifts}
    assert by_column[6].z == by_column[6].deviations == 0.0


def test_a_constant_of_another_value_moves_without_bound():
    (A, a), (B, b) = rows(500, 1), rows(500, 2)
    A, B = np.hstack([A, np.full((500, 1), 0.1)]), np.hstack([B, np.full((500, 1), 0.2)])
    found = drift(moments(A, a), moments(B, b))
    assert found.shifts[0] == (6, np.inf, np.inf)
    assert any("column 6" in warning for warning in found.warnings)
    assert json.loads(json.dumps(found.as_dict(), allow_nan=False))["shifts"][0]["z"] is None


def test_prevalence_and_one_class():
    (A, a), (B, b) = rows(20000, 1), rows(20000, 2, share=0.2)
    found = drift(moments(A, a), moments(B, b))
    assert any("positive" in warning for warning in found.warnings)
    # As many rows as change little: the share moves, and the standard error is large.
    few = drift(moments(A, a), moments(B[:60], b[:60]))
    assert not few.warnings
    one = drift(moments(A, a), moments(B, np.zeros(20000, bool)))
    assert one.stops
    assert one.distance is not None
    none = drift(moments(A, a), PairMoments.zero(6))
    assert none.stops
    json.dumps(none.as_dict(), allow_nan=False)


def test_stability_index_equals_that_of_the_deciles():
    rng = RNG(1)
    before, now = rng.normal(size=20000), rng.normal(0.5, 1.0, 20000)
    y = rng.random(20000) < 0.3
    edges = np.quantile(before, np.arange(1, 10) / 10)
    p, q = (np.bincount(np.searchsorted(edges, s), minlength=10) / 20000 for s in (before, now))
    expected = float(np.sum((p - q) * np.log(p / q))) - 9 * 2 / 20000
    found = stability_index(ScoreHistogram.of(before, y), ScoreHistogram.of(now, y))
    assert found == pytest.approx(expected, rel=0.01)


def test_stability_index_of_few_scores_and_of_none():
    y = np.array([True, False, True, False])
    same = ScoreHistogram.of(np.ones(4), y)
    assert stability_index(same, same) <= 0
    assert stability_index(ScoreHistogram.zero(), same) == 0.0
    moved = ScoreHistogram.of(np.full(4000, 9.0), np.tile(y, 1000))
    at = ScoreHistogram.of(RNG(0).normal(size=4000), np.tile(y, 1000))
    assert stability_index(at, moved) > 1


def test_scores_that_move_stop():
    (A, a), (B, b) = rows(4000, 1), rows(4000, 2)
    scores = [ScoreHistogram.of(X[:, 0] + s, y) for X, y, s in ((A, a, 0.0), (B, b, 3.0))]
    found = drift(moments(A, a), moments(B, b), (scores[0], scores[1]))
    assert found.stops
    assert not any("index" in w for w in found.warnings)
    loose = drift(moments(A, a), moments(B, b), (scores[0], scores[1]), Limits(stopPSI=99.0))
    assert not loose.stops
    assert any("index" in w for w in loose.warnings)


def test_impossible_limits_are_refused():
    with pytest.raises(ConfigError, match="shift"):
        Limits(shift=-1.0)
    with pytest.raises(ConfigError, match="psi"):
        Limits(psi=float("nan"))


def test_covariance_of_columns_in_several_tiles():
    rng = RNG(4)
    X = rng.normal(size=(300, 1100)) + 5
    y = rng.random(300) < 0.5
    chosen = np.array([0, 3, 511, 700, 1099])
    expected = np.cov(X[y][:, chosen].T, bias=True)
    found = moments(X, y).positive.covariance(chosen)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_decayed_weights_count_fewer_rows():
    """The standard errors of a window of decayed periods, over many windows without drift."""
    rng, factors = RNG(7), 0.5 ** np.arange(6)
    zs, shares = [], []
    for _ in range(300):
        before = [(rng.normal(size=(150, 1)), rng.random(150) < 0.4) for _ in factors]
        B, b = rng.normal(size=(900, 1)), rng.random(900) < 0.4
        parts = [
            (f, int(a.sum()), int((~a).sum())) for f, (_, a) in zip(factors, before, strict=True)
        ]
        merged = PairMoments.zero(1)
        for f, (A, a) in zip(factors, before, strict=True):
            merged = merged.merge(moments(A, a).scale(f))
        found = drift(merged, moments(B, b), parts=parts)
        zs.append(found.shifts[0].z)
        shares.append(found.prevalence_z)
        weights = np.repeat(factors, 150)
        positive = np.concatenate([a for _, a in before])
        assert found.reference_prevalence == pytest.approx(weights @ positive / weights.sum())
    # By the number of rows they would be 1.27.
    assert 0.9 < np.std(zs) < 1.1
    assert 0.9 < np.std(shares) < 1.1


def test_periods_without_decay_change_nothing():
    (A, a), (B, b) = rows(4000, 1), rows(3000, 2, shift=0.4)
    parts = [(1.0, int(part.sum()), int((~part).sum())) for part in (a[:1000], a[1000:])]
    assert drift(moments(A, a), moments(B, b), parts=parts) == drift(moments(A, a), moments(B, b))


def test_scores_are_compared_in_bins_of_one_width():
    rng = RNG(5)
    y = rng.random(30000) < 0.3
    before, now = rng.normal(size=30000), rng.normal(size=30000)
    fine = ScoreHistogram.of(before, y), ScoreHistogram.of(now, y)
    coarse = fine[0].coarsened(max_bins=64)
    assert coarse.table.score.size <= 64
    np.testing.assert_allclose(coarse.table.sums.sum(axis=2), fine[0].table.sums.sum(axis=2))
    # Scores within a bin are ties of both.
    assert abs(stability_index(coarse, fine[1])) < 0.002
    moved = ScoreHistogram.of(now + 0.6, y)
    assert stability_index(coarse, moved) == pytest.approx(stability_index(fine[0], moved), rel=0.3)
    assert nearest({"a": fine[0], "b": coarse, "c": moved}, ScoreHistogram.of(now + 0.5, y)) == "c"
