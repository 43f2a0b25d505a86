"""A column that a local file lacks is an error before Spark starts."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_auc.app.config.file_columns import check_columns
from spark_auc.app.running import run
from spark_auc.errors import ConfigError
from spark_auc.storage import file_systems

HEADER = {"header": True}


@pytest.fixture
def no_spark(monkeypatch):
    def started(*_, **__):
        raise AssertionError("Spark started")

    monkeypatch.setattr("spark_auc.spark.data.session.session", started)


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv"])
def test_jobs_name_the_column_before_spark_starts(tmp_path, capsys, name):
    path = str(tmp_path / name)
    if name == "rows.csv":
        (tmp_path / name).write_text("price;clicked\n1;0\n2;1\n")
    else:
        pq.write_table(pa.table({"price": [1.0, 2.0], "clicked": [0, 1]}), path)
    options = {"data": path, "label": "click", "output": str(tmp_path / "model")}
    assert run("train", options=options) == 2
    message = json.loads(capsys.readouterr().out.splitlines()[-1])["message"]
    assert message == (
        "found no column 'click', expected one of ['price', 'clicked']; did you mean 'clicked'?"
    )


@pytest.mark.parametrize("key", ["weight", "key", "fold"])
@pytest.mark.usefixtures("no_spark")
def test_a_section_names_its_columns(tmp_path, capsys, key):
    pq.write_table(pa.table({"features": [[1.0]], "label": [0]}), tmp_path / "rows.parquet")
    (tmp_path / "conf.yaml").write_text(
        f"train: {{data: {{path: {tmp_path}/rows.parquet}}, columns: {{{key}: w}}, "
        f"output: {{path: {tmp_path}/model}}}}"
    )
    assert run("train", str(tmp_path / "conf.yaml")) == 2
    message = json.loads(capsys.readouterr().out.splitlines()[-1])["message"]
    assert message.startswith("found no column 'w', expected one of ['features', 'label'")


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("prediction", "train.training.predictionCol"),
        ("RAWPrediction", "train.training.rawPredictionCol"),
        ("Probability", "train.calibration.probabilityCol"),
    ],
)
def test_names_of_outputs_are_checked_before_spark_starts(tmp_path, capsys, name, key):
    """Whether the column is used or not: the rows to score have it, too."""
    (tmp_path / "rows.csv").write_text(f"x,y,{name}\n1,0,0.5\n2,1,0.5\n")
    (tmp_path / "others.csv").write_text("x,y\n1,0\n2,1\n")
    data = {name: {"path": str(tmp_path / f"{name}.csv")} for name in ("rows", "others")}
    data = {name: source | {"format": "csv", "options": HEADER} for name, source in data.items()}
    for train, calibration in (("rows", "others"), ("others", "rows")):
        section = {
            "data": data[train],
            "columns": {"features": ["x"], "label": "y"},
            "calibration": {"data": data[calibration]},
            "output": {"path": str(tmp_path / "model")},
        }
        (tmp_path / "conf.json").write_text(json.dumps({"train": section}))
        assert run("train", str(tmp_path / "conf.json")) == 2
        message = json.loads(capsys.readouterr().out.splitlines()[-1])["message"]
        assert message == (
            f"found column {name!r} in the data already, expected it to be new; rename or drop it, "
            f"or set {key} to another name"
        )
        assert run("train", str(tmp_path / "conf.json"), [f"{key}=another", "engine=spark"]) == 1
        assert "Spark started" in capsys.readouterr().out
    if "calibration" not in key:
        options = {"data": str(tmp_path / "rows.csv"), "label": "y", "leave_out": [name]}
        assert run("train", None, [], [], options | {"output": str(tmp_path / "model")}) == 2
        assert key in json.loads(capsys.readouterr().out.splitlines()[-1])["message"]


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("a,b", HEADER),
        ("a;b;c", HEADER | {"sep": ";"}),
        ("a,b;c;d", HEADER | {"delimiter": ","}),
        ("\ufeffa,b", HEADER),
        ('"a",b', HEADER),
        ('"x, ""y""",a', HEADER),
        (" a , b", HEADER),
        ("a|b", HEADER),
    ],
)
def test_names_as_spark_reads_them(tmp_path, line, options):
    path = tmp_path / "rows.csv"
    path.write_text(f"{line}\r\n1,2\n", encoding="utf-8", newline="")
    check_columns(str(path), "csv", options, ["a", None])
    check_columns(f"file://{path}", "csv", options, ["a"])
    check_columns(str(path), "csv", options, ["A"], {"a key": "q", "another": None})
    with pytest.raises(ConfigError, match=r"found column 'a' .* set a key to another"):
        check_columns(str(path), "csv", options, ["a"], {"a key": "A"})
    with pytest.raises(ConfigError, match="found no column 'z'"):
        check_columns(str(path), "csv", options, [" a", "z"])


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("a,b", {}),
        ("a,b", {"header": False}),
        ("a,b", HEADER | {"quote": "'"}),
        ("a,b", HEADER | {"encoding": "UTF-16"}),
        ("a,b", HEADER | {"comment": "#"}),
        ("a,b;c;d", HEADER),
        ("a,b", HEADER | {"sep": "::"}),
        ('"a\nz",b', HEADER),
        ("a,,b", HEADER),
        ("a,a", HEADER),
        ("a,A", HEADER),
        ("", HEADER),
    ],
)
def test_what_only_spark_can_tell_is_left_to_it(tmp_path, line, options):
    path = tmp_path / "rows.csv"
    path.write_text(line)
    check_columns(str(path), "csv", options, ["z"])
    check_columns(str(tmp_path), "csv", options, ["z"])
    check_columns(str(path), "parquet", {}, ["z"])
    check_columns(str(path), "json", {}, ["z"])


def test_an_object_store_without_an_answer_is_left_to_spark(monkeypatch):
    monkeypatch.setattr(file_systems.fs, "resolve_s3_region", no_answer)
    check_columns("s3://bucket/rows.csv", "csv", HEADER, ["z"])


def no_answer(bucket):
    raise OSError(f"no answer about {bucket}")
