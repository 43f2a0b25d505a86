"""The terms of a recipe's score in SQL: functions of one column, of two, and trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from spark_auc.core.types import Float
from spark_auc.export.sql_dialect import Dialect, number
from spark_auc.export.token_places import TokenPlaces, token_places
from spark_auc.export.tree_words import goes_left, words_of
from spark_auc.features.kinds.leaves import Categories, TreeLeaves
from spark_auc.features.kinds.named import Named
from spark_auc.features.kinds.numeric import Numeric
from spark_auc.features.kinds.pair import Pair
from spark_auc.features.recipe import Recipe
from spark_auc.trees.forest import NAN_LEFT, ZERO, ZERO_MISSING, Forest


class Term(NamedTuple):
    """What some features of a row add.

    Parameters
    ----------
    score
        To the score, before rows are divided by their norm.
    square
        To the squared norm of the row.
    """

    score: str
    square: str


class Part(NamedTuple):
    """A numeric column with the weights of its features.

    Parameters
    ----------
    column
        The column.
    weights
        Weights ``(k,)`` of its features without the indicator.
    missing
        Weight of the indicator of missing values; None if there is no indicator.
    """

    column: Numeric
    weights: Float
    missing: float | None


def terms(recipe: Recipe, w: Float, dialect: Dialect) -> Iterator[Term]:
    """The terms of a recipe whose tokens are known, for weights ``w`` ``(F,)``."""
    starts = iter(recipe.starts)
    for column, indicator in zip(recipe.numeric, recipe.indicators, strict=True):
        first, size = next(starts), len(column.names())
        missing = float(w[first + size]) if indicator else None
        part = Part(column, w[first : first + size], missing)
        said = column.sql(_value(column, dialect), part.weights, dialect)
        yield _unless_missing(part, *said, dialect)
    for pair in recipe.pairs:
        first = next(starts)
        shape = len(pair.first.knots), len(pair.second.knots)
        yield _pair(pair, w[first : first + pair.size].reshape(shape), dialect)
    if recipe.trees:
        first = next(starts)
        leaves = w[first : first + recipe.trees.size]
        if not recipe.absent:
            # The recipe takes text as it is.
            dialect = replace(dialect, trim="{0}")
        trees = [_tree(recipe.trees, t, leaves, dialect) for t in range(recipe.trees.slots)]
        yield Term(dialect.total(trees), number(len(trees)))
    before = list[TokenPlaces]()
    for places in token_places(recipe):
        score = _by_token(places, lambda j: number(w[j]), number(0.0), dialect)
        square = [_by_token(places, lambda _: number(1.0), number(0.0), dialect)]
        square += [twice for other in before if (twice := _twice(other, places, dialect))]
        yield Term(score, dialect.total(square))
        before.append(places)


def _value(column: Named, dialect: Dialect) -> str:
    name = dialect.name(column.name)
    # Not all systems compare booleans with numbers.
    if column.type == "boolean":
        return f"CASE WHEN {name} THEN 1E0 WHEN NOT {name} THEN 0E0 END"
    return name


def _unless_missing(part: Part, score: str, square: str, dialect: Dialect) -> Term:
    case = f"CASE WHEN {dialect.missing(part.column.name, part.column.type)}"
    indicator = 0.0 if part.missing is None else 1.0
    return Term(
        f"{case} THEN {number(part.missing or 0.0)} ELSE {score} END",
        f"{case} THEN {number(indicator)} ELSE {square} END",
    )


def _pair(pair: Pair, heights: Float, dialect: Dialect) -> Term:
    """The term of a pair with a height ``(k, m)`` at each pair of knots."""
    (x, y), (knots, others) = zip(
        *((_value(c, dialect), c.knots) for c in pair.columns), strict=True
    )
    score = dialect.pieces(
        x,
        knots,
        lambda k: dialect.curve(y, others, heights[k].tolist()),
        lambda k, share: (
            f"{dialect.curve(y, others, heights[k].tolist())} + "
            f"{share} * {dialect.curve(y, others, (heights[k + 1] - heights[k]).tolist())}"
        ),
    )
    square = f"{dialect.squared_hats(x, knots)} * {dialect.squared_hats(y, others)}"
    missing = " OR ".join(dialect.missing(column.name, column.type) for column in pair.columns)
    case = f"CASE WHEN {missing} THEN 0E0 ELSE"
    return Term(f"{case} {score} END", f"{case} {square} END")


def _tree(trees: TreeLeaves, tree: int, leaves: Float, dialect: Dialect) -> str:
    """The weight of a row's leaf in a tree."""
    forest = trees.forest
    root = int(forest.starts[tree])
    if root == forest.starts[tree + 1]:
        return number(leaves[root + tree])
    # Children are above their parents.
    said = dict[int, str]()
    for m in range(int(forest.starts[tree + 1]) - 1, root - 1, -1):
        left, right = (
            said.pop(child) if child >= 0 else number(leaves[~child])
            for child in (int(forest.left[m]), int(forest.right[m]))
        )
        test = _goes_left(trees, m, dialect)
        said[m] = f"CASE WHEN {test} THEN {left} ELSE {right} END"
    return said[root]


