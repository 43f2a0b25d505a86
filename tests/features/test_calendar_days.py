"""Days of the year and of the month: features of tables, rows, exports and stored recipes."""

import json
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import spark_auc
from spark_auc.errors import ConfigError, ModelFormatError
from spark_auc.features.calendar_days import CalendarDay, calendar_days_of
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.raw_columns import Numbers
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_json import from_json, to_json
from spark_auc.serving.linear_scorer import LinearScorer
from spark_auc.serving.ranker import ServedRanker

NAMES = {period: f"at: day of {period}" for period in ("year", "month")}
YEAR, MONTH = (CalendarDay("at", period) for period in NAMES)


def frame(years=4, rows=1500, seed=0):
    """More positive rows in summer and at the ends of months, and none of it by the years."""
    rng = np.random.default_rng(seed)
    days = rng.uniform(0, 365.25 * years, rows)
    at = pd.Timestamp("2019-01-01") + pd.to_timedelta(np.round(days * 86_400), "s")
    logit = 3 * np.cos(2 * np.pi * (at.dayofyear - 200) / 365) + 3 * (at.day > 26) - 1
    y = rng.random(rows) < 1 / (1 + np.exp(-logit))
    return pd.DataFrame({"at": at, "x": rng.normal(size=rows), "y": y})


def expected(times):
    """By Python's own calendar; 29 February counts as 1 March."""
    year, month = [], []
    for time in times:
        day = time.timetuple().tm_yday
        is_leap = datetime(time.year, 12, 31).timetuple().tm_yday == 366
        year.append(day - (is_leap and day > 60) if day != 60 else 60)
        month.append(time.day)
    return {"year": np.array(year, float), "month": np.array(month, float)}


@pytest.fixture(scope="module")
def times():
    """Each day around the ends of months of leap years and of others, at many hours."""
    rng = np.random.default_rng(1)
    found = []
    for year in (1600, 1700, 1899, 1900, 1969, 1970, 1999, 2000, 2023, 2024, 2100, 2399, 2400):
        for month in range(1, 13):
            first = datetime(year, month, 1)
            found += [first, first - timedelta(milliseconds=1), first + timedelta(days=14)]
            found.append(first + timedelta(seconds=int(rng.integers(86_400 * 28))))
        found += [datetime(year, 2, 28, 23, 59), datetime(year, 3, 1) - timedelta(hours=1)]
    return found


@pytest.mark.parametrize("day", [YEAR, MONTH])
def test_days_are_those_of_the_calendar(times, day):
    values = np.array(times, "datetime64[us]")
    known = expected(times)[day.period]
    np.testing.assert_array_equal(day.of({"at": Numbers(values)}).values, known)
    alone = [day.of_row({"at": time}, "UTC") for time in times]
    np.testing.assert_array_equal(alone, known)
    valid = np.arange(values.size) % 3 > 0
    values[::7] = np.datetime64("NaT")
    found = day.of({"at": Numbers(values, valid)}).values
    absent = ~valid | (np.arange(values.size) % 7 == 0)
    np.testing.assert_array_equal(found, np.where(absent, np.nan, known))
    assert np.isnan(day.of_row({"at": None}, "UTC"))


@pytest.mark.parametrize("day", [YEAR, MONTH])
def test_onnx_counts_the_same_days(times, day):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    onnx_model, test_onnx = (
        pytest.importorskip(name)
        for name in ("spark_auc.export.onnx_model", "tests.export.test_onnx")
    )
    knots = tuple(np.arange(1.0, 368.0, 3))
    recipe = Recipe((Spline(day.name, "float", knots),), unit=False, derived=(day,))
    weights = np.append(np.arange(1.0, 368.0, 3), 0.5)
    served = ServedRanker(LinearScorer(weights, 0.0, 1, 0), recipe)
    at = np.array(times, "datetime64[us]")
    days = at.astype(np.int64) / 86_400e6
    score = test_onnx.run(onnx_model.onnx_bytes(served), {"at": days})["score"]
    np.testing.assert_allclose(score, expected(times)[day.period], atol=1e-9)
    np.testing.assert_allclose(score, served.score(pa.table({"at": at})), atol=1e-9)


@pytest.fixture(scope="module")
def trained():
    return spark_auc.train(frame(), "y")


def test_seasons_and_days_of_the_month_rank_new_rows(trained, tmp_path):
    recipe = trained.model.recipe
    assert set(recipe.derived) == {YEAR, MONTH}
    rows = frame(6, 600, 3)
    later = rows[rows["at"] > "2023"].drop(columns="y")
    without = spark_auc.train(frame(), "y", features={"leaveOut": [*NAMES.values()]})
    assert without.model.recipe.derived == ()
    y = rows.y[later.index].to_numpy()
    aucs = []
    for model in (trained, without):
        scores = np.asarray(model.score(later))
        aucs.append((scores[y][:, None] > scores[~y]).mean())
    assert aucs[0] > max(aucs[1] + 0.15, 0.8)
    alone = [trained.ranker.score(row) for row in later.to_dict("records")]
    np.testing.assert_array_equal(alone, trained.score(later))
    trained.save(str(tmp_path / "model"))
    loaded = spark_auc.load(str(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.score(later), trained.score(later))
    assert loaded.columns == ("at", "x")


@pytest.mark.parametrize(("years", "periods"), [(0.2, []), (1.5, ["month"]), (2.2, ["year"])])
def test_periods_that_do_not_repeat_give_none(years, periods):
    recipe = spark_auc.train(frame(years, 500, 5), "y").model.recipe
    assert {p for p in NAMES if CalendarDay("at", p) in recipe.derived} >= set(periods)
    if "year" not in periods:
        assert YEAR not in recipe.derived
    if not periods:
        assert recipe.derived == ()


def test_columns_of_named_kinds_and_taken_names_give_none():
    named = spark_auc.train(frame(), "y", features={"weekday": ["at"]})
    assert named.model.recipe.derived == ()
    rows = frame().rename(columns={"x": NAMES["year"]})
    assert spark_auc.train(rows, "y").model.recipe.derived == (MONTH,)
    assert calendar_days_of("abcde", []) == ()


def test_a_stored_recipe_has_its_days(trained):
    stored = to_json(trained.model.recipe)
    assert from_json(stored) == trained.model.recipe
    changed = json.loads(stored)
    changed["derived"][0]["period"] = "week"
    with pytest.raises(ModelFormatError, match="week"):
        from_json(json.dumps(changed))
    with pytest.raises(ConfigError, match="day of 'week' of column 'at', expected that of year"):
        CalendarDay("at", "week")
