"""Curves and surfaces of a model, beside the scores of its rows."""

import numpy as np
import pytest

from spark_auc.errors import DataError
from spark_auc.features.kinds.pair import Pair
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.kinds.standard import Standard
from spark_auc.features.raw_columns import Numbers
from spark_auc.features.recipe import Recipe
from spark_auc.features.shapes import shapes
from spark_auc.features.times import datetimes, doubles

AGE = Spline("age", "float", (0.0, 1.0, 5.0, 20.0))
DAY = Spline("day", "time", (100.0, 110.5, 300.0))
RECIPE = Recipe(
    (AGE, DAY, Standard("age", "float", 4.0, 2.0), Spline("constant", "float", ())),
    unit=False,
    pairs=(Pair(AGE, DAY),),
)
W = np.random.default_rng(0).normal(size=RECIPE.size)


def value(shape, points):
    """The function at one point, by interpolation along one column after the other."""
    values = shape.values
    for at, x in zip(shape.at, points, strict=True):
        values = np.apply_along_axis(lambda v, at=at, x=x: np.interp(x, at, v), 0, values)
    return float(values)


def test_the_shapes_of_a_row_add_to_its_score():
    rng = np.random.default_rng(1)
    n = 200
    age, day = rng.uniform(-3, 25, n), rng.uniform(50, 400, n)
    age[:20], day[10:30] = np.nan, np.nan
    days = datetimes(np.where(np.isnan(day), 1e9, day))
    assert np.isnat(days).sum() == 20
    columns = {"age": Numbers(age), "day": Numbers(days), "constant": Numbers(np.ones(n))}
    found = shapes(RECIPE, W)
    assert [s.importance for s in found] == sorted([s.importance for s in found], reverse=True)
    by = {(s.columns, len(s.at[0])): s for s in found}
    line = by.pop((("age",), 2))
    assert set(by) == {(("age",), 4), (("day",), 3), (("age", "day"), 4)}
    scores = RECIPE.transform(columns) @ W
    day = doubles(days)
    for i in range(n):
        row = {"age": age[i], "day": day[i]}
        total = 0.0
        for shape in by.values():
            points = [row[name] for name in shape.columns]
            total += shape.missing if np.isnan(points).any() else value(shape, points)
        low, high = line.at[0]
        slope = (line.values[1] - line.values[0]) / (high - low)
        total += line.missing if np.isnan(age[i]) else slope * (age[i] - (low + high) / 2)
        assert abs(total - scores[i]) < 1e-12
    json = by[("age", "day"), 4].as_dict()
    assert json["at"] == [[0.0, 1.0, 5.0, 20.0], [100.0, 110.5, 300.0]]
    assert np.shape(json["values"]) == (4, 3)


def test_what_is_refused():
    with pytest.raises(DataError, match="found weights of shape"):
        shapes(RECIPE, W[1:])
