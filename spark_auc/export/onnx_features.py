"""The features of recipes as ONNX operators."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from spark_auc.core.types import Float, Int
from spark_auc.export.onnx_graph import Graph
from spark_auc.export.onnx_trees import tree_leaves
from spark_auc.export.refusals import read_columns
from spark_auc.export.token_places import TokenPlaces, token_places
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_numbers import Standard

_UNITS = {"boolean": "0 or 1", "time": "days since 1970-01-01 on the clocks of {zone}"}


def recipe_features(graph: Graph, recipe: Recipe) -> tuple[str, Int]:
    """Features ``(n, f)`` of a recipe whose tokens are known, and their indices ``(f,)``.

    Each column is an input. The features of no token, which are 0, are left out.
    """
    columns = {
        name: graph.column(graph.input(name, f"{unit.format(zone=recipe.zone)}; NaN if missing"))
        for name, kind in read_columns(recipe).items()
        for unit in [_UNITS.get(kind, "a number")]
        if kind != "text"
    }
    parts = list[str]()
    for entry, indicator in zip(recipe.numeric, recipe.indicators, strict=True):
        x = columns[entry.name]
        if isinstance(entry, Standard):
            parts.append(_standard(graph, x, entry))
        elif entry.knots:
            parts.append(hats(graph, x, np.array(entry.knots)))
        if indicator:
            parts.append(graph.doubles(graph.add("IsNaN", x)))
    for pair in recipe.pairs:
        first, second = (
            hats(graph, columns[column.name], np.array(column.knots)) for column in pair.columns
        )
        parts.append(_products(graph, first, second, pair.size))
    if recipe.trees:
        parts.append(tree_leaves(graph, columns, recipe.trees))
    indices = np.arange(recipe.starts[-3])
    if recipe.hashed:
        found, places = _tokens(graph, columns, token_places(recipe))
        parts, indices = [*parts, found], np.append(indices, places)
    features = graph.joined(parts)
    return (_unit(graph, features) if recipe.unit else features), indices


def ramps(graph: Graph, x: str, knots: Float) -> str:
    """The share ``(n, k - 1)`` of each interval of knots that lies below ``x`` ``(n, 1)``."""
    low, high = knots[:-1], knots[1:]
    with np.errstate(over="ignore"):
        # Steps of more than the largest double are divided in halves.
        factor = np.where(np.isinf(high - low), 0.5, 1.0)
    if (factor < 1).any():
        x = graph.add("Mul", x, graph.constant(factor))
    above = graph.add("Sub", x, graph.constant(low * factor))
    share = graph.add("Div", above, graph.constant(high * factor - low * factor))
    return graph.add("Clip", share, graph.constant(0.0), graph.constant(1.0))


def interpolated(graph: Graph, x: str, knots: Float, heights: Float) -> str:
    """The function ``(n, 1)`` of ``x`` that is linear between knots and constant beyond them."""
    if knots.size == 1:
        knots, heights = np.append(knots, np.nextafter(knots, np.inf)), np.repeat(heights, 2)
    rises = graph.add("MatMul", ramps(graph, x, knots), graph.constant(np.diff(heights)[:, None]))
    return graph.add("Add", rises, graph.constant([[heights[0]]]))


def hats(graph: Graph, x: str, knots: Float) -> str:
    """The hats ``(n, k)`` of numbers ``(n, 1)``; all are 0 where the number is NaN."""
    missing = graph.add("IsNaN", x)
    present = graph.doubles(graph.add("Not", missing))
    if knots.size == 1:
        return present
    # Where the number is missing, the first knot stands for it, at which all shares are 0.
    filled = graph.add("Where", missing, graph.constant(knots[0]), x)
    shares = ramps(graph, filled, knots)
    after = graph.add("Pad", shares, graph.constant([0, 0, 0, 1], np.int64))
    return graph.add("Sub", graph.joined([present, shares]), after)


def _standard(graph: Graph, x: str, column: Standard) -> str:
    scaled = graph.add("Sub", x, graph.constant(column.mean))
    scaled = graph.add("Div", scaled, graph.constant(column.deviation))
    return graph.add("Where", graph.add("IsNaN", x), graph.constant(0.0), scaled)


def _products(graph: Graph, first: str, second: str, size: int) -> str:
    rows = graph.add("Unsqueeze", first, graph.constant([2], np.int64))
    columns = graph.add("Unsqueeze", second, graph.constant([1], np.int64))
    return graph.add(
        "Reshape", graph.add("Mul", rows, columns), graph.constant([-1, size], np.int64)
    )


def _tokens(graph: Graph, columns: Mapping[str, str], tokens: list[TokenPlaces]) -> tuple[str, Int]:
    """The features ``(n, f)`` of the tokens of rows, and their indices, ascending."""
    parts = [part for places in tokens for part in _is_token(graph, columns, places)]
    indices, owners, counts = np.unique(
        [j for places in tokens for j in places.all()], return_inverse=True, return_counts=True
    )
    # Tokens of one feature are added; a last column, of zeros, stands for further tokens.
    most = int(counts.max())
    none = np.full((indices.size, most), owners.size)
    order = np.argsort(owners, kind="stable")
    rank = np.arange(owners.size) - np.repeat(np.cumsum(counts) - counts, counts)
    none[owners[order], rank] = order
    padded = graph.add("Pad", graph.joined(parts), graph.constant([0, 0, 0, 1], np.int64))
    flat = graph.taken(padded, none.ravel())
    grouped = graph.add("Reshape", flat, graph.constant([-1, *none.shape], np.int64))
    shape = graph.constant([-1, indices.size], np.int64)
    return graph.add("Reshape", graph.total(grouped, 2), shape), indices


def _is_token(graph: Graph, columns: Mapping[str, str], places: TokenPlaces) -> list[str]:
    """Whether rows have each of the tokens of `TokenPlaces.all`, as 0 and 1."""
    x, parts = columns[places.column.name], list[str]()
    is_missing = graph.doubles(graph.add("IsNaN", x))
    known = is_missing
    if places.values:
        parts.append(graph.doubles(graph.add("Equal", x, graph.constant([[*places.values]]))))
        known = graph.add("Add", is_missing, graph.total(parts[0]))
    if places.other is not None:
        parts.append(graph.add("Sub", graph.constant([[1.0]]), known))
    if places.missing is not None:
        parts.append(is_missing)
    return parts


def _unit(graph: Graph, X: str) -> str:
    """Rows divided by their norm; rows without features stay empty."""
    norm = graph.add("Sqrt", graph.total(graph.add("Mul", X, X)))
    nothing = graph.add("Equal", norm, graph.constant(0.0))
    return graph.add("Div", X, graph.add("Where", nothing, graph.constant(1.0), norm))
