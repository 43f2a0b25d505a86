"""Cross-validation folds of groups of rows, balanced between the classes.

Rows with equal features, or with the same user key, form a group, and the rows of a group are in
the same fold; otherwise copies of a held-out row could be in the training folds. The fold of a
group is a function of a seed and the group's hash, which balances the folds if each class has
thousands of groups. The groups of a smaller class are counted and assigned one by one, the largest
first, each to the fold with the least weight of the group's classes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from spark_auc.core.batch import Batch, hashed_shares
from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.core.state.rules import COUNTS, INCREASING
from spark_auc.core.state.schema import COUNT, Schema, Values, array
from spark_auc.core.types import Int, Keys
from spark_auc.errors import HoldOutError

# Salts: different uses of one seed must not share random numbers.
_FOLDS, _TIES = 0xF0, 0x71
# Least number of groups of a class, in total and per fold, for which a hash balances the folds:
# few folds of 400 groups differ from their mean by 10 %, and no fold of 64 groups is empty.
_ENOUGH, _ENOUGH_OF_A_FOLD = 2048, 64
# Greatest number of rows as which a weighted row counts, so that sums stay whole numbers.
_MOST_COPIES = float(1 << 20)


@dataclass(frozen=True, eq=False)
class Folds:
    """An assignment of groups of rows to folds.

    Parameters
    ----------
    count
        Number ``k`` of folds.
    seed
        Any 64-bit integer.
    groups : (g,)
        Groups with an assigned fold, ascending. The fold of other groups is made from their hash.
    numbers : (g,)
        Folds of these groups, from 0 to ``k - 1``.
    names
        Names of the folds, if they are user-defined.
    never_held_out
        Groups that are in the training rows of every fold, and in none: those whose labels chose
        features. Their number is ``k``. Default: none.
    """

    count: int
    seed: int = 0
    groups: Keys = field(default_factory=lambda: np.empty(0, np.uint64))
    numbers: Int = field(default_factory=lambda: np.empty(0, np.int64))
    names: tuple[str, ...] = ()
    never_held_out: KeySample | None = None

    @classmethod
    def named(cls, names: tuple[str, ...]) -> Folds:
        """User-defined folds; the group of a row is the index of its fold's name."""
        numbers = np.arange(len(names))
        return cls(len(names), groups=numbers.astype(np.uint64), numbers=numbers, names=names)

    @property
    def parts(self) -> int:
        """Number of parts of the rows: the folds, and the rows of no fold if there are any."""
        return self.count + (self.never_held_out is not None)

    @property
    def by_hash(self) -> bool:
        """Whether the folds of all groups are made from their hashes."""
        return not self.groups.size

    @property
    def enough(self) -> int:
        """Least number of groups of a class for which hashes balance the folds."""
        return max(_ENOUGH, _ENOUGH_OF_A_FOLD * self.count)

    def of(self, batch: Batch) -> Int:
        """The fold ``(n,)`` of each row, from 0 to ``k - 1``; ``k`` for a row of no fold."""
        groups = batch.groups()
        folds = (hashed_shares(groups, self.seed, _FOLDS) * self.count).astype(np.int64)
        if self.groups.size:
            positions = np.minimum(np.searchsorted(self.groups, groups), self.groups.size - 1)
            assigned = self.groups[positions] == groups
            folds[assigned] = self.numbers[positions[assigned]]
        if self.never_held_out:
            folds[self.never_held_out.of(groups)] = self.count
        return folds

    def counted(self, counts: GroupCounts, batch: Batch) -> GroupCounts:
        """Group counts including the rows of a batch that are in a fold."""
        if self.never_held_out:
            batch = batch.take(np.flatnonzero(self.never_held_out.outside(batch)))
        return counts.update(batch)

    def name(self, number: int) -> str:
        """Name of a fold for messages."""
        return repr(self.names[number]) if self.names else f"{number + 1} of {self.count}"

    def assigned(self, counts: GroupCounts) -> Folds:
        """The folds for rows with these group counts.

        If both classes have enough groups for hashes, the folds are unchanged. Otherwise the groups
        of each smaller class are assigned so that every fold has rows of that class; there are then
        no more folds than groups.

        Parameters
        ----------
        counts
            Groups and their numbers of rows.

        Raises
        ------
        HoldOutError
            All rows of a class are in one group.
        """
        small = [side for side in (0, 1) if counts.complete[side]]
        if not small:
            return self
        for side in small:
            if counts.groups[side].size < 2:
                kind = ("positive", "negative")[side]
                found = f"all {kind} rows equal in features or of one key"
                if counts.rows[side].sum() == 1:
                    found = f"one {kind} row"
                raise HoldOutError(
                    f"found {found}, expected 2 or more that differ, as one is held out for "
                    "choosing the penalty; set regParam"
                )
        count = min(self.count, *(counts.groups[side].size for side in small))
        groups = np.unique(np.concatenate([counts.groups[side] for side in small]))
        rows = np.zeros((groups.size, 2))
        for side in small:
            rows[np.searchsorted(groups, counts.groups[side]), side] = counts.rows[side]
        shares = rows / np.maximum(rows.sum(axis=0), 1.0)
        ties = hashed_shares(groups, self.seed, _TIES)
        order = np.lexsort((ties, -shares.sum(axis=1), -shares.max(axis=1)))
        numbers = np.empty(groups.size, np.int64)
        numbers[order] = _assigned(shares[order].tolist(), count)
        return replace(self, count=count, groups=groups, numbers=numbers)


