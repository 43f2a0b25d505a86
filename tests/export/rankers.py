"""Random rankers of raw columns, and rows at which they could go wrong."""

import numpy as np
import pyarrow as pa

from spark_auc.features.kinds.leaves import TreeLeaves
from spark_auc.features.kinds.pair import Pair
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.kinds.standard import Standard
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_auto import AutoPlan
from spark_auc.serving.linear_scorer import LinearScorer
from spark_auc.serving.ranker import ServedRanker
from spark_auc.tables.arrow_columns import raw_column
from spark_auc.trees.forest import (
    CATEGORICAL,
    NAN_LEFT,
    OTHERS_LEFT,
    ZERO,
    ZERO_MISSING,
    CategorySets,
    Forest,
    Tree,
)

TYPES = {
    "plain": "float",
    'it\'s "quoted" `x` -- ö.y': "float",
    "count": "integer",
    "flag": "boolean",
    "scaled": "float",
    "wide": "float",
}
CUTS = np.array([-np.inf, np.inf, 0.0, ZERO, -1e-40, 0.1, 1 / 3, 1.0, -0.7, 2.5, 1e150])
BIG = float(np.finfo(float).max)
KNOTS = {
    "plain": (-2.5, -0.1, 0.3, 1e-3 + 0.3, 7.0),
    'it\'s "quoted" `x` -- ö.y': (-1.0, 5e-324, 2e-323, 1.0 / 3.0),
    "count": (0.0, 1.0, 2.0, 10.0, 2.0**53),
    "flag": (0.0, 1.0),
    # The first step is more than the largest double.
    "wide": (-BIG, 1e308, 1.5e308, BIG),
}


def forest(rng, columns, trees=9, most=12):
    """Random trees, from one leaf on."""
    made = []
    for _ in range(trees):
        m = int(rng.integers(0, most))
        left, right = np.zeros(m, np.int64), np.zeros(m, np.int64)
        open_places = []
        for k in range(m):
            if k:
                node, side = open_places.pop(rng.integers(len(open_places)))
                (left if side else right)[node] = k
            open_places += [(k, True), (k, False)]
        for leaf, (node, side) in enumerate(open_places):
            (left if side else right)[node] = -1 - leaf
        made.append(
            Tree(
                rng.integers(0, columns, m),
                rng.choice(CUTS, m),
                rng.choice([0, NAN_LEFT, ZERO_MISSING, ZERO_MISSING + NAN_LEFT], m),
                left,
                right,
                [np.empty(0, np.uint32)] * m,
                rng.permutation(m + 1),
                rng.normal(size=m + 1),
            )
        )
    return Forest.of(columns, "exact", made)


def recipe(seed, *, unit=True, missing="indicator"):
    """A recipe of splines, standardised columns, pairs and trees."""
    rng = np.random.default_rng(seed)
    spline = {name: Spline(name, TYPES[name], knots) for name, knots in KNOTS.items()}
    numeric = (
        *spline.values(),
        Standard("scaled", "float", 3.0, 2.0),
        Standard("plain", "float", -1.0, 0.5),
        Spline("one", "float", (4.0,)),
        Spline("none", "float", ()),
    )
    pairs = (
        Pair(Spline("plain", "float", (-1.0, 0.0, 4.0)), Spline("flag", "boolean", (0.0, 1.0))),
        Pair(spline["wide"], Spline("count", "integer", (1.0, 4.0))),
        Pair(Spline("one", "float", (2.0,)), Spline("plain", "float", (0.5, 0.75))),
    )
    split = {name: TYPES[name] for name in ("plain", "flag", "count", "scaled", "wide")}
    trees = TreeLeaves.of(forest(rng, len(split)), split)
    return Recipe(numeric, (), 8, None, missing, unit, trees, pairs)


def ranker(seed, curve=None, labels=(1.0, 0.0), **settings):
    """A ranker of a recipe with random weights."""
    made, rng = recipe(seed, **settings), np.random.default_rng(seed + 1)
    return ServedRanker(LinearScorer(rng.normal(size=made.size), 0.05, *labels), made, (), curve)


def rows(seed, n=400):
    """Rows of missing, infinite and huge values, of knots and their neighbours."""
    rng = np.random.default_rng(seed + 2)
    found = {}
    for name in [*TYPES, "one", "none"]:
        kind = TYPES.get(name, "float")
        knots = np.concatenate([KNOTS.get(name, (0.0, 3.0)), CUTS[2:-1]])
        if kind == "boolean":
            values = rng.random(n) < 0.5
        elif kind == "integer":
            values = rng.choice([*range(-2, 14), 2**53, 2**53 + 2, 2**62, -(2**62)], n)
        else:
            with np.errstate(over="ignore"):
                beside = [np.nextafter(knots, side) for side in (-np.inf, np.inf)]
            parts = [
                knots,
                *beside,
                rng.normal(size=60) * 3,
                [0.0, -0.0, ZERO, -ZERO, 1e-36, -1e-300],
            ]
            if name not in ("scaled", "plain"):
                parts.append([np.inf, -np.inf, BIG, -BIG, 1e300])
            values = rng.choice(np.concatenate(parts), n)
        found[name] = pa.array(values, mask=rng.random(n) < 0.1)
    table = pa.table(found)
    assert all(table[name].null_count for name in table.column_names)
    return table


