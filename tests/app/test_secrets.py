"""A secret in every place of a configuration, and what jobs write, log and print of it: nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from spark_auc.publication.versions import current

pytestmark = pytest.mark.slow

M = "Zq7Marker"
OPTIONS = {
    "header": True,
    "inferSchema": True,
    "password": f"{M} 1;x",
    "url": f"jdbc:x://u:{M}2@h/db?token={M}3&sslpassword={M}4;password={M}5 x;z=1",
    "kafka.sasl.jaas.config": f'o.PlainLoginModule required username="u" password="{M}6\\"{M}7";',
    "fs.s3a.secret.key": f"{M}8/+",
    "fs.azure.account.key.acme.blob.core.windows.net": f"{M}9==",
    "sasToken": f"?sp=r&sig={M}10",
    "connectionString": f"Endpoint=sb://x/;SharedAccessKeyName=r;SharedAccessKey={M}11=;",
    "note": f"-----BEGIN PRIVATE KEY-----\n{M}12\n-----END PRIVATE KEY-----",
    "service": f"https://{M}13@h/c?sv=1&sig={M}14",
}
CSV = {"format": "csv", "path": "rows.csv", "options": OPTIONS}
DATABASE = {
    "url": f"jdbc:derby:memory:rows;create=true;user=u;password={M}15",
    "dbtable": "collected",
    "user": "u",
    "password": f"{M}15",
    "driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
}
COLUMNS = {"features": ["a", "b"], "label": "y"}
RIDGE = {"regParam": 0.1}
STREAMED = {"path": "arriving", "format": "csv", "options": OPTIONS}
ADADSG = {
    "data": CSV,
    "validation": CSV,
    "columns": COLUMNS,
    "training": {"firstStage": 50},
    "stop": None,
    "checkpoint": "stages",
    "output": {"path": "adadsg"},
}


def train(name, data, **others):
    return {"data": data, "columns": COLUMNS, "training": RIDGE, "output": {"path": name}} | others


def jdbc(**options):
    return {"format": "jdbc", "options": DATABASE | options}


def opauc(name, **stream):
    said = {"checkpoint": f"{name}-checkpoint", "schema": "a double, b double, y double"} | stream
    return train(name, STREAMED) | {"stream": said}


SOURCE = {
    "format": "text",
    "path": "lines",
    "options": OPTIONS,
    "value": "json",
    "schema": "a double, b double, y double",
}
# Name, job, section, overrides, exit code.
JOBS = [
    (
        "prepared",
        "prepare",
        {
            "input": {"layout": "plain", "source": CSV, "label": "y", "numeric": ["a", "b"]},
            "output": {"path": "prepared"},
        },
        [],
        0,
    ),
    ("trained", "train", train("model", CSV, calibration={"data": CSV}), [], 0),
    ("database", "train", train("of-database", jdbc()), [f"train.data.options.token={M}16"], 0),
    ("evaluated", "evaluate", {"model": "model", "data": CSV, "output": {"path": "report"}}, [], 0),
    ("scored", "score", {"model": "model", "data": CSV, "output": {"path": "scores"}}, [], 0),
    ("batch", "opauc", train("batch", CSV), [], 0),
    ("stream", "opauc", opauc("stream"), [], 0),
    (
        "source",
        "opauc",
        train("source", CSV) | {"stream": {"checkpoint": "source-checkpoint", "source": SOURCE}},
        [],
        0,
    ),
    ("other", "opauc", opauc("stream") | {"columns": {"label": "a", "features": "b"}}, [], 2),
    ("dies", "adadsg", ADADSG, [], 1),
    ("changed", "adadsg", ADADSG, ["adadsg.training.firstStage=60"], 2),
    ("rotated", "adadsg", ADADSG, [f"adadsg.data.options.password={M}17"], 0),
    ("key", "train", train("no", CSV | {"optionz": OPTIONS}), [], 2),
    ("list", "train", train("no", CSV | {"options": {"password": [f"{M}18"]}}), [], 2),
    ("text", "train", train("no", CSV | {"options": f"password={M}19"}), [], 2),
    ("both", "train", train("no", CSV | {"table": "x"}), [], 2),
    ("argument", "train", train("no", CSV), [f"train.data.options.password.deep={M}20"], 2),
    ("alias", "train", train("no", CSV), [f"train.data.options.password=*{M}21"], 2),
    ("split", "train", train("no", CSV), ["train.data.options.password", f"{M}22"], 2),
    ("output", "train", train(f"x://u:{M}23@h/p", CSV), [], 2),
    ("table", "train", train("no", {"table": "none"}), [f"spark.conf.my.token={M}24"], 2),
    ("missing", "train", train("no", jdbc(dbtable="none")), [], 1),
    ("driver", "train", train("no", jdbc(driver="none.Driver")), [], 1),
    ("address", "train", train("no", jdbc(url=f"jdbc:x://u:{M}25@h/{M}?pwd={M}26")), [], 1),
    ("login", "train", train("no", jdbc(url=f"jdbc:derby:memory:z;password={M}27 x;a=1")), [], 1),
    ("path", "train", train("no", CSV | {"path": f"hdfs://u:{M}28@none.invalid:1/x"}), [], 2),
    ("column", "train", train("no", CSV, columns={"features": ["a", "c"], "label": "y"}), [], 2),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    there = tmp_path_factory.mktemp("secrets")
    rows = [(k * 7 % 11, k * 3 % 5, int(k * 5 % 7 > 4)) for k in range(300)]
    text = "a,b,y\n" + "".join(f"{a},{b},{y}\n" for a, b, y in rows)
    (there / "rows.csv").write_text(text)
    (there / "arriving").mkdir()
    (there / "arriving" / "one.csv").write_text(text)
    # A file that is refused, with a reason.
    (there / "arriving" / "two.csv").write_text("a,b,y\n1,2,7\n")
    (there / "lines").mkdir()
    lines = "".join(json.dumps({"a": a, "b": b, "y": y}) + "\n" for a, b, y in rows)
    (there / "lines" / "one.txt").write_text(lines)
    (there / "conf").mkdir()
    for name, job, section, *_ in JOBS:
        (there / f"{name}.yaml").write_text(yaml.safe_dump({job: section}))
    return there


@pytest.fixture(scope="module")
def done(place):
    streams = {"stream", "source", "other"}
    plan = {
        "secret": f"{M}0",
        "known": OPTIONS["fs.s3a.secret.key"],
        "database": DATABASE,
        "jobs": [
            (name, job, overrides, ["stream"] if name in streams else [])
            for name, job, _, overrides, _ in JOBS
        ],
    }
    root = Path(__file__).parents[2]
    return subprocess.run(
        [sys.executable, "-m", "tests.app.secret_jobs"],
        input=json.dumps(plan),
        capture_output=True,
        text=True,
        cwd=place,
        env=os.environ | {"PYTHONPATH": str(root), "PYSPARK_PYTHON": sys.executable},
        check=False,
        timeout=400,
    )


def test_jobs_end_as_they_should(place, done):
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((place / "codes.json").read_text())
    assert found == {name: code for name, *_, code in JOBS}, done.stdout


def test_no_secret_is_written_logged_or_printed(place, done):
    assert len(done.stdout.splitlines()) >= len(JOBS)
    for stream in (done.stdout, done.stderr):
        assert not [line for line in stream.splitlines() if M in line]
    given = {f"{name}.yaml" for name, *_ in JOBS}
    files = [path for path in place.rglob("*") if path.is_file() and path.name not in given]
    assert len(files) > 80
    assert not [path for path in files if M.encode() in path.read_bytes()]
    assert not [path for path in place.rglob("*") if M in path.name]


def test_what_is_no_secret_is_told(place, done):
    model = current(str(place / "of-database"), "model")
    options = json.loads(model.read("config.json"))["data"]["options"]
    assert (options["dbtable"], options["user"]) == ("collected", "u")
    assert options["url"].startswith("jdbc:derby:memory:rows;create=true;user=u;password=***")
    report = json.loads(current(str(place / "report"), "evaluation").read("evaluation.json"))
    assert report["data"]["path"] == "rows.csv"
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    messages = {name: told[k].get("message") for k, (name, *_) in enumerate(JOBS)}
    assert "did you mean 'options'" in messages["key"]
    assert "train.data.options.password" in messages["list"]
    assert "none.Driver" in messages["driver"]
    assert "remove it to start again" in messages["changed"]
