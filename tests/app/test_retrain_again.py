"""Rows of stored periods that are read again: late rows, and rows after a full refresh."""

import json
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from spark_auc.app.jobs.champion import read_champion
from spark_auc.app.jobs.retrain_history import History
from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.store.moment_store import MomentStore
from tests.app.test_retrain import SECTION, Dead, day, records, retrain, written

deltalake = pytest.importorskip("deltalake")
pytestmark = pytest.mark.usefixtures("spark")
__all__ = ["retrain"]

NUMBERS = {"features": None, "columns": {"features": ["age", "price"]}, "windows": [7]}


def rows_of(periods=None, schema_id=None):
    """The stored rows with all bits, sorted."""
    rows = deltalake.DeltaTable("moments").to_pyarrow_table().to_pylist()
    return sorted(
        str(sorted(row.items()))
        for row in rows
        if (periods is None or row["period"] in periods) and schema_id in (None, row["schemaId"])
    )


def version():
    return deltalake.DeltaTable("moments").version()


def table(k):
    return pq.read_table(f"clicks/{day(k)}.parquet")


def rewritten(k, change):
    pq.write_table(change(table(k)), f"clicks/{day(k)}.parquet")


def one_class(rows):
    return rows.filter(pc.equal(rows["label"], 0))


def again(result):
    return [(r["period"], r["replaced"]) for r in result["readAgain"]]


def record_of(k):
    return Path(f"history/{day(k)}.json").read_text()


@pytest.mark.slow
def test_rows_that_are_read_again_pass_the_rules_of_new_ones(retrain, caplog):
    for k in range(7):
        written(k)
    code, result = retrain(3, **NUMBERS)
    assert (code, result["champion"], result["readAgain"]) == (0, day(1), []), result
    before = {k: record_of(k) for k in range(4)}
    bits = rows_of([day(1)])
    # Day 1 lacks a class, day 2 has other rows, and day 3 is as it was.
    kept = table(1)
    rewritten(1, one_class)
    written(2, seed=5, rows=1100, shift=0.4)
    code, result = retrain(4, **NUMBERS, lookback=3)
    assert code == 5
    assert f"{day(1)} (0 positive and" in result["message"]
    assert "the stored moments remain" in result["message"]
    assert again(result) == [(day(1), False), (day(2), True)]
    assert result["periods"][0]["outcome"] == "kept"
    assert f"period {day(1)}: the rows were read again and replace nothing" in caplog.text
    first, second = json.loads(record_of(1)), json.loads(record_of(2))
    note = first.pop("readAgain")
    assert first == json.loads(before[1])
    assert (note["replaced"], "0 positive" in note["reason"]) == (False, True)
    assert rows_of([day(1)]) == bits
    assert record_of(3) == before[3]
    # The record has the new rows and their drift, and the decision of its day.
    y = table(2)["label"].to_numpy() > 0
    assert second["rows"] == [int(y.sum()), int((~y).sum())]
    assert second["readAgain"]["replaced"]
    assert second["completed"]
    assert [w for w in second["drift"]["warnings"] if "means of" in w]
    decided = ("outcome", "reason", "gate", "challenger", "champion", "labels")
    assert {n: second[n] for n in decided} == {n: json.loads(before[2])[n] for n in decided}
    assert "Read again: " in Path(f"history/{day(2)}.html").read_text()
    # Its scores are references for later periods.
    w = read_champion("model").model.ranker.scorer.w
    scores = np.column_stack([table(2)[n].to_numpy() for n in ("age", "price")]) @ w
    expected = ScoreHistogram.of(scores, y).coarsened(max_bins=1024)
    assert History("history").scores(day(2), day(1)).to_bytes() == expected.to_bytes()

    # Rows that were read once change nothing, and a fresh build has the same bits.
    state = version(), record_of(1), record_of(2)
    code, result = retrain(5, **NUMBERS, lookback=4)
    assert (code, again(result)) == (5, [(day(1), False)])
    assert (version(), record_of(1), record_of(2)) == (state[0] + 1, *state[1:])
    pq.write_table(kept, f"clicks/{day(1)}.parquet")
    rewritten(5, lambda rows: rows.drop_columns(["price"]))
    code, result = retrain(6, **NUMBERS, lookback=1)
    assert (code, again(result)) == (5, [(day(5), False)])
    assert "other columns" in result["readAgain"][0]["reason"]
    written(5)
    built = rows_of()
    code, result = retrain(6, **NUMBERS, store="fresh", history="others", output={"path": "other"})
    assert code == 0, result
    Path("moments").rename("kept")
    Path("fresh").rename("moments")
    assert rows_of() == built


