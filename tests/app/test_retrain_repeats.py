"""Reruns, catch-up, backfill, restated and late rows of a retraining, beside fresh builds."""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from spark_auc.app.running import run
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.store.moment_store import MomentStore

deltalake = pytest.importorskip("deltalake")
pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.slow]

DAYS = [f"2026-03-{k:02}" for k in range(1, 7)]
CITIES = np.array(["Bern", "Rome", "Oslo"])
FEATURES = {"standard": ["age", "price"], "tokens": ["city"], "auto": False, "dimension": 8}


def table_of(k, seed=0):
    rng = np.random.default_rng([seed, k])
    y = rng.random(700) < 0.4
    X = rng.normal(size=(700, 2)) + y[:, None] * [0.8, 0.1 * k]
    city = CITIES[rng.integers(0, 3, 700)]
    return pa.table({"label": y.astype(int), "age": X[:, 0], "price": X[:, 1], "city": city})


class Place:
    """A directory with rows of some days, a store, records and a champion."""

    def __init__(self, path, days, capsys):
        self.path, self.capsys = path, capsys
        (path / "clicks").mkdir(parents=True)
        for k, seed in days:
            self.write(k, seed)

    def write(self, k, seed=0):
        pq.write_table(table_of(k, seed), self.path / f"clicks/{DAYS[k]}.parquet")

    def run(self, k, **others):
        section = {
            "data": {"path": "clicks/{period}.parquet"},
            "features": FEATURES,
            "store": "moments",
            "history": "history",
            "folds": 2,
            "windows": [2, 7],
            "training": {"regParams": [1e-3, 1e-1]},
            "gate": {"oldest": 2},
            "first": DAYS[0],
            "period": DAYS[k],
            "output": {"path": "model"},
        }
        os.chdir(self.path)
        Path("conf.yaml").write_text(yaml.safe_dump({"retrain": section | others}))
        code = run("retrain", "conf.yaml")
        result = json.loads(self.capsys.readouterr().out.splitlines()[-1])
        assert code == 0, result
        return result

    def rows(self):
        """The rows of the store, with all bits, sorted."""
        rows = deltalake.DeltaTable(self.path / "moments").to_pyarrow_table().to_pylist()
        return sorted(str(sorted(row.items())) for row in rows)

    def version(self):
        return deltalake.DeltaTable(self.path / "moments").version()

    def records(self):
        lines = (self.path / "history/history.jsonl").read_text().splitlines()
        differing = ("seconds", "phases", "store")
        return [{k: v for k, v in json.loads(li).items() if k not in differing} for li in lines]

    def weights(self):
        manifest = json.loads((self.path / "model/manifest.json").read_text())
        data = self.path / "model" / manifest["directory"] / "model/ranker/data"
        return np.asarray(pq.read_table(data)["weight"]).tobytes()


def test_missed_repeated_restated_and_late_periods(tmp_path, monkeypatch, capsys):
    # The test's directory is restored at its end.
    monkeypatch.chdir(tmp_path)
    once = Place(tmp_path / "once", [(k, 0) for k in range(3)], capsys)
    caught_up = once.run(2)
    assert [p["period"] for p in caught_up["periods"]] == DAYS[:3]

    # Day by day, with a deletion of the rows after each: the same decisions, bits and model.
    daily = Place(tmp_path / "daily", [], capsys)
    for k in range(3):
        daily.write(k)
        daily.run(k)
        (daily.path / f"clicks/{DAYS[k]}.parquet").unlink()
    assert daily.records() == once.records()
    assert daily.rows() == once.rows()
    assert daily.weights() == once.weights()

    # Three reruns: no commit, the same decision.
    before = once.version(), once.rows(), once.records(), once.weights()
    for _ in range(3):
        again = once.run(2, lookback=2)
        assert (again["decision"], again["reason"]) == (caught_up["decision"], caught_up["reason"])
        assert again["periods"] == []
        assert (once.version(), once.rows(), once.records(), once.weights()) == before

    # A restated period: one commit for it, one for the new period, none for the unchanged one.
    once.write(1, seed=5)
    once.write(3)
    once.run(3, lookback=2)
    assert once.version() == before[0] + 2
    fresh = Place(tmp_path / "fresh", [(0, 0), (1, 5), (2, 0), (3, 0)], capsys)
    fresh.run(3)
    assert once.rows() == fresh.rows()
    assert once.records()[3]["challenger"] == fresh.records()[3]["challenger"]

    # Late rows are a further source, which windows merge.
    [facts] = MomentStore.stored_facts("moments").values()
    late = [PairMoments.of(np.eye(facts.dimension), np.arange(facts.dimension) < 2)] * 2
    store = MomentStore("moments", facts)
    sizes = np.array([m.positive.rows for m in store.folds(DAYS[3], "rows")])
    assert store.put(DAYS[3], "late", late)
    Place.run(fresh, 3)
    fresh.write(4)
    fresh.run(4, windows=[1])
    made = fresh.records()[4]["challenger"]
    assert made["rows"][0] == sizes.sum() + 2 * 2
    assert sum(made["rows"]) == 700 + 2 * facts.dimension


def test_an_earlier_period_is_stored_and_judges_nobody(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    later = Place(tmp_path / "later", [(k, 0) for k in (1, 2, 3)], capsys)
    later.run(2, first=DAYS[2])
    result = later.run(3, first=DAYS[1])
    assert [(p["period"], p["outcome"]) for p in result["periods"]] == [
        (DAYS[1], "stored"),
        (DAYS[3], "promoted"),
    ]
    assert [r["period"] for r in later.records()] == DAYS[1:4]
    made = later.records()[2]["challenger"]
    assert (made["from"], made["to"], sum(made["rows"])) == (DAYS[1], DAYS[2], 2 * 700)
