"""Curves of calibration against scikit-learn, planted probabilities, and every refusal."""

import numpy as np
import pyarrow as pa
import pytest
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from spark_auc.core.evaluation.calibration import error_of, reliability_sums
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.errors import DataError
from spark_auc.pipeline.calibration_fit import calibration_curve
from spark_auc.pipeline.score_columns import ScoreColumns
from spark_auc.serving.score_curves import Isotone, Sigmoid
from spark_auc.tables.arrow_table import ArrowTable

each_method = pytest.mark.parametrize("method", ["platt", "isotonic"])
rng = np.random.default_rng(3)
N = 800
# Rounded, so that some scores are tied.
SCORE = np.round(rng.normal(size=N), 2)
LABEL = (rng.random(N) < 1 / (1 + np.exp(1 - 2 * SCORE))).astype(float)
WEIGHT = rng.integers(1, 4, N).astype(float)


def curve_of(method, positive=None, weight=None, rate=1.0, **columns):
    rows = pa.table({"s": SCORE, "label": LABEL, "u": WEIGHT} | columns)
    table = ArrowTable.of(rows, 300)
    return calibration_curve(table, ScoreColumns("s", "label", positive, weight), method, rate)


def expected(method, at):
    if method == "isotonic":
        oracle = IsotonicRegression(out_of_bounds="clip").fit(SCORE, LABEL, sample_weight=WEIGHT)
        return oracle.predict(at)
    oracle = LogisticRegression(C=np.inf, tol=1e-10).fit(SCORE[:, None], LABEL, WEIGHT)
    return oracle.predict_proba(at[:, None])[:, 1]


@pytest.mark.parametrize(("method", "tolerance"), [("platt", 1e-5), ("isotonic", 1e-9)])
def test_agrees_with_scikit_learn(method, tolerance):
    curve = curve_of(method, weight="u")
    # Between and outside the scores that were seen, too.
    for scores in (SCORE, np.linspace(-6, 6, N) + 1e-3 * np.pi):
        found = curve.at(scores)
        np.testing.assert_allclose(found, expected(method, scores), rtol=0, atol=tolerance)


@each_method
def test_weight_is_repetition(method):
    times = WEIGHT.astype(int)
    repeated = {"s": np.repeat(SCORE, times), "label": np.repeat(LABEL, times)}
    other = curve_of(method, **repeated, u=np.ones(times.sum()))
    for name, value in vars(curve_of(method, weight="u")).items():
        np.testing.assert_allclose(getattr(other, name), value, rtol=1e-6)


def test_sigmoid_keeps_the_order():
    curve = curve_of("platt")
    assert curve.slope > 0
    assert roc_auc_score(LABEL, curve.at(SCORE)) == roc_auc_score(LABEL, SCORE)


@each_method
def test_down_sampling_is_corrected(method):
    draws = np.random.default_rng(11)
    score = draws.normal(size=40_000)
    truth = 1 / (1 + np.exp(3 - 1.5 * score))
    label = (draws.random(score.size) < truth).astype(float)
    kept = (label == 1) | (draws.random(score.size) < 0.1)
    sample = {"s": score[kept], "label": label[kept], "u": np.ones(kept.sum())}

    def error(rate):
        found = curve_of(method, rate=rate, **sample).at(score)
        sums = reliability_sums(ScoreTable.of(found, label == 1), 10)
        return error_of(sums), np.abs(found - truth).mean()

    calibration, mean_distance = error(0.1)
    assert calibration < 0.01
    # Some 0.01 is the isotonic curve's sampling error, having no shape to rely on.
    assert mean_distance < 0.02
    assert min(error(1.0)) > 0.2


def test_isotonic_correction_is_that_of_reweighted_negatives():
    rate = 0.2
    sampled = curve_of("isotonic", rate=rate)
    other = curve_of("isotonic", weight="u", u=np.where(LABEL == 1, 1.0, 1 / rate))
    np.testing.assert_array_equal(sampled.boundaries, other.boundaries)
    np.testing.assert_allclose(sampled.probabilities, other.probabilities, atol=1e-12)


@each_method
def test_labels_of_every_kind(method):
    plain = vars(curve_of(method))
    for label, positive in (
        (2 * LABEL - 1, None),
        (LABEL == 1, None),
        (1 - LABEL, 0),
        (np.where(LABEL == 1, "yes", "no"), "yes"),
    ):
        found = vars(curve_of(method, positive, label=label))
        for name, value in plain.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-9)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("s", None, "found 1 null scores among 800 rows"),
        ("s", float("nan"), "found 1 NaN or infinite scores"),
        ("s", -float("inf"), "found 1 NaN or infinite scores"),
        ("label", None, "found 1 null or NaN labels among 800"),
        ("label", float("nan"), "found 1 null or NaN labels among 800"),
        ("label", 2.0, r"found 3 label values .*2.0 \(1 rows\)"),
        ("u", None, "found 1 weights that are null, NaN, negative or not from"),
        ("u", float("nan"), "found 1 weights that are null, NaN, negative or not from"),
        ("u", float("inf"), "found 1 weights that are null, NaN, negative or not from"),
        ("u", -1.0, "found 1 weights that are null, NaN, negative or not from"),
    ],
)
def test_unusable_values(column, value, message):
    wrong = {"s": SCORE, "label": LABEL, "u": WEIGHT}[column].tolist()
    wrong[5] = value
    with pytest.raises(DataError, match=message):
        curve_of("platt", weight="u", **{column: pa.array(wrong, pa.float64())})


def test_classes_that_cannot_serve():
    with pytest.raises(DataError, match="one class only"):
        curve_of("platt", label=np.ones(N))
    with pytest.raises(DataError, match="found no rows"):
        curve_of("platt", **dict.fromkeys(["s", "label", "u"], pa.array([], pa.float64())))
    with pytest.raises(DataError, match="set positiveLabel"):
        curve_of("platt", label=LABEL + 1)


@each_method
def test_scores_without_order(method):
    for score in (-SCORE, np.full(N, 1.5), -LABEL):
        with pytest.raises(DataError, match="negate them or check positiveLabel"):
            curve_of(method, s=score)


def test_separated_classes():
    # With a score that both classes have, too, the likelihood has no maximum.
    touching = np.where(np.arange(N) % 7 == 0, 0.0, 2 * LABEL - 1)
    for score in (LABEL + np.arange(N) / 10_000, touching):
        with pytest.raises(DataError, match="no sigmoid is steep enough"):
            curve_of("platt", s=score)
        curve = curve_of("isotonic", s=score)
        assert (curve.probabilities[0], curve.probabilities[-1]) == (0, 1)


def test_curves_are_what_they_claim():
    assert isinstance(curve_of("platt"), Sigmoid)
    curve = curve_of("isotonic")
    assert isinstance(curve, Isotone)
    assert (np.diff(curve.boundaries) > 0).all()
    assert (np.diff(curve.probabilities) >= 0).all()
