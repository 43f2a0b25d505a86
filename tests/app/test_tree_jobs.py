"""The job train with trees, and scores by another process's imports."""

import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from pyspark.sql import functions as F
from sklearn.metrics import roc_auc_score

from spark_auc import FeatureRecipeModel
from spark_auc.app.jobs.published_model import read_fit, read_model
from spark_auc.app.running import run
from spark_auc.features.contributions import contributions
from spark_auc.tables.arrow_columns import raw_column
from spark_auc.trees.xgboost_models import from_xgboost
from tests.app.transformed import transformed
from tests.trees.forests import same

pytestmark = pytest.mark.usefixtures("spark")
ROWS = 2400


def table():
    rng = np.random.default_rng(2)
    site, price = rng.integers(0, 5, ROWS), rng.normal(size=ROWS)
    y = 2 * (site % 2 == 0) + price + rng.normal(0, 0.7, ROWS) > 1.2
    return pa.table({"site": [f"site {k}" for k in site], "price": price, "y": y.astype(float)})


@pytest.fixture
def job(tmp_path, monkeypatch, capsys):
    """Runs a job on ``rows.parquet`` and returns its result."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(table(), "rows.parquet")

    def ran(name, section):
        (tmp_path / "conf.yaml").write_text(yaml.safe_dump({name: section}))
        code = run(name, "conf.yaml")
        *_, last = capsys.readouterr().out.splitlines()
        assert code == 0, last
        return json.loads(last)

    return ran


@pytest.mark.slow
@pytest.mark.usefixtures("all_pictures")
def test_all_rows_grow_trees_and_train(job, spark, tmp_path, monkeypatch):
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    trees = {"grow": {"numTrees": 20, "numLeaves": 6, "growShare": 1.0}}
    train = {
        "data": {"path": "rows.parquet"},
        "columns": {"label": "y"},
        "features": {"trees": trees, "auto": False},
        "holdout": {"by": "key", "train": 0.7, "seed": 2},
        "output": {"path": "model"},
    }
    trained = job("train", train)
    assert trained["auc"] > 0.8
    assert sum(trained["rows"].values()) == ROWS
    assert trained["prior"]["shared"] == trained["features"]
    (published,) = tmp_path.glob("model/**/selection.json")
    assert len(json.loads(published.read_text())["candidates"]) == 50
    assert published.with_name("selection.png").is_file()
    # Scores need no library of trees.
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    section = {"model": "model", "data": {"path": "rows.parquet"}, "output": {"path": "out"}}
    scored = pq.read_table(job("score", section)["scores"].removeprefix("file://"))
    own = transformed(read_model("model"), spark.read.parquet(str(tmp_path / "rows.parquet")))
    own = np.sort(own.toArrow()["rawPrediction"].to_numpy())
    np.testing.assert_array_equal(np.sort(scored["rawPrediction"].to_numpy()), own)


@pytest.mark.slow
def test_leaves_alone_from_yaml_to_scores(job, spark, tmp_path, monkeypatch):
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    rows = table()
    trees = {"grow": {"numTrees": 20, "numLeaves": 6, "growShare": 0.4}}
    train = {
        "data": {"path": "rows.parquet"},
        "columns": {"label": "y"},
        "features": {"trees": trees, "auto": False},
        "holdout": {"by": "key", "train": 0.7, "seed": 2},
        "output": {"path": "model"},
    }
    trained = job("train", train)
    assert trained["auc"] > 0.8
    # Some 40% of the 70% that are not held out grew the trees.
    # The groups of rows that grew the trees, some 40 %, do not train.
    assert 0.5 * ROWS < sum(trained["rows"].values()) < 0.7 * ROWS
    # Scores need no library of trees.
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    section = {"model": "model", "data": {"path": "rows.parquet"}, "output": {"path": "out"}}
    scored = pq.read_table(job("score", section)["scores"].removeprefix("file://"))
    # Contributions of the leaves add up to the scores.
    model = read_model("model")
    parts = contributions(
        model.recipe,
        model.ranker.scorer.w,
        {n: raw_column(n, rows[n].combine_chunks()) for n in ("site", "price")},
    )
    own = transformed(model, spark.read.parquet(str(tmp_path / "rows.parquet"))).toArrow()
    assert roc_auc_score(own["y"].to_numpy(), own["rawPrediction"].to_numpy()) > 0.8
    in_order = np.sort(own["rawPrediction"].to_numpy())
    np.testing.assert_array_equal(np.sort(scored["rawPrediction"].to_numpy()), in_order)
    np.testing.assert_allclose(np.sort(parts.sum(axis=1)), in_order, atol=1e-9)
    # Columns that only trees use are watched.
    fitted = FeatureRecipeModel(*read_fit("model"))
    changed = spark.read.parquet(str(tmp_path / "rows.parquet")).withColumn(
        "price", F.lit(None).cast("double")
    )
    assert {e.column for e in fitted.drift_of(changed).excesses(fitted.drift)} == {"price"}


def test_trees_of_a_file_train_all_rows(job):
    """The columns are those that the model names."""
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
    rng = np.random.default_rng(3)
    X = rng.normal(size=(ROWS, 2))
    y = X[:, 0] * X[:, 1] + rng.normal(0, 0.3, ROWS) > 0
    other, mine = slice(0, 800), slice(800, ROWS)
    data = xgboost.DMatrix(X[other], y[other], feature_names=["b", "a c"], nthread=1)
    grown = xgboost.train({"objective": "binary:logistic", "max_depth": 4}, data, 20)
    grown.save_model("trees.ubj")
    rows = {"a c": X[mine, 1], "noise": X[mine, 0] ** 2, "b": X[mine, 0], "y": y[mine] * 1.0}
    pq.write_table(pa.table(rows), "rows.parquet")
    train = {
        "data": {"path": "rows.parquet"},
        "columns": {"label": "y"},
        "features": {"trees": {"path": "trees.ubj"}, "auto": False},
        "holdout": {"by": "key", "train": 0.7, "seed": 2},
        "output": {"path": "model"},
    }
    trained = job("train", train)
    assert trained["auc"] > 0.85
    assert sum(trained["rows"].values()) == 1600
    trees = read_model("model").recipe.trees
    assert [column.name for column in trees.columns] == ["b", "a c"]
    assert same(trees.forest, from_xgboost(grown.save_raw("json")))
