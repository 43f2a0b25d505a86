"""Exact measures of tables against scikit-learn and the measures of one table of scores."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from sklearn import metrics

from spark_auc.core.evaluation.delong import auc_interval
from spark_auc.core.evaluation.paired_auc import PairedAUC
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.errors import ConfigError, DataError
from spark_auc.pipeline import score_groups as groups_module
from spark_auc.pipeline import score_tables as scores
from spark_auc.pipeline.comparison import compared
from spark_auc.pipeline.estimators import MBAEstimator
from spark_auc.tables.arrow_table import ArrowTable
from tests.pipeline.measured import evaluate, scored, table_of

N = 3000


@pytest.fixture(scope="module")
def frame():
    return scored(N)


@pytest.fixture(scope="module")
def rows(frame):
    return table_of(frame)


@pytest.fixture
def small_ranges(monkeypatch):
    monkeypatch.setattr(scores, "_RANGE_ROWS", 400)
    monkeypatch.setattr(scores, "_TABLE_ROWS", 300)


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("score", ["s", "tied", "p"])
@pytest.mark.parametrize("weight", [None, "u", "count"])
def test_measures_are_those_of_scikit_learn(rows, frame, score, weight):
    report = evaluate(
        rows, scoreCol=score, weightCol=weight, maxFPR=0.2, probabilities=score == "p"
    )
    y, s, u = frame["label"], frame[score], None if weight is None else frame[weight]
    close = pytest.approx
    assert report.auc == close(metrics.roc_auc_score(y, s, sample_weight=u), abs=1e-12)
    assert report.average_precision == close(
        metrics.average_precision_score(y, s, sample_weight=u), abs=1e-12
    )
    assert report.partial_auc == close(
        metrics.roc_auc_score(y, s, sample_weight=u, max_fpr=0.2), abs=1e-12
    )
    weights = None if u is None else u.to_numpy(float)
    table = ScoreTable.of(s.to_numpy(), y.to_numpy() > 0, weights)
    assert report.interval[:3] == close(auc_interval(table)[:3], rel=1e-10)
    assert report.linear_interval[:3] == close(auc_interval(table, scale="linear")[:3], rel=1e-10)
    if score == "p":
        assert report.log_loss == close(metrics.log_loss(y, s, sample_weight=u), rel=1e-10)
    else:
        assert report.log_loss is None
    assert report.as_dict()["classes"]["positive"]["rows"] == int(y.sum())


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("weight", [None, "count"])
def test_the_same_bits_however_rows_are_partitioned(frame, weight):
    shapes = (table_of(frame), table_of(frame.sort_values("label"), 90), table_of(frame[::-1], N))
    found = [evaluate(r, "tied", weightCol=weight).ranking.to_bytes() for r in shapes]
    assert len(set(found)) == 1


def test_a_histogram_bounds_the_exact_auc(rows):
    exact = evaluate(rows, scoreCol="s").auc
    coarse = evaluate(rows, scoreCol="s", exact=False, maxBins=64)
    lower, upper = coarse.bounds
    assert lower <= exact <= upper
    assert 0 < upper - lower < 0.2
    fine = evaluate(rows, scoreCol="s", exact=False)
    assert fine.bounds == (exact, exact) == (fine.auc, fine.auc)


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize(("weight", "most"), [(None, 10_000), ("u", 700), (None, 50)])
def test_groups(frame, weight, most, monkeypatch):
    """Groups of more rows than a task takes have the same measures."""
    monkeypatch.setattr(groups_module, "_PART_ROWS", most)
    frame = frame.assign(label=np.where(frame["day"] == "3", 0.0, frame["label"]))
    data = table_of(frame.assign(day=frame["day"].replace("4", None)))
    groups = evaluate(data, scoreCol="s", weightCol=weight, groupCol="day").groups
    assert [g.value for g in groups.rows] == ["0", "1", "2", "3", None]
    total = []
    for group, name in zip(groups.rows, "01234", strict=True):
        part = frame[frame["day"] == name]
        u = part["u"].to_numpy() if weight else np.ones(len(part))
        assert group.positive + group.negative == len(part)
        assert group.weight == pytest.approx(u.sum())
        if name == "3":
            assert (group.auc, group.lower, group.upper) == (None, None, None)
            continue
        table = ScoreTable.of(part["s"].to_numpy(), part["label"].to_numpy() > 0, u)
        assert (group.auc, group.lower, group.upper) == pytest.approx(auc_interval(table)[:3])
        total.append((group.auc, u.sum()))
    values, weights = np.array(total).T
    assert groups.gauc == pytest.approx(np.average(values, weights=weights))


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("weight", [None, "u"])
def test_paired_comparison(frame, weight):
    rng = np.random.default_rng(0)
    noisy = frame["s"] + rng.normal(size=N)
    data = table_of(frame.assign(noisy=noisy))
    names = ("s", "noisy", "tied")
    found = compared(data, names, "label", weight=weight)
    u = frame["u"].to_numpy() if weight else None
    columns = np.column_stack([frame["s"], noisy, frame["tied"]])
    expected = PairedAUC.of(columns, frame["label"].to_numpy() > 0, u)
    np.testing.assert_allclose(found.paired.auc, expected.auc, rtol=1e-12)
    np.testing.assert_allclose(found.paired.covariance, expected.covariance, rtol=1e-9)
    assert found.difference("s", "noisy") == pytest.approx(expected.compare(0, 1), rel=1e-6)
    table = ScoreTable.of(frame["s"].to_numpy(), frame["label"].to_numpy() > 0, u)
    assert found.intervals[0][:3] == pytest.approx(auc_interval(table)[:3])


def bad(column, value):
    """Rows of which some hold a value that they should not."""

    def spoilt(rows):
        kind = rows.schema.field(column).type
        some = pc.if_else(pc.equal(rows["day"], "0"), pa.scalar(value, kind), rows[column])
        return rows.set_column(rows.schema.get_field_index(column), column, some)

    return spoilt


@pytest.mark.parametrize(
    ("spoilt", "message"),
    [
        (bad("s", np.nan), r"NaN or infinite scores among 3000 rows"),
        (bad("s", np.inf), r"NaN or infinite scores"),
        (bad("s", None), r"null scores"),
        (bad("label", None), r"\d+ null or NaN labels among 3000 rows"),
        (bad("label", np.nan), r"\d+ null or NaN labels among 3000 rows"),
        (bad("label", 2.0), r"found 3 label values"),
        (bad("u", -1.0), r"weights that are null, NaN, negative or not from"),
        (bad("u", 1e-310), r"weights that are null, NaN, negative or not from 1e-100 to 1e"),
        (bad("u", 1e300), r"weights that are null, NaN, negative or not from 1e-100 to 1e"),
        (bad("u", None), r"weights that are null"),
        (lambda rows: rows.filter(pc.field("label") == 1), r"one class only"),
        (lambda rows: rows.filter(pc.field("label") == 0), r"one class only: 0\.0 \(2\d+ rows\)"),
        (lambda rows: rows.filter(pc.field("label") > 5), r"found no rows"),
    ],
)
def test_rows_that_cannot_be_measured(rows, spoilt, message):
    with pytest.raises(DataError, match=message):
        evaluate(ArrowTable.of(spoilt(rows.gathered()), 700), weightCol="u")


def test_scores_that_are_no_probabilities(rows):
    with pytest.raises(DataError, match=r"scores outside \[0, 1\]"):
        evaluate(rows, scoreCol="s", probabilities=True)


def few(scores, y):
    return ArrowTable.of(pa.table({"s": scores, "label": y}))


def test_one_positive_has_an_auc_and_no_interval():
    report = evaluate(few([1.0, 3.0, 2.0, 0.0], [0.0, 0.0, 1.0, 0.0]))
    assert report.auc == 2 / 3
    assert (report.interval.lower, report.interval.upper) == (0.0, 1.0)
    assert (report.interval.scale, report.interval.small_sample) == ("unknown", True)
    assert np.isnan(report.variance)
    assert report.as_dict()["interval"]["scale"] == "unknown"
    assert report.thresholds["f1"].threshold == 2.0
    data = few([1.0, 2.0], [0.0, 1.0])
    # Clopper and Pearson's bound for one success in one.
    assert evaluate(data).interval.lower == pytest.approx(0.05)


def test_an_unknown_label_is_no_negative():
    nan = float("nan")
    data = few([1.0, 3.0, 2.0, 0.0], [2.0, nan, 2.0, nan])
    with pytest.raises(DataError, match="2 null or NaN labels among 4 rows"):
        evaluate(data, positiveLabel=2)
    with pytest.raises(DataError, match="found 2 NaN in label column 'label'"):
        MBAEstimator(featuresCol=["s"], positiveLabel=2, regParam=1.0).fitted(data)
    with pytest.raises(ConfigError, match="expected a finite number"):
        evaluate(data, positiveLabel=nan)


def test_zeros_of_either_sign_are_one_label():
    report = evaluate(few([1.0, 3.0, 2.0, 0.0], [-0.0, 1.0, 0.0, -0.0]))
    assert report.as_dict()["classes"]["negative"]["rows"] == 3
    assert report.classes == (1.0, 0.0)


def test_no_rows_are_an_error():
    data = few(pa.array([], pa.float64()), pa.array([], pa.float64()))
    with pytest.raises(DataError, match="found no rows"):
        evaluate(data)
    none = pa.array([], pa.float64())
    both = ArrowTable.of(pa.table({"s": none, "t": none, "label": none}))
    with pytest.raises(DataError, match="found no rows"):
        compared(both, ["s", "t"], "label")


def test_settings_that_cannot_serve(rows):
    with pytest.raises(ConfigError, match="did you mean 'tied'"):
        evaluate(rows, "tide")
    with pytest.raises(ConfigError, match="expected numbers or vectors"):
        evaluate(rows, "day")
    with pytest.raises(ConfigError, match="maxFPR 0"):
        evaluate(rows, maxFPR=0)
    with pytest.raises(ConfigError, match="two or more"):
        compared(rows, ["s", "s"], "label")
