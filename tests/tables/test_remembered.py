"""Columns that are kept in memory: the same rows, whatever is read in which order."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

from spark_auc.core.parallel import mapped
from spark_auc.tables import remembered as module
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.remembered import remembered

ROWS = pa.table({name: np.arange(100) * (k + 1) for k, name in enumerate("abcd")})
ORDERS = [["a"], ["b", "a", "b"], ["d", "c"], ["a", "b", "c", "d"], ["c"], ["d", "d"]]


def counting(table, reads):
    def read(part, names):
        reads.append((part, *names))
        return table.read(part, names)

    return ArrowTable(table.schema, table.parts, read)


@pytest.mark.parametrize("budget", [None, 0, 2_000, 1 << 30])
@pytest.mark.parametrize("in_memory", [0, 500, 1 << 20])
@pytest.mark.parametrize("seed", range(5))
def test_columns_are_those_of_the_table(monkeypatch, budget, in_memory, seed):
    monkeypatch.setattr(module, "available_memory", lambda: budget)
    monkeypatch.setattr(module, "IN_MEMORY", in_memory)
    plain, reads = ArrowTable.of(ROWS, 30), []
    kept = remembered(counting(plain, reads))
    order = np.random.default_rng(seed).permutation(len(ORDERS))
    for names in (ORDERS[k] for k in [*order, *order]):
        tables = mapped(
            lambda part, names=names: (
                pa.Table.from_batches(table.read(part, names)) for table in (kept, plain)
            ),
            range(plain.parts),
            4,
        )
        assert all(found.equals(expected) for found, expected in tables)
    read = list(itertools.chain.from_iterable(names for _, *names in reads))
    if budget in (None, 1 << 30):
        assert len(read) == 4 * plain.parts
    else:
        assert len(read) > 4 * plain.parts


def test_conditions_hold_for_each_way_to_read(monkeypatch):
    """What a condition keeps is found out once, also where later readings name columns twice."""
    asked = []

    def keep(arrays):
        asked.append(arrays)
        return arrays[0].to_numpy() % 3 == 0

    table = remembered(ArrowTable.of(ROWS, 30)).where(["a"], keep)
    for names in (["d"], *ORDERS):
        found = pa.concat_tables(
            [pa.Table.from_batches(table.read(part, names)) for part in range(table.parts)]
        )
        for place, name in enumerate(names):
            assert found.column(place).to_pylist() == [
                value
                for value, a in zip(ROWS[name].to_pylist(), range(100), strict=True)
                if a % 3 == 0
            ]
    assert len(asked) == table.parts


def test_columns_beyond_the_budget_are_not_kept(monkeypatch):
    monkeypatch.setattr(module, "available_memory", lambda: 1_000 * 16)
    reads = []
    kept = remembered(counting(ArrowTable.of(ROWS, 30), reads))
    for _ in range(2):
        for part in range(kept.parts):
            list(kept.read(part, ["a", "b"]))
    # The columns of two parts of 30 rows take 960 bytes.
    assert [part for part, *_ in reads] == [0, 1, 2, 3, 2, 3]
