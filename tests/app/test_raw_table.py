"""Raw files of every kind, as arguments name them: a ranker and its report, or one sentence."""

import argparse
import csv
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_auc.app.cli import main
from spark_auc.app.config.arguments import add_arguments, content, options_of, source
from spark_auc.app.running import run
from spark_auc.errors import ConfigError

pytestmark = pytest.mark.usefixtures("spark")
ROWS = 500


@pytest.fixture
def at(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def job(at, capsys):
    def started(name, *overrides, **options):
        code = run(name, None, overrides, (), options)
        *lines, last = capsys.readouterr().out.splitlines()
        return code, json.loads(last), lines

    return started


def table(labels=("0", "1")):
    """Rows of a file with every trap; two columns have an effect."""
    drawn = np.random.default_rng(0)
    age, pays = drawn.integers(18, 80, ROWS), drawn.lognormal(3, 1, ROWS).round(2)
    plans = ['The "best", 20% off', "two\nlines", "Été; №1", "plain"]
    plan = drawn.integers(0, len(plans), ROWS)
    good = 0.1 * (age - 50) + 1.5 * (plan == 1) + drawn.logistic(size=ROWS) > 0
    unknown = ["", "NA", "?"]
    return {
        "id": [f"user-{k}" for k in range(ROWS)],
        "age": [unknown[k % 3] if k % 10 == 0 else str(v) for k, v in enumerate(age)],
        "pays": [unknown[k % 2] if k % 7 == 0 else str(v) for k, v in enumerate(pays)],
        "plan": [plans[k] for k in plan],
        "zip": [f"{v:05d}" for v in drawn.integers(0, 40, ROWS)],
        "constant": ["x"] * ROWS,
        "joined": [f"2025-{k % 12 + 1:02d}-{k % 28 + 1:02d}" for k in range(ROWS)],
        "gone": [labels[int(v)] for v in good],
    }


def write_csv(path, columns, separator=","):
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=separator)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def read_scores(result):
    return pq.read_table(result["scores"].removeprefix("file://")).to_pandas()


@pytest.mark.usefixtures("all_pictures")
def test_csv_with_every_trap_to_a_ranker_a_report_and_scores(job, at):
    write_csv("rows.csv", table())
    code, result, lines = job("train", data="rows.csv", label="gone", output="model")
    assert code == 0, result
    assert result["auc"] > 0.7
    assert Path(result["report"].removeprefix("file://")).is_file()
    assert lines[0].startswith(f"AUC {result['auc']:.4f} of held-out rows, 95% interval 0.")
    assert lines[1] == f"report: {result['report']}"
    assert result["smoothness"] in (0.1, 1, 10, 100)
    (config,) = at.glob("model/versions/*/config.json")
    features = json.loads(config.read_text())["features"]
    assert features["numKnots"] == "auto"
    command = lines[2].removeprefix("to score new rows: ")
    assert command == "spark-auc score --model model --data NEW_FILE --output NEW_DIRECTORY"

    # New rows have no label, numbers in one column only, and other columns.
    new = {name: values[:9] for name, values in table().items() if name != "gone"}
    new["age"], new["note"] = ["?"] * 9, ["a, b"] * 9
    # Spark ignores the case of names; the model adds no probability.
    new["PAYS"], new["probability"] = new.pop("pays"), ["0.25"] * 9
    write_csv("new.csv", new)
    line = command.replace("NEW_FILE", "new.csv").replace("NEW_DIRECTORY", "scores")
    with pytest.raises(SystemExit) as stopped:
        main(shlex.split(line)[1:])
    assert stopped.value.code == 0
    (path,) = at.glob("scores/versions/*/scores")
    scores = pq.read_table(path).to_pandas()
    assert scores["rawPrediction"].nunique() > 5
    assert scores["plan"].tolist() == new["plan"]
    assert scores["zip"].tolist() == new["zip"]
    assert scores.columns.tolist() == [*new, "rawPrediction", "prediction"]

    write_csv("bad.csv", new | {"PAYS": ["1.5"] * 4 + ["much"] * 5})
    code, result, _ = job("score", model="model", data="bad.csv", output="others")
    assert code == 3
    assert (
        "found 'much' in column 'PAYS', where 5 of 9 values are no numbers, expected values as in"
        in result["message"]
    )
    write_csv("less.csv", {k: v for k, v in new.items() if k != "plan"})
    code, result, _ = job("score", model="model", data="less.csv", output="others")
    assert code == 2
    assert "found no column 'plan'" in result["message"]


