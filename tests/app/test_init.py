"""The file that init writes: the user's columns, the settings' own words, and a ranker."""

import json
import os
import re
import stat
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from spark_auc.app.cli import main
from spark_auc.app.commands import init
from spark_auc.app.config.jobs import Configuration
from spark_auc.app.config.load import load
from spark_auc.app.config.sections import Output
from spark_auc.app.config.written import written
from spark_auc.app.running import run
from tests.app.test_raw_table import table, write_csv

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def at(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def command(at, capsys):
    def started(*arguments):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        *lines, last = capsys.readouterr().out.splitlines()
        return stopped.value.code, json.loads(last), lines

    return started


@pytest.fixture
def job(at, capsys):
    def started(name, *arguments, **options):
        code = run(name, *arguments, options=options)
        result = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert code == 0, result
        return result

    return started


FAST = ("train.training.regParam=0.001", "train.features.crosses=[[device, campaign]]")


@pytest.mark.slow
@pytest.mark.parametrize("overrides", [FAST, ()], ids=len)
def test_a_sample_that_trains_scores_and_evaluates(command, job, at, overrides):
    code, result, lines = command("init", "made/project", *overrides)
    assert code == 0, result
    path = "made/project/config.yaml"
    assert result["config"] == path
    assert lines == [f"wrote {path}; next: spark-auc train --config {path}"]
    assert sorted(os.listdir("made/project")) == ["clicks.csv", "config.yaml", "new.csv"]
    assert os.listdir("made") == ["project"]
    assert stat.S_IMODE(os.stat("made/project").st_mode) & 0o055 == 0o055
    # Each is what the result says next.
    for name, line in result["next"].items():
        assert line == f"spark-auc {name} --config {path}"
    trained = job("train", path)
    assert 0.65 < trained["auc"] < 0.9
    assert job("score", path)["rows"] == 1_250
    assert job("evaluate", path)["auc"] == pytest.approx(trained["auc"], abs=0.1)


@pytest.mark.slow
def test_the_file_of_a_table_is_what_its_arguments_mean(command, job, at):
    """The oracle is the job on the raw table: the same rows, knots, weights and AUC."""
    write_csv("rows.csv", table(("stays", "yes")))
    options = ["--label", "gone", "--positive", "yes", "--time", "joined", "--leave-out", "id"]
    code, result, _ = command("init", "here", FAST[0], "--from", "rows.csv", *options)
    assert code == 0, result
    assert result["columns"]["age"] == "int64"
    assert result["columns"]["zip"] == "string"
    of_file = job("train", "here/config.yaml")
    known = {"label": "gone", "positive": "yes", "time": "joined", "leave_out": ["id"]}
    of_arguments = job("train", None, FAST[:1], data="rows.csv", output="other", **known)
    for name in ("auc", "regParam", "nonzeros", "rows"):
        assert of_file[name] == of_arguments[name], name
    new = {name: values[:9] for name, values in table().items() if name != "gone"}
    write_csv("here/new.csv", new)
    of_file = job("score", "here/config.yaml")
    of_arguments = job("score", model="other", data="here/new.csv", output="scores")
    read = [
        pq.read_table(result["scores"].removeprefix("file://")).to_pandas()
        for result in (of_file, of_arguments)
    ]
    assert read[0].columns.tolist() == read[1].columns.tolist()
    assert read[0].equals(read[1])


NAMES = ("1e5", "2026-01-01", "no", "a`b", "two\nlines", "x: #y", " spaced ", "Été", "*", "=", "~")


def test_names_that_yaml_reads_otherwise(command, at):
    drawn = np.random.default_rng(0)
    columns = {name: drawn.normal(size=40) for name in NAMES}
    columns["null"] = np.arange(40) % 2
    pq.write_table(pa.table(columns), "rows.parquet")
    code, result, _ = command("init", "here", "--from", "rows.parquet", "--label", "null")
    assert code == 0, result
    file = load("here/config.yaml")
    assert file.train.data.select == list(columns)
    assert file.train.columns.label == "null"
    assert file.score.data.select == file.score.keep == list(NAMES)
    assert file.score.data.path == "here/new.parquet"


def test_a_table_of_the_catalog_and_overrides(command, spark):
    rows = "id % 3 AS x, CAST(id % 2 AS boolean) AS label"
    spark.range(60).selectExpr(*rows.split(", ")).createOrReplaceTempView("customers")
    overrides = ["train.training.regParam=0.5", "spark.conf.spark.sql.ansi.enabled=true"]
    code, result, _ = command("init", "here", *overrides, "--from", "customers")
    assert code == 0, result
    file = load("here/config.yaml")
    assert (file.train.data.table, file.score.data.table) == ("customers", "new_rows")
    assert file.train.training.regParam == 0.5
    assert file.spark.conf == {"spark.sql.ansi.enabled": True}


def test_comments_are_the_words_of_the_settings(command, at):
    write_csv("rows.csv", table())
    command("init", "here", "--from", "rows.csv", "--label", "gone")
    text = Path("here/config.yaml").read_text()
    output = Output.model_fields["replace"].description
    assert "numKnots: auto" in text
    assert "method: linear" in text
    # Once, though three jobs have the key.
    assert text.count(f"# {output}\n") == 1
    assert text.count("replace: true") == 3
    assert "  #  # Strength of the penalty\n  #  #regParam:\n" in text
    assert max(map(len, re.findall("^ *#.*$", text, re.M))) < 110
    # What is behind a # is a key: without the #, the file says the default.
    uncommented = text.replace("#contributions", "contributions")
    assert yaml.safe_load(uncommented)["score"]["contributions"] == 0


def test_an_unknown_key_is_never_written():
    with pytest.raises(KeyError, match="regparam"):
        written(Configuration, {"train": {"training": {"regparam": 1}}})
    with pytest.raises(KeyError, match="nothing"):
        written(Configuration, {}, ["train.training.nothing"])


REFUSED = [
    (["there"], 2, "found files in 'there', expected an empty or new directory"),
    (["there", "--from", "rows.csv", "--label", "gone"], 2, "found the file 'there/config.yaml'"),
    (["rows.csv"], 2, "found the file 'rows.csv', expected a directory"),
    (["s3://bucket/a"], 2, "expected a local path"),
    (["new", "--label", "gone"], 2, "found --label without --from"),
    (["new", "--from", "rows.csv"], 2, "found no column 'label', expected one of ['id', 'age'"),
    (["new", "--from", "none.csv", "--label", "gone"], 2, "found nothing at 'none.csv'"),
    (["new", "--from", "rows.csv", "--label", "plan"], 3, "more than two labels"),
    (["new", "train.training.regparam=1"], 2, "did you mean 'regParam'"),
    (["new", "spark.conf.spark.hadoop.fs.s3a.secret.key=abcdefgh"], 2, "found a secret"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), REFUSED)
def test_refusals_leave_nothing(command, at, arguments, code, message):
    write_csv("rows.csv", table())
    (at / "there").mkdir()
    (at / "there/config.yaml").write_text("mine")
    found, result, _ = command("init", *arguments)
    assert found == code, result
    assert message in result["message"]
    assert "abcdefgh" not in json.dumps(result)
    assert sorted(os.listdir()) == ["rows.csv", "there"]
    assert (at / "there/config.yaml").read_text() == "mine"
    assert os.listdir("there") == ["config.yaml"]


@pytest.mark.slow
def test_whole_or_not_at_all(command, at, monkeypatch):
    """A directory that another program fills meanwhile, and a disk that is full."""
    place = init.Directory.write

    def filled(self, name, content):
        (at / "new").mkdir()
        (at / "new/note").touch()
        place(self, name, content)

    with monkeypatch.context() as patched:
        patched.setattr(init.Directory, "write", filled)
        code, result, _ = command("init", "new")
    assert (code, os.listdir("new"), os.listdir()) == (2, ["note"], ["new"]), result

    def full(*_):
        raise OSError(28, "No space left on device")

    write_csv("rows.csv", table())
    for arguments in (["other"], ["new", "--from", "rows.csv", "--label", "gone"]):
        with monkeypatch.context() as patched:
            patched.setattr(init.Directory, "flush", full)
            patched.setattr(init.Directory, "synchronize", full)
            code, result, _ = command("init", *arguments)
        assert (code, result["error"]) == (1, "OSError")
        assert (sorted(os.listdir()), os.listdir("new")) == (["new", "rows.csv"], ["note"])


def test_of_many_at_a_time_one_wins(at):
    begin, won = threading.Barrier(8), []

    def place(number):
        begin.wait()
        try:
            init._place_file(at / "here", f"{number}\n")
        except init.ConfigError:
            return
        won.append(number)

    threads = [threading.Thread(target=place, args=[k]) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (at / "here/config.yaml").read_text() == f"{won[0]}\n"
    assert (len(won), os.listdir("here")) == (1, ["config.yaml"])
