"""Trees of linked nodes as trees whose children are above their parents."""

from __future__ import annotations

import numpy as np

from spark_auc.core.types import Int
from spark_auc.trees.forest import damaged


def level_order(left: Int, right: Int) -> tuple[Int, Int, Int, Int]:
    """Inner nodes and leaves of a tree, and the children as `Tree` has them.

    Parameters
    ----------
    left, right : (k,)
        Children of each node, -1 for a leaf. The root is node 0.

    Returns
    -------
    inner : (m,)
        The inner nodes, level by level.
    leaf : (m + 1,)
        The leaves, ascending.
    left, right : (m,)
        Children of the inner nodes.

    Raises
    ------
    ModelFormatError
        The nodes are no tree.
    """
    count = left.size
    if left.size != right.size or not count:
        raise damaged("a tree has children of unequal numbers, or no node")
    if ((left < 0) != (right < 0)).any() or max(left.max(), right.max()) >= count:
        raise damaged("a node has a single child, or one that is no node")
    levels, level, reached = [], np.zeros(1, np.int64), 0
    while level.size:
        # A node that is reached twice would make more nodes than the tree has.
        reached += level.size
        if reached > count:
            raise damaged("two nodes have the same child")
        levels.append(level)
        parents = level[left[level] >= 0]
        level = np.concatenate([left[parents], right[parents]])
    nodes = np.concatenate(levels)
    inner, leaf = nodes[left[nodes] >= 0], np.sort(nodes[left[nodes] < 0])
    number = np.empty(count, np.int64)
    number[inner] = np.arange(inner.size)
    number[leaf] = -1 - np.arange(leaf.size)
    return inner, leaf, number[left[inner]], number[right[inner]]
