"""The features of recipes as ONNX operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from spark_auc.core.types import Float, Int
from spark_auc.export.onnx_graph import Graph
from spark_auc.export.refusals import read_columns, split_columns
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_numbers import Standard
from spark_auc.trees.forest import NAN_LEFT, ZERO, ZERO_MISSING, Forest

_UNITS = {"boolean": "0 or 1", "time": "days since 1970-01-01 in UTC"}


def recipe_features(graph: Graph, recipe: Recipe) -> str:
    """The features ``(n, F)`` of a recipe without hashed columns; each column is an input."""
    columns = {
        name: graph.column(graph.input(name, f"{_UNITS.get(kind, 'a number')}; NaN if missing"))
        for name, kind in read_columns(recipe).items()
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
        split = split_columns(recipe.trees)
        X = graph.joined([columns[recipe.trees.columns[j].name] for j in split])
        places = np.searchsorted(split, recipe.trees.forest.column)
        parts.append(_leaves(graph, X, places, recipe.trees.forest))
    features = graph.joined(parts)
    return _unit(graph, features) if recipe.unit else features


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


def _unit(graph: Graph, X: str) -> str:
    """Rows divided by their norm; rows without features stay empty."""
    norm = graph.add("Sqrt", graph.total(graph.add("Mul", X, X)))
    nothing = graph.add("Equal", norm, graph.constant(0.0))
    return graph.add("Div", X, graph.add("Where", nothing, graph.constant(1.0), norm))


def _leaves(graph: Graph, X: str, places: Int, forest: Forest) -> str:
    """The leaves ``(n, F)`` of rows ``(n, d)``: 1 for the leaf of a row in each tree, else 0.

    Each node splits the column of ``X`` at its place ``(M,)``.

    All nodes are compared. A row is in a leaf if it goes to the leaf's side at each node above it:
    the sum of the sides, 1 for left and -1 for right, is then the leaf's depth.
    """
    sizes = np.diff(forest.starts)
    width = max(1, int(sizes.max()))
    # Trees are padded to the size of the largest, by nodes that no leaf has above it.
    place = np.concatenate([np.arange(m) + t * width for t, m in enumerate(sizes)]).astype(int)
    column, threshold, rule = (
        _padded(values, place, width * sizes.size)
        for values in (places, forest.threshold, forest.rule)
    )
    x = graph.taken(X, column)
    missing = graph.add("IsNaN", x)
    if (rule & ZERO_MISSING).any():
        near = graph.add("LessOrEqual", graph.add("Abs", x), graph.constant(ZERO))
        zero = graph.add("And", near, graph.constant((rule & ZERO_MISSING) > 0, np.bool_))
        missing = graph.add("Or", missing, zero)
    left = graph.add("LessOrEqual", x, graph.constant(threshold))
    by_rule = graph.add("And", missing, graph.constant((rule & NAN_LEFT) > 0, np.bool_))
    left = graph.add("Or", graph.add("And", left, graph.add("Not", missing)), by_rule)
    # Whole numbers of a byte take an eighth of the memory.
    signs = [graph.constant(side, np.int8) for side in (1, -1)]
    sides = graph.add("Where", left, *signs)
    by_tree = graph.constant([-1, sizes.size, width], np.int64)
    sides = graph.add("Transpose", graph.add("Reshape", sides, by_tree), perm=[1, 0, 2])
    paths = _paths(forest, width)
    sums = graph.add("MatMulInteger", sides, graph.constant(paths, np.int8))
    depths = np.abs(paths).sum(axis=1, keepdims=True)
    at_leaf = graph.add("Equal", sums, graph.constant(depths, np.int32))
    lines = graph.add("Transpose", at_leaf, perm=[1, 0, 2])
    size = sizes.size * (width + 1)
    flat = graph.add("Reshape", lines, graph.constant([-1, size], np.int64))
    leaves = [np.arange(m + 1) + t * (width + 1) for t, m in enumerate(sizes)]
    return graph.doubles(graph.taken(flat, np.concatenate(leaves)))


def _padded(values: Any, place: Any, size: int) -> Any:
    out = np.zeros(size, values.dtype)
    out[place] = values
    return out


def _paths(forest: Forest, width: int) -> Int:
    """The way to each leaf ``(T, m, m + 1)``: 1 if it goes left at a node, -1 if it goes right."""
    paths = np.zeros((forest.trees, width, width + 1), np.int64)
    for t in range(forest.trees):
        first, end = int(forest.starts[t]), int(forest.starts[t + 1])
        above = {first: dict[int, int]()}
        for m in range(first, end):
            way = above.pop(m)
            for child, side in ((int(forest.left[m]), 1), (int(forest.right[m]), -1)):
                ahead = way | {m - first: side}
                if child >= 0:
                    above[child] = ahead
                else:
                    leaf = ~child - first - t
                    paths[t, list(ahead), leaf] = list(ahead.values())
    return paths
