"""Jobs on both engines: the same results, and which engine runs a job."""

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import yaml

from spark_auc.app.config.jobs import Configuration
from spark_auc.app.jobs import engines
from spark_auc.app.jobs.engines import reason_for_spark
from spark_auc.app.jobs.published_model import read_model
from spark_auc.app.known import module_of
from spark_auc.app.running import run
from spark_auc.errors import ConfigError
from tests.app.test_retrain import SECTION, day, written

ENGINES = ["local", "spark"]
# Without an active session, each job would start one, and workers of its own.
on_both = pytest.mark.usefixtures("spark")


@pytest.fixture
def job(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def started(name, engine=None, options=None, **section):
        if options is None:
            content = {"engine": engine, name: section}
            (tmp_path / "conf.yaml").write_text(yaml.safe_dump(content))
            code = run(name, "conf.yaml")
        else:
            code = run(name, options=options | ({"engine": engine} if engine else {}))
        result = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert code == 0, result
        return result

    return started


def raw(rows=900, seed=0):
    """Text with quotes, separators inside of them, missing values and times."""
    rng = np.random.default_rng(seed)
    site, price = rng.integers(0, 5, rows), np.exp(rng.normal(size=rows))
    hour = rng.integers(0, 24, rows)
    odds = 0.8 * (site == 2) - 0.7 * np.log(price) + 0.1 * (hour > 12) - 0.5
    y = rng.random(rows) < 1 / (1 + np.exp(-odds))
    lines = ["site,price,at,code,note,clicked"]
    for k in range(rows):
        cost = "" if k % 11 == 0 else f" {price[k]:.4f}"
        note = '"a, ""b"""' if k % 7 else "NA"
        moment = f"2026-03-{1 + k * 28 // rows:02} {hour[k]:02}:00:00"
        label = "yes" if y[k] else "no"
        lines.append(f"s{site[k]},{cost},{moment},0{site[k]},{note},{label}")
    return "\n".join(lines) + "\n"


def weights(model):
    return dict(zip(model.ranker.scorer.names or [], model.ranker.scorer.w, strict=False))


@on_both
@pytest.mark.parametrize("split", [{}, pytest.param({"time": "at"}, marks=pytest.mark.slow)])
def test_a_raw_file_is_trained_scored_and_evaluated_alike(job, tmp_path, split):
    (tmp_path / "rows.csv").write_text(raw())
    options = {"data": "rows.csv", "label": "clicked", "positive": "yes", **split}
    trained = {e: job("train", e, options | {"output": f"model_{e}"}) for e in ENGINES}
    models = {engine: read_model(f"model_{engine}") for engine in ENGINES}
    mine, theirs = models["local"], models["spark"]
    assert mine.recipe == theirs.recipe
    assert mine.summary.reg_param == theirs.summary.reg_param
    assert trained["local"].get("smoothness") == trained["spark"].get("smoothness")
    np.testing.assert_allclose(mine.ranker.scorer.w, theirs.ranker.scorer.w, rtol=1e-6, atol=1e-9)
    assert trained["local"]["auc"] == pytest.approx(trained["spark"]["auc"], abs=1e-9)
    scores = {}
    for engine in ENGINES:
        found = job(
            "score", engine, {"data": "rows.csv", "model": "model_local", "output": f"s_{engine}"}
        )
        rows = ds.dataset(found["scores"].removeprefix("file://")).to_table()
        scores[engine] = rows.sort_by([("at", "ascending"), ("price", "ascending")])
    assert scores["local"].schema.names == scores["spark"].schema.names
    np.testing.assert_allclose(
        scores["local"]["rawPrediction"], scores["spark"]["rawPrediction"], rtol=1e-12
    )
    assert scores["local"]["prediction"] == scores["spark"]["prediction"]
    data = {"format": "csv", "path": "rows.csv", "options": {"header": True, "escape": '"'}}
    section = {"model": "model_local", "data": data, "measures": {"groupCol": "site"}}
    measured = [
        job("evaluate", engine, **section, output={"path": f"e_{engine}"}) for engine in ENGINES
    ]
    assert measured[0]["auc"] == pytest.approx(measured[1]["auc"], abs=1e-12)
    assert measured[0]["classes"] == measured[1]["classes"]


@on_both
def test_text_of_a_layout_is_trained_on_and_scored_alike(job, tmp_path):
    rng = np.random.default_rng(4)
    site, price = rng.integers(0, 5, 600), np.exp(rng.normal(size=600))
    y = rng.random(600) < 1 / (1 + np.exp(np.log(price) - (site == 2)))
    lines = [f"{int(y[k])}\t{price[k]:.4f}\ts{site[k]}" for k in range(600)]
    (tmp_path / "rows").write_text("\n".join(lines))
    options = {"separator": "tab", "columns": "y integer, price float, site"}
    data = {"path": "rows", "format": "delimited", "options": options}
    shared = {"columns": {"label": "y"}, "features": {"dimension": 32, "numKnots": 4}}
    scores, models = {}, {}
    for engine in ENGINES:
        output = {"path": f"model_{engine}"}
        trained = {"training": {"regParam": 1e-3}, "output": output}
        job("train", engine, data=data, **shared, **trained)
        models[engine] = read_model(f"model_{engine}").ranker.scorer.w
        model, output = "model_local", {"path": f"scores_{engine}"}
        found = job("score", engine, model=model, data=data, output=output)
        rows = ds.dataset(found["scores"].removeprefix("file://")).to_table()
        scores[engine] = np.sort(rows["rawPrediction"])
    np.testing.assert_allclose(models["local"], models["spark"], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(scores["local"], scores["spark"], rtol=1e-12)


def json_lines(rows=900):
    """Objects that lack fields, of whole prices in the first rows alone, and with lists."""
    rng = np.random.default_rng(5)
    site, price = rng.integers(0, 5, rows), np.exp(rng.normal(size=rows) + 2)
    y = rng.random(rows) < 1 / (1 + np.exp(np.log(price) - 2 - (site == 2)))
    for k in range(rows):
        record = {
            "price": round(price[k]) if k < 800 else price[k],
            "clicked": bool(y[k]),
            "user": {"site": f"s{site[k]}", "tags": ["a"] * (k % 3)},
            "at": f"2026-03-{1 + k * 28 // rows:02} 10:00:00",
            "code": f"{site[k]}",
        }
        yield json.dumps({name: v for name, v in record.items() if name == "clicked" or k % 9})


@on_both
def test_json_lines_are_trained_on_and_scored_alike(job, tmp_path):
    (tmp_path / "rows.jsonl").write_text("\n".join(json_lines()))
    options = {"data": "rows.jsonl", "label": "clicked"}
    models, scores = {}, {}
    for engine in ENGINES:
        job("train", engine, options | {"output": f"model_{engine}"})
        models[engine] = read_model(f"model_{engine}")
        new = {"data": "rows.jsonl", "model": "model_local", "output": f"scores_{engine}"}
        found = job("score", engine, new)
        rows = ds.dataset(found["scores"].removeprefix("file://")).to_table()
        scores[engine] = rows.sort_by([("at", "ascending"), ("price", "ascending")])
    mine, theirs = models["local"], models["spark"]
    assert mine.recipe == theirs.recipe
    types = {column.name: column.type for column in mine.recipe.columns}
    assert types == {"price": "float", "at": "time", "code": "text", "user.site": "text"}
    np.testing.assert_allclose(mine.ranker.scorer.w, theirs.ranker.scorer.w, rtol=1e-6, atol=1e-9)
    assert scores["local"].schema.names == scores["spark"].schema.names
    assert scores["local"]["user"].to_pylist() == scores["spark"]["user"].to_pylist()
    np.testing.assert_allclose(
        scores["local"]["rawPrediction"], scores["spark"]["rawPrediction"], rtol=1e-12
    )
    data = {"format": "json", "path": "rows.jsonl"}
    features = {"tokens": ["user.site"], "standard": ["price"], "auto": False, "dimension": 16}
    section = {"columns": {"label": "clicked"}, "features": features}
    section |= {"data": data | {"dropMissing": ["price"]}, "holdout": {"by": "position"}}
    w, auc = [], []
    for engine in ENGINES:
        result = job("train", engine, **section, output={"path": f"fields_{engine}"})
        auc.append(result["auc"])
        assert sum(result["rows"].values()) == 800
        w.append(read_model(f"fields_{engine}").ranker.scorer.w)
    np.testing.assert_allclose(*w, rtol=1e-6, atol=1e-9)
    assert auc[0] == pytest.approx(auc[1], abs=1e-12)


@on_both
def test_calibration_and_a_prior_alike(job, tmp_path):
    for name, seed in (("rows", 0), ("others", 1)):
        (tmp_path / f"{name}.csv").write_text(raw(seed=seed))
    data = {"format": "csv", "options": {"header": True, "escape": '"'}, "types": "auto"}
    section = {
        "data": data | {"path": "rows.csv"},
        "columns": {"label": "clicked", "positiveLabel": "yes"},
        "features": {"tokens": ["site"], "standard": ["price"], "auto": False, "dimension": 32},
        "training": {"regParam": 0.1},
    }
    curves = []
    for engine in ENGINES:
        job("train", engine, **section, output={"path": f"first_{engine}"})
        more = {
            "prior": f"first_{engine}",
            "calibration": {"data": data | {"path": "others.csv"}},
            "features": {"recipe": f"first_{engine}"},
            "holdout": {"by": "time", "column": "at", "before": "2026-03-20T00:00:00"},
        }
        job("train", engine, **section | more, output={"path": f"model_{engine}"})
        model = read_model(f"model_{engine}")
        assert model.summary.prior is not None
        curves.append((model.calibration.curve, model.ranker.scorer.w))
    (mine, w), (theirs, v) = curves
    np.testing.assert_allclose(w, v, rtol=1e-6)
    assert mine.slope == pytest.approx(theirs.slope, rel=1e-9)
    assert mine.intercept == pytest.approx(theirs.intercept, rel=1e-9)


@on_both
@pytest.mark.parametrize("name", ["price", pytest.param("Age", marks=pytest.mark.slow)])
def test_retraining_alike(job, tmp_path, name):
    pytest.importorskip("deltalake")
    for k in range(4):
        written(k, turn=2)
        rows = pq.read_table(f"clicks/{day(k)}.parquet")
        pq.write_table(rows.rename_columns({"price": name}), f"clicks/{day(k)}.parquet")
    features = SECTION["features"] | {"standard": ["age", name]}
    ends = {}
    for engine in ENGINES:
        places = {"store": f"{engine}/moments", "history": f"{engine}/history"}
        section = SECTION | places | {"output": {"path": f"{engine}/model"}, "features": features}
        result = job("retrain", engine, **section | {"first": day(0), "period": day(3)})
        lines = (tmp_path / engine / "history/history.jsonl").read_text().splitlines()
        ends[engine] = result, [json.loads(line) for line in lines]
    (mine, my_records), (theirs, their_records) = ends.values()
    outcomes = [record["outcome"] for record in my_records]
    assert outcomes == ["stored", "promoted", "kept", "promoted"]
    assert mine["periods"] == theirs["periods"]
    assert mine["champion"] == theirs["champion"]
    for a, b in zip(my_records, their_records, strict=True):
        assert a["outcome"] == b["outcome"]
        assert a["rows"] == b["rows"]
        if "gate" in a:
            for whose, found in a["gate"]["auc"].items():
                assert found == pytest.approx(b["gate"]["auc"][whose], abs=1e-9)


def test_fields_of_structs_and_spark_free_process(job, tmp_path, monkeypatch):
    """A local job never asks for a session."""
    monkeypatch.setattr(engines, "SparkEngine", None)
    rng = np.random.default_rng(2)
    ages = rng.normal(size=300)
    users = [{"age": a, "home": {"city": f"c{k % 3}"}} for k, a in enumerate(ages)]
    rows = pa.table({"user": users, "label": (ages + rng.normal(size=300) > 0).astype(int)})
    ds.write_dataset(rows, tmp_path / "rows", format="parquet")
    features = {"standard": ["user.age"], "tokens": ["user.home.city"], "auto": False}
    section = {"data": {"path": "rows"}, "features": features | {"dimension": 16}}
    result = job("train", **section, holdout={"by": "key"}, output={"path": "model"})
    assert result["auc"] > 0.6
    data = {"path": "rows", "select": ["user"]}
    found = job("score", model="model", data=data, output={"path": "scores"})
    assert found["rows"] == 300


WITHOUT_SPARK = """
import sys
sys.modules.update(dict.fromkeys(["pyspark", "py4j"]))
from spark_auc.app.cli import main

def job(*arguments):
    try:
        main(arguments)
    except SystemExit as ended:
        assert not ended.code, arguments

job("init", "made", "--from", "rows.csv", "--label", "clicked", "--positive", "yes")
job("train", "--config", "made/config.yaml")
job("evaluate", "--config", "made/config.yaml", "evaluate.data.path=rows.csv")
job("score", "--data", "rows.csv", "--model", "made/model", "--output", "scores")
job("retrain", "--config", "retrain.yaml")
assert not sys.modules["pyspark"]
"""


def test_the_process_needs_no_spark(tmp_path, monkeypatch):
    """Neither a JVM nor the package pyspark, for any of the jobs."""
    pytest.importorskip("deltalake")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text(raw())
    written(0)
    section = SECTION | {"first": day(0), "period": day(0)}
    (tmp_path / "retrain.yaml").write_text(yaml.safe_dump({"retrain": section}))
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_SPARK], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr


PLAIN = {"path": "rows.parquet"}
CSV = {"path": "rows.csv", "format": "csv", "options": {"header": True}}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (PLAIN, None),
        (CSV, None),
        (CSV | {"select": ["x", "y"]}, None),
        (CSV | {"select": ["x", "log(y) as y"]}, "SQL in select"),
        (CSV | {"where": "x > 1"}, "SQL in where"),
        (CSV | {"options": {"header": True, "sep": "::"}}, "options of Spark's reader"),
        (CSV | {"options": {}}, "options of Spark's reader"),
        (CSV | {"path": "rows.csv.gz"}, None),
        (CSV | {"path": "rows.csv.snappy"}, "files of another codec"),
        (CSV | {"path": "rows*.csv"}, "a pattern of files"),
        ({"format": "json", "path": "rows.jsonl"}, None),
        ({"format": "json", "path": "s3://bucket/rows", "options": {"mode": "FAILFAST"}}, None),
        (
            {"format": "json", "path": "rows.json", "options": {"multiLine": True}},
            "options of Spark's reader",
        ),
        (PLAIN | {"path": "parts"}, None),
        (PLAIN | {"path": "s3://bucket/rows"}, None),
        (CSV | {"path": "s3://bucket/rows.csv"}, None),
        (PLAIN | {"path": "hdfs://name/rows"}, "a location of hdfs"),
        ({"format": "criteo", "path": "rows.gz"}, None),
        ({"format": "avazu", "path": "s3://bucket/rows"}, None),
        (CSV | {"format": "delimited", "options": {"separator": ",", "columns": "x, y"}}, None),
        ({"format": "delta", "path": "rows", "options": {"key": "value"}}, None),
        ({"format": "iceberg", "table": "a.b", "options": {"type": "sql"}}, None),
        ({"format": "orc", "path": "rows"}, "files of orc"),
        ({"table": "clicks"}, "a table of the session's catalog"),
    ],
)
def test_the_source_decides_before_work(tmp_path, monkeypatch, data, reason):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("x,y\n1,0\n")
    (tmp_path / "parts/day=1").mkdir(parents=True)
    file = Configuration.model_validate(
        {"evaluate": {"model": "m", "data": data, "output": {"path": "o"}}}
    )
    needs = module_of("evaluate").needs(file.evaluate)
    assert reason_for_spark(needs, file.spark, None) == reason
    assert reason_for_spark(needs, file.spark, "spark") == "engine: spark"
    if reason is None:
        assert reason_for_spark(needs, file.spark, "local") is None
    else:
        with pytest.raises(ConfigError, match=f"found engine: local and {reason}"):
            reason_for_spark(needs, file.spark, "local")


@pytest.mark.parametrize(
    ("spark", "reason"),
    [
        ({"remote": "local[2]"}, "spark.remote or spark.master"),
        ({"conf": {"spark.master": "local[2]"}}, "spark.remote or spark.master"),
    ],
)
def test_settings_of_spark(spark, reason):
    keys = {"evaluate": {"model": "m", "data": PLAIN, "output": {"path": "o"}}, "spark": spark}
    file = Configuration.model_validate(keys)
    needs = module_of("evaluate").needs(file.evaluate)
    assert reason_for_spark(needs, file.spark, None) == reason
    other = Configuration.model_validate(keys | {"spark": {"conf": {"spark.driver.memory": "2g"}}})
    with pytest.raises(ConfigError, match=r"set engine to spark, or leave out spark\.conf"):
        reason_for_spark(needs, other.spark, None)
    assert reason_for_spark(needs, other.spark, "spark") == "engine: spark"


def test_spark_submit(monkeypatch):
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    file = Configuration.model_validate(
        {"evaluate": {"model": "m", "data": PLAIN, "output": {"path": "o"}}}
    )
    needs = module_of("evaluate").needs(file.evaluate)
    assert reason_for_spark(needs, file.spark, None) == "spark-submit"
