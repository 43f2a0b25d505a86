"""Folds of rows: groups of rows that stay together, dealt out so that classes are balanced.

Rows that are equal in features, or of one key, form a group: were they parted, a row would be
ranked by what is known of its own copies. The fold of a group is a function of a seed and its
hash, which serves where each class has thousands of groups. A class of few groups has them counted
and dealt out, the largest first, each to the fold that has least of its classes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from spark_auc.core.batch import Batch, hashed_shares
from spark_auc.core.kernels import compiled
from spark_auc.core.state.rules import COUNTS, INCREASING
from spark_auc.core.state.schema import COUNT, Schema, Values, array
from spark_auc.core.types import Float, Int, Keys
from spark_auc.errors import HoldOutError

# Different uses of one seed must not share their numbers.
_FOLDS, _TIES = 0xF0, 0x71
# Groups of a class, in all and for each fold, from which on a hash balances them: of folds of 400
# groups few are 10 % larger or smaller, and of folds of 64 none is empty.
_ENOUGH, _ENOUGH_OF_A_FOLD = 2048, 64
# As how many rows one row counts at most: sums of so many stay whole numbers.
_MOST_TIMES = float(1 << 20)


@dataclass(frozen=True, eq=False)
class Folds:
    """Which fold each row is of.

    Parameters
    ----------
    count
        Number ``k`` of folds.
    seed
        Any integer of 64 bits.
    groups : (g,)
        Groups whose folds are known, ascending; the others go by their hash.
    numbers : (g,)
        Their folds, from 0 to ``k - 1``.
    names
        The folds' names, where the user made them.
    """

    count: int
    seed: int = 0
    groups: Keys = field(default_factory=lambda: np.empty(0, np.uint64))
    numbers: Int = field(default_factory=lambda: np.empty(0, np.int64))
    names: tuple[str, ...] = ()

    @classmethod
    def given(cls, names: tuple[str, ...]) -> Folds:
        """Folds that the user made: a row's group is the number of its fold's name."""
        every = np.arange(len(names))
        return cls(len(names), groups=every.astype(np.uint64), numbers=every, names=names)

    @property
    def by_hash(self) -> bool:
        """Whether no group's fold is known but by its hash."""
        return not self.groups.size

    @property
    def enough(self) -> int:
        """Groups of a class from which on a hash serves."""
        return max(_ENOUGH, _ENOUGH_OF_A_FOLD * self.count)

    def of(self, batch: Batch) -> Int:
        """The fold ``(n,)`` of each row, from 0 to ``k - 1``."""
        groups = batch.groups()
        folds = (hashed_shares(groups, self.seed, _FOLDS) * self.count).astype(np.int64)
        if self.groups.size:
            places = np.minimum(np.searchsorted(self.groups, groups), self.groups.size - 1)
            known = self.groups[places] == groups
            folds[known] = self.numbers[places[known]]
        return folds

    def name(self, number: int) -> str:
        """What a fold is called in messages."""
        return repr(self.names[number]) if self.names else f"{number + 1} of {self.count}"

    def dealt(self, found: GroupCounts) -> Folds:
        """The folds once the groups of the rows are counted.

        These folds themselves where both classes have enough groups for a hash. Else the groups of
        a class that has few are dealt out, into fewer folds where there are fewer groups than
        folds; each fold then has rows of that class.

        Raises
        ------
        HoldOutError
            The rows of a class are of one group.
        """
        few = [side for side in (0, 1) if found.complete[side]]
        if not few:
            return self
        for side in few:
            if found.groups[side].size < 2:
                raise HoldOutError(
                    f"found all {('positive', 'negative')[side]} rows equal in features or of one "
                    "key, expected 2 groups of such rows or more, as one is held out for choosing "
                    "the penalty; set regParam"
                )
        count = min(self.count, *(found.groups[side].size for side in few))
        groups = np.unique(np.concatenate([found.groups[side] for side in few]))
        rows = np.zeros((groups.size, 2))
        for side in few:
            rows[np.searchsorted(groups, found.groups[side]), side] = found.rows[side]
        shares = rows / np.maximum(rows.sum(axis=0), 1.0)
        ties = hashed_shares(groups, self.seed, _TIES)
        order = np.lexsort((ties, -shares.sum(axis=1), -shares.max(axis=1)))
        numbers = np.empty(groups.size, np.int64)
        numbers[order] = _dealt(shares[order], count)
        return replace(self, count=count, groups=groups, numbers=numbers)


