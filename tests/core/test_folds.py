"""Folds: groups stay together, classes are balanced, and a hash or a table says the same."""

from functools import reduce

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import StratifiedGroupKFold

from spark_auc.core.batch import Batch
from spark_auc.core.sampling.folds import Folds, GroupCounts
from spark_auc.errors import DataError


def counted(batch, limit=2048, parts=3):
    zero = GroupCounts.zero(limit)
    cut = np.array_split(np.arange(batch.y.size), parts)
    return reduce(GroupCounts.merge, (zero.update(batch.take(rows)) for rows in cut))


def spread(folds, y, count):
    """Standard deviation over folds of their shares of each class, added up."""
    found = [np.bincount(folds[mine], minlength=count) / mine.sum() for mine in (y, ~y)]
    return np.std(found, axis=1).sum()


def grouped(groups, y):
    return Batch(np.asarray(groups, float)[:, None], np.asarray(y, bool))


def test_neither_label_nor_weight_has_a_say():
    rng = np.random.default_rng(0)
    batch = Batch(rng.integers(0, 3, (300, 4)).astype(float), rng.random(300) < 0.5)
    changed = [
        batch._replace(y=~batch.y),
        batch._replace(weight=rng.random(300)),
        batch._replace(X=sparse.csr_matrix(batch.X)),
    ]
    for other in changed:
        np.testing.assert_array_equal(other.groups(), batch.groups())
        np.testing.assert_array_equal(Folds(5, 3).of(other), Folds(5, 3).of(batch))
    assert not np.array_equal(changed[0].keys(), batch.keys())


@pytest.mark.parametrize("limit", [10, 50, 1000])
def test_counts_of_the_smallest_groups_are_whole(limit):
    rng = np.random.default_rng(limit)
    batch = grouped(rng.integers(0, 200, 3000), rng.random(3000) < 0.02)
    found = counted(batch, limit, 7)
    for side, mine in enumerate((batch.y, ~batch.y)):
        groups, rows = np.unique(batch.groups()[mine], return_counts=True)
        assert found.complete[side] == (groups.size <= limit)
        np.testing.assert_array_equal(found.groups[side], groups[:limit])
        np.testing.assert_array_equal(found.rows[side], rows[:limit])


def test_many_groups_go_by_their_hash():
    rng = np.random.default_rng(1)
    batch = Batch(rng.normal(size=(9000, 2)), rng.random(9000) < 0.4)
    folds = Folds(5, 7)
    assert folds.assigned(counted(batch, folds.enough)) is folds
    assert Folds(300).enough > Folds(5).enough


def test_few_positive_groups_among_many_negative_ones():
    """The positive groups are dealt out; all others keep the fold of their hash."""
    rng = np.random.default_rng(2)
    batch = Batch(rng.normal(size=(9000, 2)), np.arange(9000) < 12)
    folds = Folds(5, 7)
    dealt = folds.assigned(counted(batch, folds.enough))
    found = dealt.of(batch)
    assert sorted(np.bincount(found[:12])) == [2, 2, 2, 3, 3]
    np.testing.assert_array_equal(found[12:], folds.of(batch)[12:])


@pytest.mark.parametrize("seed", range(40))
def test_balance_is_that_of_scikit_learn(seed):
    """Classes are spread no worse than by StratifiedGroupKFold, on groups of any sizes."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 7))
    kinds = int(rng.integers(3 * count, 80))
    groups = np.repeat(np.arange(kinds), 1 + rng.geometric(1 / rng.uniform(1.1, 15), kinds))
    y = rng.random(groups.size) < rng.beta(1, 3, kinds)[groups]
    batch = grouped(groups, y)
    dealt = Folds(count, seed).assigned(counted(batch))
    ours = dealt.of(batch)
    assert dealt.count == count
    assert all(np.unique(ours[groups == g]).size == 1 for g in range(kinds))
    for mine in (y, ~y):
        assert np.bincount(ours[mine], minlength=count).min() > 0
    theirs = np.empty(y.size, int)
    split = StratifiedGroupKFold(count, shuffle=True, random_state=seed).split(batch.X, y, groups)
    for k, (_, rows) in enumerate(split):
        theirs[rows] = k
    assert spread(ours, y, count) <= spread(theirs, y, count) + 0.02


def test_as_many_folds_as_the_rarer_class_has_groups():
    """Of groups of one class and of both, each fold gets rows of each class."""
    rng = np.random.default_rng(4)
    for _ in range(200):
        only, other, both = rng.integers(0, 6, 3)
        if min(only, other) + both < 2:
            continue
        sides = [True] * only + [False] * other
        groups = list(range(only + other)) + 2 * list(range(100, 100 + both))
        batch = grouped(groups, sides + [True] * both + [False] * both)
        batch = batch.take(np.append(np.arange(batch.y.size), rng.integers(0, batch.y.size, 50)))
        dealt = Folds(20, 1).assigned(counted(batch))
        assert dealt.count == min(20, min(only, other) + both)
        found = dealt.of(batch)
        for mine in (batch.y, ~batch.y):
            assert np.bincount(found[mine], minlength=dealt.count).min() > 0


def test_all_rows_of_a_class_in_one_group():
    for y, name in ((np.arange(50) < 3, "positive"), (np.arange(50) >= 3, "negative")):
        batch = grouped(np.maximum(np.arange(50), 2), y)._replace(
            group=np.maximum(np.arange(50), 2).astype(np.uint64)
        )
        with pytest.raises(DataError, match=f"all {name} rows equal .* set regParam"):
            Folds(5).assigned(counted(batch))


def test_folds_of_the_users_own():
    folds = Folds.named(("a", "b", "c"))
    group = np.array([2, 0, 1, 1, 2], np.uint64)
    batch = Batch(np.zeros((5, 1)), np.arange(5) < 2, group=group)
    np.testing.assert_array_equal(folds.of(batch), group)
    assert folds.name(1) == "'b'"
    assert not folds.by_hash
    assert Folds(4).name(1) == "2 of 4"
