"""Trees that split numbers of categories, as trees that split the categories by sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from spark_auc.core.types import Float
from spark_auc.trees.forest import CATEGORICAL, NAN_LEFT, OTHERS_LEFT, Forest


class Numbered(NamedTuple):
    """A column that trees grew from.

    Parameters
    ----------
    column
        The place of the column that it stands for.
    table : (K + 1,), optional
        The number of each of ``K`` categories, then that of all other values. Default: it is the
        column itself.
    """

    column: int
    table: Float | None = None


def by_sets(forest: Forest, numbered: Sequence[Numbered], columns: int) -> Forest:
    """The trees on columns of categories: a threshold becomes the set of categories below it.

    Parameters
    ----------
    forest
        Trees of the columns ``numbered``, of LightGBM.
    numbered
        The columns that they grew from.
    columns
        Number of columns that these stand for.
    """
    sizes = np.diff(forest.sets).astype(np.int64)
    rule, threshold = forest.rule.copy(), forest.threshold.copy()
    made = []
    for j, (_, table) in enumerate(numbered):
        nodes = np.flatnonzero(forest.column == j)
        if table is None or not nodes.size:
            continue
        is_left = table <= threshold[nodes, None]
        rule[nodes] = CATEGORICAL + (NAN_LEFT + OTHERS_LEFT) * is_left[:, -1]
        threshold[nodes] = 0.0
        bits = np.zeros((nodes.size, -(-(table.size - 1) // 32) * 32), np.bool_)
        bits[:, : table.size - 1] = is_left[:, :-1]
        words = np.packbits(bits, axis=1, bitorder="little").view("<u4")
        sizes[nodes] = words.shape[1]
        made.append((nodes, words))
    sets = np.cumsum([0, *sizes])
    words = np.empty(sets[-1], np.uint32)
    words[np.repeat(np.diff(forest.sets) > 0, sizes)] = forest.words
    for nodes, own in made:
        words[sets[nodes, None] + np.arange(own.shape[1])] = own
    sources = np.array([column for column, _ in numbered], np.int32)
    return replace(
        forest,
        columns=columns,
        column=sources[forest.column],
        threshold=threshold,
        rule=rule,
        sets=sets.astype(np.int32),
        words=words,
    )
