"""Random scores against sums over all pairs in extended precision, in memory and through Spark."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_auc.core.evaluation import delong, roc
from spark_auc.core.evaluation.measures import RankingOptions
from spark_auc.core.evaluation.paired_auc import PairedAUC
from spark_auc.core.evaluation.ranking import Ranking
from spark_auc.core.evaluation.report import AUCReport
from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.evaluation.thresholds import best_threshold
from spark_auc.core.products import settled_product, settled_scores
from spark_auc.errors import DataError
from tests.fuzz.inputs import inputs

pytestmark = pytest.mark.fuzz
Exact = np.longdouble
SHAPES = ["normal", "few", "one", "subnormal", "huge", "neighbours", "float32", "spread"]
WEIGHTS = ["none", "whole", "fractions", "spread", "with zeros"]


@st.composite
def scored(draw, most=60):
    """Scores (n, 2), labels and weights of some shapes, both classes present."""
    rng = np.random.default_rng(draw(st.integers(0, 2**63 - 1)))
    n = draw(st.integers(2, most))
    z = rng.normal(size=(n, 2))
    shape = draw(st.sampled_from(SHAPES))
    s = {
        "normal": z,
        "few": np.round(z),
        "one": np.full((n, 2), z[0, 0]),
        "subnormal": np.round(z * 3) * 5e-324,
        "huge": np.sign(z) * np.finfo(float).max * rng.uniform(0.5, 1.0, (n, 2)),
        "neighbours": 1.0 + np.round(z * 4) * np.finfo(float).eps,
        "float32": z.astype(np.float32),
        "spread": np.sign(z) * 10.0 ** rng.integers(-300, 300, (n, 2)),
    }[shape]
    positives = draw(st.integers(1, n - 1)) if draw(st.booleans()) else 1
    y = rng.permutation(n) < positives
    u = {
        "none": lambda: None,
        "whole": lambda: rng.integers(1, 5, n).astype(float),
        "fractions": lambda: rng.exponential(size=n) + 1e-9,
        "spread": lambda: 10.0 ** rng.integers(-30, 30, n),
        "with zeros": lambda: np.maximum(rng.integers(-1, 4, n), 0).astype(float),
    }[draw(st.sampled_from(WEIGHTS))]()
    if u is not None:
        u[np.argmax(y)] = u[np.argmin(y)] = 1.0
    return s, y, u


class Pairs:
    """The measures by definition, over all pairs."""

    def __init__(self, scores, y, u):
        u = np.ones(y.size) if u is None else u
        kept = u > 0
        self.s, self.y, self.u = scores[kept].astype(float), y[kept], u[kept].astype(Exact)
        self.rows = int(self.y.sum()), int((~self.y).sum())

    def apart(self):
        """How far each class is from having one row alone; 0 where it has."""
        sides = (self.u[self.y], self.u[~self.y])
        return float(min(u.sum() ** 2 / (u**2).sum() for u in sides)) - 1

    def has_spread(self):
        return self.apart() > 1e-6

    def won(self, column):
        s = self.s[:, column]
        above, below = s[self.y][:, None], s[~self.y][None, :]
        return (above > below).astype(Exact) + (above == below).astype(Exact) / 2

    def auc(self, column=0):
        p, q = self.u[self.y], self.u[~self.y]
        return (p @ self.won(column) @ q) / (p.sum() * q.sum())

    def covariance(self, a, b):
        total = Exact(0)
        for mine, axis in ((self.y, 0), (~self.y, 1)):
            p, q = self.u[mine] / self.u[mine].sum(), self.u[~mine] / self.u[~mine].sum()
            first, second = (np.moveaxis(self.won(k), axis, 0) @ q - self.auc(k) for k in (a, b))
            total += (p**2 * first * second).sum() / (1 - (p**2).sum())
        return total

    def swept(self):
        """Threshold, tp and fp from the strictest on."""
        s = self.s[:, 0]
        for t in np.unique(s)[::-1]:
            called = s >= t
            yield t, self.u[called & self.y].sum(), self.u[called & ~self.y].sum()

    def average_precision(self):
        total, before = Exact(0), Exact(0)
        for _, tp, fp in self.swept():
            total += (tp - before) * tp / (tp + fp)
            before = tp
        return total / self.u[self.y].sum()


@inputs(3000)
@given(scored())
def test_measures_of_all_pairs(case):
    s, y, u = case
    exact = Pairs(s, y, u)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = ScoreTable.of(s[:, 0], y, u)
        close = pytest.approx(float(exact.auc()), rel=1e-12, abs=1e-12)
        assert roc.auc(table) == close
        assert table.rows == exact.rows
        found = roc.average_precision(table)
        assert found == pytest.approx(float(exact.average_precision()), rel=1e-12)
        for bins in (2, 7, 1 << 16):
            histogram = ScoreHistogram.of(s[:, 0], y, u, bins)
            lower, upper = histogram.auc_bounds()
            assert lower - 1e-14 <= exact.auc() <= upper + 1e-14
            assert histogram.table.score.size <= bins
            starts, outside = histogram.ranges(9)
            owner = np.searchsorted(starts, s[:, 0].astype(float), side="right") - 1
            total, centre = None, roc.auc(histogram.table)
            for k in reversed(range(starts.size)):
                mine = owner == k
                part = ScoreTable.of(s[mine, 0], y[mine], None if u is None else u[mine])
                ranking = Ranking.of(part.within(outside[k]), centre, RankingOptions(points=200))
                total = ranking if total is None else total.merge(ranking)
            assert total.auc == close
            asked = RankingOptions(points=200)
            report = AUCReport(asked, total, centre, histogram.table, (1.0, 0.0))
            report.as_dict()
            assert report.average_precision == pytest.approx(found, rel=1e-11)
            best = max(2 * tp / (tp + fp + exact.u[exact.y].sum()) for _, tp, fp in exact.swept())
            point = report.thresholds["f1"]
            called = exact.s[:, 0] >= point.threshold
            tp, fp = exact.u[called & exact.y].sum(), exact.u[called & ~exact.y].sum()
            f1 = 2 * tp / (tp + fp + exact.u[exact.y].sum())
            assert float(f1) == pytest.approx(float(best), rel=1e-12)
            if exact.has_spread():
                variance = float(exact.covariance(0, 0))
                # Sums of squares about the centre lose digits with its distance from the AUC.
                lost = 1e-13 * (total.auc - centre) ** 2 / exact.apart()
                assert report.variance == pytest.approx(variance, rel=1e-8, abs=1e-18 + lost)
        assert best_threshold(roc.sweep(table), asked.criteria["f1"]).tpr == pytest.approx(
            point.tpr, rel=1e-12
        )
        if exact.has_spread():
            paired = PairedAUC.of(s.astype(float), y, u)
            for a, b in ((0, 0), (0, 1), (1, 1)):
                expected = float(exact.covariance(a, b))
                assert paired.covariance[a, b] == pytest.approx(expected, rel=1e-8, abs=1e-15)
        else:
            assert delong.auc_interval(table).scale in ("unknown", "exact")


@inputs(1000)
@given(scored(), st.sampled_from([np.nan, np.inf, -np.inf]), st.integers(0, 59))
def test_numbers_that_cannot_be_measured_are_refused(case, value, row):
    s, y, u = case
    row %= y.size
    spoilt = s[:, 0].astype(float)
    spoilt[row] = value
    for make in (ScoreTable.of, ScoreHistogram.of, lambda *a: ScoreHistogram.of(*a, 2)):
        with pytest.raises(DataError, match="NaN or infinite scores"):
            make(spoilt, y, u)
        for weight in (value, -1.0, 1e-310, 5e-324, 1e-101, 1e101, 1e300):
            weights = np.ones(y.size) if u is None else u.copy()
            weights[row] = weight
            with pytest.raises(DataError, match="1 unusable weights"):
                make(s[:, 0], y, weights)


@inputs(1000)
@given(st.integers(0, 2**63 - 1), st.integers(0, 40), st.integers(0, 30), st.integers(0, 40))
def test_scores_are_sums_in_the_order_of_columns(seed, n, d, k):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-150, 150, (n, d))
    W = rng.normal(size=(d, k)) * (rng.random((d, k)) < 0.8)
    found = settled_product(X, W)
    expected = np.zeros((n, k))
    for j in range(d):
        expected = expected + X[:, j, None] * W[j]
    np.testing.assert_array_equal(found, expected)
    first = int(rng.integers(0, n + 1))
    np.testing.assert_array_equal(settled_product(X[first:], W), expected[first:])
    for c in range(k):
        np.testing.assert_array_equal(settled_scores(X[first:], W[:, c]), expected[first:, c])


@inputs(100)
@given(scored(most=25), st.integers(1, 5), st.booleans())
def test_measures_through_spark(spark, case, partitions, strings):
    from spark_auc import compare, evaluate

    s, y, u = case
    label = [("yes" if one else "no") if strings else float(one) for one in y]
    weights = [1.0] * y.size if u is None else u.tolist()
    values = zip(s[:, 0].tolist(), s[:, 1].tolist(), label, weights, strict=True)
    data = spark.createDataFrame(list(values), ["s", "t", "label", "u"]).repartition(partitions)
    given = {"positiveLabel": "yes" if strings else None, "weightCol": None if u is None else "u"}
    exact = Pairs(s, y, u)
    report = evaluate(data, scoreCol="s", **given)
    assert report.auc == pytest.approx(float(exact.auc()), rel=1e-12, abs=1e-12)
    assert report.average_precision == pytest.approx(float(exact.average_precision()), rel=1e-11)
    report.as_dict()
    lower, upper = evaluate(data, scoreCol="s", exact=False, maxBins=3, **given).bounds
    assert lower - 1e-14 <= exact.auc() <= upper + 1e-14
    if not exact.has_spread():
        with pytest.raises(DataError, match="at least two"):
            compare(data, ["s", "t"], **given)
        return
    found = compare(data, ["s", "t"], **given)
    for a, b in ((0, 0), (0, 1), (1, 1)):
        expected = float(exact.covariance(a, b))
        assert found.paired.covariance[a, b] == pytest.approx(expected, rel=1e-8, abs=1e-15)
