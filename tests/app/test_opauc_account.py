"""The job opauc where files of its checkpoint were lost: each row counts once, or an error."""

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.orc
import pytest

from tests.app import arriving
from tests.app.arriving import (
    SCHEMA,
    STREAM,
    aged,
    arrive,
    assert_same_moments,
    committed,
    moments,
    parts,
    status,
    table,
)
from tests.app.test_opauc_source import SAID, say

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.slow]
at, job = arriving.at, arriving.job

ACCOUNT = Path("checkpoint/spark")
ONE = STREAM | {"maxFilesPerTrigger": 1}


class Form(NamedTuple):
    stream: dict
    give: Callable


FORMS = {"files": Form(ONE, arrive), "source": Form(SAID, say)}


@pytest.fixture
def learnt(made_once, job):
    """Go to a directory where three parts were learnt one by one."""

    def learn(form):
        Path("rows").mkdir()
        FORMS[form].give(parts(3))
        assert job(FORMS[form].stream)[1]["batches"] == 3

    return lambda form: made_once(form, lambda: learn(form))


def lost(path):
    path.unlink()
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def emptied(path):
    path.write_bytes(b"")


def halved(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def zeroed(path):
    path.write_bytes(b"\0" * path.stat().st_size)


LOSSES = {
    "offset": ["offsets/2"],
    "commit": ["commits/2"],
    "both": ["offsets/2", "commits/2"],
    "two of each": ["offsets/2", "commits/2", "commits/1", "offsets/1"],
    "all": ["offsets/2", "commits/2", "sources/0/2"],
    "source": ["sources/0/2"],
}


FAST = [
    ("files", "both", halved),
    ("files", "all", zeroed),
    ("source", "two of each", lost),
]
ALL = itertools.product(["files", "source"], LOSSES, [lost, emptied, halved, zeroed])
SLOW = [pytest.param(*case, marks=pytest.mark.slow) for case in ALL if case not in FAST]


@pytest.mark.parametrize(("form", "what", "how"), [*FAST, *SLOW])
def test_what_spark_lost_is_restored(job, learnt, what, how, form):
    made = parts(5)
    stream, give = FORMS[form]
    learnt(form)
    for name in LOSSES[what]:
        how(ACCOUNT / name)
    give(made[3:], first=3)
    code, result = job(stream)
    assert code == 0, result
    assert_same_moments(committed().statistics.moments, moments(made), 1e-9)
    assert [s["batch"] for s in status()] == [0, 1, 2, 3, 4]
    assert job(stream)[1]["batches"] == 5


@pytest.mark.parametrize(("form", "how"), [("files", lost), ("files", halved), ("source", emptied)])
def test_the_state_before_the_last_serves(job, learnt, how, form):
    made = parts(4)
    stream, give = FORMS[form]
    learnt(form)
    before = committed()
    how(Path("checkpoint/state-00000002.bin"))
    assert committed().progress.batch == 1
    give(made[3:], first=3)
    code, result = job(stream)
    assert (code, result["batches"]) == (0, 4)
    assert_same_moments(committed().statistics.moments, moments(made), 1e-9)
    assert [s["batch"] for s in status()] == [0, 1, 2, 3]
    assert before.progress.batch == 2


def test_a_state_of_long_ago(job):
    made = parts(6)
    arrive(made[:2])
    assert job(ONE)[0] == 0
    shutil.copy("checkpoint/state-00000001.bin", "kept")
    arrive(made[2:], first=2)
    assert job(ONE)[1]["batches"] == 6
    for state in Path("checkpoint").glob("state-*"):
        state.unlink()
    shutil.copy("kept", "checkpoint/state-00000001.bin")
    assert job(ONE)[0] == 0
    assert_same_moments(committed().statistics.moments, moments(made))


def test_a_planned_batch_that_was_torn(job, monkeypatch):
    made = parts(4)
    arrive(made[:2])
    assert job(ONE)[1]["batches"] == 2
    arrive(made[2:], first=2)
    with monkeypatch.context() as patched:
        arriving.dying(patched, "commit", True)
        assert job(ONE)[0] == 1
    for name in ("offsets/2", "sources/0/2"):
        halved(ACCOUNT / name)
    assert job(ONE)[0] == 0
    assert_same_moments(committed().statistics.moments, moments(made))


@pytest.mark.parametrize("name", ["metadata", "offsets/0", "sources/0/0"])
def test_a_first_batch_that_was_torn(job, monkeypatch, name):
    made = parts(2)
    arrive(made)
    with monkeypatch.context() as patched:
        arriving.dying(patched, "commit", True)
        assert job(ONE)[0] == 1
    emptied(ACCOUNT / name)
    assert job(ONE)[0] == 0
    assert_same_moments(committed().statistics.moments, moments(made))


def test_an_account_of_other_batches_is_refused(job, at):
    made = parts(4)
    arrive(made[:3])
    assert job(ONE)[1]["batches"] == 3
    kept = committed().to_bytes()
    path = ACCOUNT / "offsets/2"
    path.write_text(path.read_text().replace("batchTimestampMs", "batchTimestampms"))
    (ACCOUNT / "offsets/.2.crc").unlink()
    code, result = job(ONE)
    assert code == 2
    assert "offsets/2" in result["message"]
    assert "restore" in result["message"]
    assert committed().to_bytes() == kept
    # More is missing than the last batches.
    path.unlink()
    (ACCOUNT / "offsets/1").unlink()
    (ACCOUNT / "offsets/0").unlink()
    shutil.rmtree(ACCOUNT / "sources")
    code, result = job(ONE)
    assert code == 2
    assert "restore" in result["message"]
    assert committed().to_bytes() == kept


def test_columns_in_another_order(job):
    """The names in a file's first line count, or the file is refused by them."""
    made = parts(3)
    for k, part in enumerate(made):
        frame = table(*part).to_pandas()
        if k == 1:
            frame = frame[["b", "a", "c", "label", "u"]]
        frame.to_csv(f"rows/{k}.csv", index=False)
        aged(f"rows/{k}.csv", k)
    data = {"path": "rows", "format": "csv", "options": {"header": True}}
    code, result = job(ONE, data=data)
    assert (code, result["files"], result["rejected"]) == (0, 2, 1)
    assert_same_moments(committed().statistics.moments, moments([made[0], made[2]]), 1e-9)
    reason = Path("checkpoint/rejected/1.csv.reason.txt").read_text()
    assert "found the columns b, a, c, label" in reason
    assert "expected a, b, c, label" in reason
    # A source refuses it as well.
    shutil.copy("checkpoint/rejected/1.csv", "rows/1.csv")
    aged("rows/1.csv", 1)
    source = {"format": "csv", "path": "rows", "options": {"header": True}, "schema": SCHEMA}
    code, result = job({"checkpoint": "other", "source": source}, output={"path": "third"})
    assert code == 3, result
    assert "found the columns b, a, c, label" in result["message"]


@pytest.mark.parametrize("form", ["json", "orc", "parquet"])
def test_columns_missing_or_of_other_types(job, form):
    made = [(10 * X, y, u) for X, y, u in parts(4)]
    whole = [(X.round(), y, u) for X, y, u in made]
    for k, (X, y, u) in enumerate(made):
        given = table(*(whole[k] if k != 1 else (X, y, u)))
        if k != 1:
            integers = {"a": pa.int32(), "b": pa.int32(), "c": pa.int32()}
            schema = pa.schema([f.with_type(integers.get(f.name, f.type)) for f in given.schema])
            given = given.cast(schema)
        if k == 2:
            given = given.drop_columns(["b"])
        path = f"rows/{k}.{form}"
        if form == "json":
            given.to_pandas().to_json(path, orient="records", lines=True, double_precision=15)
        elif form == "orc":
            pyarrow.orc.write_table(given, path)
        else:
            arriving.pq.write_table(given, path)
        aged(path, k)
    stream = STREAM | {"schema": "a int, b int, c int, label double, u double"}
    code, result = job(stream, data={"path": "rows", "format": form})
    assert (code, result["files"], result["rejected"]) == (0, 2, 2), result
    assert_same_moments(committed().statistics.moments, moments([whole[0], whole[3]]), 1e-9)
    reasons = [Path(f"checkpoint/rejected/{k}.{form}.reason.txt").read_text() for k in (1, 2)]
    assert f"1.{form}" in reasons[0]
    assert "'b'" in reasons[1]
    assert json.loads(Path("checkpoint/status.jsonl").read_text())["rejected"] == 2
    if form == "orc":
        # A batch refuses them, too.
        Path("checkpoint/rejected/1.orc").rename("rows/1.orc")
        code, result = job(data={"path": "rows", "format": "orc"}, output={"path": "again"})
        assert code != 0
        assert "CANNOT_MERGE_" in result["message"]
