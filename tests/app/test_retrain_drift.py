"""Drift of periods in a retraining: lasting changes, pooled gates, and shares of raw columns."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_auc.app.jobs.champion import read_champion
from spark_auc.app.jobs.published_model import read_fit
from spark_auc.app.jobs.retrain_history import History
from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.features.recipe_json import to_json
from spark_auc.retraining.drift import stability_index
from tests.app.test_retrain import SECTION, day, records, retrain, written

pytest.importorskip("deltalake")
pytestmark = pytest.mark.usefixtures("spark")
__all__ = ["retrain"]

STABLE = {"gate": {"strict": True}}


def scores_of(k):
    """The champion's scores of a day's rows by numpy, and the labels."""
    table = pq.read_table(f"clicks/{day(k)}.parquet")
    w = read_champion("model").model.ranker.scorer.w
    X = np.column_stack([table[name].to_numpy() for name in ("age", "price")])
    return X @ w, table["label"].to_numpy() > 0


@pytest.mark.slow
def test_accepted_periods_are_what_later_ones_are_compared_with(retrain):
    """A lasting shift stops a period, is accepted once, and stops no later period."""
    numbers = {"features": None, "columns": {"features": ["age", "price"]}}
    for k in range(8):
        written(k, shift=2.0 if k >= 3 else 0.0, rows=1200)
    code, result = retrain(4, **STABLE, **numbers)
    assert code == 5
    assert "retrain.accept" in result["message"]
    assert [r["outcome"] for r in records()[3:]] == ["quarantined"] * 2
    for r, k in zip(records()[2:], (2, 3, 4), strict=True):
        before, now = (ScoreHistogram.of(*scores_of(j)) for j in (1, k))
        # The gate's scores are exact; those of a period have at most 1,024 bins.
        nearest = min(
            stability_index(ScoreHistogram.of(*scores_of(j)), now) for j in ({1, 2} - {k})
        )
        assert r["drift"]["psi"] == pytest.approx(nearest, abs=0.02), k
        assert r["drift"]["psi"] <= stability_index(before, now) + 1e-12
        assert r["scoredBy"] == day(1)
    # A rejected period is no reference: the next of its kind stops, too. An accepted one is.
    assert retrain(5, **STABLE, **numbers)[0] == 5
    code, result = retrain(5, **STABLE, **numbers, accept=[day(4)])
    assert (code, result["periods"][0]["period"]) == (0, day(4))
    assert records()[4]["outcome"] != "quarantined"
    code, result = retrain(6, **STABLE, **numbers)
    assert (code, result["stored"]) == (0, 5), result
    assert records()[6]["drift"]["reference"] == day(4)
    assert records()[6]["drift"]["psi"] < 0.1
    assert Path(f"history/{day(6)}.scores").stat().st_size < 100_000
    # One that was quarantined before others were stored is a reference without its rows' scores.
    code, result = retrain(6, **STABLE, **numbers, accept=[day(3)])
    assert (code, result["decision"]) == (0, "stored")
    assert History("history").scores(day(3), day(1)) is not None
    # Another shift stops again.
    written(7, shift=5.0, rows=1200)
    assert retrain(7, **STABLE, **numbers)[0] == 5


@pytest.mark.slow
def test_a_bad_period_stops_although_its_gate_pools_others(retrain):
    for k in range(6):
        written(k, rows=300)
    assert retrain(4)[0] == 0
    written(5, rows=100, shift=3.0)
    code, _ = retrain(5)
    assert (code, records()[5]["outcome"]) == (5, "quarantined")


def changed(k, **columns):
    """Replace columns of a day, by functions of the values."""
    path = f"clicks/{day(k)}.parquet"
    table = pq.read_table(path)
    for name, change in columns.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, pa.array(change(table[name].to_pylist())))
    pq.write_table(table, path)


@pytest.mark.slow
def test_shares_of_raw_columns_warn(retrain, caplog):
    features = SECTION["features"] | {"dimension": 4096}
    for k in range(5):
        written(k)
    assert retrain(2, features=features)[0] == 0
    quiet = records()[2]
    assert quiet["drift"]["excesses"] == []
    rows = sum(quiet["rows"])
    columns = json.loads(Path(f"history/{day(2)}.json").read_text())["columns"]
    city = {row["column"]: row for row in columns}["city"]
    assert city == {
        "column": "city", "kind": "tokens", "rows": rows, "missing": 0, "below": 0, "above": 0,
        "judged": rows, "unseen": 0,
    }  # fmt: skip

    changed(
        3,
        age=lambda values: [None if j % 4 == 0 else v for j, v in enumerate(values)],
        price=lambda values: [99.0 if j % 10 == 0 else v for j, v in enumerate(values)],
        city=lambda values: ["Ulm" if j % 5 == 0 else v for j, v in enumerate(values)],
    )
    limits = {"stopPSI": 99.0}
    assert retrain(3, features=features, drift=limits)[0] == 0
    found = {(e["column"], e["counted"]): e["share"] for e in records()[3]["drift"]["excesses"]}
    assert found == {
        ("age", "missing"): 0.25,
        ("price", "above"): 0.1,
        ("city", "unseen"): 0.2,
    }
    warnings = records()[3]["drift"]["warnings"]
    assert any("'city' (tokens) are new tokens (0.0% in the window)" in w for w in warnings)
    assert any("of the values of column 'age'" in r.message for r in caplog.records)
    assert History("history").warned() == {day(3)}
    # The limit is settable.
    Path(f"history/{day(3)}.json").unlink()
    assert retrain(3, features=features, drift=limits | {"share": 0.22})[0] == 0
    found = [(e["column"], e["counted"]) for e in records()[3]["drift"]["excesses"]]
    assert found == []


@pytest.mark.slow
def test_a_champion_has_the_counts_of_its_window(retrain):
    """Whether the run that published it fitted the recipe, or an earlier run did."""
    for k in range(3):
        written(k)
        changed(k, age=lambda values: [None if j % 9 == 0 else v for j, v in enumerate(values)])
    found = []
    for runs in ((2,), (0, 1, 2)):
        for place in ("model", "moments", "history"):
            shutil.rmtree(place, ignore_errors=True)
        for k in runs:
            code, result = retrain(k, gate={"oldest": 1})
            assert code == 0
        # The second champion was trained on two periods.
        assert result["champion"] == day(2)
        recipe, drift = read_fit("model")
        assert drift.counts[:, :2].tolist() == [[1800, 200], [1800, 0], [1800, 0]]
        assert read_champion("model").model.fitted_recipe.drift.to_bytes() == drift.to_bytes()
        found.append((to_json(recipe), drift.to_bytes()))
    assert found[0] == found[1]


def test_other_columns_stop_their_period_only(retrain):
    numbers = {"features": None, "columns": {"features": ["age", "price"]}}
    for k in range(3):
        written(k)
    first = pq.read_table(f"clicks/{day(0)}.parquet")
    pq.write_table(first.drop_columns(["price"]), f"clicks/{day(0)}.parquet")
    # At first it is a mistake of the configuration.
    assert retrain(0, **numbers)[0] == 2
    pq.write_table(first, f"clicks/{day(0)}.parquet")
    good = pq.read_table(f"clicks/{day(1)}.parquet")
    pq.write_table(good.drop_columns(["price"]), f"clicks/{day(1)}.parquet")
    code, result = retrain(2, **numbers)
    assert code == 5
    assert "price" in result["message"]
    outcomes = ["stored", "quarantined", "promoted"]
    assert [r["outcome"] for r in records()] == outcomes
    assert "other columns" in Path(f"history/{day(1)}.html").read_text()
    # After a repair it is accepted.
    pq.write_table(good, f"clicks/{day(1)}.parquet")
    code, result = retrain(2, **numbers, accept=[day(1)])
    assert (code, result["stored"], result["decision"]) == (0, 3, "stored")
