"""Forests as JSON, and what is refused."""

import json
import random
import re

import numpy as np
import pytest

from spark_auc.errors import ModelFormatError
from spark_auc.trees.forest import CategorySets, Forest, Tree
from spark_auc.trees.forest_json import from_json, to_json
from spark_auc.trees.leaves import leaves
from tests.trees.forests import edge_rows, random_forest, same


@pytest.mark.parametrize("categories", ["truncated", "float32", "exact"])
def test_forests_return_from_json(categories):
    forest = random_forest(1, categories)
    assert same(from_json(to_json(forest)), forest)
    assert same(from_json(to_json(forest).encode()), forest)
    assert "Infinity" not in to_json(forest)
    assert same(from_json(to_json(one := random_forest(0, sizes=(1,)))), one)


def damaged(**changes):
    return json.dumps(json.loads(to_json(random_forest(2, sizes=(3, 1, 5)))) | changes)


LEFT = json.loads(damaged())["left"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("[" * 10**5, "not JSON"),
        ("[1]", "an object with format 'spark_auc trees'"),
        (damaged(format="spark_auc recipe"), "an object with format"),
        (damaged(version=2), "version 2 as trees, expected 1"),
        (damaged(version=True), "version True"),
        (damaged(more=1), "expected ['categories'"),
        ('{"a": 1, "a": 1}', "a field is repeated"),
        (damaged(offset=float("nan")), "NaN is no JSON"),
        (damaged(offset=10**400), "offset 1000"),
        (damaged(offset=1e400), "Infinity is no JSON"),
        (damaged(columns=4.0), "columns 4.0 as trees, expected a whole number"),
        (damaged(columns=0), "it has 0 columns"),
        (damaged(columns=2**40), "columns"),
        (damaged(columns=1), "column indices outside 0 to 0"),
        (damaged(categories="hex"), "'hex' categories"),
        (damaged(categories=["exact"]), "expected text"),
        (damaged(starts=[0]), "not the lengths"),
        (damaged(starts=[]), "not the lengths"),
        (damaged(starts=[0, 2, 2, 7]), "row starts"),
        (damaged(starts=[0, 4, 2, 6]), "row starts"),
        (damaged(starts=[0, 2, 2, True]), "starts True"),
        (damaged(starts="abc"), "expected a list"),
        (damaged(rule=[0] * 5), "not the lengths"),
        (damaged(rule=[16, 0, 0, 0, 0, 0]), "rule of a node"),
        (damaged(rule=[256, 0, 0, 0, 0, 0]), "numbers of type uint8"),
        (damaged(rule=[8, 0, 0, 0, 0, 0], sets=[0] * 7, words=[]), "rule of a node"),
        (damaged(rule=[6, 0, 0, 0, 0, 0], sets=[0] * 7, words=[]), "rule of a node"),
        (damaged(rule=[0] * 6, sets=[0, 1, 1, 1, 1, 1, 1], words=[5]), "rule of a node"),
        (damaged(rule=[4] * 6, sets=[0, 9, 1, 1, 1, 1, 1], words=[5]), "row starts"),
        (damaged(words=[-1]), "numbers of type uint32"),
        (damaged(threshold=["nan"] * 6), "expected a number"),
        (damaged(threshold=[[1]] * 6), "expected a number"),
        (damaged(values=["inf"] * 9), "a value of a leaf is not finite"),
        (damaged(labels=[0] * 8), "not the lengths"),
        (damaged(left=[0, *LEFT[1:]]), "neither a later node nor a leaf"),
        (damaged(left=[2, *LEFT[1:]]), "neither a later node nor a leaf"),
        (damaged(left=[-4, *LEFT[1:]]), "neither a later node nor a leaf"),
        (damaged(left=[*LEFT[:-1], 5]), "neither a later node nor a leaf"),
        (damaged(left=[*LEFT[:-1], 2**31 - 1]), "neither a later node nor a leaf"),
        (damaged(left=[*LEFT[:-1], -(2**31)]), "neither a later node nor a leaf"),
        (damaged(left=[*LEFT[:-1], 2**31]), "numbers of type int32"),
        (damaged(left=json.loads(damaged())["right"]), "two nodes have the same child"),
    ],
)
def test_damaged_text_is_refused(text, said):
    with pytest.raises(ModelFormatError, match=re.escape(said)):
        from_json(text)


def test_unreachable_nodes_are_refused():
    """Nodes 1 and 2 are each other's children; no descent would find them."""
    with pytest.raises(ModelFormatError, match="neither a later node nor a leaf"):
        Forest.of(
            1,
            "exact",
            [
                Tree(
                    np.zeros(3, int),
                    np.zeros(3),
                    np.zeros(3, int),
                    np.array([-1, 2, 1]),
                    np.array([-2, -3, -4]),
                    [np.empty(0, np.uint32)] * 3,
                    np.arange(4),
                    np.zeros(4),
                )
            ],
        )


def test_text_with_random_damage_is_refused_or_is_a_forest():
    """What is read sends every row to one leaf of each tree."""
    draw = random.Random(0)
    whole = json.loads(to_json(random_forest(3, sizes=(4, 1, 9))))
    read = 0
    for _ in range(400):
        stored = json.loads(json.dumps(whole))
        name = draw.choice([key for key, value in whole.items() if isinstance(value, list)])
        values = stored[name]
        at = draw.randrange(len(values))
        values[at] = draw.choice(
            [0, 1, -1, 2, -5, 7, 2**31 - 1, -(2**31), 2**32, 0.5, None, "inf", *values]
        )
        if draw.random() < 0.1:
            values.pop()
        try:
            forest = from_json(json.dumps(stored))
        except ModelFormatError:
            continue
        read += 1
        found = leaves(forest, edge_rows(forest, 40)).indices.reshape(-1, forest.trees)
        first = forest.starts[:-1] + np.arange(forest.trees)
        assert ((found >= first) & (found < first + np.diff(forest.starts) + 1)).all()
    assert 50 < read < 350


def test_words_hold_the_bits_of_categories():
    assert CategorySets().of(np.array([0, 33])).tolist() == [1, 2]
    assert CategorySets().of(np.array([31]), fill=1).tolist() == [2**31 - 1]
    assert CategorySets().of(np.empty(0, int)).tolist() == []
    with pytest.raises(ModelFormatError, match="set of categories"):
        CategorySets().of(np.array([-1]))


def test_a_forest_needs_a_tree():
    with pytest.raises(ModelFormatError, match="found 0 trees"):
        Forest.of(1, "exact", [])
