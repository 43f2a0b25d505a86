"""Jobs while the store fails, files of attempts that failed, and what Spark cannot read."""

import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from spark_auc.app.config.reach import check_reach
from spark_auc.app.config.scoring import Score
from spark_auc.app.config.sections import SparkSection
from spark_auc.errors import ConfigError
from spark_auc.publication.directory import Directory
from tests.objects.proxy import Plan
from tests.objects.server import KEY
from tests.objects.test_jobs import everything, job, put, rows, scores

MARK = "m4rkedSECRETvalue0123456789"


def prepared(root, tmp_path, capsys):
    put(f"{root}/rows", rows())
    sections = everything(root)
    assert job(tmp_path, capsys, "train", sections["train"])[0] == 0
    return sections


@pytest.mark.slow
def test_jobs_pass_faults_that_end(tasks, proxy, tmp_path, capsys):
    sections = prepared(tasks, tmp_path, capsys)
    assert job(tmp_path, capsys, "score", sections["score"])[0] == 0
    clean = scores(tasks)
    for name in ("train", "score"):
        sections[name]["output"] |= {"replace": True}
        proxy.plan = Plan(rate=0.2, seed=5)
        code, result = job(tmp_path, capsys, name, sections[name])
        assert code == 0, result
        assert len(proxy.plan.met) > 2
    proxy.plan = Plan()
    assert scores(tasks).equals(clean)


@pytest.mark.parametrize(
    "part",
    [pytest.param("/scores/versions", marks=pytest.mark.slow), "/rows/part-1", "/model/manifest"],
)
def test_a_store_that_fails_for_good_is_one_error(tasks, proxy, tmp_path, capsys, part):
    sections = prepared(tasks, tmp_path, capsys)
    proxy.plan = Plan(dead="503", matching=part)
    code, result = job(tmp_path, capsys, "score", sections["score"])
    assert (code, result["error"]) == (1, "StorageError")
    assert result["message"].startswith("found that the store of ")
    assert proxy.plan.met["503"]
    proxy.plan = Plan()
    assert "manifest.json" not in Directory.of(f"{tasks}/scores").names()
    assert job(tmp_path, capsys, "score", sections["score"])[0] == 0
    assert scores(tasks).num_rows == rows().num_rows


def test_files_of_failed_attempts_are_deleted(tasks, spark):
    from spark_auc.spark.data.part_files import read_parquet, write_parquet

    place = Directory.of(f"{tasks}/made")

    def with_stray(batches):
        Directory.of(place.uri).write("part-00000-of-a-failed-attempt.parquet", b"PAR1")
        yield from batches

    frame = spark.range(0, 50, 1, 3).mapInArrow(with_stray, "id bigint")
    assert write_parquet(frame, place) == 50
    assert not [name for name in place.names() if "failed-attempt" in name]
    assert len(place.names()) == 3
    found = read_parquet(spark, place)
    assert sorted(row.id for row in found.collect()) == list(range(50))
    # Without rows there is a file that has the columns.
    empty = Directory.of(f"{tasks}/empty")
    assert write_parquet(frame.where("id < 0"), empty) == 0
    assert read_parquet(spark, empty).columns == ["id"]


def test_partitions_and_types_come_back(tasks, spark, tmp_path):
    from spark_auc.spark.data.arrow_files import arrow_rows
    from spark_auc.spark.data.part_files import write_parquet

    frame = spark.sql(
        "select id, cast(id as string) as text, date'2024-02-29' as day, "
        "timestamp'2024-03-01 12:00:00' as at, cast(id as decimal(9, 2)) as price, id % 2 as part, "
        "array(id, null) as list from range(0, 20, 1, 2)"
    )
    remote, local = Directory.of(f"{tasks}/made"), Directory.of(str(tmp_path / "made"))
    assert write_parquet(frame, remote, ["part"]) == write_parquet(frame, local, ["part"]) == 20
    for part in (0, 1):
        found = arrow_rows(spark, f"{remote.uri}/part={part}")
        expected = spark.read.parquet(f"{local.uri}/part={part}")
        assert found.dtypes == expected.dtypes
        assert sorted(found.collect()) == sorted(expected.collect())
    assert arrow_rows(spark, remote.uri) is None


