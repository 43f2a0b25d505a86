"""The leaves of rows, and the kernels that find them.

A tree of up to 64 leaves compares all its nodes with a block of rows. Leaves are bits from left to
right; a node that sends a row right clears the leaves on its left, and the lowest bit that remains
is the row's leaf [1]_. These loops have no branches and compare several rows in one instruction.
In a larger tree, rows descend one by one.

References
----------
.. [1] C. Lucchese et al. QuickScorer: A Fast Algorithm to Rank Documents with Additive Ensembles
   of Regression Trees. SIGIR 2015. Algorithm 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spark_auc.core.kernels import compiled
from spark_auc.core.types import Float, Index, Keys
from spark_auc.errors import DataError
from spark_auc.trees.forest import CATEGORICAL, NAN_LEFT, OTHERS_LEFT, ZERO, Forest, Whole

# Rows that one tree takes before the next. Their columns stay in the cache of the core.
_BLOCK = 256
# Leaves of a tree whose nodes are all compared: the bits of a word.
_BITS = 64
_ALL = np.uint64(2**64 - 1)
_CATEGORIES = {"truncated": 0, "float32": 1, "exact": 2}
# Codes of NaN and of values that are no category. Categories are below 2^31.
_NAN, _NONE = np.uint32(2**32 - 2), np.uint32(2**32 - 1)
# The product of a power of 2 with this number begins with 6 bits that tell the power.
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_POWERS = np.empty(64, np.int32)
_POWERS[(_DE_BRUIJN << np.arange(64, dtype=np.uint64)) >> np.uint64(58)] = np.arange(64)


class _Nodes(NamedTuple):
    """The arrays of a `Forest` as the kernels take them.

    Parameters
    ----------
    starts, column, threshold, rule, sets, words
        See `Forest`; each column by its place among those of the nodes.
    child : (2 M,)
        Right and left child of each node.
    kept : (M,)
        Bits that remain where a node sends a row right, in a tree of up to 64 leaves.
    leaf : (F,)
        Leaves of each tree, from left to right.
    """

    starts: Whole
    column: Index
    threshold: Float
    rule: NDArray[np.uint8]
    sets: Whole
    words: Index
    child: Whole
    kept: Keys
    leaf: Whole


def leaves(forest: Forest, X: Float) -> sparse.csr_matrix:
    """The leaves of rows, one for each tree.

    Parameters
    ----------
    forest
        The trees.
    X : (n, d)
        Rows, or the transpose of contiguous columns.

    Returns
    -------
    csr_matrix (n, F)
        1 at the leaves of each row, ``T`` entries per row, indices ascending.

    Raises
    ------
    DataError
        The rows have another number of columns.
    """
    if X.ndim != 2 or X.shape[1] != forest.columns:
        raise DataError(
            f"found rows of shape {X.shape}, expected {forest.columns} columns; give the columns "
            "that the trees were grown from, in their order"
        )
    entries = X.shape[0] * forest.trees
    indices = np.empty(entries, np.int32)
    find(Plan.of(forest), np.asarray(X, float), 0, indices.reshape(X.shape[0], forest.trees).T)
    indptr = np.arange(0, entries + 1, forest.trees)
    return sparse.csr_matrix((np.ones(entries), indices, indptr), (X.shape[0], forest.leaves))


class Plan(NamedTuple):
    """A forest as the kernels take it; it serves any number of calls.

    Parameters
    ----------
    used
        Columns of the rows that the nodes compare.
    nodes
        The nodes.
    categories
        See `Forest`, as a number.
    """

    used: Whole
    nodes: _Nodes
    categories: int

    @classmethod
    def of(cls, forest: Forest) -> Plan:
        """The plan of a forest."""
        used, column = np.unique(forest.column, return_inverse=True)
        child = np.stack([forest.right, forest.left], axis=1).ravel()
        kept, leaf = np.empty(forest.column.size, np.uint64), np.empty(forest.leaves, np.int32)
        _arrange(forest.starts, child, kept, leaf)
        nodes = _Nodes(
            forest.starts,
            column.astype(np.uint32),
            forest.threshold,
            forest.rule,
            forest.sets,
            forest.words,
            child,
            kept,
            leaf,
        )
        return cls(used, nodes, _CATEGORIES[forest.categories])


def find(plan: Plan, X: Float, first: int, out: NDArray[np.int32]) -> None:
    """Write the leaves of rows, one for each tree.

    Parameters
    ----------
    plan
        The trees.
    X : (n, d)
        Rows, or the transpose of contiguous columns.
    first
        Number of the first leaf of the first tree.
    out : (T, n)
        Receives the leaf of each row in each tree.
    """
    _find(X, plan.used, plan.nodes, plan.categories, first, out)


@compiled()
def _arrange(starts: Whole, child: Whole, kept: Keys, leaf: Whole) -> None:
    """Write the leaves of each tree from left to right, and the bits that its nodes keep."""
    below = np.ones(kept.size, np.int64)
    first = np.zeros(kept.size, np.int64)
    for t in range(starts.size - 1):
        begin, end = starts[t], starts[t + 1]
        if begin == end:
            leaf[begin + t] = begin + t
        # Children are above their parents.
        for m in range(end - 1, begin - 1, -1):
            below[m] = 0
            for side in range(2):
                c = child[2 * m + side]
                below[m] += below[c] if c >= 0 else 1
        for m in range(begin, end):
            right, left = child[2 * m], child[2 * m + 1]
            on_left = below[left] if left >= 0 else 1
            if left >= 0:
                first[left] = first[m]
            else:
                leaf[begin + t + first[m]] = ~left
            if right >= 0:
                first[right] = first[m] + on_left
            else:
                leaf[begin + t + first[m] + on_left] = ~right
            if end - begin < _BITS:
                cleared = (np.uint64(1) << np.uint64(on_left)) - np.uint64(1)
                kept[m] = ~(cleared << np.uint64(first[m]))


@compiled()
def _find(
    X: Float, used: Whole, nodes: _Nodes, categories: int, first: int, out: NDArray[np.int32]
) -> None:
    """Write the leaf of each row in each tree; ``first`` and ``out`` are those of `find`."""
    trees = nodes.starts.size - 1
    block, alive = np.empty((used.size, _BLOCK)), np.empty(_BLOCK, np.uint64)
    codes, is_coded = np.empty((used.size, _BLOCK), np.uint32), np.zeros(used.size, np.bool_)
    for m in range(nodes.rule.size):
        if nodes.rule[m] & CATEGORICAL:
            is_coded[nodes.column[m]] = True
    for begin in range(0, X.shape[0], _BLOCK):
        rows = min(X.shape[0] - begin, _BLOCK)
        for j in range(used.size):
            for i in range(rows):
                block[j, i] = X[begin + i, used[j]]
            if is_coded[j]:
                for i in range(rows):
                    codes[j, i] = _code(block[j, i], categories)
        for t in range(trees):
            if nodes.starts[t + 1] - nodes.starts[t] < _BITS:
                _compare(block, codes, nodes, t, alive[:rows])
                leftmost = nodes.starts[t] + t
                for i in range(rows):
                    lowest = alive[i] & (~alive[i] + np.uint64(1))
                    power = _POWERS[(lowest * _DE_BRUIJN) >> np.uint64(58)]
                    out[t, begin + i] = first + nodes.leaf[leftmost + power]
            else:
                for i in range(rows):
                    out[t, begin + i] = first + _descend(block, codes, nodes, t, i)


@compiled()
def _code(x: float, categories: int) -> np.uint32:
    """The category of a value, or the code of a value without one."""
    if np.isnan(x):
        return _NAN
    if categories == 1:
        x = float(np.float32(x))
    # Truncation takes values above -1 for category 0.
    if (x <= -1.0 if categories == 0 else x < 0.0) or x >= 2.0**31:
        return _NONE
    category = np.uint32(np.int64(x))
    return _NONE if categories == 2 and x != category else category


@compiled()
def _compare(block: Float, codes: Index, nodes: _Nodes, tree: int, alive: Keys) -> None:
    """Write the bits that all nodes of a tree keep for each row."""
    for i in range(alive.size):
        alive[i] = _ALL
    for m in range(nodes.starts[tree], nodes.starts[tree + 1]):
        x, cut, kept = block[nodes.column[m]], nodes.threshold[m], nodes.kept[m]
        rule = nodes.rule[m]
        # One loop for each rule: a test of the rule within a loop would be made for each row.
        if rule == 0:
            for i in range(alive.size):
                alive[i] &= _ALL if x[i] <= cut else kept
        elif rule == NAN_LEFT:
            for i in range(alive.size):
                alive[i] &= kept if x[i] > cut else _ALL
        elif rule & CATEGORICAL:
            code = codes[nodes.column[m]]
            for i in range(alive.size):
                alive[i] &= _ALL if _is_in_set(code[i], nodes, m) else kept
        else:
            missing = _ALL if rule & NAN_LEFT else kept
            for i in range(alive.size):
                number = _ALL if x[i] <= cut else kept
                alive[i] &= number if abs(x[i]) > ZERO else missing


@compiled()
def _descend(block: Float, codes: Index, nodes: _Nodes, tree: int, i: int) -> int:
    """The leaf of a row of the block."""
    k = nodes.starts[tree]
    while k >= 0:
        m = np.uint32(k)
        j, rule = nodes.column[m], nodes.rule[m]
        x = block[j, i]
        if rule <= NAN_LEFT:
            is_left = (x <= nodes.threshold[m]) | (np.isnan(x) & (rule == NAN_LEFT))
        elif rule & CATEGORICAL:
            is_left = _is_in_set(codes[j, i], nodes, int(m))
        elif abs(x) > ZERO:
            is_left = x <= nodes.threshold[m]
        else:
            is_left = (rule & NAN_LEFT) != 0
        k = nodes.child[2 * m + np.uint32(is_left)]
    return int(~k)


@compiled()
def _is_in_set(code: np.uint32, nodes: _Nodes, m: int) -> bool:
    """Whether a categorical node sends a category left."""
    word = nodes.sets[m] + np.int64(code >> np.uint32(5))
    if word < nodes.sets[m + 1]:
        return bool((nodes.words[word] >> (code & np.uint32(31))) & np.uint32(1))
    return bool(nodes.rule[m] & (NAN_LEFT if code == _NAN else OTHERS_LEFT))
