"""The leaves of rows, against descents in Python."""

import subprocess
import sys

import numpy as np
import pytest

from spark_auc.errors import DataError
from spark_auc.trees.forest import Forest
from spark_auc.trees.leaves import leaves
from tests.trees.forests import descended, edge_rows, random_forest


@pytest.mark.parametrize("categories", ["truncated", "float32", "exact"])
@pytest.mark.parametrize("seed", range(4))
def test_leaves_are_those_of_a_descent(categories, seed):
    """Trees of 1 leaf to 130, of all rules, on both sides of a block's end."""
    forest = random_forest(seed, categories)
    X = edge_rows(forest, 600, seed)
    expected = descended(forest, X)
    # The rows spread over the trees. Some random leaves are out of reach of every row.
    assert np.unique(expected).size > 60
    for rows in (X, np.asfortranarray(X), X[::2], X[:1], X[:255], X[:256], X[:257], X[:0]):
        found = leaves(forest, rows)
        wanted = expected[::2] if rows.shape[0] == 300 else expected[: len(rows)]
        np.testing.assert_array_equal(found.indices.reshape(-1, forest.trees), wanted)
        assert found.shape == (len(rows), forest.leaves)
        assert (found.data == 1.0).all()
        assert (np.diff(found.indptr) == forest.trees).all()
        assert found.has_sorted_indices
        found.check_format()


def test_leaves_of_a_tree_have_consecutive_columns():
    forest = random_forest(0, sizes=(3, 1, 70))
    assert forest.leaves == 74
    found = leaves(forest, edge_rows(forest, 500)).indices.reshape(-1, 3)
    for t, (first, last) in enumerate([(0, 2), (3, 3), (4, 73)]):
        assert found[:, t].min() >= first
        assert found[:, t].max() <= last


def test_words_of_sets_are_read_from_their_first_bit():
    """Category ``c`` is bit ``c % 32`` of word ``c // 32``."""
    one, two = (np.array([x], np.int32) for x in (-1, -2))
    forest = Forest(
        1,
        "truncated",
        np.array([0, 1], np.int32),
        np.array([0], np.int32),
        np.zeros(1),
        np.array([4], np.uint8),
        one,
        two,
        np.array([0, 2], np.int32),
        np.array([1 << 3, 1 << 31], np.uint32),
        np.arange(2, dtype=np.int32),
        np.zeros(2),
    )
    X = np.arange(70.0)[:, None]
    assert np.flatnonzero(leaves(forest, X).indices == 0).tolist() == [3, 63]


def test_rows_of_other_columns_are_refused():
    with pytest.raises(DataError, match=r"found rows of shape \(3, 5\), expected 40 columns"):
        leaves(random_forest(0), np.zeros((3, 5)))


def test_tasks_import_no_library_of_trees():
    code = (
        "import sys\n"
        "for name in ('lightgbm', 'xgboost', 'sklearn', 'pyspark'):\n"
        "    sys.modules[name] = None\n"
        "import pkgutil, importlib, spark_auc.trees as room\n"
        "for m in pkgutil.walk_packages(room.__path__, room.__name__ + '.'):\n"
        "    importlib.import_module(m.name)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
