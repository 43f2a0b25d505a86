"""The job train with method: auto, from a table to a report."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from spark_auc.app.jobs.published_model import read_model
from spark_auc.app.running import run
from spark_auc.publication.versions import current


def test_crosses_win_where_two_columns_interact(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 4, (2, 3000))
    y = ((a + b) % 2 == 0) ^ (rng.random(3000) < 0.2)
    table = {"a": [f"a{k}" for k in a], "b": [f"b{k}" for k in b]}
    table |= {"x": rng.normal(size=3000), "y": y.astype(float)}
    pq.write_table(pa.table(table), tmp_path / "rows.parquet")
    section = {
        "data": {"path": "rows.parquet"},
        "columns": {"label": "y"},
        "features": {
            "tokens": ["a", "b"],
            "spline": ["x"],
            "auto": False,
            "numKnots": 4,
            "dimension": 64,
            "crosses": "all",
            "crossBits": 14,
            "trees": None,
        },
        "method": "auto",
        "holdout": {"by": "key", "train": 0.7},
        "output": {"path": "model"},
    }
    (tmp_path / "conf.yaml").write_text(yaml.safe_dump({"train": section}))
    code = run("train", "conf.yaml")
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert code == 0, result
    assert result["method"].startswith("additive + crosses")
    assert result["auc"] > 0.75
    version = current("model", "model")
    methods = json.loads(version.read("method.json"))
    candidates = methods["candidates"]
    blocks = [["additive"], ["additive", "crosses"], ["additive", "crosses"]]
    assert [c["blocks"] for c in candidates] == blocks
    assert [c["loss"] for c in candidates] == ["squared", "squared", "hinge"]
    assert candidates[methods["chosen"]]["name"] == result["method"]
    assert candidates[0]["auc"] < 0.6
    # Crosses have 2^14 features, of which few occur.
    assert candidates[1]["dimension"] < 200
    page = version.read("report.html").decode()
    assert "Candidate models" in page
    assert f"{candidates[1]['auc']:.4f}" in page
    model = read_model("model")
    assert model.recipe.crosses is not None
    assert model.ranker.summary.selection["methods"] == methods


@pytest.mark.slow
def test_features_left_to_the_choice(tmp_path, monkeypatch, capsys):
    """Keys that are left out are the choice's; keys that are null are declined."""
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3, 2500))
    y = x[0] * x[1] + np.where(x[2] > 0, x[0], -x[0]) + 0.5 * rng.normal(size=2500) > 0
    table = pa.table({**{f"x{k}": row for k, row in enumerate(x)}, "y": y.astype(float)})
    pq.write_table(table, tmp_path / "rows.parquet")
    section = {
        "data": {"path": "rows.parquet"},
        "columns": {"label": "y"},
        "method": "auto",
        "holdout": {"by": "key", "train": 0.7},
        "output": {"path": "model", "replace": True},
    }
    names = {}
    for declined in ((), ("pairs", "crosses", "trees")):
        features = {"features": {"numKnots": 4, **dict.fromkeys(declined)}}
        (tmp_path / "conf.yaml").write_text(yaml.safe_dump({"train": section | features}))
        assert run("train", "conf.yaml") == 0
        result = json.loads(capsys.readouterr().out.splitlines()[-1])
        version = current("model", "model")
        candidates = json.loads(version.read("method.json"))["candidates"]
        names[declined] = [c["name"] for c in candidates]
        for reason in (c["leftOut"] for c in candidates if c["loss"] == "squared"):
            assert reason is None or "on 2 folds, that of" in reason
        if not declined:
            assert result["method"] != "additive"
            assert result["auc"] > 0.85
            assert result["method"] in version.read("report.html").decode()
    assert names["pairs", "crosses", "trees"] == ["additive", "additive, hinge"]
    assert "additive + pairs" in names[()]
    assert sum("trees" in name for name in names[()]) == 6
