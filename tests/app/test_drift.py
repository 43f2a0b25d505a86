"""Drift of raw rows in the jobs, against counts by pandas."""

import json
import logging
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import yaml

from spark_auc.app.jobs import published_model
from spark_auc.app.jobs.published_model import read_fit, read_model, read_recipe
from spark_auc.app.running import run
from spark_auc.publication.versions import current
from spark_auc.spark.data.split import by_key

pytestmark = pytest.mark.usefixtures("spark")

FEATURES = {
    "spline": ["price"],
    "tokens": ["site"],
    "auto": False,
    "numKnots": 6,
    "dimension": 64,
}
ROWS = 300


def table(missing=0.1, scale=1.0, seed=1):
    rng = np.random.default_rng(seed)
    site = rng.integers(0, 6, ROWS)
    price = rng.lognormal(size=ROWS)
    y = site + np.log(price) + rng.normal(size=ROWS) > 3
    empty = rng.random(ROWS) < missing
    return pa.table(
        {
            "site": ["" if e else f"site {k}" for e, k in zip(empty, site, strict=True)],
            "price": pa.array(scale * price, mask=rng.random(ROWS) < missing),
            "row": np.arange(ROWS),
            "y": y.astype(float),
        }
    )


@pytest.fixture
def at(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows").mkdir()
    for k in range(3):
        pq.write_table(table().slice(100 * k, 100), tmp_path / f"rows/{k}.parquet")
    return tmp_path


@pytest.fixture
def job(at, capsys):
    def started(name, parts=(), **section):
        (at / "conf.yaml").write_text(yaml.safe_dump({name: section}))
        code = run(name, "conf.yaml", parts=parts)
        *_, last = capsys.readouterr().out.splitlines()
        result = json.loads(last)
        assert code == 0, result
        return result

    return started


def section(output="model", **changes):
    return {
        "data": {"path": "rows"},
        "columns": {"label": "y"},
        "features": FEATURES,
        "training": {"regParam": 0.01},
        "output": {"path": output, "replace": True},
    } | changes


def expected(recipe, frame, unknown):
    """The key ``drift`` without excesses."""
    knots = recipe.numeric[0].knots
    price, site = frame["price"], frame["site"]
    rows = len(frame)
    return {
        "columns": [
            {
                "column": "price",
                "kind": "spline",
                "rows": rows,
                "missing": price.isna().sum() / rows,
                "below": (price < knots[0]).sum() / rows,
                "above": (price > knots[-1]).sum() / rows,
            },
            {
                "column": "site",
                "kind": "tokens",
                "rows": rows,
                "missing": (site.isna() | (site == "")).sum() / rows,
            },
        ],
        "unknown": unknown,
        "absent": [],
    }


def without_excesses(drift):
    return {name: value for name, value in drift.items() if name != "excesses"}


def test_scored_and_evaluated_rows(job, at, caplog):
    trained = job("train", **section())
    assert "drift" not in trained
    recipe = read_recipe("model")
    drifted = table(0.5, 50.0, seed=2)
    pq.write_table(drifted, at / "drifted.parquet", row_group_size=70)
    scoring = {"model": "model", "data": {"path": "drifted.parquet"}, "keep": ["row"]}
    caplog.set_level(logging.INFO)
    scored = job("score", **scoring, output={"path": "scores"})
    found = expected(recipe, drifted.to_pandas(), ["row", "y"])
    assert without_excesses(scored["drift"]) == found
    fit = expected(recipe, table().to_pandas(), [])["columns"]
    assert [(e["column"], e["counted"]) for e in scored["drift"]["excesses"]] == [
        ("price", "missing"),
        ("price", "above"),
        ("site", "missing"),
    ]
    assert scored["drift"]["excesses"][2] == {
        "column": "site",
        "kind": "tokens",
        "counted": "missing",
        "share": found["columns"][1]["missing"],
        "expected": fit[1]["missing"],
    }
    warnings = [r.message for r in caplog.records if r.levelno == logging.WARNING]
    assert sum("of the values of column" in text for text in warnings) == 3
    said = [r for r in caplog.records if "does not know: row, y" in r.message]
    assert [r.levelno for r in said] == [logging.INFO]
    quiet = job("score", **scoring, drift=False, output={"path": "quiet"})
    assert "drift" not in quiet
    evaluating = {"model": "model", "data": scoring["data"]}
    evaluated = job("evaluate", **evaluating, output={"path": "evaluation"})
    assert evaluated["drift"] == scored["drift"] | {"unknown": ["row"]}
    stored = json.loads(current("evaluation", "evaluation").read("evaluation.json"))
    assert stored["drift"] == evaluated["drift"]
    assert "drift" not in job("evaluate", **evaluating, drift=False, output={"path": "more"})
    # Rows like those of the fit.
    same = job("score", model="model", data={"path": "rows"}, output={"path": "same"})
    assert same["drift"]["excesses"] == []


@pytest.mark.slow
def test_a_holdout(job, spark, at):
    holdout = {"by": "key", "train": 0.6, "seed": 2, "column": "row"}
    trained = job("train", **section(holdout=holdout))
    parts = by_key(spark.read.parquet(str(at / "rows")), 0.6, 2, "row")
    test = parts.filter("part = 'test'").toPandas()
    recipe = read_recipe("model")
    assert without_excesses(trained["drift"]) == expected(recipe, test, ["row"])
    train = parts.filter("part = 'train'").toPandas()
    drift = read_fit("model")[1]
    counts = drift.counts[:, :4].tolist()
    shares = [expected(recipe, train, [])["columns"][k] for k in (0, 1)]
    rows = len(train)
    assert counts[0] == [rows, *(round(shares[0][n] * rows) for n in ("missing", "below", "above"))]
    assert counts[1] == [rows, round(shares[1]["missing"] * rows), 0, 0]
    assert read_model("model").fitted_recipe.drift.to_bytes() == drift.to_bytes()
    quiet = job("train", **section(holdout=holdout, drift=False))
    assert "drift" not in quiet
    assert quiet["auc"] == trained["auc"]


@pytest.mark.slow
def test_one_pass_over_raw_rows(job, at, caplog, monkeypatch):
    job("train", **section())
    recipe = read_recipe("model")
    drifted = table(0.6, 1.0, seed=3)
    (at / "late").mkdir()
    for k in range(3):
        rows = (drifted if k == 1 else table()).slice(100 * k, 100)
        pq.write_table(rows, at / f"late/{k}.parquet")
    resolved = []

    def recorded(location, kind):
        resolved.append(location)
        return current(location, kind)

    monkeypatch.setattr(published_model, "current", recorded)
    reused = section("one", data={"path": "late"}, features={"recipe": "model"})
    batch = job("opauc", **reused)
    # One version of the model is read, which may be replaced at any time.
    assert resolved.count("model") == 1
    whole = pa.concat_tables(pq.read_table(at / f"late/{k}.parquet") for k in range(3))
    assert without_excesses(batch["drift"]) == expected(recipe, whole.to_pandas(), ["row"])
    assert "drift" not in job("opauc", **reused, drift=False)
    # The counts of the fit are published with the recipe.
    assert read_fit("one")[1].to_bytes() == read_fit("model")[1].to_bytes()
    stream = {"checkpoint": "checkpoint", "maxFilesPerTrigger": 1}
    caplog.set_level(logging.INFO)
    caplog.clear()
    streamed = job("opauc", ["stream"], **reused | {"stream": stream, "output": {"path": "s"}})
    lines = [json.loads(line) for line in (at / "checkpoint/status.jsonl").open()]
    assert len(lines) == streamed["batches"] == 3
    parts = [pq.read_table(at / f"late/{k}.parquet").to_pandas() for k in range(3)]
    found = [without_excesses(line["drift"]) for line in lines]
    made = [expected(recipe, part, ["row"]) for part in parts]
    assert sorted(map(json.dumps, found)) == sorted(map(json.dumps, made))
    excesses = [line["drift"]["excesses"] for line in lines]
    assert sorted(len(e) for e in excesses) == [0, 0, 2]
    assert caplog.text.count("does not know: row") == 1
    assert caplog.text.count("of the values of column 'site' (tokens) are missing") == 1
    assert "reader:" not in caplog.text


def test_a_rejected_file_is_not_counted(job, at):
    job("train", **section())
    (at / "late").mkdir()
    pq.write_table(table(), at / "late/0.parquet")
    bad = table().set_column(3, "y", pc.cast(pa.array([7.0] * ROWS), pa.float64()))
    pq.write_table(bad, at / "late/1.parquet")
    reused = section("s", data={"path": "late"}, features={"recipe": "model"})
    streamed = job("opauc", ["stream"], **reused, stream={"checkpoint": "checkpoint"})
    assert streamed["rejected"] == 1
    (line,) = [json.loads(line) for line in (at / "checkpoint/status.jsonl").open()]
    assert [column["rows"] for column in line["drift"]["columns"]] == [ROWS, ROWS]


def test_a_recipe_of_tokens_alone(job, at):
    """There are shares, which are compared with nothing."""
    features = {"tokens": ["site"], "auto": False, "dimension": 64}
    job("train", **section(features=features))
    assert read_fit("model")[1] is None
    pq.write_table(table(1.0), at / "empty.parquet")
    scored = job("score", model="model", data={"path": "empty.parquet"}, output={"path": "scores"})
    (site,) = scored["drift"]["columns"]
    assert (site["missing"], scored["drift"]["excesses"]) == (1.0, [])


def test_a_model_of_prepared_features_has_no_drift(job, at):
    rows = table(0.0).drop_columns(["site"])
    pq.write_table(rows, at / "numbers.parquet")
    data = {"path": "numbers.parquet"}
    changes = {"data": data, "columns": {"label": "y", "features": ["price"]}}
    trained = {k: v for k, v in section(**changes).items() if k != "features"}
    job("train", **trained)
    assert not Path(current("model", "model").path, "drift.bin").exists()
    assert "drift" not in job("score", model="model", data=data, output={"path": "scores"})