def _by_token(
    places: TokenPlaces, said: Callable[[int], str], nothing: str, dialect: Dialect
) -> str:
    """What is said of the feature of a row's token; ``nothing`` for no token."""
    column, name = places.column, dialect.name(places.column.name)
    missing = nothing if places.missing is None else said(places.missing)
    whens = list[str]()
    if places.other is None:
        otherwise = missing
        tests = {0: f"NOT {name}", 1: name}
        whens = [f"WHEN {tests[value]} THEN {said(j)}" for value, j in places.values.items()]
    else:
        otherwise, groups = said(places.other), dict[str, list[str]]()
        for value, j in places.values.items():
            groups.setdefault(said(j), []).append(str(value))
        groups.pop(otherwise, None)
        if missing != otherwise or groups:
            whens.append(f"WHEN {dialect.missing(column.name, column.type)} THEN {missing}")
        whens += [f"WHEN {name} IN ({', '.join(v)}) THEN {text}" for text, v in groups.items()]
    return f"CASE {' '.join(whens)} ELSE {otherwise} END" if whens else otherwise


def _twice(one: TokenPlaces, other: TokenPlaces, dialect: Dialect) -> str | None:
    """What tokens of two columns add to the squared norm where hashes give them one feature.

    The feature is 2 then, and its square 4.
    """
    common = {*one.all()} & {*other.all()}
    if not common:
        return None

    def feature(places: TokenPlaces, none: str) -> str:
        return _by_token(places, lambda j: str(j) if j in common else none, none, dialect)

    return f"CASE WHEN {feature(one, '-1')} = {feature(other, '-2')} THEN 2E0 ELSE 0E0 END"


def _goes_left(trees: TreeLeaves, node: int, dialect: Dialect) -> str:
    forest = trees.forest
    column, rule = trees.columns[forest.column[node]], int(forest.rule[node])
    if isinstance(column, Categories):
        return _has_words_of_left(trees.forest, node, column, dialect)
    missing = dialect.missing(column.name, column.type)
    x, threshold = _value(column, dialect), float(forest.threshold[node])
    if np.isfinite(threshold):
        test = f"{x} <= {number(threshold)}"
    else:
        test = f"NOT ({missing})" if threshold > 0 else f"{x} < {number(-np.finfo(float).max)}"
    # A comparison with null is not true, nor in Spark is NaN below a number.
    if rule & ZERO_MISSING:
        near = f"ABS({x}) <= {number(ZERO)}"
        return f"{test} OR {near} OR {missing}" if rule & NAN_LEFT else f"{test} AND NOT {near}"
    return f"{test} OR {missing}" if rule & NAN_LEFT else test


def _has_words_of_left(forest: Forest, node: int, column: Categories, dialect: Dialect) -> str:
    """The test of whether a node sends a row of text left."""
    name, is_left = dialect.trimmed(column.name), goes_left(forest, node, column)
    words = [dialect.label(word) for word in words_of(column)]
    # Other text, and missing text with it, goes to the side of which no words are listed.
    other = is_left[-1]
    listed = ", ".join(word for word, left in zip(words, is_left, strict=False) if left != other)
    if other:
        return f"{name} IS NULL OR {name} NOT IN ({listed})" if listed else "1 = 1"
    return f"{name} IN ({listed})" if listed else "1 = 0"
