"""Scores to tables of Delta Lake and Iceberg: whole or not at all, beside other writers."""

import datetime as dt
import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from spark_auc.app.jobs import lake_output
from spark_auc.app.running import run
from spark_auc.errors import ConfigError
from spark_auc.lakes.delta import DeltaLake
from spark_auc.lakes.iceberg import IcebergTable

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.slow]
FIRST = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
DAYS = [dt.date(2026, 3, 1), dt.date(2026, 3, 2)]


class DeltaOutput:
    """A Delta table as a job writes it, and as deltalake reads it."""

    def __init__(self, at):
        self.path = str(at / "delta")
        self.place = {"format": "delta", "path": "delta"}
        self.source = {"format": "delta", "path": "delta"}

    def rows(self):
        from deltalake import DeltaTable

        return DeltaTable(self.path).to_pyarrow_table()

    def append(self, table):
        from deltalake import write_deltalake

        write_deltalake(self.path, table, mode="append")

    def staged(self):
        return os.listdir(f"{self.path}/_spark_auc") if os.path.isdir(self.path) else []


class IcebergOutput:
    """An Iceberg table of a catalog in SQLite."""

    def __init__(self, at):
        self.options = {
            "type": "sql",
            "uri": f"sqlite:///{at}/catalog.db",
            "warehouse": f"file://{at}/lake",
        }
        self.place = {"format": "iceberg", "table": "ns.scores", "options": self.options}
        self.source = self.place
        self.lake, self.name = at / "lake", "default"
        self.catalog().create_namespace("ns")

    def catalog(self):
        from pyiceberg.catalog import load_catalog

        return load_catalog(self.name, **self.options)

    def rows(self):
        return self.catalog().load_table("ns.scores").scan().to_arrow()

    def append(self, table):
        self.catalog().load_table("ns.scores").append(table)

    def staged(self):
        there = self.lake / "_spark_auc"
        return os.listdir(there) if there.is_dir() else []


@pytest.fixture(scope="module")
def model(spark, tmp_path_factory):
    """A published model, and the rows that it scores."""
    at = tmp_path_factory.mktemp("model")
    drawn = np.random.default_rng(0)
    x = drawn.normal(size=200)
    table = pa.table(
        {
            "x": x,
            "label": (x + drawn.normal(size=200) > 0).astype(float),
            "day": [DAYS[k % 2] for k in range(200)],
            "at": [FIRST + dt.timedelta(minutes=k) for k in range(200)],
        }
    )
    pq.write_table(table, at / "rows.parquet")
    for k, day in enumerate(DAYS):
        pq.write_table(table.take(list(range(k, 200, 2))), at / f"{day}.parquet")
    section = {
        "data": {"path": str(at / "rows.parquet")},
        "columns": {"features": ["x"]},
        "training": {"regParam": 0.1},
        "output": {"path": str(at / "model")},
    }
    (at / "conf.yaml").write_text(yaml.safe_dump({"train": section}))
    assert run("train", str(at / "conf.yaml")) == 0
    return at


