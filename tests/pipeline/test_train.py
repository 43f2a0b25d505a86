"""Training in one call, in this process, beside the published rooms that it is made of."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import roc_auc_score

import spark_auc
from spark_auc import train
from spark_auc.app.one_call import table_of
from spark_auc.errors import ConfigError, DataError
from spark_auc.pipeline.retraining import rows_by_class
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.files import open_file


def people(n=800, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "income": np.where(rng.random(n) < 0.1, np.nan, rng.lognormal(3, 1, n)),
            "city": rng.choice(["Oslo", "Köln", "Bergen", None], n),
            "member": rng.random(n) < 0.5,
            "user": rng.integers(0, n // 4, n),
        }
    )
    score = 0.05 * (frame["age"] - 45) + (frame["city"] == "Oslo") + rng.normal(size=n)
    return frame.assign(bought=(score > 1).astype(int))


@pytest.fixture(scope="module")
def trained():
    return train(people(), "bought", features={"leaveOut": ["user"]})


def test_the_auc_is_that_of_all_held_out_pairs(trained):
    frame = people()
    report = trained.evaluation
    held_out = sum(side["rows"] for side in report.as_dict()["classes"].values())
    assert 0.1 < held_out / len(frame) < 0.3
    everyone, scores = trained.model.evaluate(table_of(frame)), trained.score(frame)
    assert everyone.auc == pytest.approx(roc_auc_score(frame["bought"], scores), abs=1e-12)
    assert report.interval.lower < report.auc < report.interval.upper
    assert trained.model.summary.certificate["reason"] == "converged"


def test_saved_models_serve_the_same_scores(trained, tmp_path):
    trained.save(tmp_path / "ranker")
    frame = people(60, seed=3)
    loaded = spark_auc.load(tmp_path / "ranker")
    np.testing.assert_array_equal(loaded.score(frame), trained.score(frame))
    one = frame.iloc[5].to_dict()
    assert loaded.score({k: one[k] for k in loaded.columns}) == trained.score(frame)[5]


def test_files_and_tables_give_the_same_bits(trained, tmp_path):
    frame = people()
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet")
    given = {"features": {"leaveOut": ["user"]}}
    arrow, json_lines = pa.Table.from_pandas(frame, preserve_index=False), tmp_path / "rows.jsonl"
    json_lines.write_text("\n".join(map(json.dumps, arrow.to_pylist())))
    for rows in (tmp_path / "rows.csv", str(tmp_path / "rows.parquet"), json_lines, arrow):
        other = train(rows, "bought", **given)
        assert other.evaluation.auc == trained.evaluation.auc
        np.testing.assert_array_equal(other.model.ranker.scorer.w, trained.model.ranker.scorer.w)


@pytest.mark.parametrize("name", ["number", "word", "flag", "day"])
def test_a_column_without_values_has_missing_values(tmp_path, name):
    """Parquet gives a column without values no type."""
    rng, n = np.random.default_rng(0), 400
    frame = pd.DataFrame({"number": rng.normal(size=n), "word": rng.choice(["a", "b"], n)})
    frame = frame.assign(flag=rng.random(n) < 0.5, day=pd.date_range("2024-01-01", periods=n))
    frame = frame.assign(y=frame.number + frame.flag + rng.normal(size=n) > 0.5)
    model = train(frame, "y", test=0, training={"regParam": 0.01}).model
    kind = pa.Schema.from_pandas(frame).field(name).type
    tables = []
    for k, values in enumerate([pa.nulls(n), pa.nulls(n, kind)]):
        rows = pa.table(frame).set_column(frame.columns.get_loc(name), name, values)
        pq.write_table(rows, tmp_path / f"{k}.parquet")
        tables += [open_file(tmp_path / f"{k}.parquet"), ArrowTable.of(rows)]
    found = [model.evaluate(table).auc for table in tables]
    assert found == found[:1] * 4


def test_rows_without_weight_or_label_do_not_count():
    rows = pa.table({"y": [1, 0, 1, None, 0, 0], "w": [1.0, 0.0, 2.0, 1.0, 3.0, None]})
    assert rows_by_class(ArrowTable.of(rows), "y", None) == (2, 3)
    assert rows_by_class(ArrowTable.of(rows), "y", None, "w") == (2, 1)


def test_integers_that_doubles_do_not_tell_apart_are_told(caplog):
    rng, y = np.random.default_rng(0), np.arange(300) % 2
    frame = pd.DataFrame({"x": rng.normal(size=300), "i": 2**60 + 3 * y, "same": 7, "y": y})
    with caplog.at_level("INFO", "spark_auc"):
        train(frame, "y", test=0, training={"regParam": 0.1})
    assert "left out 'i': all 300 rows have the same value in double precision; if" in caplog.text
    assert "left out 'same': all 300 rows have the same value\n" in caplog.text


def labelled(labels, n=400, seed=0):
    """Rows of a number, with labels of which the later ones are more frequent at high values."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    places = np.clip((x + rng.normal(size=n) + 1) * len(labels) / 2, 0, len(labels) - 1)
    return pd.DataFrame({"x": x, "y": np.array(labels)[places.astype(int)]})


def model_of(labels, positive=None):
    given = {"test": 0, "training": {"regParam": 0.01}}
    return train(labelled(labels), "y", positive=positive, **given).model


