"""Curves of numeric columns and surfaces of pairs: a linear model of a recipe, as functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spark_auc.core.types import Float
from spark_auc.features.contributions import check_weights
from spark_auc.features.recipe import Recipe


@dataclass(frozen=True, eq=False)
class Shape:
    """Values of a function of one or two numeric columns, linear between its points.

    They are summands of a row's score. Where rows are divided by their norm, the summand is the
    value over the norm of the row. Outside of its points a spline is constant.

    Parameters
    ----------
    columns
        Names of the columns.
    types
        Their types, as those of `Spline`.
    at
        Points of each column, ascending, in its unit; times in days since 1970-01-01.
    values : (k,) or (k, m)
        Values at the points.
    missing
        Value where the column is missing; 0 if the recipe has no feature for it, or for a pair.
    """

    columns: tuple[str, ...]
    types: tuple[str, ...]
    at: tuple[tuple[float, ...], ...]
    values: Float
    missing: float = 0.0

    @property
    def importance(self) -> float:
        """Standard deviation of the values at the points, which are about quantiles of rows."""
        return float(self.values.std())

    def as_dict(self) -> dict[str, Any]:
        """The shape as JSON types."""
        return {
            "columns": list(self.columns),
            "types": list(self.types),
            "at": [list(points) for points in self.at],
            "values": self.values.tolist(),
            "missing": self.missing,
            "importance": self.importance,
        }


def shapes(recipe: Recipe, w: Float) -> list[Shape]:
    """The curves of numeric entries and the surfaces of pairs, by importance, descending.

    A standardised number has its line between its mean minus and plus one deviation. Columns
    without knots are left out.

    Parameters
    ----------
    recipe
        The fitted recipe.
    w : (F,)
        Weights of its features.

    Raises
    ------
    DataError
        There is another number of weights than of features.
    """
    check_weights(recipe, w)
    found = []
    for column, first, end in zip(recipe.numeric, recipe.starts, recipe.starts[1:], strict=False):
        own = len(column.names())
        if curve := column.curve(w[first : first + own]):
            points, values = curve
            missing = float(w[first + own]) if end > first + own else 0.0
            found.append(Shape((column.name,), (column.type,), (points,), values, missing))
    for pair, first in zip(recipe.pairs, recipe.starts[len(recipe.numeric) :], strict=False):
        one, other = pair.columns
        found.append(
            Shape(
                (one.name, other.name),
                (one.type, other.type),
                (one.knots, other.knots),
                w[first : first + pair.size].reshape(len(one.knots), -1),
            )
        )
    return sorted(found, key=lambda shape: -shape.importance)
