"""A column that a local file lacks is an error before Spark starts."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_auc.app.cli import run
from spark_auc.app.config.file_columns import check_columns
from spark_auc.errors import ConfigError

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
        "found no column 'click', expected one of price, clicked; did you mean 'clicked'?"
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
    assert message.startswith("found no column 'w', expected one of features, label")


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
    check_columns("s3://bucket/rows.csv", "csv", HEADER, ["z"])
