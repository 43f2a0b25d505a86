"""AUC, curves, thresholds and calibration against all pairs, exact fractions and scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import metrics  # type: ignore[import-untyped]
from sklearn.calibration import calibration_curve  # type: ignore[import-untyped]

from spark_auc.core.evaluation import calibration, roc
from spark_auc.core.evaluation import thresholds as choosing
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.types import Float
from spark_auc.errors import ConfigError, DataError

TOL = 1e-12
SIZES = [2, 3, 10, 200, 3000]
LEVELS = [None, 3, 40]  # distinct scores: all, heavy ties, ties
WEIGHTS = ["ones", "whole", "fractions"]


Bools = NDArray[np.bool_]


def draw(n: int, levels: int | None, weights: str, seed: int = 0) -> tuple[Float, Bools, Float]:
    """Scores that know something of the labels, both classes present."""
    rng = np.random.default_rng((seed, n, levels or 0))
    y = rng.random(n) < 0.3
    y[:2] = True, False
    scores = rng.normal(size=n) + y
    if levels:
        scores = np.floor(scores * levels / 4)
    u = {
        "ones": np.ones(n),
        "whole": rng.integers(1, 9, n).astype(float),
        "fractions": rng.exponential(size=n) + 1e-3,
    }[weights]
    return scores, y, u


cases = pytest.mark.parametrize(
    ("n", "levels", "weights"),
    [(n, m, w) for n in SIZES for m in LEVELS for w in WEIGHTS] + [(100_000, None, "fractions")],
)


def all_pairs(scores: Float, y: Bools, u: Float) -> float:
    beats = (np.sign(scores[y][:, None] - scores[~y]) + 1) / 2
    return float(u[y] @ beats @ u[~y] / (u[y].sum() * u[~y].sum()))


@cases
def test_auc_equals_all_pairs_and_scikit_learn(n: int, levels: int | None, weights: str) -> None:
    scores, y, u = draw(n, levels, weights)
    value = roc.auc(ScoreTable.of(scores, y, u))
    assert value == pytest.approx(metrics.roc_auc_score(y, scores, sample_weight=u), abs=TOL)
    if n <= 200:
        assert value == pytest.approx(all_pairs(scores, y, u), abs=TOL)


@pytest.mark.parametrize("levels", LEVELS)
def test_auc_of_counts_is_the_fraction_correctly_rounded(levels: int | None) -> None:
    scores, y, u = draw(300, levels, "whole")
    wins = 1 + np.sign(scores[y][:, None] - scores[~y])
    twice_won = int((np.outer(u[y], u[~y]) * wins).astype(np.int64).sum())
    pairs = int(u[y].sum()) * int(u[~y].sum())
    assert roc.auc(ScoreTable.of(scores, y, u)) == float(Fraction(twice_won, 2 * pairs))


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("levels", LEVELS)
def test_order_of_rows_changes_no_bit(levels: int | None, weights: str) -> None:
    scores, y, u = draw(5000, levels, weights)
    scores[scores == 0] = np.where(np.arange(np.sum(scores == 0)) % 2, 0.0, -0.0)
    table = ScoreTable.of(scores, y, u)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(scores.size)
        again = ScoreTable.of(scores[order], y[order], u[order])
        assert again.score.tobytes() == table.score.tobytes()
        assert again.sums.tobytes() == table.sums.tobytes()
        assert roc.auc(again) == roc.auc(table)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_merge_is_an_algebra(weights: str) -> None:
    scores, y, u = draw(900, 40, weights)
    whole = ScoreTable.of(scores, y, u)
    a, b, c = (ScoreTable.of(scores[i::3], y[i::3], u[i::3]) for i in range(3))
    one_class = ScoreTable.of(scores[y], y[y], u[y])
    assert a.merge(b).sums.tobytes() == b.merge(a).sums.tobytes()
    assert whole.merge(ScoreTable.zero()).sums.tobytes() == whole.sums.tobytes()
    left, right = a.merge(b).merge(c), a.merge(b.merge(c))
    apart = one_class.merge(ScoreTable.of(scores[~y], y[~y], u[~y]))
    for other in (left, right, apart):
        np.testing.assert_array_equal(other.score, whole.score)
        rtol = 1e-12 if weights == "fractions" else 0
        np.testing.assert_allclose(other.sums, whole.sums, rtol=rtol)
    assert whole.rows == (y.sum(), (~y).sum())


def test_a_table_of_groups_is_the_table_of_their_rows() -> None:
    scores, y, u = draw(500, 3, "fractions")
    rows = ScoreTable.of(scores, y, u)
    shuffled = np.random.default_rng(1).permutation(rows.score.size)
    groups = ScoreTable.grouped(rows.score[shuffled], rows.sums[..., shuffled])
    assert groups.sums.tobytes() == rows.sums.tobytes()


def test_a_table_cannot_be_changed_and_takes_no_hold_of_its_input() -> None:
    scores, y, _ = draw(10, None, "ones")
    table = ScoreTable.of(scores, y)
    before = table.score.copy()
    scores[:] = 7.0
    np.testing.assert_array_equal(table.score, before)
    for array in (table.score, table.weight):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0


def test_perfect_and_reversed_scores_give_1_and_0_whatever_the_weights() -> None:
    scores, y, u = draw(1000, None, "fractions")
    perfect = np.where(y, 1.0, -1.0) * (1 + np.abs(scores))
    assert roc.auc(ScoreTable.of(perfect, y, u)) == 1.0
    assert roc.auc(ScoreTable.of(-perfect, y, u)) == 0.0
    assert roc.auc(ScoreTable.of(np.full(1000, 0.1), y)) == 0.5


@cases
def test_curves_equal_scikit_learn(n: int, levels: int | None, weights: str) -> None:
    scores, y, u = draw(n, levels, weights)
    table = ScoreTable.of(scores, y, u)
    theirs = metrics.roc_curve(y, scores, sample_weight=u, drop_intermediate=False)
    for ours, other in zip(roc.roc_curve(roc.sweep(table)), theirs, strict=True):
        np.testing.assert_allclose(ours, other, atol=TOL)
    expected = metrics.average_precision_score(y, scores, sample_weight=u)
    assert roc.average_precision(table) == pytest.approx(expected, abs=TOL)
    for max_fpr in (0.01, 0.2, 0.5, 1.0):
        expected = metrics.roc_auc_score(y, scores, sample_weight=u, max_fpr=max_fpr)
        area = roc.standardized_area(roc.partial_area(table, max_fpr), max_fpr)
        assert area == pytest.approx(expected, abs=TOL)
    assert roc.partial_area(table, 1.0) == pytest.approx(roc.auc(table), abs=TOL)


@pytest.mark.parametrize("points", [8, 50, 1000])
@pytest.mark.parametrize("levels", [None, 40])
def test_a_thinned_curve_keeps_its_points_exact_and_its_area(
    points: int, levels: int | None
) -> None:
    scores, y, _ = draw(100_000, levels, "ones")
    scores[::5] = 0.25  # one edge far longer than the marks are apart
    table = ScoreTable.of(scores, y)
    swept = roc.sweep(table)
    fpr, tpr, thresholds = roc.roc_curve(swept.take(swept.spaced(points)))
    every = set(zip(*map(np.ndarray.tolist, roc.roc_curve(swept)), strict=True))
    assert set(zip(fpr.tolist(), tpr.tolist(), thresholds.tolist(), strict=True)) <= every
    assert thresholds.size <= points
    assert (fpr[0], tpr[0], fpr[-1], tpr[-1]) == (0, 0, 1, 1)
    smooth = 8 / points**2
    assert np.trapezoid(tpr, fpr) == pytest.approx(roc.auc(table), abs=smooth)


def test_thinning_a_staircase_stays_within_its_bound() -> None:
    y = np.arange(4000) // 50 % 2 == 0
    table = ScoreTable.of(np.arange(4000.0), y)
    for points in (8, 20, 100):
        swept = roc.sweep(table)
        fpr, tpr, _ = roc.roc_curve(swept.take(swept.spaced(points)))
        area = float(np.trapezoid(tpr, fpr))
        assert area == pytest.approx(roc.auc(table), abs=points / (points - 2) ** 2)


@pytest.mark.parametrize("levels", LEVELS)
def test_best_thresholds_equal_a_search_over_all(levels: int | None) -> None:
    scores, y, u = draw(90, levels, "whole")
    table = ScoreTable.of(scores, y, u)
    thresholds = np.append(np.unique(scores), np.inf)
    calls = scores >= thresholds[:, None]
    f1 = [metrics.f1_score(y, call, sample_weight=u, zero_division=0) for call in calls]
    missed = np.array([u[y & ~call].sum() for call in calls])
    false = np.array([u[~y & call].sum() for call in calls])
    called = calls @ u

    best = choosing.best_threshold(roc.sweep(table), choosing.f1)
    assert np.array(f1)[thresholds == best.threshold] == pytest.approx(max(f1))
    best = choosing.best_threshold(roc.sweep(table), choosing.class_ratio)
    distance = np.abs(called - u[y].sum())
    assert distance[thresholds == best.threshold] == distance.min()
    for ratio in (0.1, 1.0, 7.0):
        cost = ratio * missed + false
        found = choosing.best_threshold(roc.sweep(table), choosing.cost_ratio(ratio)).threshold
        assert cost[thresholds == found] == pytest.approx(cost.min())
    for budget in (0.0, 0.1, 1.0):
        point = choosing.best_threshold(roc.sweep(table), choosing.fpr_budget(budget))
        allowed = false <= budget * u[~y].sum()
        assert point.fpr <= budget
        assert point.tpr == pytest.approx(1 - missed[allowed].min() / u[y].sum())


def test_an_fpr_budget_met_exactly_is_met() -> None:
    y = np.append(np.zeros(100, bool), True)
    point = choosing.best_threshold(
        roc.sweep(ScoreTable.of(np.append(np.arange(100.0), 70.5), y)), choosing.fpr_budget(0.29)
    )
    assert point[:3] == (70.5, 1.0, 0.29)
    assert point.precision == pytest.approx(1 / 30)


def test_a_threshold_may_call_nothing() -> None:
    table = ScoreTable.of(np.array([1.0, 2.0]), np.array([True, False]))
    assert choosing.best_threshold(roc.sweep(table), choosing.fpr_budget(0.0)) == pytest.approx(
        (np.inf, 0, 0, np.nan), nan_ok=True
    )


@pytest.mark.parametrize("weights", WEIGHTS)
def test_log_loss_equals_scikit_learn(weights: str) -> None:
    scores, y, u = draw(2000, None, weights)
    p = 1 / (1 + np.exp(-scores))
    p[:2] = 0.0, 1.0  # certain and wrong
    expected = metrics.log_loss(y, p, sample_weight=u)
    total = calibration.total_log_loss(ScoreTable.of(p, y, u))
    assert total / u.sum() == pytest.approx(expected, rel=TOL)


def test_reliability_equals_scikit_learn() -> None:
    scores, y, _ = draw(2001, None, "ones")
    p = 1 / (1 + np.exp(-scores))
    p[0] = 1.0
    sums = calibration.reliability_sums(ScoreTable.of(p, y), 8)
    predicted, observed, weight = calibration.reliability_of(sums)
    theirs = calibration_curve(y, p, n_bins=8, strategy="quantile")
    # The two place a row on a quantile differently: one row in 250.
    np.testing.assert_allclose((observed, predicted), theirs, atol=0.005)
    assert weight.sum() == y.size


def test_calibration_error_by_hand() -> None:
    p = np.array([0.1, 0.15, 0.9, 0.9, 1.0])
    y = np.array([False, True, True, True, False])
    u = np.array([1.0, 3.0, 1.0, 1.0, 2.0])
    table = ScoreTable.of(p, y, u)
    low, high = abs(0.55 / 4 - 3 / 4), abs(3.8 / 4 - 2 / 4)
    error = calibration.error_of(calibration.reliability_sums(table, 2))
    assert error == pytest.approx((low + high) / 2)


def test_a_score_falls_whole_into_the_bin_of_its_middle() -> None:
    table = ScoreTable.of(np.repeat([0.1, 0.5, 0.9], [1, 8, 1]), np.arange(10) % 2 == 0)
    assert calibration.reliability_sums(table, 2)[2].tolist() == [1, 9]


def test_a_calibrated_model_has_little_calibration_error() -> None:
    rng = np.random.default_rng(3)
    p = rng.random(100_000)
    table = ScoreTable.of(p, rng.random(p.size) < p)
    error = calibration.error_of(calibration.reliability_sums(table, 10))
    assert error < 4 * 0.5 / np.sqrt(p.size / 10)


@pytest.mark.parametrize(
    ("scores", "weight", "found"),
    [
        ([np.nan, np.inf, 1, 2], None, "2 NaN or infinite scores and 0 .* among 4 rows"),
        ([1, 2, 3, 4], [1, -1, 1, 1], "0 NaN or infinite scores and 1 .* among 4 rows"),
        ([1, 2, 3, 4], [1, np.nan, np.inf, 1], "and 2 unusable weights"),
        ([1, 2, 3, 4], [1, 1, 1], r"weights \(3,\)"),
        ([[1, 2, 3, 4]], None, r"scores \(1, 4\)"),
    ],
)
def test_bad_rows_are_refused_with_counts(
    scores: list[float], weight: list[float] | None, found: str
) -> None:
    y = np.array([True, False, True, False])
    u = None if weight is None else np.array(weight, dtype=float)
    with pytest.raises(DataError, match=found):
        ScoreTable.of(np.array(scores, dtype=float), y, u)


def test_labels_that_are_not_boolean_are_refused() -> None:
    with pytest.raises(DataError, match="positive_label"):
        ScoreTable.of(np.arange(4.0), np.array([-1, 1, -1, 1]))


@pytest.mark.parametrize(
    "measure",
    [
        roc.auc,
        roc.sweep,
        roc.average_precision,
        lambda table: roc.partial_area(table, 0.5),
        lambda table: choosing.best_threshold(roc.sweep(table), choosing.f1),
    ],
)
def test_one_class_and_no_rows_are_refused(measure: Callable[[ScoreTable], object]) -> None:
    with pytest.raises(DataError, match="found 3 positive rows of weight 3 and 0 negative rows"):
        measure(ScoreTable.of(np.arange(3.0), np.ones(3, bool)))
    with pytest.raises(DataError, match=r"1 positive rows .* 0 negative rows"):
        measure(ScoreTable.of(np.arange(2.0), np.array([True, False]), np.array([1.0, 0.0])))
    with pytest.raises(DataError, match="0 positive rows of weight 0 and 0 negative"):
        measure(ScoreTable.zero())


def test_scores_that_are_no_probabilities_are_refused() -> None:
    y = np.array([True, False, True])
    with pytest.raises(DataError, match="found 2 of 3 distinct scores outside"):
        calibration.total_log_loss(ScoreTable.of(np.array([-0.1, 0.5, 1.1]), y))
    with pytest.raises(DataError, match="at least one row"):
        calibration.reliability_sums(ScoreTable.zero(), 10)


def test_settings_out_of_range_are_refused() -> None:
    table = ScoreTable.of(np.linspace(0, 1, 20), np.arange(20) % 2 == 0)
    for max_fpr in (0.0, 1.5, np.nan):
        with pytest.raises(ConfigError, match="max_fpr"):
            roc.partial_area(table, max_fpr)
    with pytest.raises(ConfigError, match="max_points"):
        roc.sweep(table).spaced(3)
    with pytest.raises(ConfigError, match="bins"):
        calibration.reliability_sums(table, 0)