def test_large_row_groups_are_read_within_bounds(tasks, monkeypatch):
    from spark_auc.spark.data import parquet
    from spark_auc.spark.data.arrow_files import ArrowFiles, Location

    draw, sink = np.random.default_rng(0), pa.BufferOutputStream()
    table = pa.table({name: draw.normal(size=1_000_000) for name in "ab"})
    pq.write_table(table, sink, row_group_size=table.num_rows, use_dictionary=False)
    Directory.of(f"{tasks}/big").write("part-0.parquet", sink.getvalue().to_pybytes())
    del sink
    monkeypatch.setattr(parquet, "_MOST_BUFFERED", 2**20)
    scan = ArrowFiles.of(None, Location(f"{tasks}/big")).scan
    pool, peaks, read = pa.default_memory_pool(), [], 0
    before = pool.bytes_allocated()
    for batch in scan.read(iter([pa.record_batch({"id": [0]})])):
        peaks.append(pool.bytes_allocated() - before)
        read += batch.num_rows
    assert read == table.num_rows
    assert max(peaks) < table.nbytes / 2


def test_what_only_spark_reads_is_one_error(tasks, tmp_path, capsys, monkeypatch):
    from pyspark.sql import SparkSession

    sections = prepared(tasks, tmp_path, capsys)
    section = sections["score"] | {"data": {"path": f"{tasks}/rows", "format": "csv"}}
    code, result = job(tmp_path, capsys, "score", section)
    assert (code, result["error"]) == (2, "ConfigError")
    assert "found no file system of Spark for s3" in result["message"]
    # Without a session and a jar, Spark is not started for it.
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    for name in ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="no jar by which Spark opens s3"):
        check_reach(Score.model_validate(section), SparkSection())
    other = section | {"data": {"path": "foo://b/rows"}}
    with pytest.raises(ConfigError, match="no jar by which Spark opens foo"):
        check_reach(Score.model_validate(other), SparkSection())
    jar = SparkSection(conf={"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.5.0"})
    check_reach(Score.model_validate(section), jar)
    missing = section | {"data": {"path": f"{tasks}/none"}}
    with pytest.raises(ConfigError, match="found nothing at"):
        check_reach(Score.model_validate(missing), SparkSection())


@pytest.mark.slow
def test_credentials_are_in_no_file_and_no_log(bucket, proxy, tmp_path):
    """Jobs that succeed and one that fails, in processes of their own; Spark logs its events."""
    put(f"{bucket}/rows", rows())
    sections = everything(bucket)
    (tmp_path / "events").mkdir()
    spark = {"spark.master": "local[1]", "spark.ui.enabled": False}
    spark |= {"spark.eventLog.enabled": True, "spark.eventLog.dir": f"file://{tmp_path}/events"}
    said = []
    for name, dead in (("train", None), ("score", None), ("evaluate", "503")):
        proxy.plan = Plan(dead=dead, matching="/evaluation/versions")
        file = tmp_path / f"{name}.yaml"
        file.write_text(yaml.safe_dump({"spark": {"conf": spark}, name: sections[name]}))
        ended = subprocess.run(
            [sys.executable, "-m", "spark_auc", name, "--config", str(file)],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=os.environ | {"AWS_SECRET_ACCESS_KEY": MARK},
        )
        result = json.loads(ended.stdout.splitlines()[-1])
        assert (ended.returncode == 0) == (dead is None), result
        said += [ended.stdout, ended.stderr]
    proxy.plan = Plan()
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    root = Directory.of(bucket)
    stored = [root.read(name) for name in root.files()]
    assert len(written) > 4
    assert len(stored) > 8
    for secret in (MARK, KEY):
        assert not [text for text in said if secret in text]
        assert not [content for content in (*written, *stored) if secret.encode() in content]