@pytest.mark.slow
def test_a_choice_among_models(job):
    write_csv("rows.csv", table())
    options = {"data": "rows.csv", "label": "gone", "output": "model"}
    code, result, lines = job("train", "train.method=auto", **options)
    assert code == 0, result
    assert result["method"]
    assert lines[0].startswith(f"AUC {result['auc']:.4f} of held-out rows")
    code, result, _ = job("score", model="model", data="rows.csv", output="scores")
    assert code == 0, result
    assert read_scores(result)["rawPrediction"].nunique() > 5


@pytest.mark.slow
def test_a_label_of_words_and_the_latest_rows_held_out(job):
    columns = table(("stays", "yes"))
    # The first column has no name, as in files of pandas.
    write_csv("rows.tsv", {"": range(ROWS), **columns}, "\t")
    known = {"data": "rows.tsv", "label": "gone", "output": "model"}
    code, result, _ = job("train", **known)
    assert code == 2
    assert re.search(
        r"'(stays|yes)' \(\d+ rows\).* and no --positive.* add --positive yes or --positive stays",
        result["message"],
    )
    code, result, _ = job("train", **known, positive="no")
    assert code == 2
    assert "found --positive no, expected one of the labels" in result["message"]
    code, result, _ = job(
        "train", **known, positive="yes", time="joined", leave_out=["id", "constant"]
    )
    assert code == 0, result
    assert result["auc"] > 0.7


@pytest.mark.slow
def test_json_parquet_and_a_table(job, spark):
    columns = {k: v for k, v in table().items() if k not in ("age", "pays")}
    columns["age"] = [None if v in ("", "NA", "?") else int(v) for v in table()["age"]]
    columns["gone"] = [int(v) for v in columns["gone"]]
    rows = pa.table(columns)
    pq.write_table(rows, "rows.parquet")
    Path("rows.json").write_text(json.dumps(rows.to_pylist()), encoding="utf-8")
    spark.read.parquet(str(Path("rows.parquet").absolute())).createOrReplaceTempView("customers")
    for name in ("rows.parquet", "rows.json", "customers"):
        # A smoothness that is set is not chosen, nor is one without folds.
        other = {"customers": "training.regParam=0.01"}.get(name, "training.smoothness=null")
        overrides = "train.output.replace=true", f"train.{other}"
        code, result, _ = job("train", *overrides, data=name, label="gone", output="m")
        assert code == 0, result
        assert result["auc"] > 0.7
        assert "smoothness" not in result


