"""The job opauc on rows that come otherwise than as files of a directory."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from spark_auc.app.cli import main
from spark_auc.app.jobs.published_model import read_model
from spark_auc.app.running import run
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.publication.versions import current
from tests.app import arriving
from tests.app.arriving import (
    BASE,
    SCHEMA,
    aged,
    arrive,
    assert_same_moments,
    committed,
    dying,
    moments,
    parts,
    status,
    table,
)

pytestmark = pytest.mark.usefixtures("spark")
at, job = arriving.at, arriving.job

# Lines of text arrive as those of Kafka do: as strings in the column ``value``.
TEXT = {"format": "text", "path": "said", "options": {"maxFilesPerTrigger": 1}}
SAID = {"checkpoint": "checkpoint", "source": TEXT | {"value": "json", "schema": SCHEMA}}


def say(made, form="json", first=0):
    Path("said").mkdir(exist_ok=True)
    for k, part in enumerate(made, first):
        path, frame = Path(f"said/{k:03d}.txt"), table(*part).to_pandas()
        if form == "json":
            frame.to_json(path, orient="records", lines=True, double_precision=15)
        else:
            frame.to_csv(path, index=False, header=False)
        aged(path, k)


def configure(**section):
    Path("conf.yaml").write_text(yaml.safe_dump({"opauc": BASE | section}))


def without_flag(capsys, *overrides):
    code = run("opauc", "conf.yaml", overrides)
    return code, json.loads(capsys.readouterr().out.splitlines()[-1])


@pytest.mark.slow
def test_one_configuration_serves_the_stream_and_the_batch(job, capsys):
    made = parts(4)
    arrive(made)
    say(made)
    code, result = job(SAID)
    assert code == 0, result
    assert (result["batches"], result["files"], result["rejected"]) == (4, 0, 0)
    state = committed()
    assert_same_moments(state.statistics.moments, moments(made), 1e-9)
    assert [s["rows"] for s in status()] == [60, 61, 62, 63]
    low, high = status()[-1]["prequentialBounds"]
    assert low <= result["prequentialAUC"] <= high
    told = json.loads(current("model", "model").read("config.json"))["stream"]["source"]
    assert told == SAID["source"] | {"table": None}
    code, batch = without_flag(capsys, "opauc.output.path=batch")
    assert (code, batch["rows"]) == (0, result["rows"])
    assert "batches" not in batch
    found, expected = (read_model(name).ranker for name in ("model", "batch"))
    np.testing.assert_allclose(found.scorer.w, expected.scorer.w, rtol=1e-7)
    assert job(SAID | {"checkpoint": "other"}, output={"path": "again"})[0] == 0
    assert committed("other").statistics.to_bytes() == state.statistics.to_bytes()


@pytest.mark.slow
def test_a_job_that_dies_goes_on(job, monkeypatch):
    made = parts(4)
    say(made, "csv")
    stream = SAID | {"source": TEXT | {"value": "csv", "schema": SCHEMA}}
    for done, (name, before) in enumerate([("commit", True), ("note", True), ("note", False)]):
        with monkeypatch.context() as patched:
            dying(patched, name, before)
            code, result = job(stream)
        assert (code, result["message"]) == (1, "died")
        assert committed().progress.batch == done - 1
    assert job(stream)[1]["batches"] == 4
    assert_same_moments(committed().statistics.moments, moments(made))
    assert [s["batch"] for s in status()] == [0, 1, 2, 3]


def test_a_malformed_row_fails_its_batch(job):
    made = parts(3)
    say(made)
    second = Path("said/001.txt")
    good = second.read_text()
    second.write_text(good.rstrip()[:-9] + "\n")
    aged(second, 1)
    for _ in range(2):
        code, result = job(SAID)
        assert (code, result["error"]) == (3, "DataError")
        assert 'found \'{"a":' in result["message"]
        assert "expected JSON of `a` double" in result["message"]
        assert committed().progress.batch == 0
        assert_same_moments(committed().statistics.moments, moments(made[:1]), 1e-9)
    second.write_text(good)
    aged(second, 1)
    assert job(SAID)[1]["batches"] == 3
    assert_same_moments(committed().statistics.moments, moments(made), 1e-9)


def test_a_source_with_columns_of_its_own(job):
    source = {"format": "rate-micro-batch", "options": {"rowsPerBatch": 2, "numPartitions": 1}}
    stream = {"checkpoint": "checkpoint", "source": source}
    columns = {"features": ["value"], "label": "value"}
    assert job(stream, data=None, columns=columns)[0] == 0
    expected = PairMoments.of(np.array([[0.0], [1.0]]), np.array([False, True]))
    assert_same_moments(committed().statistics.moments, expected)
    # The next values are labels of no class.
    code, result = job(stream, data=None, columns=columns)
    assert code == 3
    assert "label values" in result["message"]
    assert committed().progress.batch == 0


def test_a_table(job, spark):
    made = parts(3)
    arrive(made)
    spark.sql(f"create table arriving_rows using parquet location '{Path('rows').absolute()}'")
    try:
        source = {"table": "arriving_rows", "options": {"maxFilesPerTrigger": 2}}
        code, result = job({"checkpoint": "checkpoint", "source": source}, data=None)
    finally:
        spark.sql("drop table arriving_rows")
    assert (code, result["batches"]) == (0, 2)
    assert_same_moments(committed().statistics.moments, moments(made))


@pytest.mark.parametrize(
    ("stream", "source", "message"),
    [
        ({}, {"format": "kafka"}, "org.apache.spark:spark-sql-kafka-0-10_2.13:"),
        ({}, {"format": "nothing"}, "found no stream at 'nothing'"),
        ({}, {"table": "nothing"}, "found no stream at 'nothing'"),
        ({}, {}, "give either table, or format"),
        ({}, {"format": "rate", "table": "rows"}, "give either table, or format"),
        ({}, {"table": "rows", "path": "rows"}, "leave out path"),
        ({}, {"table": "rows", "schema": SCHEMA}, "leave out schema"),
        ({}, {"format": "rate", "value": "json"}, "value needs schema"),
        ({}, {"format": "rate", "value": "csv", "schema": "a dubble"}, "the schema 'a dubble'"),
        ({}, {"format": "rate", "value": "csv", "schema": "a array<int>"}, "columns ['a']"),
        ({}, {"format": "rate"}, "no column 'a'"),
        ({}, {"format": "text", "path": "nowhere"}, "found nothing at 'nowhere'"),
        (
            {"checkpoint": "rows/a"},
            {"format": "text", "path": "rows"},
            "inside opauc.stream.source",
        ),
        ({"maxFilesPerTrigger": 1}, {"format": "rate"}, "maxFilesPerTrigger only for files"),
        (
            {"schema": SCHEMA, "rejected": "a"},
            {"format": "rate"},
            "schema, rejected only for files",
        ),
        ({"halfLife": {"hours": 1}}, {"format": "rate"}, "halfLife.hours only for files"),
    ],
)
def test_mistakes(job, spark, stream, source, message):
    code, result = job({"checkpoint": "checkpoint", "source": source} | stream, data=None)
    assert code == 2, result
    assert message in result["message"]
    if source.get("format") == "kafka":
        assert f"_2.13:{spark.version}," in result["message"]


def test_a_checkpoint_of_another_source_is_refused(job):
    say(parts(1))
    assert job(SAID)[0] == 0
    for other in ({"schema": SCHEMA, "checkpoint": "checkpoint"}, SAID | {"source": TEXT}):
        code, result = job(other)
        assert code == 2
        assert "found a checkpoint of" in result["message"]


def test_the_flag_decides(at, capsys):
    arrive(parts(1))
    data = {"path": "rows"}
    # The section must be there for the flag ...
    configure(data=data)
    with pytest.raises(SystemExit) as ended:
        main(["opauc", "--stream", "--config", "conf.yaml"])
    assert ended.value.code == 2
    assert "found --stream without opauc.stream" in capsys.readouterr().out
    # ... and does nothing without it.
    stream = {"checkpoint": "checkpoint", "source": {"format": "rate"}}
    configure(data=data, stream=stream)
    code, result = without_flag(capsys)
    assert (code, sum(result["rows"].values())) == (0, 60)
    assert not Path("checkpoint").exists()
    configure(stream=stream)
    code, result = without_flag(capsys)
    assert code == 2
    assert "set --stream" in result["message"]
