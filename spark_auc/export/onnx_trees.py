"""The leaves of trees as ONNX operators."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from spark_auc.core.types import Int
from spark_auc.export.onnx_graph import Graph
from spark_auc.export.refusals import split_columns
from spark_auc.export.tree_words import goes_left, words_of
from spark_auc.features.kinds.leaves import Categories, TreeLeaves
from spark_auc.trees.forest import NAN_LEFT, ZERO, ZERO_MISSING, Forest


def tree_leaves(graph: Graph, columns: Mapping[str, str], trees: TreeLeaves) -> str:
    """The leaves ``(n, F)`` of rows: 1 for the leaf of a row in each tree, else 0.

    All nodes are compared. A row is in a leaf if it goes to the leaf's side at each node above it:
    the sum of the sides, 1 for left and -1 for right, is then the leaf's depth.

    Parameters
    ----------
    graph
        The graph.
    columns
        The columns of numbers ``(n, 1)`` by name; those of text become inputs here.
    trees
        The trees.
    """
    forest = trees.forest
    tests, place_of, compared = list[str](), np.zeros(forest.column.size, np.int64), 0
    for j in split_columns(trees):
        column, nodes = trees.columns[j], np.flatnonzero(forest.column == j)
        if isinstance(column, Categories):
            tests.append(_by_words(graph, forest, nodes, column))
        else:
            tests.append(_by_numbers(graph, forest, nodes, columns[column.name]))
        place_of[nodes] = compared + np.arange(nodes.size)
        compared += nodes.size + 1
    # Trees are padded to the size of the largest, by nodes that no leaf has above it.
    sizes = np.diff(forest.starts)
    width = max(1, int(sizes.max()))
    padded = np.zeros((sizes.size, width), np.int64)
    padded[np.arange(width) < sizes[:, None]] = place_of
    left = graph.taken(graph.joined(tests), padded.ravel())
    # Whole numbers of a byte take an eighth of the memory.
    signs = [graph.constant(side, np.int8) for side in (1, -1)]
    sides = graph.add("Where", left, *signs)
    by_tree = graph.constant([-1, *padded.shape], np.int64)
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


def _by_numbers(graph: Graph, forest: Forest, nodes: Int, x: str) -> str:
    """Whether rows go left at nodes that compare ``x`` ``(n, 1)``, and a last column."""
    threshold = np.append(forest.threshold[nodes], 0.0)
    rule = np.append(forest.rule[nodes], 0)
    missing = graph.add("IsNaN", x)
    if (rule & ZERO_MISSING).any():
        near = graph.add("LessOrEqual", graph.add("Abs", x), graph.constant(ZERO))
        zero = graph.add("And", near, graph.constant((rule & ZERO_MISSING) > 0, np.bool_))
        missing = graph.add("Or", missing, zero)
    below = graph.add("LessOrEqual", x, graph.constant(threshold))
    by_rule = graph.add("And", missing, graph.constant((rule & NAN_LEFT) > 0, np.bool_))
    return graph.add("Or", graph.add("And", below, graph.add("Not", missing)), by_rule)


def _by_words(graph: Graph, forest: Forest, nodes: Int, column: Categories) -> str:
    """Whether rows go left at nodes that split text, and a last column."""
    words = words_of(column)
    is_word = graph.doubles(graph.words(column.name, words))
    is_other = graph.add("Sub", graph.constant([[1.0]]), graph.total(is_word))
    sides = np.zeros((len(words) + 1, nodes.size + 1))
    for k, node in enumerate(nodes.tolist()):
        sides[:, k] = goes_left(forest, node, column)
    lefts = graph.add("MatMul", graph.joined([is_word, is_other]), graph.constant(sides))
    return graph.add("Greater", lefts, graph.constant(0.5))


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
