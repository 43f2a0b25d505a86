"""Trees of Spark ML's nodes without Spark: numbering, sets of categories, and damage."""

import numpy as np
import pytest

from spark_auc.errors import ModelFormatError
from spark_auc.trees.leaves import leaves
from spark_auc.trees.spark_models import SparkNodes, from_spark


def stump(cut, categories=-1, **changes):
    """A tree of one leaf, and one of two leaves."""
    none = np.empty(0)
    nodes = SparkNodes(
        np.array([0, 1, 1, 1]),
        np.array([0, 0, 1, 2]),
        np.array([-1, 1, -1, -1]),
        np.array([-1, 2, -1, -1]),
        np.array([-1, 0, -1, -1]),
        np.array([-1, categories, -1, -1]),
        [none, np.array(cut, float), none, none],
        np.array([9.0, 8.0, 7.0, 6.0]),
    )
    return nodes._replace(**changes)


VALUES = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 40.0, -1.0, 0.5, -0.0, np.nan, np.inf, -np.inf, 2.5]


@pytest.mark.parametrize(
    ("categories", "on_left"),
    [(6, [1, 4]), (6, [0, 1, 4]), (6, [0, 1, 4, 5]), (7, [0, 1, 2, 4]), (40, list(range(39)))],
)
def test_categories_go_to_the_side_of_spark_ml(categories, on_left):
    """By the words of Spark's CategoricalSplit: it keeps the categories of the smaller side."""
    forest = from_spark(1, stump(on_left, categories))
    kept = set(map(float, on_left))
    is_left = len(on_left) <= categories // 2
    if not is_left:
        kept = set(map(float, range(categories))) - kept
    expected = [(value in kept) == is_left for value in VALUES]
    found = leaves(forest, np.array(VALUES)[:, None]).indices.reshape(-1, 2)
    assert (found[:, 1] == 1).tolist() == expected
    assert forest.values.tolist() == [9.0, 7.0, 6.0]
    assert (found[:, 0] == 0).all()


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        (stump([0.5], left=np.array([-1, 1, 1, -1])), "a single child"),
        (stump([0.5], left=np.array([-1, 2, -1, -1])), "two nodes have the same child"),
        (stump([0.5], left=np.array([-1, 9, -1, -1])), "one that is no node"),
        (stump([0.5], id=np.array([0, 0, 1, 3])), "not numbered from 0"),
        (stump([0.5], tree=np.array([0, 2, 2, 2])), "not numbered from 0"),
        (stump([0.5], tree=np.array([-1, 1, 1, 1])), "not numbered from 0"),
        (stump([0.5], tree=np.array([1, 1, 1, 0])), "not numbered from 0"),
        (stump([0.5], column=np.array([0, 1, 0, 0])), "column indices outside 0 to 0"),
        (stump([0.5, 1.0]), "not one threshold"),
        (stump([]), "not one threshold"),
        (stump([np.nan]), "threshold is NaN"),
        (stump([0.5], 3), "categories outside those of its column"),
        (stump([3.0], 3), "categories outside those of its column"),
        (stump([-1.0], 3), "categories outside"),
        (stump([2.0**25], 2**31 - 1), "set of categories"),
        (stump([np.nan], 3), "categories outside"),
        (stump([0.5], value=np.full(4, np.nan)), "not finite"),
        (SparkNodes(*(np.empty(0, np.int64) for _ in range(6)), [], np.empty(0)), "numbered"),
    ],
)
def test_damaged_nodes_are_refused(nodes, said):
    with pytest.raises(ModelFormatError, match=said):
        from_spark(1, nodes)
