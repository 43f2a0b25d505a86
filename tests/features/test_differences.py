"""Differences of two columns of times: features of tables, rows, exports and stored recipes."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import spark_auc
from spark_auc.app.cli import main
from spark_auc.errors import ConfigError, DataError, ModelFormatError
from spark_auc.export.sql import to_sql
from spark_auc.features.derived import with_derived
from spark_auc.features.differences import Difference, differences_of
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.raw_columns import Numbers, Text
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_json import from_json, to_json
from spark_auc.pipeline import method_fit
from spark_auc.pipeline.drift import drift_of
from spark_auc.serving.linear_scorer import LinearScorer
from spark_auc.serving.ranker import ServedRanker
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.training.tree_candidates import CANDIDATES

NAME = "due - sent"


def frame(rows=600, seed=0):
    """The label depends on the days between two times; each of the times alone says little."""
    rng = np.random.default_rng(seed)
    sent = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 400 * 86_400, rows), "s")
    days = np.round(rng.exponential(20.0, rows), 1)
    due = sent + pd.to_timedelta(days * 86_400, "s")
    y = rng.random(rows) < 1 / (1 + np.exp(-(days - 20.0) / 5.0))
    made = pd.DataFrame({"sent": sent, "x": rng.normal(size=rows), "due": due, "y": y})
    made.loc[::37, "due"] = pd.NaT
    return made


@pytest.fixture(scope="module")
def trained():
    return spark_auc.train(frame(), "y")


def test_the_difference_ranks_better_than_its_times(trained):
    recipe = trained.model.recipe
    assert Difference("due", "sent") in recipe.derived
    assert {column.name for column in recipe.numeric} >= {NAME, "x"}
    without = spark_auc.train(frame(), "y", features={"leaveOut": [NAME]})
    assert Difference("due", "sent") not in without.model.recipe.derived
    assert trained.evaluation.auc > without.evaluation.auc + 0.02


def test_rows_score_alike_in_tables_and_alone(trained, tmp_path):
    rows = frame(200, 1).drop(columns="y")
    scores = trained.score(rows)
    alone = [trained.ranker.score(row) for row in rows.to_dict("records")]
    np.testing.assert_array_equal(alone, scores)
    assert trained.ranker.columns == ("sent", "x", "due")
    trained.save(str(tmp_path / "model"))
    np.testing.assert_array_equal(spark_auc.load(str(tmp_path / "model")).score(rows), scores)
    with pytest.raises(DataError, match="no column 'due'"):
        trained.score(rows.drop(columns="due"))
    with pytest.raises(DataError, match="no column 'due'"):
        trained.ranker.score({"sent": rows.sent[0], "x": 1.0})
    with pytest.raises(DataError, match="column 'due'"):
        trained.score(rows.assign(due="soon"))


def test_days_are_those_of_pandas():
    rows = frame(100, 2)
    times = {
        name: Numbers(rows[name].to_numpy().astype("datetime64[us]")) for name in ("sent", "due")
    }
    expected = (rows.due - rows.sent).dt.total_seconds().to_numpy() / 86_400
    difference = Difference("due", "sent")
    np.testing.assert_allclose(difference.of(times).values, expected, rtol=1e-15)
    valid = np.arange(100) % 2 == 0
    times["sent"] = times["sent"]._replace(validity=valid)
    found = with_derived(times, [difference])[NAME].values
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected) | ~valid)
    assert difference.of_row(rows.iloc[1].to_dict(), "UTC") == pytest.approx(expected[1])
    assert np.isnan(difference.of_row({"due": rows.due[1], "sent": None}, "UTC"))
    text = Text(np.zeros(2, np.int32), np.zeros(2, np.int32), np.empty(0, np.uint8))
    with pytest.raises(DataError, match="expected type time"):
        difference.of({"due": times["due"], "sent": text})


def test_all_pairs_of_a_few_times():
    found = differences_of(["a", "b", "c"], ["a", "b", "c", "c - b"])
    assert [each.name for each in found] == ["b - a", "c - a"]
    assert differences_of("abcde", []) == ()


def test_names_that_two_differences_would_have():
    found = differences_of(["a", "b - a", "c - b", "c"], [])
    assert len({each.name for each in found}) == len(found) == 5


def test_days_of_far_years_are_one_in_rows_and_tables(trained):
    rows = frame(40, 5).drop(columns="y")
    far = [f"{year}-12-31T23:59:59.999999" for year in ("0001", "1700", "2300", "9999")]
    rows["due"] = np.array(far * 10, "datetime64[us]")
    alone = [trained.ranker.score(row) for row in rows.to_dict("records")]
    np.testing.assert_array_equal(alone, trained.score(rows))


def test_trees_alone_read_columns_as_the_recipe_does(monkeypatch):
    """Text of decimal commas, dates with the day first, and differences of times."""
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    rng = np.random.default_rng(6)
    rows = frame(900, 6).drop(columns="y")
    amount, late = rng.integers(0, 4, 900), (rows.due - rows.sent).dt.days.to_numpy() > 14
    y = (rows.x > 0) ^ late ^ (amount % 2 == 0)
    rows["amount"] = [f"{value * 10},{value:02}" for value in amount]
    rows["due"] = rows.due.dt.strftime("%d/%m/%Y")
    rows["sent"] = rows.sent.dt.strftime("%d/%m/%Y")
    monkeypatch.setattr(method_fit, "CANDIDATES", CANDIDATES[:1])
    made = spark_auc.train(rows.assign(y=y), "y", method="auto")
    methods = made.model.ranker.summary.selection["methods"]
    assert "trees" in methods["candidates"][methods["chosen"]]["name"]
    recipe = made.model.recipe
    assert not recipe.numeric
    assert {reading.name for reading in recipe.readings} == {"amount", "due", "sent"}
    scores = np.asarray(made.score(rows))
    alone = [made.ranker.score(row) for row in rows[:50].to_dict("records")]
    np.testing.assert_array_equal(alone, scores[:50])
    assert (scores[y][:, None] > scores[~y]).mean() > 0.8


def test_equal_times_and_names_that_are_taken_give_none():
    rows = frame().assign(due=lambda made: made.sent)
    kinds = {each.KIND for each in spark_auc.train(rows, "y").model.recipe.derived}
    assert "difference" not in kinds
    rows = frame().rename(columns={"x": NAME})
    recipe = spark_auc.train(rows, "y").model.recipe
    assert "difference" not in {each.KIND for each in recipe.derived}
    assert NAME in {column.name for column in recipe.inputs}
    with pytest.raises(ConfigError, match="sent - due"):
        spark_auc.train(frame(), "y", features={"leaveOut": ["sent - due"]})


def test_a_recipe_reads_no_times_of_differences_that_it_has_not(trained):
    recipe = trained.model.recipe
    alone = replace(recipe, numeric=recipe.numeric[1:2], hashed=(), crosses=None)
    assert [column.name for column in alone.inputs] == ["x"]
    assert alone.derived == ()
    ranker = ServedRanker(LinearScorer(np.ones(alone.size), 0.0, 1, 0), alone)
    rows = frame(20, 7)[["x"]]
    scores = [ranker.score(row) for row in rows.to_dict("records")]
    np.testing.assert_array_equal(scores, ranker.score(rows))


def test_a_stored_recipe_has_its_differences(trained):
    recipe = trained.model.recipe
    stored = to_json(recipe)
    assert from_json(stored) == recipe
    changed = json.loads(stored)
    changed["derived"] = [{"as": "difference", "later": "due"}]
    with pytest.raises(ModelFormatError, match="earlier"):
        from_json(json.dumps(changed))
    changed["derived"] = [{"as": "difference", "later": "due", "earlier": "x"}]
    changed["numeric"] = [
        {**c, "name": "due - x"} if c["name"] == NAME else c for c in changed["numeric"]
    ]
    with pytest.raises(ModelFormatError, match="several types"):
        from_json(json.dumps(changed))


def test_new_rows_have_no_unknown_or_absent_column(trained):
    table = ArrowTable.of(pa.Table.from_pandas(frame(300, 3).drop(columns="y")), 100)
    drift = drift_of(table, trained.model.recipe)
    assert (drift.unknown.size, drift.absent.size) == (0, 0)
    assert drift.missing()[NAME] == (300, frame(300, 3).due.isna().sum())


def test_onnx_subtracts_the_days():
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    onnx_model, test_onnx = (
        pytest.importorskip(name)
        for name in ("spark_auc.export.onnx_model", "tests.export.test_onnx")
    )
    spline = Spline(NAME, "float", (0.0, 1.5, 10.0, 60.0))
    recipe = Recipe((spline,), unit=False, derived=(Difference("due", "sent"),))
    weights = np.array([0.5, -1.0, 2.0, 3.0, 0.7])
    served = ServedRanker(LinearScorer(weights, 0.0, 1, 0), recipe)
    rows = frame(50, 4)[["due", "sent"]]
    days = {
        name: (rows[name] - pd.Timestamp(0)).dt.total_seconds().to_numpy() / 86_400 for name in rows
    }
    found = test_onnx.run(onnx_model.onnx_bytes(served), days)["score"]
    np.testing.assert_allclose(found, served.score(rows), atol=1e-9)
    with pytest.raises(ConfigError, match="'due'"):
        to_sql(served)


def test_the_job_and_its_files(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = frame()
    rows.to_csv("rows.csv", index=False)
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["train", "--data", "rows.csv", "--label", "y", "--output", "model"])
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["auc"] > 0.7
    (place,) = Path("model").glob("versions/*/columns.json")
    facts = {fact["name"]: fact for fact in json.loads(place.read_text())["columns"]}
    assert facts[NAME]["kinds"] == ["spline"]
    assert facts[NAME]["missing"] > 0
    ranker = spark_auc.load("model")
    np.testing.assert_array_equal(
        ranker.score(ranker.read("rows.csv")), ranker.score(rows.drop(columns="y"))
    )