def test_labels_that_the_training_did_not_have_are_refused():
    model, new = model_of(["bad", "good"], "good"), table_of(labelled(["bad", "pending", "good"]))
    words = r"found the labels 'pending' \(\d+ rows\), expected 'good' \(positive\) or 'bad'"
    with pytest.raises(DataError, match=words):
        model.evaluate(new)
    with pytest.raises(DataError, match=words):
        model.calibrated(new, "platt", 1.0, "probability")
    with pytest.raises(DataError, match=r"found the labels 2.0 .* expected 1.0 .* or -1.0"):
        model_of([-1, 1]).evaluate(table_of(labelled([-1, 1, 2]), ["y"]))


def test_numbers_that_the_training_did_not_have_are_told(caplog):
    rows = labelled([0, 1])
    found = model_of([0, 1]).evaluate(table_of(rows.assign(y=rows.y + 1)))
    assert "found the labels 2.0 (" in caplog.text
    assert "beside 1.0 and 0.0: they count as negative" in caplog.text
    caplog.clear()
    assert found.auc == pytest.approx(1 - model_of([0, 1]).evaluate(table_of(rows)).auc)
    # One class may be -1 or 0, and the rest of several labels may have others.
    assert model_of([-1, 1]).evaluate(table_of(rows)).auc == pytest.approx(1 - found.auc)
    model_of(["a", "b", "c"], "c").evaluate(table_of(labelled(["a", "d", "c"])))
    assert not caplog.text


@pytest.mark.parametrize(
    ("labels", "positive", "words"),
    [
        ([1, 2], None, "found labels .*1.0 .*; expected 0 and 1 or -1 and 1"),
        ([0.2, 0.9], None, "found labels .*0.9 .*; expected 0 and 1 or -1 and 1"),
        ([0, -1], None, "found labels .*-1.0 .*; expected 0 and 1 or -1 and 1"),
        (["a", "b"], "z", "found labels .*expected one to be positiveLabel 'z'"),
        ([0, 0], None, "found one class only: 0.0"),
    ],
)
def test_labels_without_positive_or_negative_rows_are_listed(labels, positive, words):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=200), np.array(labels)[rng.integers(0, 2, 200)]
    with pytest.raises(DataError, match=words):
        train(pd.DataFrame({"x": x, "y": y}), "y", positive=positive)


def test_settings_keys_and_no_held_out_rows():
    frame = people().replace({"bought": {0: "no", 1: "yes"}})
    given = {"features": {"numKnots": 4}, "training": {"regParam": 0.01}}
    whole = train(frame, "bought", positive="yes", key="user", test=0, **given)
    assert whole.evaluation is None
    assert sum(whole.model.summary.rows.values()) == len(frame)
    assert "user" not in {column.name for column in whole.model.recipe.columns}
    assert whole.model.summary.reg_param == 0.01


def test_a_choice_of_methods():
    chosen = train(people(400), "bought", method="auto", features={"trees": None})
    assert len(chosen.model.summary.selection["methods"]["candidates"]) >= 2


def test_a_budget_for_a_choice():
    chosen = train(people(400), "bought", budget=0)
    simple, *others = chosen.model.summary.selection["methods"]["candidates"]
    assert (simple["name"], simple["leftOut"]) == ("additive", None)
    assert others
    assert all("left of the budget" in other["leftOut"] for other in others)
    whole, same = (train(people(400), "bought", budget=b) for b in (None, 1e6))
    np.testing.assert_array_equal(whole.model.ranker.scorer.w, same.model.ranker.scorer.w)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"label": "bought", "budget": -1}, ConfigError, "found budget = -1, expected a finite"),
        ({"label": "bought", "budget": "5"}, ConfigError, "found budget = '5', expected a number"),
        ({"label": "bought", "budget": float("nan")}, ConfigError, "found budget = nan"),
        (
            {"label": "bought", "budget": 3, "training": {"regParam": 0.1}},
            ConfigError,
            "found budget 3 and a setting that contradicts a choice of models",
        ),
        ({"label": "bougth"}, ConfigError, "did you mean 'bought'"),
        ({"label": "age"}, DataError, "label values"),
        ({"label": "city"}, ConfigError, "set positiveLabel"),
        ({"label": "bought", "test": 1.0}, ConfigError, "found test 1.0"),
        ({"label": "bought", "key": "users"}, ConfigError, "did you mean 'user'"),
        ({"label": "bought", "training": {"regParm": 1}}, TypeError, "did you mean 'regParam'"),
        ({"label": "bought", "rows": 3}, ConfigError, "found rows of class int"),
    ],
)
def test_errors_are_one_sentence(given, error, words):
    given = {"rows": people(100), **given}
    with pytest.raises(error, match=words):
        train(**given)


def test_no_spark_is_imported():
    code = (
        "import sys, numpy as np, pyarrow as pa\n"
        "for name in ('pyspark', 'py4j', 'yaml'):\n"
        "    sys.modules[name] = None\n"
        "from spark_auc import train\n"
        "x = np.arange(300.0)\n"
        "made = train(pa.table({'x': x, 'y': (x % 7 > 3).astype(int), 'z': x % 7}), 'y')\n"
        "print(round(made.evaluation.auc, 3))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1.0"
