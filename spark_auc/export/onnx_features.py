"""The features of recipes as ONNX operators."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from spark_auc.core.types import Int
from spark_auc.export.onnx_graph import Graph
from spark_auc.export.onnx_trees import tree_leaves
from spark_auc.export.refusals import read_columns
from spark_auc.export.token_places import TokenPlaces, token_places
from spark_auc.features.recipe import Recipe

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
    for each in recipe.derived:
        # Trees need not split all of their columns.
        times = [time.name for time in each.inputs]
        if {*times} <= columns.keys():
            columns[each.name] = each.onnx(graph, *(columns[name] for name in times))
    parts = list[str]()
    for entry, indicator in zip(recipe.numeric, recipe.indicators, strict=True):
        x = columns[entry.name]
        if made := entry.onnx(x, graph):
            parts.append(made)
        if indicator:
            parts.append(graph.doubles(graph.add("IsNaN", x)))
    for pair in recipe.pairs:
        first, second = (
            graph.hats(columns[column.name], np.array(column.knots)) for column in pair.columns
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
