"""Groups of raw rows against pairs of rows that are compared value by value."""

from __future__ import annotations

import itertools

import numpy as np

from spark_auc.features.raw_columns import Numbers
from spark_auc.features.row_groups import row_groups
from tests.features.raw_rows import numbers, take, text, times


def columns() -> tuple[dict[str, object], list[tuple[object, ...]]]:
    """All rows of a few values each, and what two equal rows have in common."""
    words, whole = ["a", "b", "", None, "köln"], [0, 1, 7, None]
    reals = [0.0, -0.0, 1.5, None, float("nan"), float("inf")]
    rows = list(itertools.product(words, whole, reals)) * 2
    word, number, real = zip(*rows, strict=True)
    made = {"w": text(word), "n": numbers(number, np.int64), "r": numbers(real)}

    def same(row: tuple[object, ...]) -> tuple[object, ...]:
        w, n, r = row
        missing = r is None or np.isnan(r)
        return (w or None, n, None if missing else r)

    return made, [same(row) for row in rows]


def test_rows_are_of_one_group_if_and_only_if_their_values_are_equal() -> None:
    made, expected = columns()
    groups = row_groups(made)
    numbered: dict[tuple[object, ...], int] = {}
    for row, group in zip(expected, groups.tolist(), strict=True):
        assert numbered.setdefault(row, group) == group
    assert len(set(numbered.values())) == len(numbered)


def test_groups_do_not_depend_on_batches_bits_or_types_of_missing_values() -> None:
    made, _ = columns()
    groups = row_groups(made)
    rows = np.arange(0, groups.size, 7)
    np.testing.assert_array_equal(
        row_groups({name: take(column, rows) for name, column in made.items()}), groups[rows]
    )
    payload = np.array([0x7FF8000000000001, 0xFFF8000000000000, 0x7FF0000000000002], np.uint64)
    values = np.append(payload.view(float), np.nan)
    assert len(set(row_groups({"x": Numbers(values)}).tolist())) == 1
    missing = [numbers([None]), text([None]), text([""]), times([None]), Numbers(values[:1])]
    assert len({int(row_groups({"x": column})[0]) for column in missing}) == 1


def test_a_value_belongs_to_its_column() -> None:
    one, two = numbers([1.0, 2.0]), numbers([2.0, 1.0])
    first, second = row_groups({"a": one, "b": two}).tolist()
    assert first != second
