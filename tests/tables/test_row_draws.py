"""Holdouts of rows with few possible values, against splits that draw each row alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.metrics import roc_auc_score

import spark_auc
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.split import by_key

GRADES = np.array(list("abcdefghij"))


def grades(seed, rows=4000, noise=False):
    """Rows of ten grades, whose rates of positive rows differ unless they are noise."""
    rng = np.random.default_rng(seed)
    rates = np.full(10, 0.3) if noise else rng.permutation(np.linspace(0.1, 0.8, 10))
    grade = rng.integers(0, 10, rows)
    return pd.DataFrame({"grade": GRADES[grade], "y": rng.random(rows) < rates[grade]})


def parts(frame, seed, part_rows=None):
    table = ArrowTable.of(pa.Table.from_pandas(frame, preserve_index=False), part_rows)
    halves = by_key(table, 0.8, seed, label=("y", None))
    return [half.gathered().to_pandas() for half in halves]


@pytest.mark.parametrize("part_rows", [None, 700])
def test_rows_of_common_values_are_drawn_one_by_one(part_rows):
    frame = grades(0)
    train, test = parts(frame, 1, part_rows)
    both = pd.concat([train, test])
    rows = frame.value_counts().sort_index()
    assert both.value_counts().sort_index().equals(rows)
    share = test.value_counts().sort_index() / rows
    # Each grade of each label has about a fifth of its rows in the test part, drawn at random.
    error = np.sqrt(0.2 * 0.8 / rows)
    assert (abs(share - 0.2) < 4.5 * error).all()
    assert 0.5 < (((share - 0.2) / error) ** 2).mean() < 2.0
    assert test["y"].mean() == pytest.approx(frame["y"].mean(), abs=0.01)
    other = parts(frame, 2, part_rows)[1]
    assert test.value_counts().to_dict() != other.value_counts().to_dict()


def test_passes_over_a_part_divide_it_alike():
    table = ArrowTable.of(pa.Table.from_pandas(grades(3), preserve_index=False), 900)
    train, _ = by_key(table, 0.8, 0, label=("y", None))
    first = train.gathered()
    # An incomplete pass does not change what later ones keep.
    assert train.head(["grade"], 5).num_rows == 5
    assert train.gathered().equals(first)


def test_copies_of_rows_stay_together():
    rng = np.random.default_rng(4)
    rows = pd.DataFrame({"x": rng.normal(size=60), "y": rng.random(60) < 0.4})
    train, test = parts(rows.loc[np.repeat(np.arange(60), 40)], 0)
    assert not set(train["x"]) & set(test["x"])


def test_oversampled_rows_stay_together_where_others_have_few_values():
    rng = np.random.default_rng(5)
    many = pd.DataFrame({"x": rng.normal(size=900), "y": False})
    few = pd.DataFrame({"x": rng.normal(size=9), "y": True}).loc[np.repeat(np.arange(9), 100)]
    train, test = parts(pd.concat([many, few]), 0)
    assert not set(train["x"]) & set(test["x"])


def test_each_part_has_rows_of_both_classes_of_tables_in_many_parts():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        y = np.zeros(2000, bool)
        y[rng.choice(2000, 4, replace=False)] = True
        rows = pd.DataFrame({"grade": GRADES[rng.integers(0, 5, 2000)], "y": y})
        train, test = parts(rows, seed, 20)
        assert train["y"].any()
        assert test["y"].any()


def test_copies_stay_together_beside_common_values():
    rng = np.random.default_rng(7)
    noisy = pd.DataFrame({"x": rng.integers(0, 10, 2000), "y": rng.random(2000) < 0.4})
    copies = pd.DataFrame({"x": np.arange(100, 120), "y": rng.random(20) < 0.4})
    rows = pd.concat([noisy, copies.loc[np.repeat(np.arange(20), 40)]])
    train, test = parts(rows.sample(frac=1.0, random_state=0), 0)
    both = set(train["x"]) & set(test["x"])
    assert both == set(range(10))


def test_the_auc_of_few_values_is_that_of_new_rows():
    frame, new = grades(6, 2000), grades(6, 20_000)
    for seed in range(3):
        trained = spark_auc.train(frame, "y", seed=seed)
        interval = trained.evaluation.interval
        known = roc_auc_score(new["y"], trained.score(new))
        assert known > 0.7
        assert interval.lower - 0.03 < known < interval.upper + 0.03


def test_the_auc_of_noise_is_a_half():
    found = [spark_auc.train(grades(k, 2000, noise=True), "y").evaluation.auc for k in range(4)]
    assert np.mean(found) == pytest.approx(0.5, abs=0.04)
