"""Spark ML's trees and forests: the nodes that their models store."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from spark_auc.core.types import Float, Int
from spark_auc.trees.forest import (
    CATEGORICAL,
    NAN_LEFT,
    OTHERS_LEFT,
    CategorySets,
    Forest,
    Tree,
    damaged,
)
from spark_auc.trees.level_order import level_order


class SparkNodes(NamedTuple):
    """The nodes of a model's trees, tree by tree, each in the order of ``id`` from 0 on.

    Parameters
    ----------
    tree, id : (k,)
        Tree of each node, and its number there. Spark ML numbers a node before those below it,
        and those on its left before those on its right.
    left, right : (k,)
        Children, -1 for a leaf.
    column : (k,)
        Column that an inner node splits.
    categories : (k,)
        Number of categories of the column, or -1 for a numeric split.
    cut
        The threshold of each inner node alone, or the categories that go left.
    value : (k,)
        What a leaf adds to the score of its rows.
    """

    tree: Int
    id: Int
    left: Int
    right: Int
    column: Int
    categories: Int
    cut: Sequence[Float]
    value: Float


def from_spark(columns: int, nodes: SparkNodes) -> Forest:
    """The trees of a Spark ML model.

    NaN goes right at a numeric node, as in Spark ML, which compares with ``<=``. A category that
    was not seen goes to the side of more categories.

    Raises
    ------
    ModelFormatError
        The nodes are no trees.
    """
    is_first = np.diff(nodes.tree, prepend=-1) != 0
    first, tree = np.flatnonzero(is_first), np.cumsum(is_first) - 1
    if nodes.tree[:1].tolist() != [0] or (nodes.tree != tree).any():
        raise damaged("its trees are not numbered from 0")
    if (nodes.id != np.arange(tree.size) - first[tree]).any():
        raise damaged("the nodes of a tree are not numbered from 0")
    bounds = [*first.tolist(), tree.size]
    made = CategorySets()
    trees = [_tree(nodes, begin, end, made) for begin, end in pairwise(bounds)]
    return Forest.of(columns, "exact", trees)


def _tree(nodes: SparkNodes, begin: int, end: int, made: CategorySets) -> Tree:
    inner, leaf, left, right = level_order(nodes.left[begin:end], nodes.right[begin:end])
    rule, threshold = np.zeros(inner.size, np.int64), np.zeros(inner.size)
    sets = [np.empty(0, np.uint32)] * inner.size
    for k, node in enumerate(begin + inner):
        cut, categories = nodes.cut[node], int(nodes.categories[node])
        if categories < 0:
            if cut.size != 1:
                raise damaged("a numeric split has not one threshold")
            threshold[k] = cut[0]
            continue
        if not ((cut >= 0) & (cut < categories) & (cut == np.floor(cut))).all():
            raise damaged("a split has categories outside those of its column")
        on_left, rule[k] = cut.astype(np.int64), CATEGORICAL
        # Spark ML keeps the categories of the smaller side; all other values go to the other.
        if on_left.size > categories // 2:
            rule[k] += OTHERS_LEFT + NAN_LEFT
            sets[k] = made.of(np.setdiff1d(np.arange(categories), on_left), fill=1)
        else:
            sets[k] = made.of(on_left)
    return Tree(
        nodes.column[begin:end][inner],
        threshold,
        rule,
        left,
        right,
        sets,
        np.arange(leaf.size),
        nodes.value[begin:end][leaf],
    )