LABELS = {"two": ["0", "1"] * 3, "one": ["0"] * 6, "three": list("abcabc"), "x": list("123456")}


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ({"label": "tow"}, 2, "found no column 'tow', expected one of .*; did you mean 'two'"),
        ({"label": "two", "time": "tim"}, 2, "found no column 'tim'"),
        ({"label": "two", "time": "x"}, 2, "found int64 in column 'x', expected times"),
        ({"label": "two", "leave_out": ["xx"]}, 2, "found no column 'xx'"),
        ({"label": "two", "budget": -1.0}, 2, "found -1.0 at 'train.budget'"),
        ({"label": "one"}, 3, r"found one label in column 'one': 0 \(6 rows\); expected two"),
        ({"label": "three"}, 3, r"more than two labels in column 'three': 'a' \(2 rows\), 'b'"),
        ({"label": "x"}, 3, r"more than two labels in column 'x': 1 \(1 row\), .* and others"),
        ({"label": "two", "data": "header.csv"}, 3, "found no rows in '.*header.csv'"),
        ({"label": "two", "data": "empty.csv"}, 2, "found no text in 'empty.csv'"),
        (
            {"label": "two", "data": "binary.csv"},
            2,
            "found bytes of value 0 in 'binary.csv'",
        ),
        (
            {"label": "two", "data": "latin.csv"},
            2,
            "found byte 0xe9 at 5 in .*; convert it",
        ),
        (
            {"label": "two", "data": "parquet.csv"},
            2,
            "found Parquet in .*; rename it",
        ),
        (
            {"label": "two", "data": "ragged.csv"},
            3,
            "found the row '0,1,2,3' in .*ragged.csv",
        ),
        (
            {"label": "two", "data": "quote.csv"},
            3,
            "found a quote that is not closed in line 3 of .*quote.csv",
        ),
        (
            {"label": "two", "data": "late.csv"},
            3,
            "found bytes that are not UTF-8 in line 20002 of .*late.csv, expected text in UTF-8",
        ),
        ({"label": "two", "data": "labels.csv"}, 2, "found no column of .* beside the label 'two'"),
        (
            {"label": "two", "data": "once.csv", "time": "at"},
            2,
            "found the first time, 2025-01-05.* of column 'at' .*, expected earlier rows",
        ),
        ({"label": "two", "data": "gone.csv"}, 2, "found nothing at 'gone.csv'"),
        ({"label": "two", "data": "nowhere"}, 2, "found neither a file nor a table 'nowhere'"),
        ({"label": "two", "data": "rows.xlsx"}, 2, "expected a path that ends with .csv, .tsv"),
        ({}, 2, "found no --config and no --label, expected --config FILE or --data, --label, "),
    ],
)
def test_mistakes_are_one_sentence(job, options, code, message):
    write_csv("rows.csv", LABELS)
    pq.write_table(pa.table(LABELS), "parquet.csv")
    Path("rows.xlsx").write_bytes(b"PK\x03\x04")
    Path("header.csv").write_text("two,one\n")
    Path("late.csv").write_bytes(b"two,text\n" + b"0,a\n1,b\n" * 10_000 + b"0,n\xe9v\n1,b\n")
    Path("labels.csv").write_text("two\n" + "0\n1\n" * 50)
    Path("once.csv").write_text("two,one,at\n" + "0,1,2025-01-05\n1,2,2025-01-05\n" * 50)
    Path("ragged.csv").write_text("two,one\n" + "0,1\n1,2\n" * 5 + "0,1,2,3\n")
    Path("quote.csv").write_text('two,text\n0,a\n1,"b\n' + "0,a\n1,b\n" * 9)
    Path("empty.csv").write_text("\n\n")
    Path("binary.csv").write_bytes(bytes(range(40)))
    Path("latin.csv").write_bytes("two,név\n0,é\n".encode("latin-1") * 10)
    exit_code, result, _ = job("train", **({"data": "rows.csv", "output": "model"} | options))
    assert re.search(message, result["message"]), result["message"]
    assert exit_code == code
    assert "\n" not in result["message"]
    assert not Path("model/manifest.json").exists()


def test_either_a_file_of_the_configuration_or_a_raw_table(at, capsys):
    Path("conf.yaml").write_text("{}")
    for job_, arguments in (("train", "--data x --label y"), ("score", "--model m")):
        with pytest.raises(SystemExit) as stopped:
            main([job_, "--config", "conf.yaml", *arguments.split()])
        assert stopped.value.code == 2
        assert "found --config and --" in capsys.readouterr().out
    with pytest.raises(ConfigError, match=r"found no --config, expected --config FILE; add it"):
        content("evaluate", {})


def test_sources_by_suffix(at):
    assert source("day.TSV.gz")["options"]["sep"] == "\t"
    assert source("s3://bucket/rows.jsonl")["format"] == "json"
    assert source("hdfs:/rows.parquet") == {
        "format": "parquet",
        "path": "hdfs:/rows.parquet",
        "options": {},
    }
    assert source("db.clicks") == {"table": "db.clicks"}
    (at / "days").mkdir()
    assert source("days")["format"] == "parquet"
    (at / "days" / "_done").touch()
    (at / "days" / "monday.csv").touch()
    assert source("days")["format"] == "csv"


MISSING = {
    "number": (["0", "1.0"], ["NA", "", " ? "], "60 rows without a label in column 'a label'"),
    "float": (["0.0", "1.0"], ["nan"], "60 rows without a label"),
    "word": (["no", "yes"], ["NA", ""], "60 rows without a label"),
    "parquet": ([0, 1], [None], "60 rows without a label"),
    "nan": ([0.0, 1.0], [None, float("nan")], "60 rows without a label"),
    "where": (["0", "1"], [""], "30 rows without a label"),
    "time": (["2025-01-05", "2025-02-07 12:00:00"], ["NA", ""], "60 rows without a time"),
}