CODES = {
    "code": ("integer", [-7, 0, 1, 2, 5, 40, 2**40]),
    'a "few" `k`': ("integer", [0, 1, 2]),
    "flag": ("boolean", [True, False]),
    "one": ("integer", [3]),
    "x": ("float", [-1.0, 0.25, 0.5, 3.0]),
}


SETTINGS_OF_CODES = [
    {"dimension": None, "unit": True},
    {"dimension": 11, "unit": True},
    {"dimension": 5, "unit": True, "missing": "ignore"},
    {"dimension": 11, "unit": False, "missing": "ignore"},
    {"dimension": 1, "unit": True, "kinds": {"code": "tokens", "flag": "tokens"}},
    # Of rows without numbers only tokens are left.
    {"dimension": 8, "unit": True, "kinds": dict.fromkeys(["code", 'a "few" `k`'], "tokens")},
]


def codes(rng, n, gaps=0.2, unknown=()):
    """Rows of integers of few values, of booleans and of numbers."""
    made = {}
    for name, (kind, values) in CODES.items():
        found = rng.choice([*values, *(unknown if kind == "integer" else ())], n)
        made[name] = pa.array(found, mask=rng.random(n) < gaps)
    return pa.table(made)


def ranker_of_codes(seed, dimension, curve=None, labels=(1.0, 0.0), kinds=None, **settings):
    """A ranker of a default recipe of a raw table, and rows with values that no fit saw.

    Hashes give tokens of one column, and of several, one feature if the dimension is small.
    """
    rng = np.random.default_rng(seed)
    types = {name: kind for name, (kind, _) in CODES.items()}
    plan = AutoPlan.of_schema(types, kinds or {}, dimension=dimension, **settings)
    table = codes(rng, 300)
    seen = {name: raw_column(name, table[name].combine_chunks()) for name in types}
    _, made, _ = plan.resolved(plan.fold([(seen, rng.random(300) < 0.4)]))
    scorer = LinearScorer(rng.normal(size=made.size), 0.05, *labels)
    unknown = [-1, 3, 4, 6, 17, 2**33, -(2**50)]
    return ServedRanker(scorer, made, (), curve), codes(rng, 400, unknown=unknown)


WORDS = ("a", "b\\'c", "ö", "NULL", "it's", "last")


def ranker_of_words(categories, with_numbers):
    """Trees of a node that compares numbers of words or sets of them, or numbers; and rows.

    The rows have known words, and unknown, empty and missing ones.
    """
    rng, sets, trees = np.random.default_rng(8), CategorySets(), []
    types = {"the town": "text", **({"size": "float"} if with_numbers else {})}
    for _ in range(40):
        column = int(rng.integers(len(types)))
        is_set = column == 0 and rng.random() < 0.7
        rules = [CATEGORICAL, CATEGORICAL + NAN_LEFT, CATEGORICAL + OTHERS_LEFT]
        rule = rng.choice(rules if is_set else [0, NAN_LEFT])
        chosen = rng.permutation(40)[: rng.integers(0, 30)] % (4 if rng.random() < 0.5 else 40)
        words = sets.of(np.unique(chosen)) if is_set else np.empty(0, np.uint32)
        one = np.zeros(1, np.int64)
        threshold = rng.choice([-0.5, 0.0, 2.5, 5.0, np.inf], 1)
        sides = one - 1, one - 2
        node = one + column, threshold, one + rule, *sides, [words]
        trees.append(Tree(*node, np.arange(2), np.ones(2)))
    made = TreeLeaves.of(
        Forest.of(len(types), categories, trees), types, values={"the town": WORDS}
    )
    recipe = Recipe((), trees=made)
    served = ServedRanker(LinearScorer(rng.normal(size=recipe.size), 0.0, 1.0, 0.0), recipe)
    towns = [*WORDS, None, "", "other", "A"]
    size = pa.array([0.0, 2.5, 3.0, None, -1.0, 5.0, 9.0, None, 0.0, 1.0])
    table = pa.table({"the town": towns, "size": size, "k": range(10)})
    assert len(set(served.score(table).tolist())) >= 6
    return served, table


def spread(scores):
    """The standard deviation of scores, by which errors are measured."""
    assert np.isfinite(scores).all()
    assert np.ptp(scores) > 0
    return float(scores.std())
