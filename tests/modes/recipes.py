"""Raw tables, recipes of them, and their rows worked out without Spark and Arrow."""

from __future__ import annotations

import datetime
import hashlib
import json
import random
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from spark_auc import FeatureRecipe, MBAClassifier, RankerPipeline
from spark_auc.features.crosses import Crosses
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_fit import KINDS, Planned, RecipePlan
from spark_auc.features.recipe_json import to_json
from spark_auc.tables.layouts import AVAZU, CRITEO, Layout, layout_of
from tests.features.raw_rows import numbers, text, times

ROWS = 240
UTC = datetime.UTC
EPOCH = datetime.datetime(1970, 1, 1)
OPTIONS = {"separator": "|", "columns": "y integer, a integer, x float, word"}
LAYOUTS = {"criteo": CRITEO, "avazu": AVAZU, "delimited": layout_of("delimited", OPTIONS)}
# The columns of the table by name: their types in Arrow and in recipes.
TYPES = {
    "whole": (pa.int32(), "integer"),
    "big": (pa.int64(), "integer"),
    "byte": (pa.uint8(), "integer"),
    "flag": (pa.bool_(), "boolean"),
    "single": (pa.float32(), "float"),
    "double": (pa.float64(), "float"),
    "price": (pa.decimal128(12, 2), "float"),
    "finite": (pa.float64(), "float"),
    "word": (pa.string(), "text"),
    "a `b`.c": (pa.string(), "text"),
    "empty": (pa.string(), "text"),
    "moment": (pa.timestamp("us", "UTC"), "time"),
    "local": (pa.timestamp("us"), "time"),
    "day": (pa.date32(), "time"),
}
# Params of FeatureRecipe. The first two recipes are of the table, the others of its columns that
# Arrow and Spark read alike from Parquet, and of the layouts of text.
SETTINGS = {
    "mixed": {
        "spline": ["whole", "flag", "double", "price", "moment", "local", "day", "single"],
        "standard": ["finite", "byte", "big"],
        "log": ["whole", "big"],
        "tokens": ["word", "a `b`.c", "empty", "flag", "byte"],
        "hour": ["moment", "local"],
        "weekday": ["moment", "day"],
        "crosses": [["word", "double"], ["moment", "a `b`.c"]],
    },
    "ignoring": {
        "spline": ["single", "double", "moment", "price"],
        "tokens": ["word", "whole", "empty"],
        "hour": ["local"],
        "missing": "ignore",
        "crosses": "all",
        "unit": False,
    },
    "stored": {
        "spline": ["single", "double", "whole", "flag"],
        "standard": ["finite"],
        "log": ["whole", "big"],
        "tokens": ["word", "a `b`.c", "flag", "empty"],
        "crosses": "all",
    },
    "criteo": {"log": list(CRITEO.integers[1:]), "tokens": list(CRITEO.names[14:])},
    "avazu": {"tokens": [name for name in AVAZU.names if name != "click"]},
    "delimited": {
        "spline": ["x", "a"],
        "standard": ["a"],
        "log": ["a"],
        "tokens": ["word", "a"],
        "crosses": "all",
    },
}
OTHERS = {"auto": False, "numKnots": 5, "dimension": 500, "crossBits": 9}


def settings(name: str) -> dict:
    """Params of the recipe of a name."""
    return SETTINGS[name] | OTHERS


def table() -> dict[str, list]:
    """The columns of the table as lists, None where a value is missing."""
    drawn = random.Random(5)

    def some(values, missing=0.15):
        chosen = [drawn.choice(values) for _ in range(ROWS - len(values))] + list(values)
        drawn.shuffle(chosen)
        return [None if drawn.random() < missing else v for v in chosen]

    double = [drawn.lognormvariate(0, 3) * drawn.choice([-1, 1]) for _ in range(100)]
    special = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 5e-324, 1.5e308]
    moments = [
        EPOCH + datetime.timedelta(microseconds=drawn.randint(-(2**52), 2**51)) for _ in "a" * 60
    ]
    edges = [EPOCH, datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999)]
    edges += [datetime.datetime(1900, 1, 1), datetime.datetime(2024, 2, 29, 12)]
    days = [moment.date() for moment in moments + edges]
    words = ["", "a", "köln", "東京", "🎉", "\0", "a\0b", " 7", "7", "tab\tline\n", "e\u0301"]
    made = {
        "whole": some([0, 1, 2, 3, -1, 7, 100, 2**31 - 1, -(2**31)]),
        "big": some([0, 5, 2**63 - 1, -(2**63), 10**15, -7]),
        "byte": some([0, 1, 255, 128]),
        "flag": some([True, False]),
        "single": some([float(np.float32(v)) for v in double[:30] + special[:5]]),
        "double": some(double + special),
        "price": some([Decimal(drawn.randint(-(10**6), 10**6)) / 100 for _ in range(40)]),
        "finite": some(double[:50]),
        "word": some([*words, *[f"w{k}" for k in range(20)], "x" * 100_000]),
        "a `b`.c": some(["repeated", "also repeated", ""]),
        "empty": [None] * ROWS,
        "moment": some([moment.replace(tzinfo=UTC) for moment in moments + edges]),
        "local": some(moments + edges),
        "day": some(days),
        "id": list(range(ROWS)),
        "label": [float(drawn.random() < 0.4) for _ in range(ROWS)],
    }
    assert all(len(column) == ROWS for column in made.values())
    return made


def types_of(layout: Layout) -> dict[str, str]:
    """Types of the fields of a layout by name."""
    kinds = dict.fromkeys(layout.integers, "integer") | dict.fromkeys(layout.floats, "float")
    return {name: kinds.get(name, "text") for name in layout.names}