@pytest.mark.parametrize("kind", MISSING)
def test_rows_without_a_label_or_a_time_and_how_to_leave_them_out(job, kind):
    values, missing, message = MISSING[kind]
    drawn = np.random.default_rng(2)
    x, good = drawn.normal(size=300).round(2), drawn.random(300) < 0.4
    column = [values[int(v)] for v in good]
    for k in range(60):
        column[5 * k] = missing[k % len(missing)]
    columns = {"x": x + good, "a label": column, "half": [k // 150 for k in range(300)]}
    # No penalty is to be chosen.
    before = ["train.features.numKnots=2", "train.training.regParam=0.01"]
    if kind == "where":
        before.append("train.data.where=half = '0'")
    options = {"data": "rows.csv", "label": "a label", "output": "model"}
    if kind == "time":
        columns["y"] = (good ^ (drawn.random(300) < 0.3)).astype(int)
        options |= {"label": "y", "time": "a label"}
    if kind in ("parquet", "nan"):
        options["data"] = "rows.parquet"
        pq.write_table(pa.table(columns), "rows.parquet")
    else:
        write_csv("rows.csv", columns)
    if kind == "word":
        options["positive"] = "yes"
    code, result, _ = job("train", *before, **options)
    assert code == 3, result
    assert message in result["message"]
    (override,) = shlex.split(
        re.search("leave them out by (.*) before the options", result["message"])[1]
    )
    code, result, _ = job("train", *before, override, **options)
    assert code == 0, result
    (summary,) = Path("model/versions").glob("*/summary.json")
    (evaluation,) = Path("model/versions").glob("*/evaluation.json")
    rows = json.loads(summary.read_text())["rows"]
    told = json.loads(evaluation.read_text())
    tested = sum(c["rows"] for c in told["classes"].values())
    assert sum(rows.values()) == (120 if kind == "where" else 240)
    assert told["refit"]["measuredRows"] + tested == sum(rows.values())


def test_the_remedy_for_a_second_column_keeps_that_of_the_first(job):
    drawn = np.random.default_rng(5)
    days = [f"2025-01-{1 + k % 28:02}" for k in range(400)]
    days[7], labels = "", [int(v) for v in drawn.random(400) < 0.4]
    write_csv("rows.csv", {"x": drawn.normal(size=400), "day": days, "y": [*labels[1:], None]})
    options = {"data": "rows.csv", "label": "y", "time": "day", "output": "model"}
    given = ["train.features.numKnots=2", "train.training.regParam=0.01"]
    for columns in (["y"], ["y", "day"]):
        code, result, _ = job("train", *given, **options)
        assert (code, result["error"]) == (3, "DataError")
        found = re.search("leave them out by (.*) before the options", result["message"])
        (override,) = shlex.split(found[1])
        assert json.loads(override.partition("=")[2]) == columns
        given = [*given[:2], override]
    code, result, _ = job("train", *given, **options)
    assert code == 0, result
    assert sum(result["rows"].values()) == 398


def test_a_budget_of_nothing_is_a_budget():
    parser = argparse.ArgumentParser()
    add_arguments("train", parser)
    given = ["--data", "a.csv", "--label", "y", "--output", "o", "--budget", "0"]
    assert content("train", options_of(parser.parse_args(given)))["train"]["budget"] == 0


def test_a_budget_without_a_method(job):
    rng = np.random.default_rng(0)
    x = rng.normal(size=600).round(3)
    write_csv(
        "rows.csv",
        {
            "x": x.tolist(),
            "z": rng.normal(size=600).round(3).tolist(),
            "y": (x + rng.normal(size=600) > 0).astype(int).tolist(),
        },
    )
    code, result, _ = job("train", data="rows.csv", label="y", output="m", budget=0.0)
    assert (code, result["method"]) == (0, "additive")
    candidates = json.loads(next(Path("m/versions").glob("*/method.json")).read_text())[
        "candidates"
    ]
    assert [bool(c["leftOut"]) for c in candidates] == [False, True]
    fixed = "train.training.regParam=0.1"
    code, result, _ = job("train", fixed, data="rows.csv", label="y", output="n", budget=5.0)
    assert code == 2
    assert "found train.budget 5 without a choice of models" in result["message"]
