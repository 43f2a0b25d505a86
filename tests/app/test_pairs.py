"""The jobs train and score with pairs of numeric columns, from a table to a report."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from sklearn.metrics import roc_auc_score

from spark_auc.app.jobs.published_model import read_model
from spark_auc.app.running import run
from spark_auc.features.contributions import contributions
from spark_auc.features.raw_columns import Numbers
from spark_auc.publication.versions import current
from tests.app.transformed import transformed

NAMES = ["a", "b", "c"]


@pytest.fixture
def job(spark, tmp_path, monkeypatch, capsys):
    """Runs a job on rows in which "a" and "b" interact."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(3000, 3))
    y = X[:, 0] * X[:, 1] + 0.3 * X[:, 2] + rng.normal(0, 0.5, 3000) > 0
    c = pa.array(X[:, 2], mask=rng.random(3000) < 0.1)
    columns = {"a": X[:, 0], "b": X[:, 1], "c": c, "y": y.astype(float)}
    pq.write_table(pa.table(columns), "rows.parquet")

    def job(name, **section):
        section["output"] = {"path": "out" if name == "score" else "model"}
        section["data"] = {"path": "rows.parquet"}
        (tmp_path / "conf.yaml").write_text(yaml.safe_dump({name: section}))
        code = run(name, "conf.yaml")
        result = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert code == 0, result
        return result

    return job


FEW = {"pairs": 3, "numKnots": 4}
TRAIN = {"columns": {"label": "y"}, "holdout": {"by": "key", "train": 0.7}}


@pytest.mark.usefixtures("all_pictures")
def test_pairs_from_yaml_to_heat_maps_and_scores(job):
    result = job("train", **TRAIN, features={"pairs": 3, "numKnots": 6})
    assert result["auc"] > 0.85
    version = current("model", "model")
    shapes = json.loads(version.read("shapes.json"))["shapes"]
    pairs = [shape for shape in shapes if len(shape["columns"]) == 2]
    assert pairs[0]["columns"] == ["a", "b"]
    # The product of both columns is high where they are alike, and low where they are not.
    values = np.array(pairs[0]["values"])
    assert values[0, 0] > values[0, -1]
    assert values[-1, -1] > values[-1, 0]
    assert 'aria-label="a x b"' in version.read("report.html").decode()
    model = read_model("model")
    assert model.recipe.chosen_by is not None
    scores = job("score", model="model")["scores"].removeprefix("file://")
    scored = np.sort(pq.read_table(scores)["rawPrediction"].to_numpy())
    table = pq.read_table("rows.parquet").to_pandas()
    raw = {name: Numbers(table[name].to_numpy()) for name in NAMES}
    parts = contributions(model.recipe, model.ranker.scorer.w, raw)
    np.testing.assert_allclose(np.sort(parts.sum(axis=1)), scored, atol=1e-9)


@pytest.mark.slow
def test_the_choice_among_models_has_pairs(job):
    result = job("train", **TRAIN, features=FEW | {"trees": None}, method="auto")
    assert result["method"].startswith("additive + pairs")
    methods = json.loads(current("model", "model").read("method.json"))
    candidates = {c["name"]: c for c in methods["candidates"]}
    assert candidates["additive + pairs"]["auc"] > candidates["additive"]["auc"] + 0.1
    assert read_model("model").recipe.pairs


@pytest.mark.parametrize("pairs", [3, [["b", "a"]]], ids=["number", "names"])
def test_a_job_that_takes_rows_again_has_pairs(job, pairs, spark, tmp_path):
    features = {"pairs": pairs, "numKnots": 4}
    job("opauc", columns={"label": "y"}, features=features, training={"regParam": 0.01})
    model = read_model("model")
    assert {"a", "b"} == {column.name for column in model.recipe.pairs[0].columns}
    rows = transformed(model, spark.read.parquet(str(tmp_path / "rows.parquet"))).toPandas()
    assert roc_auc_score(rows["y"], rows["rawPrediction"]) > 0.85
