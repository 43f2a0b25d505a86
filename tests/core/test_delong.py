"""DeLong's variance, intervals and paired tests: pROC's figures, all pairs, and coverage."""

from __future__ import annotations

import csv
import os
from math import sqrt
from pathlib import Path
from statistics import NormalDist
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest

from spark_auc.core.evaluation.delong import (
    auc_covariance,
    auc_interval,
    auc_variance,
    effective_rows,
    interval_ends,
    interval_of,
    placement_products,
)
from spark_auc.core.evaluation.paired_auc import PairedAUC
from spark_auc.core.evaluation.roc import auc
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.types import Float
from spark_auc.errors import ConfigError, DataError

Bools = NDArray[np.bool_]


def draw(n: int, levels: int | None, weighted: bool) -> tuple[Float, Bools, Float]:
    """Three correlated models, (n, 3), with labels and weights; some weights are 0."""
    rng = np.random.default_rng((n, levels or 0, weighted))
    y = rng.random(n) < 0.4
    y[:4] = True, True, False, False
    scores = rng.normal(size=(n, 3)) + rng.normal(size=(n, 1)) + np.outer(y, [1.0, 0.7, 0.0])
    if levels:
        scores = np.floor(scores * levels / 6)
    u = rng.exponential(size=n) * (rng.random(n) < 0.9) if weighted else np.ones(n)
    u[:4] = np.maximum(u[:4], 0.1)
    return scores, y, u


def covariance_over_pairs(scores: Float, y: Bools, u: Float) -> Float:
    """DeLong's structural components from the matrix of all pairs, one loop for each term."""
    n, k = scores.shape
    p = np.where(y, u / u[y].sum(), u / u[~y].sum())
    components = np.empty((n, k))
    aucs = np.empty(k)
    for m in range(k):
        beats = (np.sign(np.subtract.outer(scores[:, m], scores[:, m])) + 1) / 2
        for i in range(n):
            components[i, m] = (
                sum(p[j] * beats[i, j] for j in range(n) if not y[j])
                if y[i]
                else sum(p[j] * beats[j, i] for j in range(n) if y[j])
            )
        aucs[m] = (p[y] * components[y, m]).sum()
    total = np.zeros((k, k))
    for own in (y, ~y):
        deviation = components[own] - aucs
        spread = np.einsum("i,ij,il->jl", p[own] ** 2, deviation, deviation)
        total += spread / (1 - (p[own] ** 2).sum())
    return total


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("levels", [None, 3, 12])
@pytest.mark.parametrize("n", [4, 9, 80])
def test_covariance_equals_all_pairs(n: int, levels: int | None, weighted: bool) -> None:
    scores, y, u = draw(n, levels, weighted)
    expected = covariance_over_pairs(scores, y, u)
    paired = PairedAUC.of(scores, y, u)
    np.testing.assert_allclose(paired.covariance, expected, atol=1e-14)
    for m, column in enumerate(scores.T):
        table = ScoreTable.of(column, y, u)
        assert auc_variance(table) == pytest.approx(expected[m, m], abs=1e-14)
        assert paired.auc[m] == auc(table)


