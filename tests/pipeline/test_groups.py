"""AUC by group against scikit-learn and DeLong's intervals of each group alone."""

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.metrics import roc_auc_score

from spark_auc.core.evaluation.delong import auc_interval
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.errors import ConfigError, SparkAUCError
from spark_auc.pipeline import score_groups as groups_module
from spark_auc.tables.arrow_table import ArrowTable
from tests.pipeline.measured import evaluate, table_of


def skewed(small, large, seed=0):
    """Rows of one large group and of small ones of 1 to 9 rows, with ties and weights of 0."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 10, small)
    user = np.concatenate([np.repeat(np.arange(small), sizes), np.full(large, 7)])
    y = rng.random(user.size) < 0.3
    s = np.round(rng.normal(size=user.size) + y, 1)
    u = rng.choice([0.0, 0.5, 1.0, 3.7], user.size)
    order = rng.permutation(user.size)
    columns = {"user": user.astype(str), "s": s, "label": y.astype(float), "u": u}
    return pd.DataFrame(columns).iloc[order]


def small_tasks(monkeypatch, rows):
    monkeypatch.setattr(groups_module, "_PART_ROWS", rows)


@pytest.mark.parametrize("weight", [None, "u"])
def test_a_skewed_group_with_many_small_ones(monkeypatch, weight):
    small_tasks(monkeypatch, 700)
    frame = skewed(300, 5000)
    data = table_of(frame)
    groups = evaluate(data, scoreCol="s", weightCol=weight, groupCol="user").groups
    found = pd.DataFrame(groups.arrays()).set_index("value")
    assert found.index.is_monotonic_increasing
    assert len(found) == frame["user"].nunique() == len(groups)
    for user, part in frame.groupby("user"):
        row = found.loc[user]
        u = part["u"].to_numpy() if weight else np.ones(len(part))
        y, s, u = (v[u > 0] for v in (part["label"].to_numpy() > 0, part["s"].to_numpy(), u))
        assert (row["positive"], row["negative"]) == (y.sum(), (~y).sum())
        assert row["weight"] == pytest.approx(u.sum())
        least = min(y.sum(), (~y).sum())
        expected = [np.nan] * 3
        if least:
            expected[0] = roc_auc_score(y, s, sample_weight=u)
        if least > 1:
            expected[1:] = auc_interval(ScoreTable.of(s, y, u))[1:3]
        np.testing.assert_allclose(row[["auc", "lower", "upper"]].astype(float), expected, 1e-10)
    known = found[found["auc"].notna()]
    assert groups.gauc == pytest.approx(np.average(known["auc"], weights=known["weight"]))


def test_the_same_numbers_however_rows_are_partitioned(monkeypatch):
    frame = skewed(300, 4000)
    data = table_of(frame)

    def found(rows, weight):
        groups = evaluate(rows, scoreCol="s", weightCol=weight, groupCol="user").groups
        return pd.DataFrame(groups.arrays()).set_index("value")

    for weight, tolerance in ((None, 1e-14), ("u", 1e-12)):
        small_tasks(monkeypatch, 1 << 20)
        one_task = found(data, weight)
        shuffled = found(table_of(frame.sort_values("s"), 97), weight)
        pd.testing.assert_frame_equal(one_task, shuffled, check_exact=True)
        small_tasks(monkeypatch, 301)
        parts = found(data, weight)
        pd.testing.assert_frame_equal(one_task, parts, rtol=tolerance, atol=0)
        exact = ["positive", "negative"] + ["auc"] * (weight is None)
        pd.testing.assert_frame_equal(one_task[exact], parts[exact], check_exact=True)


def valued(values, kind, **columns):
    """Ten rows for each value: positives win all pairs in the first, lose all in the others."""
    groups = pa.array([value for value in values for _ in range(10)], kind)
    order = np.tile(np.arange(10.0), len(values))
    rows = {
        "g": groups,
        "s": np.where(np.arange(order.size) < 10, order, -order),
        "label": (order > 5).astype(float),
    }
    return ArrowTable.of(pa.table(rows | columns))


@pytest.mark.parametrize(
    ("kind", "values", "texts"),
    [
        (pa.int64(), [1, 10, 2], ["1", "10", "2"]),
        (pa.string(), ["1", "01", ""], ["1", "01", ""]),
        (pa.string(), ["null", None, "NULL"], ["null", None, "NULL"]),
        (pa.bool_(), [True, False], ["true", "false"]),
        (pa.float64(), [1.0, math.nan], ["1", "NaN"]),
        (pa.string(), ["ä", "z", "\U0001f600", "\uffff"], ["ä", "z", "\U0001f600", "\uffff"]),
    ],
)
def test_values_of_any_type(kind, values, texts):
    groups = evaluate(valued(values, kind), scoreCol="s", groupCol="g").groups
    found = {group.value: group.auc for group in groups.rows}
    assert found == {text: float(k == 0) for k, text in enumerate(texts)}
    assert [g.value for g in groups.rows] == sorted(found, key=lambda v: (v is None, v))


def test_zeros_of_either_sign_are_one_group():
    for kind in (pa.float32(), pa.float64()):
        groups = evaluate(valued([0.0, -0.0], kind), scoreCol="s", groupCol="g").groups
        assert [(g.value, g.positive, g.auc) for g in groups] == [("0", 8, 0.5)]


def test_rows_of_weight_0_are_no_rows():
    data = valued(["a", "b"], pa.string(), u=np.repeat([1.0, 0.0], 10))
    groups = evaluate(data, scoreCol="s", weightCol="u", groupCol="g").groups
    assert groups[0].auc == groups.gauc == 1.0
    assert groups[1] == ("b", 0, 0, 0.0, None, None, None)


def test_groups_of_one_class_have_no_mean():
    data = valued(["a", "b"], pa.string(), label=np.repeat([1.0, 0.0], 10))
    groups = evaluate(data, scoreCol="s", groupCol="g").groups
    assert groups.gauc is None
    assert groups.as_dict()["quantiles"]["0.5"] is None


def test_what_cannot_be_grouped():
    data = valued([b"a"], pa.binary())
    with pytest.raises(ConfigError, match="column 'g' of type binary"):
        evaluate(data, scoreCol="s", groupCol="g")
    with pytest.raises(ConfigError, match="'h'"):
        evaluate(data, scoreCol="s", groupCol="h")


def test_lost_rows_are_noticed(monkeypatch):
    measured = groups_module._measured

    def losing(batches, level):
        return measured((b for k, b in enumerate(batches) if k != 1), level)

    monkeypatch.setattr(groups_module, "_measured", losing)
    data = table_of(skewed(100, 40_000))
    with pytest.raises(SparkAUCError, match="write the scored rows"):
        evaluate(data, scoreCol="s", groupCol="user")


def test_reports_list_the_extremes_of_many_groups():
    frame = skewed(400, 2000)
    data = table_of(frame)
    groups = evaluate(data, scoreCol="s", groupCol="user").groups
    told = groups.as_dict()
    assert told["rows"] == []
    assert (told["count"], told["gauc"]) == (len(groups), groups.gauc)
    known = [g for g in groups if g.upper is not None]
    assert [g["upper"] for g in told["lowest"]] == sorted(g.upper for g in known)[:20]
    assert [g["lower"] for g in told["highest"]] == sorted((g.lower for g in known), reverse=True)[
        :20
    ]
    aucs = [g.auc for g in groups if g.auc is not None]
    assert told["measured"] == len(aucs)
    assert list(told["quantiles"].values()) == pytest.approx(
        np.quantile(aucs, [0.05, 0.25, 0.5, 0.75, 0.95])
    )
    few = evaluate(table_of(frame[frame["user"] < "13"]), scoreCol="s", groupCol="user").groups
    told = few.as_dict()
    assert [g["value"] for g in told["rows"]] == few.values.tolist()
    assert told["lowest"] == told["highest"] == []
    assert few[-1] == few.rows[-1] == few[len(few) - 1]
    assert few[2:4] == few.rows[2:4]
    with pytest.raises(IndexError):
        few[len(few)]