def text_lines(name: str) -> list[list[str]]:
    """Fields of the lines of a layout."""
    drawn = random.Random(name)
    words = ["", "a", "köln", "🎉", "68fd1e64", "e\u0301 x"]
    floats = ["", "0.5", "-1e3", "7", "inf", "nan", "0.1", "-0"]

    def field(column: str) -> str:
        layout = LAYOUTS[name]
        if column in {"label", "click", "y"}:
            return drawn.choice("01")
        if column in layout.integers:
            return drawn.choice(["", "0", "2", "-2", "3", str(drawn.randint(4, 10**9))])
        return drawn.choice(floats if column in layout.floats else words)

    return [[field(column) for column in LAYOUTS[name].names] for _ in range(ROWS)]


def column(type_: str, values: list) -> object:
    """A column of a recipe; see `Recipe.transform`."""
    if type_ == "text":
        inside = [None if v is None else v.strip(" \t\n\v\f\r\u00a0") for v in values]
        return text([v or None for v in inside])
    if type_ == "time":
        plain = [v.replace(tzinfo=None) if isinstance(v, datetime.datetime) else v for v in values]
        return times(plain)
    if type_ == "float":
        return numbers([None if v is None else float(v) for v in values])
    return numbers(values, bool if type_ == "boolean" else np.int64)


def columns(name: str) -> tuple[dict[str, str], dict[str, object]]:
    """Types and columns of a recipe's table."""
    if name not in LAYOUTS:
        types = {column: kind for column, (_, kind) in TYPES.items()}
        lists = {n: values for n, values in table().items() if n in types}
    else:
        layout = LAYOUTS[name]
        types = types_of(layout)
        made = {"text": str, "integer": int, "float": float}
        fields = zip(layout.names, zip(*text_lines(name), strict=True), strict=True)
        lists = {n: [made[types[n]](v) if v else None for v in values] for n, values in fields}
    return types, {n: column(types[n], values) for n, values in lists.items()}


def fitted(name: str) -> tuple[Recipe, dict[str, object]]:
    """The recipe, and its columns."""
    types, made = columns(name)
    params = settings(name)
    kinds = dict[str, list[str]]()
    for kind in KINDS:
        for entry in params.get(kind, ()):
            kinds.setdefault(entry, []).append(kind)
    planned = tuple(Planned(n, types[n], kind) for n, some in kinds.items() for kind in some)
    pairs = params.get("crosses")
    crosses = None
    if pairs:
        crosses = Crosses(None if pairs == "all" else tuple(map(tuple, pairs)), params["crossBits"])
    others = params.get("missing", "indicator"), params.get("unit", True)
    plan = RecipePlan(planned, params["numKnots"], params["dimension"], crosses, *others)
    return plan.fitted(plan.fold([made])), made


def hashes(recipe: Recipe, made: dict[str, object], pipeline: Path) -> list[str]:
    """Hashes of indptr, indices and values, and of the scores of a saved pipeline."""
    X = recipe.transform(made)
    arrays = [X.indptr.astype(np.int64), X.indices, X.data]
    if (pipeline / "weights.npy").exists():
        arrays.append(X @ np.load(pipeline / "weights.npy"))
    return [hashlib.sha256(array.tobytes()).hexdigest() for array in arrays]


def write(spark: SparkSession, place: Path) -> None:
    """Write rows, and recipes with pipelines of the table.

    The rows are a table, and lines that are tables too.
    """
    place.mkdir()
    _write_rows(place)
    stored = {}
    for name in SETTINGS:
        recipe, _ = fitted(name)
        stored[name] = {"settings": settings(name), "recipe": to_json(recipe)}
        if name in LAYOUTS:
            stored[name]["options"] = OPTIONS if name == "delimited" else {}
            continue
        rows = spark.read.parquet(f"{place}/table")
        ranker = MBAClassifier(regParam=0.01, standardization=False)
        model = RankerPipeline([FeatureRecipe(**settings(name)), ranker]).fit(rows)
        model.save(f"{place}/{name}")
        np.save(place / name / "weights.npy", model.ranker.scorer.w)
    (place / "recipes.json").write_text(json.dumps(stored))


def _write_rows(place: Path) -> None:
    made = table()
    schema = [(n, kind) for n, (kind, _) in TYPES.items()]
    schema += [("id", pa.int64()), ("label", pa.float64())]
    whole = pa.table({n: pa.array(made[n], kind) for n, kind in schema})
    (place / "table").mkdir()
    for k in range(3):
        part = whole.filter(pa.array(np.arange(ROWS) % 3 == k))
        pq.write_table(part, place / f"table/{k}.parquet", use_dictionary=["a `b`.c"])
    arrow = {"text": pa.string(), "integer": pa.int64(), "float": pa.float64()}
    parse = {"text": str, "integer": int, "float": float}
    for name, layout in LAYOUTS.items():
        lines = text_lines(name)
        header = [layout.separator.join(layout.names)] if layout.header else []
        (place / f"{name}.txt").write_text(
            "".join(f"{line}\n" for line in [*header, *map(layout.separator.join, lines)])
        )
        named = zip(layout.names, zip(*lines, strict=True), strict=True)
        parsed = {
            n: pa.array([parse[kind](v) if v else None for v in values], arrow[kind])
            for n, values in named
            for kind in [types_of(layout)[n]]
        }
        (place / name).mkdir()
        pq.write_table(pa.table(parsed), place / name / "rows.parquet")
