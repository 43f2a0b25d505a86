"""A table as lists, and the recipe of it on which names, contributions and drift are tested."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np

from spark_auc.features.crosses import Crosses
from spark_auc.features.kinds.log import Log
from spark_auc.features.kinds.parts_of_times import Hour, Weekday
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.kinds.standard import Standard
from spark_auc.features.kinds.tokens import Tokens
from spark_auc.features.recipe import Recipe
from tests.features.raw_rows import numbers, text, times

N = 600
RECIPE = Recipe(
    (
        Spline("age", "float", (-1.0, 0.0, 2.0)),
        Standard("income", "float", 0.5, 0.25),
        Spline("when", "time", (10.0, 12.5)),
    ),
    (
        Log("clicks", "integer"),
        Log("visits", "text"),
        Tokens("city", "text"),
        Tokens("code", "integer"),
        Tokens("few", "integer", tuple(map(str, range(-5, 6)))),
        Tokens("flag", "boolean"),
        Hour("when", "time"),
        Weekday("when", "time"),
    ),
    16,
    Crosses(
        (
            ("city", "age"),
            ("city", "flag"),
            ("income", "age"),
            ("code", "clicks"),
            ("flag", "when"),
        ),
        5,
    ),
)
DTYPES = {"float": float, "integer": np.int64, "boolean": bool}


def table(n=N, seed=0):
    """Values by column, None where they are missing."""
    rng = np.random.default_rng(seed)
    made = {
        "age": rng.normal(0, 2, n).round(1).tolist(),
        "income": rng.normal(0.5, 0.5, n).round(2).tolist(),
        "clicks": rng.zipf(1.5, n).clip(0, 10**6).tolist(),
        "visits": [str(v) for v in rng.integers(-3, 50, n)],
        "city": rng.choice(["", "a", "ab", "ä", "東京", "x" * 99, "\n", "a@b.c"], n).tolist(),
        "code": rng.integers(-20, 20, n).tolist(),
        "few": rng.integers(-9, 9, n).tolist(),
        "flag": (rng.random(n) < 0.3).tolist(),
        "when": [
            datetime(1970, 1, 9) + timedelta(hours=h) for h in rng.integers(0, 150, n).tolist()
        ],
    }
    return {
        name: [None if gap else v for gap, v in zip(rng.random(n) < 0.1, values, strict=True)]
        for name, values in made.items()
    }


def columns_of(lists, rows=None):
    """Some rows of the table as raw columns."""
    types = {column.name: column.type for column in RECIPE.columns}
    some = {n: v if rows is None else [v[i] for i in rows] for n, v in lists.items()}
    return {name: column_of(types[name], values) for name, values in some.items()}


def column_of(kind, values):
    """A column of a type."""
    if kind == "text":
        return text(values)
    return times(values) if kind == "time" else numbers(values, DTYPES[kind])


def rows_of(lists):
    """The rows of the table as mappings from names to values."""
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
