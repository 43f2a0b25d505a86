"""The job train publishes the model of all rows, after a part of them measured it."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from sklearn.metrics import roc_auc_score

from spark_auc import train
from spark_auc.app.jobs.published_model import read_model
from spark_auc.app.running import run
from spark_auc.errors import ConvergenceError
from spark_auc.pipeline.estimators import MethodEstimator
from spark_auc.publication.versions import current
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.raw_columns import RawColumns
from spark_auc.tables.split import by_key

N = 900


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    x, z, city = rng.normal(size=N), rng.normal(size=N), rng.integers(0, 5, N)
    y = x + z * (city - 2) + rng.normal(size=N) > 0.7
    segment = np.array(["s", "t"])[rng.integers(0, 2, N)]
    table = {"x": x, "z": z, "city": [f"c{k}" for k in city], "segment": segment, "y": y * 1.0}
    return pa.table(table)


@pytest.fixture
def job(tmp_path, monkeypatch, capsys, rows):
    monkeypatch.chdir(tmp_path)
    pq.write_table(rows, "rows.parquet")

    def started(output, **changes):
        section = {
            "data": {"path": "rows.parquet"},
            "columns": {"label": "y"},
            "features": {"spline": ["x", "z"], "tokens": ["city"], "auto": False, "dimension": 64},
            "holdout": {"by": "key", "train": 0.7},
            **changes,
            "output": {"path": output},
        }
        with open("conf.yaml", "w") as file:
            yaml.safe_dump({"train": section}, file)
        code = run("train", "conf.yaml")
        result = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert code == 0, result
        return read_model(output), result

    return started


def all_pairs(X, y, reg):
    D = (X[y][:, None] - X[~y][None]).reshape(-1, X.shape[1])
    Sigma, mu = D.T @ D / len(D), D.mean(axis=0)
    return np.linalg.solve(Sigma + reg * np.eye(mu.size), mu)


def mapped(model, rows):
    table = ArrowTable.of(rows)
    raw = RawColumns.of(table, [c.name for c in model.recipe.columns], model.recipe.zone)
    columns = raw.decode([rows[name].combine_chunks() for name in raw.found])
    return model.recipe.transform(columns).toarray()


def test_the_weights_are_those_of_all_rows_and_the_auc_of_the_others(job, rows):
    model, result = job("all")
    y = rows["y"].to_numpy() > 0
    penalty = model.summary.reg_param
    X = mapped(model, rows)
    np.testing.assert_allclose(model.ranker.scorer.w, all_pairs(X, y, penalty), atol=1e-7)
    assert result["refit"] == {"measuredRows": 630, "publishedRows": N}
    assert sum(result["rows"].values()) == N

    kept, held_out = by_key(ArrowTable.of(rows), 0.7, 0, None, ("y", None))
    kept, held_out = (part.gathered() for part in (kept, held_out))
    assert kept.num_rows == 630
    w = all_pairs(mapped(model, kept), kept["y"].to_numpy() > 0, penalty)
    scores = mapped(model, held_out) @ w
    assert result["auc"] == pytest.approx(roc_auc_score(held_out["y"], scores), abs=1e-12)
    page = current("all", "model").read("report.html").decode()
    assert "trained on all 900 rows" in page
    assert "model of the 630 rows" in " ".join(page.split())
    names = {weight.feature for weight in model.summary.largest_weights}
    assert any("mostly city=c" in name for name in names), names


def of_keys(copies=20, seed=0):
    """Rows of 60 keys; the label and the feature of a key are noise."""
    rng, key = np.random.default_rng(seed), np.repeat(np.arange(60), copies)
    x, y = rng.normal(size=60), rng.integers(0, 2, 60)
    return {"x": x[key], "y": y[key], "key": key, "id": np.arange(key.size)}


def test_rows_of_a_key_are_held_out_together(job):
    pq.write_table(pa.table(of_keys()), "keys.parquet")
    given = {"data": {"path": "keys.parquet"}, "columns": {"label": "y", "key": "KEY"}}
    given["features"] = {"leaveOut": ["id"]}
    model, result = job("keyed", **given)
    assert result["refit"]["measuredRows"] % 20 == 0
    assert result["auc"] < 0.8
    assert {column.name for column in model.recipe.inputs} == {"x"}
    by_column = given | {"holdout": {"by": "key", "train": 0.7, "column": "key"}}
    same, of_column = job("by_column", **by_column)
    assert of_column["auc"] == result["auc"]
    np.testing.assert_array_equal(model.ranker.scorer.w, same.ranker.scorer.w)


def test_keys_that_a_holdout_by_position_divides_are_told(job, caplog):
    pq.write_table(pa.table(of_keys()), "keys.parquet")
    given = {"data": {"path": "keys.parquet"}, "columns": {"label": "y", "key": "key"}}
    given |= {"features": {"spline": ["x"], "auto": False}, "select": {"regParams": [0.1, 1.0]}}
    job("cut", **given, holdout={"by": "position", "train": 0.7})
    assert "rows of one key can be in both parts of a holdout by position" in caplog.text


@pytest.mark.parametrize("learner", ["MBAClassifier", "RankSVMClassifier"])
def test_a_key_of_the_holdout_beside_a_single_penalty(job, learner):
    pq.write_table(pa.table(of_keys()), "keys.parquet")
    given = {"data": {"path": "keys.parquet"}, "columns": {"label": "y", "key": "key"}}
    given |= {"features": {"leaveOut": ["id"]}, "training": {"regParam": 0.01}, "learner": learner}
    model, result = job("single", **given)
    assert result["refit"]["measuredRows"] % 20 == 0
    assert {column.name for column in model.recipe.inputs} == {"x"}


def test_fields_of_a_struct_that_is_left_out_divide_no_rows(job, caplog):
    rows = of_keys()
    users = pa.StructArray.from_arrays([pa.array(rows.pop("id"))], ["id"])
    pq.write_table(pa.table(rows | {"user": users}).drop(["key"]), "users.parquet")
    given = {"data": {"path": "users.parquet"}, "holdout": {"by": "key", "train": 0.7}}
    _, result = job("users", **given, features={"leaveOut": ["user"]})
    assert result["auc"] < 0.8
    assert "copies" not in caplog.text


def test_copies_beside_features_without_a_recipe_are_told(job, caplog):
    pq.write_table(pa.table(of_keys()).drop(["key"]), "copies.parquet")
    given = {"data": {"path": "copies.parquet"}, "features": None}
    job("plain", **given, columns={"label": "y", "features": ["x"]})
    assert "leave out the other columns ('id'), or name" in caplog.text


def test_copies_that_differ_in_a_column_without_use_are_told(job, caplog):
    pq.write_table(pa.table(of_keys()).drop(["key"]), "copies.parquet")
    given = {"data": {"path": "copies.parquet"}, "holdout": {"by": "key", "train": 0.7}}
    _, first = job("copies", **given, features={"spline": ["x"], "auto": False})
    assert "leave out the other columns ('id'), or name" in caplog.text
    caplog.clear()
    _, second = job("told", **given, features={"spline": ["x"], "auto": False, "leaveOut": ["id"]})
    assert second["auc"] < first["auc"] - 0.05
    assert "copies" not in caplog.text


def test_a_model_that_is_not_fitted_again(job):
    model, result = job("measured", refit=False)
    assert "refit" not in result
    assert sum(model.summary.rows.values()) == 630


GROWN = {"trees": {"grow": {"numTrees": 5, "numLeaves": 4, "growShare": 1}}}


@pytest.mark.parametrize(
    "changes",
    [
        {"training": {"regParam": 0.01, "elasticNetParam": 0.5}},
        {"training": {"elasticNetParam": 0.3, "selectionRule": "oneStandardError"}},
        {"training": {"segmentCol": "segment"}},
        {"training": {"covariance": "head", "headSize": 8}},
        {"training": {"maxFPR": 0.1}},
        {"training": {"estimator": "paired", "numPairs": 5000}},
        {"select": {"regParams": [1e-3, 1e-2], "elasticNetParams": [0.0, 0.5]}},
        {"learner": "RankSVMClassifier"},
        {"features": {"pairs": 1, "numKnots": 8}},
        {"features": {"spline": ["x", "z"], "auto": False, **GROWN}},
    ],
)
def test_a_fit_and_its_refit_choose_alike(job, changes):
    """The fit on the training rows does not depend on what follows it."""
    before, measured = job("before", refit=False, **changes)
    after, result = job("after", **changes)
    assert result["auc"] == measured["auc"]
    penalty = ("reg_param", "elastic_net_param", "estimator", "max_fpr")
    for name in penalty:
        assert getattr(after.summary, name) == getattr(before.summary, name)
    assert after.summary.selection == before.summary.selection
    assert sum(after.summary.rows.values()) == N
    assert after.summary.certificate["reason"] == "converged"
    if "trees" not in changes.get("features", {}):
        assert after.recipe == before.recipe
    assert not np.array_equal(after.ranker.scorer.w, before.ranker.scorer.w)


def test_a_chosen_method_with_trees_grows_them_again(job):
    pytest.importorskip("lightgbm")
    features = {"spline": ["x", "z"], "tokens": ["city"], "auto": False, "dimension": 64}
    features |= {"pairs": None, "crosses": None}
    before, measured = job("before", refit=False, method="auto", features=features)
    after, result = job("after", method="auto", features=features)
    assert result["method"] == measured["method"]
    assert result["auc"] == measured["auc"]
    assert sum(after.summary.rows.values()) == N
    assert after.summary.reg_param == before.summary.reg_param
    assert "trees" in result["method"]
    assert 0 < after.summary.trees == before.summary.trees <= 1
    forests = [model.recipe.trees.forest for model in (before, after)]
    assert forests[0].trees == forests[1].trees
    assert not np.array_equal(forests[0].threshold, forests[1].threshold)


def test_both_models_are_calibrated(job, rows):
    pq.write_table(rows.slice(0, 300), "calibrating.parquet")
    calibration = {"data": {"path": "calibrating.parquet"}}
    before, measured = job("before", refit=False, calibration=calibration)
    after, result = job("after", calibration=calibration)
    assert after.calibration.curve != before.calibration.curve
    assert result["auc"] == measured["auc"]


def test_one_call(rows):
    frame = rows.to_pandas()
    trained, measured = (train(frame, "y", test=0.3, refit=refit) for refit in (True, False))
    assert trained.evaluation.auc == measured.evaluation.auc
    assert sum(trained.model.summary.rows.values()) == N
    assert sum(measured.model.summary.rows.values()) < N
    again = train(frame, "y", test=0)
    assert again.evaluation is None
    assert sum(again.model.summary.rows.values()) == N


def test_a_refit_that_fails_leaves_the_measured_model(rows, monkeypatch, caplog):
    def refused(*_):
        raise ConvergenceError("too short a day")

    measured = train(rows.to_pandas(), "y", refit=False)
    monkeypatch.setattr(MethodEstimator, "trained_again", refused)
    kept = train(rows.to_pandas(), "y")
    np.testing.assert_array_equal(*(made.model.ranker.scorer.w for made in (kept, measured)))
    assert "the rows that were held out do not train: too short a day" in caplog.text