def test_unweighted_variance_is_the_published_one() -> None:
    scores, y, _ = draw(60, 3, False)
    s = scores[:, 0]
    beats = (np.sign(s[y][:, None] - s[~y]) + 1) / 2
    published = beats.mean(1).var(ddof=1) / y.sum() + beats.mean(0).var(ddof=1) / (~y).sum()
    assert auc_variance(ScoreTable.of(s, y)) == pytest.approx(published, rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_of_rows_and_groups_of_rows_add_up(weighted: bool) -> None:
    scores, y, u = draw(3000, 12, weighted)
    tables = [ScoreTable.of(column, y, u) for column in scores.T]
    squares = np.where((y, ~y), u * u, 0.0)
    blocks = [placement_products(tables, scores[i::4], squares[:, i::4]) for i in range(4)]
    groups, of_row = np.unique(scores, axis=0, return_inverse=True)
    grouped = np.stack([np.bincount(of_row.ravel(), row).astype(float) for row in squares])
    whole = PairedAUC.of(scores, y, u)
    for products in (sum(blocks[1:], blocks[0]), placement_products(tables, groups, grouped)):
        again = PairedAUC.from_products(tables, products)
        np.testing.assert_allclose(again.covariance, whole.covariance, rtol=1e-10)
        np.testing.assert_array_equal(again.auc, whole.auc)


def test_the_scale_of_weights_and_the_order_of_rows_do_not_matter() -> None:
    scores, y, u = draw(500, 12, True)
    table = ScoreTable.of(scores[:, 0], y, u)
    order = np.random.default_rng(0).permutation(500)
    again = ScoreTable.of(scores[order, 0], y[order], u[order])
    assert auc_interval(again) == auc_interval(table)
    scaled = ScoreTable.of(scores[:, 0], y, 1e-6 * u)
    assert auc_interval(scaled)[:4] == pytest.approx(auc_interval(table)[:4], rel=1e-10)


@pytest.fixture(scope="module")
def asah() -> tuple[dict[str, Float], Bools]:
    """Return pROC's 113 patients."""
    path = Path(os.environ.get("SPARK_AUC_DATA", "../shared/data")) / "asah.csv"
    if not path.exists():
        pytest.skip(f"{path} is absent: set SPARK_AUC_DATA to the directory of real data")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    scores = {name: np.array([float(r[name]) for r in rows]) for name in ("s100b", "wfns", "ndka")}
    return scores, np.array([r["outcome"] == "Poor" for r in rows])


def test_asah_intervals(asah: tuple[dict[str, Float], Bools]) -> None:
    scores, y = asah
    table = ScoreTable.of(scores["s100b"], y)
    linear, wilson = auc_interval(table, scale="linear"), auc_interval(table)
    assert np.round(linear[:3], 4).tolist() == [0.7314, 0.6301, 0.8326]
    assert linear.small_sample
    assert (linear.scale, wilson.scale) == ("linear", "wilson")
    # 41 positive rows: about the width of the normal interval, nearer to one half.
    assert wilson.upper - wilson.lower == pytest.approx(linear.upper - linear.lower, rel=0.05)
    assert wilson.lower < linear.lower
    assert wilson.upper < linear.upper


def test_asah_paired(asah: tuple[dict[str, Float], Bools]) -> None:
    scores, y = asah
    paired = PairedAUC.of(np.column_stack([scores["wfns"], scores["s100b"]]), y)
    test = paired.compare()
    assert round(test.z, 4) == 2.2090
    assert round(test.p_value, 5) == 0.02718
    assert test.difference == paired.auc[0] - paired.auc[1]
    back = paired.compare(1, 0)
    assert (back.z, back.p_value, back.lower) == (-test.z, test.p_value, -test.upper)
    assert PairedAUC.of(np.column_stack([scores["ndka"]] * 2), y).compare().p_value == 1


def test_p_value_and_interval_say_the_same() -> None:
    scores, y, u = draw(400, None, True)
    paired = PairedAUC.of(scores, y, u)
    for first, second in ((0, 1), (1, 2), (2, 0)):
        test = paired.compare(first, second)
        at_edge = paired.compare(first, second, level=1 - test.p_value)
        edge = at_edge.lower if test.difference > 0 else at_edge.upper
        assert edge == pytest.approx(0, abs=1e-8)


def test_models_that_rank_alike_do_not_differ() -> None:
    scores, y, u = draw(1001, None, True)
    s = scores[:, 0]
    # BLAS sums the columns of a block in different orders: what it leaves must not be a variance.
    paired = PairedAUC.of(np.column_stack([s, np.exp(s), 3 * s, s - 1, s**3]), y, u)
    for first in range(5):
        for second in range(5):
            assert paired.compare(first, second) == (0, 0, 0, 0, 1)


def test_a_difference_without_variance_is_refused() -> None:
    y = np.arange(10) < 5
    with pytest.raises(DataError, match=r"differ by 0\.5 with a DeLong variance of 0"):
        PairedAUC.of(np.column_stack([y.astype(float), np.zeros(10)]), y).compare()


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_auc_1_and_0_get_the_exact_bound(level: float) -> None:
    y = np.arange(30) < 12
    s = y + np.linspace(0, 0.5, 30)
    top = auc_interval(ScoreTable.of(s, y), level)
    bottom = auc_interval(ScoreTable.of(-s, y), level)
    assert tuple(top) == (1.0, (1 - level) ** (1 / 12), 1.0, 0.0, level, "exact", True)
    assert bottom[:3] == pytest.approx((0.0, 0.0, 1 - top.lower))
    # All of 12 independent pairs are won with this probability where the AUC is the bound.
    assert top.lower**12 == pytest.approx(1 - level)


def test_one_lost_or_tied_pair_is_not_perfect() -> None:
    y = np.arange(400) < 200
    s = y + np.linspace(0, 0.5, 400)
    s[0] = s[399]
    interval = auc_interval(ScoreTable.of(s, y))
    assert interval.scale == "wilson"
    assert 0.98 < interval.lower < interval.auc < interval.upper < 1
    assert not interval.small_sample


def test_few_rows_with_one_score_leave_doubt() -> None:
    y = np.arange(4) < 2
    found = auc_interval(ScoreTable.of(np.full(4, 0.3), y))
    assert (found.auc, found.variance) == (0.5, 0.0)
    assert found.lower < 0.3
    assert found.lower + found.upper == pytest.approx(1)


@pytest.mark.parametrize(("won", "rows"), [(1, 2), (7, 10), (299, 300)])
def test_with_the_variance_of_a_share_the_interval_is_that_of_a_share(won: int, rows: int) -> None:
    share = won / rows
    variance = np.array(share * (1 - share) / rows)
    for level in (0.9, 0.95):
        found = interval_ends(np.array(share), variance, np.array(float(rows)), level)
        expected = binomtest(won, rows).proportion_ci(level, method="wilson")
        assert found == pytest.approx(expected, rel=1e-9)


def simulated(
    rows: tuple[int, int], area: float, spread: float, weighted: bool, repeats: int
) -> float:
    """The share of 95% intervals that hold the AUC, of normal scores; placements by all pairs."""
    rng = np.random.default_rng([*rows, round(100 * area), round(10 * spread)])
    shift = sqrt(1 + spread**2) * NormalDist().inv_cdf(area)
    scores = (
        rng.normal(shift, spread, (repeats, rows[0], 1)),
        rng.normal(0, 1, (repeats, 1, rows[1])),
    )
    shares = [
        rng.uniform(0.2, 2.0, (repeats, n)) if weighted else np.ones((repeats, n)) for n in rows
    ]
    p, q = (u / u.sum(axis=1, keepdims=True) for u in shares)
    won = scores[0] > scores[1]
    placed = np.einsum("rij,rj->ri", won, q), np.einsum("rij,ri->rj", won, p)
    found = (p * placed[0]).sum(axis=1)
    variance = sum(
        (w**2 * (v - found[:, None]) ** 2).sum(axis=1) / (1 - (w**2).sum(axis=1))
        for w, v in zip((p, q), placed, strict=True)
    )
    effective = 1 / np.maximum((p**2).sum(axis=1), (q**2).sum(axis=1))
    found = found.round(12)
    lower, upper = interval_ends(found, variance, effective, 0.95)
    return float(np.mean((lower <= area) & (area <= upper)))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("few", [2, 5, 10, 20, 100])
def test_intervals_of_few_rows_cover_the_truth_in_93_percent_or_more(
    few: int, weighted: bool
) -> None:
    for rows in ((few, 100), (100, few), (few, few)):
        for area in (0.5, 0.7, 0.9, 0.98):
            for spread in (0.5, 1.0, 2.0):
                repeats = 4_000 if max(rows) < 100 else 1_000
                assert simulated(rows, area, spread, weighted, repeats) >= 0.93


def test_small_sample_follows_the_effective_rows() -> None:
    rng = np.random.default_rng(0)
    s, y = rng.normal(size=300), np.arange(300) < 100
    u = np.where(np.arange(300) < 10, 100.0, 1.0)
    assert effective_rows(ScoreTable.of(s, y).class_sums()).min() == 100
    assert effective_rows(ScoreTable.of(s, y, u).class_sums()).min() == pytest.approx(
        1090**2 / (10 * 1e4 + 90)
    )
    assert not auc_interval(ScoreTable.of(s, y)).small_sample
    assert auc_interval(ScoreTable.of(s, y, u)).small_sample


REPETITIONS = 400
CHANCE = 4  # standard errors of a binomial share; the seed is fixed, so a pass stays a pass


def share_tolerance(share: float) -> float:
    return CHANCE * sqrt(share * (1 - share) / REPETITIONS)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("scale", "gap"), [("linear", 0.5), ("wilson", 0.5), ("wilson", 2.0)])