@pytest.fixture(params=[DeltaOutput, IcebergOutput])
def lake(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return request.param(tmp_path)


@pytest.fixture
def score(model, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def started(output, rows="rows", **keys):
        section = {"model": str(model / "model"), "output": output, "keep": ["day", "at", "x"]}
        section |= {"data": {"path": str(model / f"{rows}.parquet")}, **keys}
        (tmp_path / "conf.yaml").write_text(yaml.safe_dump({"score": section}))
        code = run("score", "conf.yaml")
        return code, json.loads(capsys.readouterr().out.splitlines()[-1])

    return started


def published_scores(score):
    """The oracle: the same scores as Parquet files of a publication."""
    code, result = score({"path": "plain", "replace": True})
    assert code == 0, result
    assert "runId" not in result
    return pq.read_table(result["scores"].removeprefix("file://"))


def same(rows, expected):
    """Whether tables have the same rows, times as moments."""

    def sorted_rows(table):
        names = expected.column_names
        rows = zip(*(table[name].to_pylist() for name in names), strict=True)
        at = names.index("at")
        return sorted((*r[:at], r[at].replace(tzinfo=dt.UTC), *r[at + 1 :]) for r in rows)

    return sorted_rows(rows) == sorted_rows(expected)


def test_two_runs_append_and_the_columns_tell_them_apart(lake, score, model):
    output = lake.place | {"runIdCol": "run", "modelVersionCol": "model", "mode": "append"}
    runs = [score(output) for _ in range(2)]
    assert [code for code, _ in runs] == [0, 0], json.dumps(runs)
    rows, expected = lake.rows(), published_scores(score)
    version = runs[0][1]["modelVersion"]
    assert version in os.listdir(model / "model/versions")
    assert set(rows["model"].to_pylist()) == {version}
    ids = [result["runId"] for _, result in runs]
    assert len({*ids}) == 2
    for name in ids:
        of_run = rows.filter(pa.compute.equal(rows["run"], name))
        assert same(of_run, expected)
    assert runs[0][1]["rows"] == 200
    assert lake.staged() == []


def test_a_table_that_exists_is_not_touched_by_default(lake, score):
    assert score(lake.place)[0] == 0
    before = lake.rows()
    code, result = score(lake.place)
    assert code == 2
    assert "found a table at" in result["message"]
    assert lake.rows().equals(before)


def test_an_overwrite_replaces_the_partitions_of_its_rows(lake, score):
    first, second = (str(day) for day in DAYS)
    output = lake.place | {"partitionBy": ["day"], "runIdCol": "run"}
    assert score(output, first)[0] == 0
    again = output | {"mode": "overwrite"}
    ids = {}
    for rows in (second, first):
        code, result = score(again, rows)
        assert code == 0, result
        ids[rows] = result["runId"]
    rows = lake.rows()
    assert same(rows, published_scores(score))
    found = set(zip(map(str, rows["day"].to_pylist()), rows["run"].to_pylist(), strict=True))
    assert found == {(first, ids[first]), (second, ids[second])}
    # Without partitionBy, all rows.
    code, result = score(again | {"partitionBy": []}, first)
    assert code == 0, result
    assert {str(day) for day in lake.rows()["day"].to_pylist()} == {first}


@pytest.mark.parametrize("partitions", [[], ["day"]])
def test_a_concurrent_writer_and_no_half_output(lake, score, monkeypatch, partitions):
    output = lake.place | {"partitionBy": partitions}
    assert score(output)[0] == 0
    write = lake_output.written

    def meanwhile(table, rows, *others):
        lake.append(lake.rows().slice(0, 3))
        return write(table, rows, *others)

    from spark_auc.app.jobs import score as job

    monkeypatch.setattr(job, "written", meanwhile)
    code, result = score(output | {"mode": "overwrite"})
    assert (code, result["error"]) == (75, "ConflictError"), result
    assert "nothing is written: run this job again" in result["message"]
    assert lake.rows().num_rows == 203
    assert lake.staged() == []
    monkeypatch.setattr(job, "written", write)
    assert score(output | {"mode": "overwrite"})[0] == 0
    assert lake.rows().num_rows == 200


def test_of_two_jobs_that_make_the_table_one_wins(lake, score, monkeypatch):
    from spark_auc.app.jobs import score as job

    write = lake_output.written

    def meanwhile(table, rows, columns, output, run):
        other = lake_output.opened(output)
        assert write(other, rows, columns, output, f"{run}-other") == 200
        return write(table, rows, columns, output, run)

    monkeypatch.setattr(job, "written", meanwhile)
    code, result = score(lake.place | {"mode": "append"})
    assert (code, result["error"]) == (75, "ConflictError"), result
    assert lake.rows().num_rows == 200


def test_another_schema_is_refused_before_a_row_is_scored(lake, score, model, monkeypatch):
    assert score(lake.place)[0] == 0
    before = lake.rows()

    def never(*_, **__):
        raise AssertionError("rows were scored")

    monkeypatch.setattr("pyspark.sql.DataFrameWriter.parquet", never)
    output = lake.place | {"mode": "append"}
    select = ["day", "CAST(x AS float) AS x", "label"]
    data = {"path": str(model / "rows.parquet"), "select": select}
    code, result = score(output | {"runIdCol": "run"}, keep=["day", "x"], data=data)
    assert code == 2, result
    for text in (
        "at (not in the scores, in the table timestamp[us",
        "run (string, in the table not there)",
        "x (float, in the table double)",
    ):
        assert text in result["message"]
    assert "day" not in result["message"].partition("in the columns")[2].partition("expected")[0]
    assert lake.rows().equals(before)


def test_a_failure_while_rows_are_written_leaves_the_table(lake, score, monkeypatch):
    assert score(lake.place)[0] == 0
    before = lake.rows()

    def broken(*_):
        yield from lake_batches[:1]
        raise OSError("disk full")

    lake_batches = before.to_batches()
    monkeypatch.setattr(lake_output, "_batches", broken)
    code, _ = score(lake.place | {"mode": "append"})
    assert code != 0
    assert lake.rows().equals(before)
    assert lake.staged() == []


REFUSED = [
    ({"path": "a", "mode": "append"}, "no mode with parquet"),
    ({"format": "delta"}, "path with format delta"),
    ({"format": "delta", "path": "a", "replace": True}, "no replace with format delta"),
    ({"format": "iceberg", "path": "a"}, "no path with format iceberg"),
    ({"format": "iceberg", "table": "n.t"}, "staging, or options.warehouse"),
    ({"path": "a", "runIdCol": "r", "modelVersionCol": "r"}, "different names"),
    (
        {"path": "a", "runIdCol": "x"},
        "or set score.output.runIdCol to another",
    ),
    ({"format": "delta", "path": "a", "partitionBy": ["nothing"]}, "found partitionBy ['nothing']"),
]


@pytest.mark.parametrize(("output", "message"), REFUSED)
def test_outputs_that_contradict_themselves(score, output, message):
    code, result = score(output)
    assert code == 2, result
    assert message in result["message"]
    assert not os.path.exists("a/versions") or not os.listdir("a/versions")


def test_parquet_with_partitions_and_ids(score):
    output = {"path": "plain", "partitionBy": ["day"], "runIdCol": "run"}
    code, result = score(output)
    assert code == 0, result
    rows = pq.read_table(result["scores"].removeprefix("file://"))
    assert set(rows["run"].to_pylist()) == {result["runId"]}
    assert sorted(p for p in os.listdir(result["scores"].removeprefix("file://")) if "=" in p) == [
        f"day={day}" for day in DAYS
    ]


def test_names_of_partitions_are_quoted(tmp_path):
    """Values and names that are SQL, and a missing value."""
    values = ["it's", 'a"b', "x OR 1=1", None, ""]
    rows = pa.table({"a b": values * 2, "n": range(10)})
    for table in (DeltaLake(str(tmp_path / "t")),):
        table.write(rows.to_reader(), "errorIfExists", ["a b"])
    DeltaLake(str(tmp_path / "t")).write(
        pa.table({"a b": ["it's", None], "n": [100, 101]}).to_reader(), "overwrite", ["a b"]
    )
    from deltalake import DeltaTable

    found = DeltaTable(str(tmp_path / "t")).to_pyarrow_table().to_pydict()
    kept = [n for n, v in zip(range(10), values * 2, strict=True) if v not in ("it's", None, "")]
    assert {100, 101, *kept} <= set(found["n"])
    assert not {0, 5, 3, 8} & set(found["n"])


def test_tables_without_rows_and_without_tables(tmp_path):
    assert DeltaLake(str(tmp_path / "none")).schema is None
    options = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/c.db",
        "warehouse": f"file://{tmp_path}",
    }
    with pytest.raises(ConfigError, match="found no namespace 'n'"):
        IcebergTable("n.t", options)
    with pytest.raises(ConfigError, match="expected one of pyiceberg"):
        IcebergTable("n.t", options | {"uri": f"sqlite:///{tmp_path}/none/c.db"})


def read(spark, source):
    from spark_auc.app.config.sources import Source

    with Source.model_validate(source).read(spark) as rows:
        return rows.toPandas().sort_values("n", ignore_index=True), rows


@pytest.mark.parametrize("partitions", [[], ["day", "who"]])
def test_rows_of_a_table_are_read_from_its_files(lake, spark, partitions):
    who = ["it's a", "b/c", None, "007"] * 3
    table = pa.table({"n": range(12), "day": [DAYS[k % 2] for k in range(12)], "who": who})
    make = DeltaLake if isinstance(lake, DeltaOutput) else IcebergTable
    options = getattr(lake, "options", None)
    name = lake.place.get("path") or lake.place["table"]
    make(name, options).write(table.to_reader(), "errorIfExists", partitions)
    more = pa.table({"n": [100], "day": [DAYS[0]], "who": ["z"]})
    make(name, options).write(more.to_reader(), "append", partitions)
    found, rows = read(spark, lake.source)
    assert rows.columns == ["n", "day", "who"]
    assert found["n"].tolist() == [*range(12), 100]
    assert found["who"].where(found["who"].notna(), None).tolist() == [*who, "z"]
    assert found["day"].tolist() == [*table["day"].to_pylist(), DAYS[0]]
    # Files that the log no longer names are not read.
    make(name, options).write(more.to_reader(), "overwrite")
    assert read(spark, lake.source)[0]["n"].tolist() == [100]


def test_a_table_that_is_missing_or_has_other_files(lake, spark):
    from spark_auc.errors import DataError

    with pytest.raises(DataError, match="expected one; check"):
        read(spark, lake.source)
    if isinstance(lake, IcebergOutput):
        made = IcebergTable("ns.scores", lake.options)
        made.write(pa.table({"n": [1], "a": [2]}).to_reader(), "append")
        with lake.catalog().load_table("ns.scores").update_schema() as update:
            update.rename_column("a", "b")
        with pytest.raises(DataError, match="found columns that changed \\(a\\)"):
            read(spark, lake.source)
