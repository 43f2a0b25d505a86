import json

import numpy as np
import pandas as pd
import pytest

from experiments import past_auto, past_linear, past_peers, past_refresh, past_tables
from experiments.past_results import Results
from experiments.past_sets import SETS, Rows
from tests import data


def _rows(count=600):
    rng = np.random.default_rng(5)
    x, code = rng.normal(size=count), rng.integers(0, 4, count)
    names = np.where(rng.random(count) < 0.1, None, np.array([f"c{k}" for k in code], object))
    y = rng.random(count) < 1 / (1 + np.exp(1 - x - code))
    return Rows(pd.DataFrame({"x": x, "c": names}), y)


def test_splits_and_folds_partition_the_rows_of_each_class():
    rows = Rows(pd.DataFrame({"row": np.arange(601.0)}), np.arange(601) % 3 == 0)
    train, test = rows.split(4)
    drawn = np.concatenate([train.frame["row"], test.frame["row"]])
    np.testing.assert_array_equal(np.sort(drawn), np.arange(601))
    np.testing.assert_array_equal(train.y, train.frame["row"] % 3 == 0)
    assert abs(int(train.y.sum()) - int(test.y.sum())) <= 1
    assert not np.array_equal(train.frame["row"], rows.split(5)[0].frame["row"])
    folds = rows.folds(4)
    for fitted, held_out in folds:
        np.testing.assert_array_equal(np.sort(np.append(fitted, held_out)), np.arange(601))
    held = np.concatenate([held_out for _, held_out in folds])
    np.testing.assert_array_equal(np.sort(held), np.arange(601))


@pytest.mark.parametrize("method", past_peers.METHODS)
def test_a_fit_depends_on_the_training_rows_only(method, monkeypatch):
    pytest.importorskip(method.lower())
    monkeypatch.setattr(past_peers, "ROUNDS", 20)
    rows = _rows()
    train, test = rows.split(0)
    # Other test rows of the same table.
    at = rows.frame["x"].isin(test.frame["x"]).to_numpy()
    changed = Rows(rows.frame.assign(x=np.where(at, 1e6, rows.frame["x"])), rows.y ^ at)
    some = rows.take(np.arange(50))
    fit = past_peers.METHODS[method]
    seen = [fit(part, 0).scores(some) for part in (train, changed.take(np.flatnonzero(~at)))]
    np.testing.assert_array_equal(*seen)
    assert past_peers.measured(fit, train, test, 0)["auc"] > 75


def test_categories_are_those_of_the_training_rows():
    frame = pd.DataFrame({"c": ["a"] * 6 + ["b"] * 7 + ["rare"] * 4 + [None]})
    codes = past_peers.Codes.of(frame)
    test = pd.DataFrame({"c": ["b", "a", "rare", "unknown", None]})
    np.testing.assert_array_equal(codes.encoded(test)["c"], [1, 2, 0, 0, np.nan])


def test_a_run_measures_only_what_its_file_lacks(tmp_path, monkeypatch):
    results = Results(tmp_path / "results.jsonl")
    results.add(("splits", "magic04", 0, "LightGBM"), {"auc": 90.0})
    with results.path.open("a") as file:
        file.write('{"part": "spl')
    assert results.keys() == {("splits", "magic04", 0, "LightGBM")}
    past_linear.run([("splits", "magic04", 0, "LightGBM")], tmp_path, results, 1)
    assert [json.dumps(row) for row in results.rows()] == [
        '{"part": "splits", "set": "magic04", "split": 0, "method": "LightGBM", "auc": 90.0}'
    ]


@pytest.mark.parametrize("name", ["nine_categories", "ten_numbers", "mixed_columns"])
def test_generated_tables_are_the_same_in_each_run(name):
    first, second = (SETS[name](data.DIRECTORY) for _ in range(2))
    pd.testing.assert_frame_equal(first.frame, second.frame)
    np.testing.assert_array_equal(first.y, second.y)
    assert 0.2 < first.y.mean() < 0.5


def test_differences_are_of_the_splits_that_both_methods_have(tmp_path):
    results = Results(tmp_path / "results.jsonl")
    for split, (mine, other) in enumerate([(81.0, 80.0), (83.0, 80.0), (85.0, 80.0)]):
        results.add(("splits", "magic04", split, "auto"), {"auc": mine})
        results.add(("splits", "magic04", split, "LightGBM"), {"auc": other})
    results.add(("splits", "magic04", 3, "auto"), {"auc": 0.0})
    rows = past_tables.table(results.rows())
    text = past_tables.difference(rows, "splits", "magic04", "auto", "LightGBM")
    # Mean 3, deviation 2, t(2) = 4.3027: 3 -+ 4.3027 * 2 / sqrt(3); 2 * sqrt(1 / 3 + 1).
    assert text == "+3.00 [-1.97, +7.97] (2.31; 3)"


def test_leaves_with_the_prior_score_as_their_trees():
    pytest.importorskip("lightgbm")
    rows = _rows()
    booster = past_refresh.Booster(rows, 0)
    scores = booster.leaves(rows) @ booster.leaves.prior
    own = booster.scores(rows)
    np.testing.assert_allclose(np.log(own / (1 - own)), scores, atol=1e-9)


def test_the_choice_depends_on_the_training_rows_only(monkeypatch):
    pytest.importorskip("lightgbm")
    rows = _rows()
    train, test = rows.split(0)
    results = dict(past_auto.results(train, test, 0))
    flipped = dict(past_auto.results(train, Rows(test.frame, ~test.y), 0))
    assert results["auto"]["chosen"] == flipped["auto"]["chosen"]
    assert results["auto"]["auc"] > 75
    for name, row in results.items():
        assert row.get("heldOut") == flipped[name].get("heldOut")
        if "auc" in row:
            assert row["auc"] == pytest.approx(100 - flipped[name]["auc"], abs=1e-3)