def test_intervals_cover_the_truth_as_often_as_they_say(
    scale: Literal["wilson", "linear"], gap: float, weighted: bool
) -> None:
    rng = np.random.default_rng(11)
    truth = NormalDist().cdf(gap / sqrt(2))
    y = np.arange(600) < 200
    covered = 0
    for _ in range(REPETITIONS):
        u = rng.uniform(0.2, 2.0, 600) if weighted else None
        found = auc_interval(ScoreTable.of(rng.normal(size=600) + gap * y, y, u), 0.95, scale)
        covered += found.lower <= truth <= found.upper
    assert covered / REPETITIONS == pytest.approx(0.95, abs=share_tolerance(0.95))


def test_equal_models_are_called_different_as_often_as_the_level_says() -> None:
    rng = np.random.default_rng(12)
    y = np.arange(600) < 200
    rejected = 0
    for _ in range(REPETITIONS):
        scores = rng.normal(size=(600, 2)) + rng.normal(size=(600, 1)) + y[:, None]
        rejected += PairedAUC.of(scores, y).compare().p_value < 0.1
    assert rejected / REPETITIONS == pytest.approx(0.1, abs=share_tolerance(0.1))


def test_what_has_no_variance_is_refused() -> None:
    with pytest.raises(DataError, match="found 1 positive and 2 negative rows"):
        auc_variance(ScoreTable.of(np.array([1.0, 2.0, 1.5]), np.array([True, False, False])))
    with pytest.raises(DataError, match="expected rows of both classes"):
        auc_interval(ScoreTable.of(np.arange(3.0), np.ones(3, bool)))
    with pytest.raises(ConfigError, match="level = 95"):
        auc_interval(ScoreTable.of(np.arange(6.0), np.arange(6) % 2 == 0), level=95)


def test_a_table_of_other_rows_is_refused() -> None:
    scores, y, _ = draw(40, None, False)
    tables = [ScoreTable.of(scores[:30, 0], y[:30])]
    with pytest.raises(DataError, match="scores that are not in the model's table"):
        placement_products(tables, scores[:, :1], np.where((y, ~y), 1.0, 0.0))


def test_covariance_is_positive_semidefinite() -> None:
    scores, y, u = draw(3000, 12, True)
    tables = [ScoreTable.of(column, y, u) for column in scores.T]
    products = placement_products(tables, scores, np.where((y, ~y), u * u, 0.0))
    assert np.linalg.eigvalsh(auc_covariance(tables[0].class_sums(), products)).min() > 0


def test_an_auc_next_to_0_has_an_interval() -> None:
    rows = np.array([[60.0, 60.0], [60.0, 60.0], [60.0, 60.0]])
    for value in (1e-17, 1e-60, 1e-300):
        found = interval_of(value, value**2, rows)
        assert 0 <= found.lower <= value * (1 + 1e-9) + 1e-16
        assert value <= found.upper + 1e-16