@dataclass(frozen=True, eq=False)
class GroupCounts:
    """Numbers of rows of the groups with the smallest hashes in each class.

    Parameters
    ----------
    groups
        Groups ``(g,)`` of the positive and of the negative rows, ascending, at most ``limit``.
    rows
        Number ``(g,)`` of rows of each of these groups in the class. A row of weight ``u`` counts
        as ``max(1, floor(u))`` rows.
    limit
        Greatest number of groups kept for each class.
    complete
        Whether ``groups`` holds all groups of the class.
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
        """The counts including the rows of a batch."""
        groups, copies = batch.groups(), np.clip(batch.weights, 1.0, _MOST_COPIES).astype(np.int64)
        sides = []
        for side, rows in enumerate((batch.y, ~batch.y)):
            chosen = rows if self.complete[side] else rows & (groups <= self.groups[side][-1])
            added, numbers = np.unique(groups[chosen], return_inverse=True)
            counts = np.bincount(numbers, copies[chosen], added.size).astype(np.int64)
            sides.append((added, counts))
        (positive, positive_rows), (negative, negative_rows) = sides
        groups_of_classes, rows_of_groups = (positive, negative), (positive_rows, negative_rows)
        return self.merge(GroupCounts(groups_of_classes, rows_of_groups, self.limit))

    def merge(self, other: GroupCounts) -> GroupCounts:
        """The counts of both sets of rows."""
        sides = []
        for side in (0, 1):
            both = np.concatenate([self.groups[side], other.groups[side]])
            groups, numbers = np.unique(both, return_inverse=True)
            rows = np.bincount(numbers, np.concatenate([self.rows[side], other.rows[side]]))
            rows = rows.astype(np.int64)
            complete = self.complete[side] and other.complete[side] and groups.size <= self.limit
            sides.append((groups[: self.limit], rows[: self.limit], complete))
        groups_of_classes, rows_of_groups, complete_classes = zip(*sides, strict=True)
        return GroupCounts(groups_of_classes, rows_of_groups, self.limit, complete_classes)

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
        """The counts that `to_bytes` stored; raises `ModelFormatError` for other bytes."""
        values = _SCHEMA.decode(data)
        return cls(
            (values["positive"], values["negative"]),
            (values["positive_rows"], values["negative_rows"]),
            values["limit"],
            tuple(values["complete"].tolist()),
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


def _assigned(shares: list[list[float]], count: int) -> list[int]:
    """The fold of each group; ``shares`` of the two classes in it, largest first.

    First each fold gets a group of each class, from groups with rows of both classes as far as
    possible. This fills all ``k`` folds whenever some assignment can: with m < k groups of both
    classes, each class has at least k - m other groups for the remaining folds. Then each group is
    assigned to the fold for which the sum of squared shares grows least.
    """
    numbers, load = [-1] * len(shares), [[0.0, 0.0] for _ in range(count)]

    def put(g: int, fold: int) -> None:
        numbers[g] = fold
        for side in range(2):
            load[fold][side] += shares[g][side]

    some = [any(own[side] > 0.0 for own in shares) for side in range(2)]
    complete = [g for g, own in enumerate(shares) if [share > 0.0 for share in own] == some]
    for fold, g in enumerate(complete[:count]):
        put(g, fold)
    filled = [min(len(complete), count)] * 2
    for g, own in enumerate(shares):
        if numbers[g] < 0 and sum(share > 0.0 for share in own) == 1:
            side = int(own[1] > 0.0)
            if filled[side] < count:
                put(g, filled[side])
                filled[side] += 1
    for g, (a, b) in enumerate(shares):
        if numbers[g] < 0:
            growth = [(x * a + y * b, x + y) for x, y in load]
            put(g, growth.index(min(growth)))
    return numbers
