"""Counts of missing and extreme values of tables, against counts by pandas."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from spark_auc.errors import ConfigError
from spark_auc.features.recipe import Recipe
from spark_auc.pipeline.drift import drift_of
from spark_auc.pipeline.estimators import RecipeEstimator
from spark_auc.pipeline.models import FittedRecipe
from spark_auc.tables.arrow_table import ArrowTable

ROWS = 700
EXPLICIT: dict[str, Any] = {
    "spline": ["age", "when"],
    "standard": ["income"],
    "tokens": ["city", "flag"],
    "log": ["clicks"],
    "hour": ["when"],
    "auto": False,
    "numKnots": 5,
    "dimension": 32,
}


def table(seed: int = 1, scale: float = 1.0) -> pa.Table:
    rng = np.random.default_rng(seed)
    age = rng.normal(40, 10 * scale, ROWS).round()
    age[rng.random(ROWS) < 0.05] = np.nan
    age[:2] = math.inf, -math.inf
    city = rng.choice(["a", "b", "", "köln"], ROWS)
    start = datetime(2026, 1, 1)
    when = [start + timedelta(hours=int(h)) for h in rng.integers(0, 99 * scale, ROWS)]
    y = rng.random(ROWS) < 0.3
    return pa.table(
        {
            "age": pa.array(age, mask=rng.random(ROWS) < 0.1),
            "income": pa.array(rng.lognormal(8, scale, ROWS), mask=rng.random(ROWS) < 0.2),
            "city": pa.array(city, mask=rng.random(ROWS) < 0.1),
            "flag": pa.array(rng.random(ROWS) < 0.3, mask=rng.random(ROWS) < 0.15),
            "clicks": pa.array(rng.integers(0, 99, ROWS), mask=rng.random(ROWS) < 0.25),
            "when": pa.array(when, pa.timestamp("us"), mask=rng.random(ROWS) < 0.02),
            "label": pa.array(y.astype(float)),
        }
    )


def by_pandas(recipe: Recipe, rows: pa.Table) -> list[list[int]]:
    """Rows, and missing, low and high values of each column of the recipe."""
    frame = rows.to_pandas()
    counts = []
    for column in recipe.columns:
        values = frame[column.name]
        here = values[~(values.isna() | (values.astype(object) == ""))]
        low = high = 0
        if hasattr(column, "bounds"):
            if column.type == "time":
                here = (here - pd.Timestamp(1970, 1, 1)) / pd.Timedelta(days=1)
            least, most = (
                (column.knots[0], column.knots[-1])
                if hasattr(column, "knots")
                else (column.mean - 5 * column.deviation, column.mean + 5 * column.deviation)
            )
            low, high = int((here < least).sum()), int((here > most).sum())
        counts.append([len(frame), len(frame) - len(here), low, high])
    return counts


@pytest.fixture(scope="module")
def fitted() -> FittedRecipe:
    return RecipeEstimator(**EXPLICIT).fitted(ArrowTable.of(table()))


@pytest.mark.parametrize("part_rows", [700, 300, 33])
def test_counts_are_those_of_pandas(fitted: FittedRecipe, part_rows: int) -> None:
    rows = table(2, 3.0)
    drift = drift_of(ArrowTable.of(rows, part_rows), fitted.recipe)
    expected = by_pandas(fitted.recipe, rows)
    assert drift.counts[:, :4].tolist() == expected
    assert [row[2] + row[3] > 0 for row in expected] == [True, True, True] + [False] * 4
    assert (drift.unknown.tolist(), drift.absent.tolist()) == (["label"], [])


@pytest.mark.parametrize("settings", [EXPLICIT, {"leaveOut": ["label"], "dimension": 32}])
def test_the_fit_counts_its_rows(settings: dict[str, Any]) -> None:
    rows = table(4)
    for part_rows in (700, 300):
        model = RecipeEstimator(**settings).fitted(ArrowTable.of(rows, part_rows))
        assert model.drift.counts[:, :4].tolist() == by_pandas(model.recipe, rows)


def test_all_values_missing_and_no_rows(fitted: FittedRecipe) -> None:
    assert fitted.drift is not None
    schema = table().schema
    nulls = pa.table([pa.nulls(ROWS, kind) for kind in schema.types], schema)
    drift = drift_of(ArrowTable.of(nulls), fitted.recipe)
    assert drift.counts[:, :4].tolist() == [[ROWS, ROWS, 0, 0]] * 7
    assert [e.counted for e in drift.excesses(fitted.drift)] == ["missing"] * 7
    none = drift_of(ArrowTable.of(nulls[:0]), fitted.recipe)
    assert not none.counts.any()
    assert none.excesses(fitted.drift) == ()


def test_a_missing_column_is_refused(fitted: FittedRecipe) -> None:
    with pytest.raises(ConfigError, match="found no column 'city'"):
        drift_of(ArrowTable.of(table().drop_columns("city")), fitted.recipe)


def test_a_recipe_of_tokens_alone_needs_no_pass() -> None:
    recipe = RecipeEstimator(tokens=["city"], auto=False, dimension=8)
    assert recipe.fitted(ArrowTable.of(table())).drift is None
