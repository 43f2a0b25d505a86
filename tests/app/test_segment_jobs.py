"""The jobs train and score with rankers of segments."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from spark_auc.app.jobs.published_model import read_model
from spark_auc.app.running import run
from tests.app.test_retrain_segments import CITIES, day, window_rows, written

pytestmark = pytest.mark.usefixtures("spark")


@pytest.mark.slow
def test_train_publishes_segments_and_measures_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    written(3, rows=3000)
    # Many more values than segments.
    table = pq.read_table(f"clicks/{day(3)}.parquet")
    city = [f"village {k}" if k % 20 == 0 else c for k, c in enumerate(table["city"].to_pylist())]
    table = table.set_column(table.column_names.index("city"), "city", pa.array(city))
    pq.write_table(table, f"clicks/{day(3)}.parquet")
    rows = {"path": f"clicks/{day(3)}.parquet"}
    train = {
        "data": rows,
        "features": {"standard": ["age", "price"], "tokens": ["city"], "auto": False}
        | {"dimension": 16},
        "training": {"regParam": 0.01, "segmentCol": "city"},
        "holdout": {"by": "position", "train": 2500},
        "refit": False,
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
    groups = {group["value"]: group for group in evaluated["groups"]["rows"]}
    assert groups.keys() == {*CITIES, None}
    model = read_model("model")
    weights, recipe = model.ranker.scorer.segments.weights, model.recipe
    assert weights.values == tuple(sorted(CITIES))
    X, y, city = window_rows(recipe, [3])
    number = np.array([weights.values.index(c) if c in CITIES else 4 for c in city])
    expected = weights.scores(X, number)
    held_out = np.arange(len(y)) >= 2500
    for k, name in enumerate((*weights.values, None)):
        a, b = (expected[held_out & (number == k) & (y == side)] for side in (True, False))
        assert (groups[name]["positive"], groups[name]["negative"]) == (a.size, b.size)
        assert groups[name]["auc"] == pytest.approx(np.mean(a[:, None] > b), rel=1e-12)
    assert "AUC by city" in (version / "report.html").read_text()

    assert run("score", "conf.yaml") == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    scored = pq.read_table(result["scores"].removeprefix("file://")).to_pandas()
    assert sorted(scored["rawPrediction"]) == sorted(expected)
    score["contributions"] = 100
    Path("conf.yaml").write_text(yaml.safe_dump({"score": score | {"output": {"path": "other"}}}))
    assert run("score", "conf.yaml") == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    explained = pq.read_table(result["scores"].removeprefix("file://")).to_pandas()
    sums = [sum(pair["value"] for pair in pairs) for pairs in explained["contributions"]]
    np.testing.assert_allclose(sums, explained["rawPrediction"], rtol=1e-10, atol=1e-13)