@dataclass(frozen=True, eq=False)
class GroupCounts:
    """Rows of each group, for the groups of each class whose hashes are smallest.

    Parameters
    ----------
    groups
        Groups ``(g,)`` of the positive and of the negative rows, ascending, at most ``limit``.
    rows
        Number ``(g,)`` of their rows of the class; a row counts as often as the whole part of its
        weight says, at least once: a row of weight 2 is a row twice.
    limit
        Groups of a class that are kept.
    complete
        Whether these are all groups of the class.
    """

    groups: tuple[Keys, Keys]
    rows: tuple[Int, Int]
    limit: int
    complete: tuple[bool, bool] = (True, True)

    @classmethod
    def zero(cls, limit: int) -> GroupCounts:
        """The counts of no rows."""
        groups, rows = np.empty(0, np.uint64), np.empty(0, np.int64)
        return cls((groups, groups), (rows, rows), limit)

    def update(self, batch: Batch) -> GroupCounts:
        """The counts when these rows are added."""
        groups, times = batch.groups(), np.clip(batch.weights, 1.0, _MOST_TIMES).astype(np.int64)
        found = []
        for side, rows in enumerate((batch.y, ~batch.y)):
            mine = rows if self.complete[side] else rows & (groups <= self.groups[side][-1])
            wanted, places = np.unique(groups[mine], return_inverse=True)
            found.append((wanted, np.bincount(places, times[mine], wanted.size).astype(np.int64)))
        (a, in_a), (b, in_b) = found
        return self.merge(GroupCounts((a, b), (in_a, in_b), self.limit))

    def merge(self, other: GroupCounts) -> GroupCounts:
        """The counts of both sets of rows."""
        sides = []
        for side in (0, 1):
            both = np.concatenate([self.groups[side], other.groups[side]])
            groups, places = np.unique(both, return_inverse=True)
            rows = np.bincount(places, np.concatenate([self.rows[side], other.rows[side]]))
            rows = rows.astype(np.int64)
            complete = self.complete[side] and other.complete[side] and groups.size <= self.limit
            sides.append((groups[: self.limit], rows[: self.limit], complete))
        (a, in_a, all_of_a), (b, in_b, all_of_b) = sides
        return GroupCounts((a, b), (in_a, in_b), self.limit, (all_of_a, all_of_b))

    def to_bytes(self) -> bytes:
        """Versioned bytes."""
        (positive, negative), (positive_rows, negative_rows) = self.groups, self.rows
        return _SCHEMA.encode(
            {
                "positive": positive,
                "negative": negative,
                "positive_rows": positive_rows,
                "negative_rows": negative_rows,
                "limit": self.limit,
                "complete": self.complete,
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> GroupCounts:
        """The counts that `to_bytes` stored; `ModelFormatError` if they are none."""
        a = _SCHEMA.decode(data)
        return cls(
            (a["positive"], a["negative"]),
            (a["positive_rows"], a["negative_rows"]),
            a["limit"],
            tuple(a["complete"].tolist()),
        )


def _limited(values: Values) -> str | None:
    limit, sides = values["limit"], (values["positive"], values["negative"])
    for groups, complete in zip(sides, values["complete"], strict=True):
        if groups.size > limit or not (complete or groups.size == limit > 0):
            return f"it has {groups.size} groups of a class for a limit of {limit}"
    return None


_SCHEMA = Schema(
    "GroupCounts",
    1,
    {
        "positive": array("<u8", "p", rule=INCREASING),
        "negative": array("<u8", "q", rule=INCREASING),
        "positive_rows": array("<i8", "p", rule=COUNTS),
        "negative_rows": array("<i8", "q", rule=COUNTS),
        "limit": COUNT,
        "complete": array("|b1", 2),
    },
    _limited,
)


@compiled()
def _dealt(shares: Float, count: int) -> Int:
    """The fold ``(g,)`` of groups that hold ``shares`` ``(g, 2)`` of the classes, largest first.

    First each fold gets rows of each class, from groups of both classes as far as there are such.
    Of any groups that can fill as many folds this fills them: with m groups of both classes, k - m
    folds or none are left, and each class has as many other groups. Then each group goes where the
    sum of the folds' squared shares grows least.
    """
    numbers = np.full(shares.shape[0], -1)
    load = np.zeros((count, 2))
    present = (shares[:, 0] > 0.0, shares[:, 1] > 0.0)
    wanted = (present[0].any(), present[1].any())
    lacking = 0
    for g in range(shares.shape[0]):
        if lacking < count and present[0][g] == wanted[0] and present[1][g] == wanted[1]:
            numbers[g] = lacking
            load[lacking] += shares[g]
            lacking += 1
    filled = [lacking, lacking]
    for g in range(shares.shape[0]):
        if numbers[g] >= 0:
            continue
        for side in range(2):
            if present[side][g] and not present[1 - side][g] and filled[side] < count:
                numbers[g] = filled[side]
                load[filled[side]] += shares[g]
                filled[side] += 1
                break
    for g in range(shares.shape[0]):
        if numbers[g] >= 0:
            continue
        best, least, tie = 0, np.inf, np.inf
        for fold in range(count):
            growth = load[fold, 0] * shares[g, 0] + load[fold, 1] * shares[g, 1]
            total = load[fold, 0] + load[fold, 1]
            if growth < least or (growth == least and total < tie):
                best, least, tie = fold, growth, total
        numbers[g] = best
        load[best] += shares[g]
    return numbers
