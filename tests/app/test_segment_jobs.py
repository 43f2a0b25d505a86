"""The jobs train and score with rankers of segments."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from spark_auc.app.cli import run
from spark_auc.app.jobs.published_model import read_model
from spark_auc.training.segments import REST
from tests.app.test_retrain_segments import CITIES, day, window_rows, written

pytestmark = pytest.mark.usefixtures("spark")


def test_train_publishes_segments_and_measures_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    written(3, rows=3000)
    rows = {"path": f"clicks/{day(3)}.parquet"}
    train = {
        "data": rows,
        "features": {"standard": ["age", "price"], "tokens": ["city"], "auto": False}
        | {"dimension": 16},
        "training": {"regParam": 0.01, "segmentCol": "city"},
        "holdout": {"by": "position", "train": 2500},
        "output": {"path": "model"},
    }
    score = {"model": "model", "data": rows, "output": {"path": "scores"}}
    Path("conf.yaml").write_text(yaml.safe_dump({"train": train, "score": score}))
    assert run("train", "conf.yaml") == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    version = Path(result["report"].removeprefix("file:")).parent
    summary = json.loads((version / "summary.json").read_text())
    assert summary["segments"]["column"] == "city"
    assert summary["segments"]["segments"].keys() == set(CITIES)
    evaluated = json.loads((version / "evaluation.json").read_text())
    assert evaluated["groups"]["column"] == "city"
    assert {group["value"] for group in evaluated["groups"]["rows"]} == {*CITIES, None}
    assert "AUC by city" in (version / "report.html").read_text()

    assert run("score", "conf.yaml") == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    scored = pq.read_table(result["scores"].removeprefix("file://")).to_pandas()
    model = read_model("model")
    weights, recipe = model.ranker.scorer.segments.weights, model.recipe
    assert weights.values == tuple(sorted(CITIES))
    X, _, city = window_rows(recipe, [3])
    order = np.searchsorted(weights.values, np.where(city == REST, "~", city))
    assert sorted(scored["rawPrediction"]) == sorted(weights.scores(X, order))
    score["contributions"] = 3
    Path("conf.yaml").write_text(yaml.safe_dump({"score": score | {"output": {"path": "other"}}}))
    assert run("score", "conf.yaml") == 2
    assert "found a model with rankers of segments of 'city'" in capsys.readouterr().out
