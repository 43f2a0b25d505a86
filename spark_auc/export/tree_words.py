"""Nodes of trees that split columns of text: the words that go left."""

from __future__ import annotations

import numpy as np

from spark_auc.core.types import Bool
from spark_auc.features.kinds.leaves import Categories
from spark_auc.trees.forest import Forest, Tree
from spark_auc.trees.leaves import leaves


def words_of(column: Categories) -> list[str]:
    """The known words of a column; empty text is missing."""
    return [word for word in column.values if word]


def goes_left(forest: Forest, node: int, column: Categories) -> Bool:
    """Whether a node sends each of `words_of` left, and, at the end, any other text.

    The kernel of the trees decides.
    """
    own = slice(node, node + 1)
    alone = Tree(
        np.zeros(1, np.int64),
        forest.threshold[own],
        forest.rule[own].astype(np.int64),
        np.array([-1]),
        np.array([-2]),
        [forest.words[forest.sets[node] : forest.sets[node + 1]]],
        np.arange(2),
        np.zeros(2),
    )
    numbers = [float(k) for k, word in enumerate(column.values) if word]
    X = np.array([*numbers, np.nan])[:, None]
    found: Bool = leaves(Forest.of(1, forest.categories, [alone]), X).indices == 0
    return found