@pytest.mark.slow
def test_accepted_rows_replace_stored_ones_although_they_lack_a_class(retrain):
    for k in range(3):
        written(k)
    assert retrain(1, **NUMBERS)[0] == 0
    rewritten(0, one_class)
    rewritten(1, lambda rows: rows.drop_columns(["label"]))
    code, result = retrain(2, **NUMBERS, lookback=2, accept=[day(0)], dryRun=True)
    state = version(), record_of(0)
    assert (code, again(result)) == (5, [(day(0), True), (day(1), False)])
    assert (version(), record_of(0)) == state
    code, result = retrain(2, **NUMBERS, lookback=2, accept=[day(0)])
    assert (code, again(result)) == (5, [(day(0), True), (day(1), False)])
    record = json.loads(record_of(0))
    assert (record["rows"], "labels" in record) == ([0, table(0).num_rows], False)


@pytest.mark.slow
def test_a_run_that_was_killed_while_it_replaced_a_period_is_completed(retrain, monkeypatch):
    for k in range(3):
        written(k)
    assert retrain(1, **NUMBERS)[0] == 0
    written(1, seed=5)

    def die(*_):
        raise Dead

    with monkeypatch.context() as dying:
        dying.setattr(MomentStore, "put", die)
        with pytest.raises(Dead):
            retrain(2, **NUMBERS, lookback=1)
    assert not json.loads(record_of(1))["completed"]
    code, result = retrain(2, **NUMBERS)
    assert (code, [p["period"] for p in result["periods"]]) == (0, [day(1), day(2)]), result
    y = table(1)["label"].to_numpy() > 0
    record = json.loads(record_of(1))
    assert (record["rows"], record["completed"]) == ([int(y.sum()), int((~y).sum())], True)
    (facts,) = MomentStore.stored_facts("moments").values()
    folds = MomentStore("moments", facts).folds(day(1), "rows")
    assert sum(m.positive.rows for m in folds) == y.sum()


@pytest.mark.slow
def test_periods_of_an_earlier_schema_are_filled_under_the_new_one(retrain):
    other = SECTION["features"] | {"dimension": 32}
    for k in range(6):
        written(k)
    assert retrain(3)[0] == 0
    decided = records()
    Path(f"clicks/{day(0)}.parquet").unlink()
    kept = table(1)
    rewritten(1, lambda rows: rows.drop_columns(["city"]))
    # Without `first`, the old periods remain under their schema.
    request = {"features": other, "fullRefresh": "a"}
    code, result = retrain(4, **request, first=None)
    assert (code, list(result["lacking"].values())) == (0, [[day(k) for k in range(4)]]), result
    schema_id = result["schemaId"]
    # With it, those with rows of the new columns are stored before the next period is decided.
    code, result = retrain(5, **request)
    assert (code, result["schemaId"]) == (0, schema_id), result
    assert again(result) == [(day(1), False), (day(2), True), (day(3), True)]
    assert list(result["lacking"].values()) == [[day(0), day(1)]]
    assert records()[5]["challenger"]["from"] == day(2)
    pq.write_table(kept, f"clicks/{day(1)}.parquet")
    code, result = retrain(5, features=other, first=day(1))
    assert (code, again(result), result["periods"]) == (0, [(day(1), True)], []), result
    assert list(result["lacking"].values()) == [[day(0)]]
    for now, then in zip(records()[:4], decided, strict=True):
        assert [now[n] for n in ("outcome", "reason")] == [then[n] for n in ("outcome", "reason")]
        assert (now["schemaId"] == schema_id) == (now["period"] != day(0))
    # A rerun reads nothing new.
    state = version(), records()
    assert again(retrain(5, features=other)[1]) == []
    assert (version(), records()) == state
    # A fresh build whose recipe is fitted to the same rows has the same bits.
    filled = rows_of(schema_id=schema_id)
    fresh = {"store": "fresh", "history": "others", "output": {"path": "other"}}
    assert retrain(4, features=other, first=day(4), **fresh)[0] == 0
    assert retrain(5, features=other, first=day(1), **fresh)[0] == 0
    Path("moments").rename("kept")
    Path("fresh").rename("moments")
    assert rows_of(schema_id=schema_id) == filled


@pytest.mark.slow
def test_a_refresh_that_begins_before_stored_periods_is_the_present_schema(retrain):
    for k in range(5):
        written(k)
    assert retrain(3, first=day(1))[0] == 0
    old = records()[0]["schemaId"]
    code, result = retrain(0, fullRefresh="a")
    assert (code, result["stored"]) == (0, 1), result
    schema_id = result["schemaId"]
    assert schema_id != old
    code, result = retrain(4, first=None)
    assert (code, result["schemaId"], result["stored"]) == (0, schema_id, 2), result
    assert records()[4]["challenger"]["to"] == day(0)
