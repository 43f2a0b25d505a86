"""Random forests, rows at the edges of their nodes, and descents in Python."""

from __future__ import annotations

import math

import numpy as np

from spark_auc.trees.forest import Forest, Tree

SPECIAL = [
    *(math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, -5e-324, 1e-46, -1e-46, 1e-40, -1e-40),
    *(1e-35, -1e-35, float(np.float32(1e-35)), -float(np.float32(1e-35))),
    *(0.5, -0.5, -1.0, -1.5, 2.5, 2.9999999999, 31.0, 32.0, 63.5, 1e10, -1e10),
    *(2.0**24, 2.0**31, 2.0**32, 2.0**63, 1e38, -1e38, 1e300, -1e300, 1e308, -1e308),
]


def edges(forest):
    """Values at the thresholds of a forest, next to them, and special ones."""
    t = forest.threshold
    with np.errstate(over="ignore"):
        near = t.astype(np.float32)
        beside = [np.nextafter(near, np.float32(to)) for to in (np.inf, -np.inf)]
        doubles = [np.nextafter(t, to) for to in (np.inf, -np.inf)]
    categories = np.arange(-2.0, min(32 * np.diff(forest.sets).max(initial=0) + 2, 200))
    return np.concatenate([t, near, *beside, *doubles, SPECIAL, categories]).astype(float)


def edge_rows(forest, rows, seed=0):
    """Rows ``(rows, d)`` of values at the edges of a forest's nodes."""
    rng = np.random.default_rng(seed)
    return rng.choice(edges(forest), (rows, forest.columns))


def grown(rng, leaves, columns, labels=None):
    """A tree of random splits, of all rules."""
    left, right, place = [], [], [None]
    for _ in range(leaves - 1):
        # Split a leaf: it stays on the left of the new node.
        split = rng.integers(len(place))
        node = len(left)
        if place[split] is not None:
            parent, side = place[split]
            side[parent] = node
        left.append(-1 - split)
        right.append(-1 - len(place))
        place[split] = (node, left)
        place.append((node, right))
    nodes = leaves - 1
    rule = rng.choice([0, 1, 2, 3, 4, 5, 12, 13], nodes)
    size = np.where(rule & 4, rng.integers(0, 4, nodes), 0)
    threshold = rng.choice([*rng.normal(size=12), 0.0, 1e-35, math.inf, -math.inf, 3.0], nodes)
    return Tree(
        rng.integers(columns, size=nodes),
        threshold,
        rule,
        np.array(left, np.int64),
        np.array(right, np.int64),
        [rng.integers(2**32, size=k, dtype=np.uint32) for k in size],
        np.arange(leaves) if labels is None else labels,
        rng.normal(size=leaves),
    )


def random_forest(seed, categories="truncated", sizes=(1, 2, 15, 64, 65, 130, 1), columns=40):
    rng = np.random.default_rng(seed)
    return Forest.of(columns, categories, [grown(rng, k, columns) for k in sizes], 0.5)


def category(kind, x):
    """The category of a value, or None."""
    if math.isnan(x):
        return None
    if kind == "float32":
        with np.errstate(over="ignore"):
            x = float(np.float32(x))
    if math.isinf(x) or (kind != "truncated" and x < 0) or (kind == "exact" and x != int(x)):
        return None
    return int(x) if int(x) >= 0 else None


def goes_left(forest, node, x):
    """Whether a node of a forest sends a value left, by the words of its docstring."""
    rule = int(forest.rule[node])
    if rule & 4:
        if math.isnan(x):
            return bool(rule & 1)
        number = category(forest.categories, x)
        begin, end = forest.sets[node], forest.sets[node + 1]
        if number is None or number >= 32 * (end - begin):
            return bool(rule & 8)
        return bool(int(forest.words[begin + number // 32]) >> (number % 32) & 1)
    if math.isnan(x) or (rule & 2 and abs(x) <= float(np.float32(1e-35))):
        return bool(rule & 1)
    return x <= forest.threshold[node]


def descended(forest, X):
    """The leaf of each row in each tree ``(n, T)``."""
    out = np.empty((len(X), forest.trees), int)
    for i, row in enumerate(X.tolist()):
        for t in range(forest.trees):
            node = int(forest.starts[t])
            if node == forest.starts[t + 1]:
                node = -1 - (node + t)
            while node >= 0:
                x = row[forest.column[node]]
                node = int((forest.left if goes_left(forest, node, x) else forest.right)[node])
            out[i, t] = -1 - node
    return out


def labels(forest, found):
    """The library's numbers of the leaves of rows."""
    return forest.labels[found.indices.reshape(-1, forest.trees)]


def same(a, b):
    """Whether two forests have equal fields, bit for bit."""
    return all(
        np.asarray(x).dtype == np.asarray(y).dtype
        and np.asarray(x).tobytes() == np.asarray(y).tobytes()
        for x, y in zip(vars(a).values(), vars(b).values(), strict=True)
    )
