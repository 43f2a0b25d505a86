"""A stream and a batch job on one store of moments."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from spark_auc.app.jobs.published_model import read_model
from spark_auc.app.jobs.store_facts import with_stored_segments
from spark_auc.app.running import run
from spark_auc.core.batch import Batch
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.sampling.folds import Folds
from spark_auc.errors import ConfigError
from tests.app import arriving
from tests.app.arriving import NAMES, aged, assert_same_moments, dying, parts, status, table

pytest.importorskip("deltalake")

from spark_auc.store.facts import Facts
from spark_auc.store.moment_store import MomentStore
from spark_auc.store.windows import Window

pytestmark = pytest.mark.usefixtures("spark")
at, job = arriving.at, arriving.job

DAYS = ["2026-03-01", "2026-03-02", "2026-03-03"]
STORE = {"path": "moments", "period": "at", "folds": 3}
STREAM = {"checkpoint": "checkpoint", "maxFilesPerTrigger": 1, "store": STORE}
RETRAIN = {
    "data": {"path": "days/{period}.parquet"},
    "columns": {"features": NAMES},
    "store": "moments",
    "history": "history",
    "folds": 3,
    "windows": [7],
    "training": {"regParams": [0.1]},
    "output": {"path": "champion"},
}


def dated(part, days, seed=0):
    """Rows with times of these days, some just before and after midnight of UTC."""
    rng = np.random.default_rng(seed)
    second = rng.choice([0, 1, 86399, *range(5000, 80000, 7777)], len(part[1]))
    day = np.array(days)[rng.integers(0, len(days), len(part[1]))]
    times = day.astype("datetime64[us]") + second.astype("timedelta64[s]")
    return table(*part).append_column("at", pa.array(times, pa.timestamp("us", "UTC"))), day


def arrive(made, first=0):
    """Write the files of a stream; of days 1 to 3, then late rows of day 1 with those of day 3."""
    together = []
    for k, part in enumerate(made, first):
        rows, day = dated(part, [DAYS[:1], DAYS[:2], DAYS[1:], [DAYS[0], DAYS[2]]][k % 4], k)
        pq.write_table(rows, f"rows/{k:03d}.parquet")
        aged(f"rows/{k:03d}.parquet", k)
        together.append((rows, day))
    return together


def by_day(together):
    """Write all rows as the files of a batch job, a file for each day."""
    Path("days").mkdir(exist_ok=True)
    for day in DAYS:
        of_day = [rows.filter(pa.array(days == day)) for rows, days in together]
        pq.write_table(pa.concat_tables(of_day), f"days/{day}.parquet")


def retrain(capsys, newest=DAYS[2], **others):
    section = RETRAIN | {"first": DAYS[0], "period": newest} | others
    Path("retrain.yaml").write_text(yaml.safe_dump({"retrain": section}))
    code = run("retrain", "retrain.yaml")
    return code, json.loads(capsys.readouterr().out.splitlines()[-1])


def store(place="moments"):
    return MomentStore(place, Facts(3, 3))


def assert_same_periods(ours, theirs):
    """Assert that every fold of every period has the same rows and moments."""
    assert ours.periods() == theirs.periods() == tuple(DAYS)
    for day in DAYS:
        earlier = [d for d in DAYS if d < day]
        (a,), (b,) = (s.windows([Window(1)], newest=day, excluded=earlier) for s in (ours, theirs))
        for k in range(3):
            assert_same_moments(a.fold(k), b.fold(k))


@pytest.mark.slow
def test_a_stream_stores_the_rows_of_each_day_even_if_it_is_killed(job, spark, monkeypatch):
    together = arrive(parts(4))
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        with monkeypatch.context() as patched:
            # The first batch is in the store and not in the checkpoint.
            dying(patched, "commit", True)
            assert job(STREAM)[0] == 1
        assert store().sources(DAYS[0]) == ("stream.stream.00000000",)
        code, result = job(STREAM)
    finally:
        spark.conf.unset("spark.sql.session.timeZone")
    assert (code, result["batches"]) == (0, 4), result
    assert not any(s["leftOut"] for s in status())
    for (_, day), line in zip(together, status(), strict=True):
        values, rows = np.unique(day, return_counts=True)
        assert line["stored"] == dict(zip(values.tolist(), rows.tolist(), strict=True))
    for day in DAYS:
        earlier = [d for d in DAYS if d < day]
        (window,) = store().windows([Window(1)], newest=day, excluded=earlier)
        rows = pa.concat_tables([t.filter(pa.array(days == day)) for t, days in together])
        X, y = np.stack([rows[name] for name in NAMES], 1), rows["label"].to_numpy() > 0
        assert_same_moments(window.total(), PairMoments.of(X, y))
    # The ranker of the stored batches is that of all rows at once.
    section = {
        "columns": {"features": NAMES},
        "training": {"regParam": 0.1, "tol": 1e-12},
    }
    names = {"of_store": {"moments": {"store": "moments"}}, "of_rows": {"data": {"path": "rows"}}}
    for name, source in names.items():
        Path("train.yaml").write_text(
            yaml.safe_dump({"train": section | source | {"output": {"path": name}}})
        )
        assert run("train", "train.yaml") == 0
    found, expected = (read_model(name).ranker for name in names)
    np.testing.assert_allclose(found.scorer.w, expected.scorer.w, rtol=1e-10)
    assert found.summary.rows == expected.summary.rows


@pytest.mark.slow
def test_a_batch_job_and_a_stream_meet(job, capsys):
    together = arrive(parts(4))
    assert job(STREAM)[0] == 0
    by_day(together)
    # A batch job on a store of its own, from the rows of each day.
    code, result = retrain(capsys, store="other")
    assert code == 0, result
    assert_same_periods(store(), store("other"))

    # The batch job on the same store judges each day as if the stream had stored nothing of it or
    # of later days, and its rows stand for those of the stream.
    for newest in DAYS:
        code, result = retrain(capsys, newest, history="again", output={"path": "again_model"})
        assert code == 0, result
    assert [store().sources(day) for day in DAYS] == [("rows",)] * 3
    assert_same_periods(store(), store("other"))
    logs = [Path(name, "history.jsonl").read_text().splitlines() for name in ("history", "again")]
    first, second = ([json.loads(line)["outcome"] for line in log] for log in logs)
    assert first == second

    # Late rows of days that the batch job stored are left out, and said.
    arrive(parts(1, seed=9), first=4)
    code, result = job(STREAM)
    assert code == 0, result
    assert status()[-1]["leftOut"] == {DAYS[0]: 60}
    assert status()[-1]["stored"] == {}
    assert_same_periods(store(), store("other"))


@pytest.mark.slow
def test_another_checkpoint_does_not_store_the_rows_again(job):
    arrive(parts(3))
    assert job(STREAM)[0] == 0
    before = {day: store().sources(day) for day in DAYS}
    code, result = job(STREAM | {"checkpoint": "fresh"}, output={"path": "again"})
    assert code == 2
    assert "count rows twice" in result["message"]
    code, result = job(STREAM | {"store": STORE | {"folds": 4}})
    assert code == 2
    assert "'folds': 3" in result["message"]
    assert {day: store().sources(day) for day in DAYS} == before


def test_rows_without_a_date_are_rejected(job):
    (rows, _), *_ = arrive(parts(2))
    names = rows.column_names[:-1]
    times = rows["at"].to_pylist()
    bad = rows.select(names).append_column("at", pa.array([None, *times[1:]], rows["at"].type))
    pq.write_table(bad, "rows/000.parquet")
    aged("rows/000.parquet", 0)
    code, result = job(STREAM)
    assert (code, result["rejected"]) == (0, 1), result
    assert store().sources(DAYS[0]) == ("stream.stream.00000001",)
    code, result = job(
        STREAM | {"store": STORE | {"period": "a"}, "checkpoint": "other"}, output={"path": "b"}
    )
    assert code == 2
    assert "double" in result["message"]


@pytest.mark.slow
def test_a_stream_stores_the_segments_that_a_batch_job_stores(job, capsys):
    """The segments are those of the store; rows of other values, and of none, are together."""
    together, later = arrive(parts(4, rows=400)), "2026-03-04"
    for k, (rows, days) in enumerate(together):
        cities = np.random.default_rng(k).choice(["Bern", "Oslo", "Rome", None], len(days))
        # The second batch has rows of one segment alone.
        city = pa.array(["Bern"] * len(days) if k == 1 else cities.tolist(), pa.string())
        together[k] = rows.append_column("city", city), days
        pq.write_table(together[k][0], f"rows/{k:03d}.parquet")
        aged(f"rows/{k:03d}.parquet", k)
    by_day(together)
    first = table(*parts(1, seed=8)[0])
    city = pa.array(["Oslo", "Bern"] * (len(first) // 2))
    pq.write_table(first.append_column("city", city), f"days/{later}.parquet")
    segments = {"training": {"regParams": [0.1], "segmentCol": "city"}}
    assert retrain(capsys, later, first=later, **segments)[0] == 0
    shutil.copytree("moments", "other")

    code, result = job(STREAM | {"store": STORE | {"segment": "city"}})
    assert (code, result["batches"]) == (0, 4), result
    assert [sum(s["stored"].values()) for s in status()] == [len(days) for _, days in together]
    # Periods before the first stored one are only stored.
    code, result = retrain(capsys, later, store="other", **segments)
    assert (code, {p["outcome"] for p in result["periods"]}) == (0, {"stored"}), result
    (facts,) = MomentStore.stored_facts("moments").values()
    assert facts.segments == ("Bern", "Oslo")
    ours, theirs = (MomentStore(place, facts) for place in ("moments", "other"))
    for day in DAYS:
        assert ours.sources(day)[0].startswith("stream.")
        assert theirs.sources(day) == ("rows",)
        earlier = [d for d in DAYS if d < day]
        for name in ("Bern", "Oslo", ""):
            a, b = (
                s.windows([Window(1)], newest=day, excluded=earlier, segments=[name])[0]
                for s in (ours, theirs)
            )
            for k in range(3):
                assert_same_moments(a.fold(k), b.fold(k))


def test_the_segments_of_a_stream_are_those_of_equal_facts():
    own = Facts(3, 3)
    cities = replace(own, segment_column="city", segments=("Bern", "Oslo"))
    more = replace(cities, segments=("Bern", "Rome"))
    sites = replace(own, segment_column="site", segments=("a",))
    stored = {f.schema_id: f for f in (own, cities, sites, replace(more, seed=1))}
    assert with_stored_segments(own, stored, "city", None) == cities
    # The store refuses facts that it lacks, and names the seed.
    other = with_stored_segments(own, {"a": replace(more, seed=1)}, "city", None)
    assert other.differences(replace(more, seed=1)) == ["seed: 0, 1"]
    with pytest.raises(ConfigError, match="expected moments with the segment column 'town'"):
        with_stored_segments(own, stored, "town", None)
    with pytest.raises(ConfigError, match="found no moments in the store"):
        with_stored_segments(own, {}, "city", None)
    both = stored | {more.schema_id: more}
    with pytest.raises(ConfigError, match=r"differ in their segments, .* set .*schemaId"):
        with_stored_segments(own, both, "city", None)
    assert with_stored_segments(own, both, "city", more.schema_id) == more
    with pytest.raises(ConfigError, match=r"'site'.* segment column 'city'"):
        with_stored_segments(own, both, "city", sites.schema_id)


def test_the_segments_of_a_stream_are_those_of_its_store_or_refused(job):
    facts = Facts(3, 3, segment_column="city", segments=("Bern",))
    X, y, _ = parts(1, rows=400)[0]
    ((rows, _),) = arrive(parts(1, rows=400))
    folds = [PairMoments.of(X, y)] * 3
    MomentStore("moments", facts).put("2026-02-28", "rows", {"Bern": folds})
    code, result = job(STREAM)
    assert code == 2
    assert "segment_column: 'city', 'nothing'" in result["message"]
    code, result = job(STREAM | {"store": STORE | {"segment": "city"}})
    assert code == 2
    assert "found no column 'city'" in result["message"]
    assert MomentStore("moments", facts).periods() == ("2026-02-28",)
    # Nothing of the checkpoint says that it was stored.
    assert not Path("checkpoint/store.json").exists()

    city = np.random.default_rng(0).choice(["Bern", "Rome", None], len(rows))
    pq.write_table(rows.append_column("city", pa.array(city.tolist())), "rows/000.parquet")
    aged("rows/000.parquet", 0)
    fresh = {"checkpoint": "fresh", "store": STORE | {"segment": "city"}}
    code, result = job(STREAM | fresh, output={"path": "fresh_model"})
    assert code == 0, result
    (source,) = (stored := MomentStore("moments", facts)).sources(DAYS[0])
    fold = Folds(3).of(Batch(X, y))
    for name, is_own in (("Bern", city == "Bern"), ("", city != "Bern")):
        for k, found in enumerate(stored.folds(DAYS[0], source, name)):
            at = is_own & (fold == k)
            assert_same_moments(found, PairMoments.of(X[at], y[at]))
