"""Jobs with rows, models and outputs in an object store, beside the same jobs on local disk."""

import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest
import yaml

from spark_auc.app.running import run
from spark_auc.publication.directory import Directory
from spark_auc.publication.versions import current
from spark_auc.serving.load import load

ROWS = 600


def rows(seed=1):
    draw = np.random.default_rng(seed)
    a, b = draw.normal(size=(2, ROWS)).round(2)
    y = (draw.random(ROWS) < 1 / (1 + np.exp(1 - a))).astype(float)
    return pa.table({"a": a, "b": b, "y": y, "id": np.arange(ROWS)})


def put(place, table, files=2):
    """Rows as Parquet files with two row groups each."""
    directory, size = Directory.of(place), -(-table.num_rows // files)
    for k in range(files):
        sink = pa.BufferOutputStream()
        pq.write_table(table.slice(k * size, size), sink, row_group_size=-(-size // 2))
        directory.write(f"part-{k}.parquet", sink.getvalue().to_pybytes())


def job(tmp_path, capsys, name, section, engine=None):
    file = tmp_path / f"{name}.yaml"
    file.write_text(yaml.safe_dump({"engine": engine, name: section}))
    code = run(name, str(file))
    return code, json.loads(capsys.readouterr().out.splitlines()[-1])


def everything(root):
    """Sections of a small pipeline below a location."""
    return {
        "train": {
            "data": {"path": f"{root}/rows"},
            "columns": {"features": ["a", "b"], "label": "y"},
            "training": {"regParam": 0.1},
            "output": {"path": f"{root}/model"},
        },
        "evaluate": {
            "model": f"{root}/model",
            "data": {"path": f"{root}/rows"},
            "output": {"path": f"{root}/evaluation"},
        },
        "score": {
            "model": f"{root}/model",
            "data": {"path": f"{root}/rows"},
            "keep": ["id", "y"],
            "output": {"path": f"{root}/scores"},
        },
    }


def content(root, name, kind):
    version = current(f"{root}/{name}", kind)
    return version, version.files()


def scores(root):
    version, files = content(root, "scores", "scores")
    tables = [
        pq.read_table(pa.BufferReader(version.read(name)))
        for name in files
        if name.endswith(".parquet")
    ]
    return pa.concat_tables([t.cast(tables[0].schema) for t in tables]).sort_by("id")


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_jobs_end_as_on_local_disk(tasks, tmp_path, capsys, engine):
    results = {}
    for root in (tasks, str(tmp_path)):
        put(f"{root}/rows", rows())
        for name, section in everything(root).items():
            code, result = job(tmp_path, capsys, name, section, engine)
            assert code == 0, result
            results[root, name] = result
    remote, local = (content(root, "model", "model") for root in (tasks, str(tmp_path)))
    assert remote[1].keys() == local[1].keys()
    same = [name for name in local[1] if name.startswith("model/") and name.endswith(".parquet")]
    assert same
    for name in same:
        assert remote[0].read(name) == local[0].read(name), name
    assert scores(tasks).equals(scores(str(tmp_path)))
    for name in ("auc", "interval", "classes"):
        assert results[tasks, "evaluate"][name] == results[str(tmp_path), "evaluate"][name]


def test_a_stream_keeps_its_state_in_the_store(tasks, tmp_path, capsys):
    """Two runs from one checkpoint end as on local disk; Spark's own files are in the store too."""
    ended = {}
    for root in (tasks, str(tmp_path / "local")):
        arriving, ended[root] = tmp_path / f"rows{len(ended)}", []
        for run_number in range(2):
            for k in range(3):
                put(str(arriving), rows(10 * run_number + k), files=1)
                arrived = (arriving / "part-0.parquet").rename(
                    arriving / f"{run_number}{k}.parquet"
                )
                # Spark orders files by this time, and files of one millisecond arbitrarily.
                os.utime(arrived, (1_000_000_000 + 10 * run_number + k,) * 2)
            section = {
                "data": {"path": str(arriving)},
                "columns": {"features": ["a", "b"], "label": "y"},
                "training": {"regParam": 0.1},
                "stream": {"checkpoint": f"{root}/state", "maxFilesPerTrigger": 2},
                "output": {"path": f"{root}/model"},
            }
            file = tmp_path / "opauc.yaml"
            file.write_text(yaml.safe_dump({"opauc": section}))
            code = run("opauc", str(file), (), ["stream"])
            result = json.loads(capsys.readouterr().out.splitlines()[-1])
            assert code == 0, result
            ended[root].append({k: result[k] for k in ("batches", "files", "prequentialAUC")})
    assert ended[tasks] == ended[str(tmp_path / "local")]
    assert [result["batches"] for result in ended[tasks]] == [2, 4]
    remote = Directory.of(f"{tasks}/state")
    assert {"state-00000003.bin", "schema.json", "status.jsonl", "spark"} <= {*remote.names()}
    assert {"metadata", "offsets/3", "commits/3"} <= (remote / "spark").files().keys()
    assert remote.read("status.jsonl").count(b"\n") == 4
    found = [load(f"{root}/model").score(rows().to_pandas()).tobytes() for root in ended]
    assert found[0] == found[1]


@pytest.mark.parametrize("form", ["csv", "json"])
@pytest.mark.parametrize("engine", ["local", "spark"])
def test_text_in_a_store_needs_no_jar(tasks, tmp_path, capsys, engine, form):
    place, options = f"{tasks}/{form}", {"header": True} if form == "csv" else {}
    sink = pa.BufferOutputStream()
    if form == "csv":
        pv.write_csv(rows(), sink)
    else:
        sink.write("\n".join(map(json.dumps, rows().to_pylist())).encode())
    Directory.of(place).write(f"rows.{form}", sink.getvalue().to_pybytes())
    section = {
        "data": {"path": place, "format": form, "options": options, "types": "auto"},
        "columns": {"features": ["a", "b"], "label": "y"},
        "training": {"regParam": 0.1},
        "output": {"path": str(tmp_path / "model")},
    }
    code, result = job(tmp_path, capsys, "train", section, engine)
    assert (code, sum(result["rows"].values())) == (0, ROWS)
