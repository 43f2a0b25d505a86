"""Forests as flat arrays: one form for the trees of all libraries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.state.rules import MOST_COLUMNS, not_csr, outside
from spark_auc.core.types import Float, Index, Int
from spark_auc.errors import ModelFormatError

# Bits of the rule of a node.
NAN_LEFT, ZERO_MISSING, CATEGORICAL, OTHERS_LEFT = 1, 2, 4, 8
# A value is zero to LightGBM if it is no larger than 1e-35 rounded to float32.
ZERO = float(np.float32(1e-35))
# Most words of the sets of categories of a model: 64 MiB.
MOST_WORDS = 2**24
Categories = Literal["truncated", "float32", "exact"]
Whole = NDArray[np.int32]


class Tree(NamedTuple):
    """One tree of ``m`` inner nodes and ``m + 1`` leaves; the root is node 0, or leaf 0.

    Parameters
    ----------
    column, threshold, rule : (m,)
        See `Forest`.
    left, right : (m,)
        Children: node ``k`` of this tree as ``k``, which is above its parent, and leaf ``k`` as
        ``-1 - k``.
    sets
        Bits of the categories that go left, in words of 32; empty for a numeric node.
    labels, values : (m + 1,)
        See `Forest`.
    """

    column: Int
    threshold: Float
    rule: Int
    left: Int
    right: Int
    sets: Sequence[Index]
    labels: Int
    values: Float


@dataclass(frozen=True, eq=False)
class Forest:
    """``T`` binary trees with ``M`` inner nodes and ``F = M + T`` leaves.

    A numeric node sends a value ``x`` left if ``x <= threshold``, and NaN by its rule. Readers
    turn other comparisons into this one, so that no row changes its leaf: see
    `spark_auc.trees.xgboost_models.float32_threshold`.

    A categorical node sends a category left if its bit is set. A value that is no category, or
    has no bit, goes by the rule, as does NaN.

    Tree ``t`` has the nodes from ``starts[t]`` to ``starts[t + 1] - 1``, of which the first is the
    root, and the leaves from ``starts[t] + t`` to ``starts[t + 1] + t``. Children are above their
    parents, so that each descent ends.

    Parameters
    ----------
    columns
        Number of columns ``d`` of the rows.
    categories
        The category of a value: ``"truncated"`` toward zero; ``"float32"``, rounded to float32,
        no category if negative, and then truncated; or ``"exact"``, a whole number only.
    starts : (T + 1,)
        First node of each tree.
    column : (M,)
        Column of each node.
    threshold : (M,)
        Threshold of each numeric node, possibly infinite, in the column's unit.
    rule : (M,)
        Sum of 1 if NaN goes left, 2 if a numeric node takes values from -1e-35 to 1e-35 (rounded
        to float32) for NaN, 4 for a categorical node, and 8 if other categories go left.
    left, right : (M,)
        Children: a node by its number, a leaf ``k`` as ``-1 - k``.
    sets : (M + 1,)
        Node ``m`` has the words from ``sets[m]`` to ``sets[m + 1] - 1``.
    words : (W,)
        Sets of categories. Category ``c`` is bit ``c % 32`` of word ``c // 32``.
    labels : (F,)
        The library's number of each leaf in its tree.
    values : (F,)
        Value of each leaf. The library ranks rows by the sum of a row's leaf values.
    offset
        What the library adds to this sum.

    Raises
    ------
    ModelFormatError
        The arrays are no forest.
    """

    columns: int
    categories: Categories
    starts: Whole
    column: Whole
    threshold: Float
    rule: NDArray[np.uint8]
    left: Whole
    right: Whole
    sets: Whole
    words: Index
    labels: Whole
    values: Float
    offset: float = 0.0

    def __post_init__(self) -> None:
        if fault := self._fault():
            raise damaged(fault)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Forest):
            return NotImplemented
        both = zip(vars(self).values(), vars(other).values(), strict=True)
        return all(np.array_equal(mine, theirs) for mine, theirs in both)

    def __hash__(self) -> int:
        return hash((self.columns, self.column.tobytes(), self.threshold.tobytes()))

    @classmethod
    def of(
        cls, columns: int, categories: Categories, trees: Sequence[Tree], offset: float = 0.0
    ) -> Self:
        """The forest of some trees.

        Raises
        ------
        ModelFormatError
            There is no tree, or one is damaged.
        """
        sizes = [tree.column.size for tree in trees]
        for k, tree in enumerate(trees):
            lengths = {len(part) for part in tree[:6]} | {len(part) - 1 for part in tree[6:]}
            if len(lengths) > 1:
                raise damaged(f"tree {k} has arrays of unequal lengths")
        if sum(sizes) + len(sizes) > MOST_COLUMNS or not trees:
            raise ModelFormatError(
                f"found {len(sizes)} trees of {sum(sizes)} nodes, expected at least one tree and "
                f"at most {MOST_COLUMNS} leaves; give the model of another number of trees"
            )
        starts = np.cumsum([0, *sizes])
        left = [_shifted(tree.left, starts[k], k) for k, tree in enumerate(trees)]
        right = [_shifted(tree.right, starts[k], k) for k, tree in enumerate(trees)]
        sets = [words for tree in trees for words in tree.sets]
        return cls(
            columns=columns,
            categories=categories,
            starts=starts.astype(np.int32),
            column=_joined([tree.column for tree in trees], np.int32),
            threshold=_joined([tree.threshold for tree in trees], np.float64),
            rule=_joined([tree.rule for tree in trees], np.uint8),
            left=_joined(left, np.int32),
            right=_joined(right, np.int32),
            sets=_joined([np.cumsum([0, *(words.size for words in sets)])], np.int32),
            words=_joined(sets, np.uint32),
            labels=_joined([tree.labels for tree in trees], np.int32),
            values=_joined([tree.values for tree in trees], np.float64),
            offset=float(offset),
        )

    @property
    def trees(self) -> int:
        """Number of trees ``T``."""
        return self.starts.size - 1

    @property
    def leaves(self) -> int:
        """Number of leaves ``F``."""
        return self.values.size

    @property
    def tree_of_leaf(self) -> Int:
        """The tree ``(F,)`` of each leaf."""
        return np.repeat(np.arange(self.trees), np.diff(self.starts) + 1)

    def _fault(self) -> str | None:
        nodes, trees = self.column.size, self.starts.size - 1
        of_nodes = (self.threshold, self.rule, self.left, self.right, self.sets[1:])
        if (
            trees < 1
            or {a.size for a in of_nodes} != {nodes}
            or {self.labels.size, self.values.size} != {nodes + trees}
        ):
            return "its arrays have not the lengths of a forest"
        if not 1 <= self.columns <= MOST_COLUMNS or self.categories not in get_args(Categories):
            return f"it has {self.columns} columns, and {self.categories!r:.20} categories"
        if fault := not_csr(self.column, self.starts, trees, self.columns) or not_csr(
            np.zeros(self.words.size, np.int32), self.sets, nodes, 1
        ):
            return fault
        if np.isnan(self.threshold).any() or not np.isfinite([*self.values, self.offset]).all():
            return "a threshold is NaN, or a value of a leaf is not finite"
        is_numeric = (self.rule & CATEGORICAL) == 0
        unknown = np.where(
            is_numeric, ~(NAN_LEFT + ZERO_MISSING), ~(CATEGORICAL + NAN_LEFT + OTHERS_LEFT)
        )
        if (self.rule & unknown).any() or np.diff(self.sets)[is_numeric].any():
            return "the rule of a node is unknown"
        return self._broken_links()

    def _broken_links(self) -> str | None:
        """The fault of children and leaves; None if each node but roots, and each leaf, is one."""
        starts, size = self.starts.astype(np.int64), np.diff(self.starts)
        tree = np.tile(np.repeat(np.arange(self.trees), size), 2)
        child = np.concatenate([self.left, self.right]).astype(np.int64)
        parent = np.tile(np.arange(self.column.size), 2)
        is_node = (child > parent) & (child < starts[tree + 1])
        is_leaf = (~child >= starts[tree] + tree) & (~child <= starts[tree + 1] + tree)
        if not (is_node | is_leaf).all():
            return "a node has a child that is neither a later node nor a leaf of its tree"
        if np.unique([self.tree_of_leaf, self.labels], axis=1).shape[1] < self.leaves:
            return "two leaves of a tree have the same number"
        # Distinct children, of which there are as many as nodes below roots and leaves together.
        return None if np.unique(child).size == child.size else "two nodes have the same child"


class CategorySets:
    """Makes the sets of categories of one model.

    A set has the size of its largest category: 2 MiB, from 8 bytes of a file. The sets of a model
    have at most 64 MiB in all.
    """

    def __init__(self) -> None:
        self._words = 0

    def of(self, categories: Int, fill: int = 0) -> Index:
        """Bits of distinct categories of at least 0, in words of 32.

        Parameters
        ----------
        categories
            The categories.
        fill
            1 to set all other bits of these words instead.

        Raises
        ------
        ModelFormatError
            A category is not from 0 to 2^24, the largest that float32 tells from its neighbours,
            or the sets of the model are too large.
        """
        if outside(categories, 2**24 + 1):
            raise damaged(f"a set of categories has one outside 0 to {2**24}")
        size = int(categories.max(initial=-1)) // 32 + 1
        self._words += size
        if self._words > MOST_WORDS:
            raise ModelFormatError(
                f"found sets of categories of more than {MOST_WORDS // 2**18} MiB, expected "
                "fewer or smaller ones; number the categories from 0, or train with fewer of them"
            )
        words = np.zeros(size, np.uint32)
        bits = np.uint32(1) << (categories % 32).astype(np.uint32)
        np.bitwise_or.at(words, categories // 32, bits)
        return ~words if fill else words


def _shifted(links: Int, node: int, tree: int) -> Int:
    """Children of a tree's nodes as those of a forest's."""
    return np.where(links >= 0, links + node, links - node - tree)


def _joined(parts: Sequence[NDArray[Any]], dtype: type[Any]) -> NDArray[Any]:
    """The arrays as one of a type.

    Raises
    ------
    ModelFormatError
        A whole number is too large for the type.
    """
    whole = np.concatenate([np.empty(0, dtype), *parts])
    joined = whole.astype(dtype)
    if whole.dtype.kind == "i" and (joined != whole).any():
        raise damaged("it has a whole number that is too large")
    return joined


def damaged(fault: str) -> ModelFormatError:
    """The error of trees with a fault."""
    return ModelFormatError(
        f"found damaged trees ({fault}), expected the trees of a model as its library wrote "
        "them; read them again from their source"
    )
