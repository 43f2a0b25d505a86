"""The features of a single row, against those of the same row in a table."""

import datetime
import random

import numpy as np
import pandas as pd
import pytest

from spark_auc.errors import DataError
from spark_auc.features.absent_text import ABSENT, present_text, present_word
from spark_auc.features.kinds.log import Log
from spark_auc.features.kinds.parts_of_times import Hour, Weekday
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.kinds.standard import Standard
from spark_auc.features.kinds.tokens import Tokens
from spark_auc.features.raw_columns import Numbers
from spark_auc.features.recipe import Recipe
from spark_auc.features.single_row import SingleRow
from tests.fuzz.test_recipes import numbers, recipe_of, text, times, value

TYPES = {"float": float, "integer": np.int64, "boolean": bool}


def table_of(recipe, lists):
    return {
        c.name: present_text(text(lists[c.name]), recipe.absent)
        if c.type == "text"
        else times(lists[c.name])
        if c.type == "time"
        else numbers(lists[c.name], TYPES[c.type])
        for c in recipe.columns
    }


def same(recipe, row, X, i):
    data, indices = SingleRow.of(recipe)(row)
    place = slice(X.indptr[i], X.indptr[i + 1])
    return (
        indices.tolist() == X.indices[place].tolist() and data.tobytes() == X.data[place].tobytes()
    )


@pytest.mark.parametrize("seed", range(60))
def test_the_bits_are_those_of_a_table(seed):
    draw = random.Random(seed)
    recipe = recipe_of(draw)
    lists = {c.name: [value(draw, c) for _ in range(9)] for c in recipe.columns}
    X = recipe.transform(table_of(recipe, lists))
    for i in range(9):
        assert same(recipe, {name: values[i] for name, values in lists.items()}, X, i)


def test_logarithms_of_large_integers_have_the_bins_of_a_table():
    recipe = Recipe(hashed=(Log("n", "integer"),), dimension=2**20)
    rng = np.random.default_rng(0)
    values = [*(2 ** rng.uniform(0, 62, 5000)).astype(np.int64).tolist(), 2**63 - 1, -(2**63)]
    X = recipe.transform({"n": Numbers(np.array(values))})
    single = SingleRow.of(recipe)
    for i, number in enumerate(values):
        assert (
            single({"n": number})[1].tolist() == X.indices[X.indptr[i] : X.indptr[i + 1]].tolist()
        )


NOON = datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (Tokens("x", "integer"), [7, "7", np.int64(7), 7.0, np.int32(7)]),
        (Tokens("x", "integer", ("-1", "7")), [7, "7", np.int64(7), 7.0, np.int32(7)]),
        (Tokens("x", "integer", ("-1", "7")), [-1, "-1", -1.0]),
        (Tokens("x", "integer", ("-1", "7")), [8, "8", "07", "-1.0", "x", "other", 2**62]),
        (Tokens("x", "integer", ("-1", "7")), [None, "", float("nan")]),
        (Tokens("x", "text"), ["7", 7]),
        (Tokens("x", "text"), [None, float("nan"), pd.NA, pd.NaT, ""]),
        (Tokens("x", "boolean"), [True, np.bool_(True)]),
        (Log("x", "text"), ["1025", 1025, "+1025", "0001025"]),
        (Spline("x", "integer", (0.0, 10.0)), [3, 3.0, np.float32(3), np.uint8(3)]),
        (Standard("x", "boolean", 0.0, 2.0), [True, 1, 1.0, np.bool_(True)]),
        (Spline("x", "float", (0.0, 10.0)), [None, float("nan"), pd.NA, np.float64("nan")]),
        *(
            (
                kind,
                [
                    NOON,
                    NOON.replace(tzinfo=None),
                    NOON.astimezone(datetime.timezone(datetime.timedelta(hours=9))),
                    np.datetime64("2024-02-29T12:30"),
                    pd.Timestamp(NOON),
                ],
            )
            for kind in (
                Hour("x", "time"),
                Weekday("x", "time"),
                Spline("x", "time", (19000.0, 21000.0)),
            )
        ),
        (Weekday("x", "time"), [NOON.date(), NOON, np.datetime64("2024-02-29")]),
        (Hour("x", "time"), [None, pd.NaT, np.datetime64("NaT")]),
    ],
)
def test_values_of_several_classes_that_mean_the_same(column, values):
    numeric = isinstance(column, Spline | Standard)
    recipe = Recipe(**{"numeric" if numeric else "hashed": (column,)}, unit=False)
    single = SingleRow.of(recipe)
    found = [tuple(part.tolist() for part in single({"x": v})) for v in values]
    assert found == [found[0]] * len(values)
    assert found[0][0]


@pytest.mark.parametrize(
    ("column", "given", "said"),
    [
        (Tokens("x", "text"), True, "class bool in column 'x', expected text or an integer"),
        (Tokens("x", "text"), 1.0, "class float in column 'x', expected text or an integer"),
        (Tokens("x", "integer"), 1.5, "found '1.5' of class float"),
        (Tokens("x", "integer"), 2**63, "integer of 64 bits"),
        (Tokens("x", "text"), "\ud800", "text that UTF-8 can hold"),
        (Tokens("x", "boolean"), "true", "class str in column 'x', expected a boolean"),
        (Log("x", "text"), "1e3", "found '1e3' of class str in column 'x', expected an integer"),
        (Log("x", "text"), "1" * 19, "at most 18 digits"),
        (Log("x", "integer"), "x", "at most 18 digits"),
        (Hour("x", "time"), "2024-01-01", "expected a date or a time"),
        (Spline("x", "time", (0.0,)), 19000.0, "expected a date or a time"),
        (Spline("x", "float", (0.0,)), "1.0", "class str in column 'x', expected a number"),
        (Spline("x", "float", (0.0,)), NOON, "class datetime in column 'x', expected a number"),
        (Spline("x", "float", (0.0,)), [1.0, 2.0], "class list in column 'x'"),
        (Standard("x", "float", 0.0, 1.0), float("inf"), "found inf in column 'x', expected"),
    ],
)
def test_other_values_are_refused_by_name(column, given, said):
    numeric = isinstance(column, Spline | Standard)
    recipe = Recipe(**{"numeric" if numeric else "hashed": (column,)}, unit=False)
    with pytest.raises(DataError, match=said):
        SingleRow.of(recipe)({"x": given})


def test_a_missing_column_and_a_norm_that_is_not_finite():
    recipe = Recipe((Standard("x", "float", 0.0, 1e-300),), (Tokens("y", "text"),), unit=True)
    with pytest.raises(DataError, match=r"found no column 'y' among \['x'\]"):
        SingleRow.of(recipe)({"x": 1.0})
    with pytest.raises(DataError, match="a row whose norm is not finite"):
        SingleRow.of(recipe)({"x": 1.0, "y": "a"})


def test_white_space_and_missing_words_are_those_of_python():
    spaces = ["", " ", "\t", "\r\n", "\xa0", " \xa0\t"]
    words = ["", "a", "NA", "N A", "é", "Â", "nan"]
    values = [before + word + after for before in spaces for word in words for after in spaces]
    found = present_text(text([*values, None]), ABSENT)
    expected = [None if value.strip() in ABSENT else value.strip() for value in values]
    data = found.data.tobytes()
    both = zip(found.starts, found.ends, found.validity, strict=True)
    assert [data[a:b].decode() if known else None for a, b, known in both] == [*expected, None]
    assert [present_word(value, ABSENT) for value in values] == expected
