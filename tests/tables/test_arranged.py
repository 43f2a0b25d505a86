"""Rows in parts of equal values of a column: the same, in memory and on disk."""

import gc
import tempfile
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spark_auc.core.memory import ProcessMemory
from spark_auc.tables.arrow_table import ArrowTable

ROWS = 1000


def rows():
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, 5, ROWS) * 2
    return pa.table(
        {"part": pa.array(drawn, pa.int32()), "x": rng.integers(0, 9, ROWS), "k": np.arange(ROWS)}
    )


@pytest.mark.parametrize("limit", [0, 6_000, np.inf])
@pytest.mark.parametrize("order", [["part"], ["part", "x"]])
def test_rows_are_divided_and_sorted(monkeypatch, tmp_path, limit, order):
    """Rows of equal values keep their order."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    table = replace(ArrowTable.of(rows(), 90), memory=ProcessMemory(2, limit))
    arranged = table.arranged("part", order, 3).select(["k", "part"])
    expected = rows().take(pc.sort_indices(rows(), [(name, "ascending") for name in order]))
    assert arranged.parts == 5
    assert arranged.gathered().equals(expected.select(["k", "part"]))
    for part in range(5):
        (batch,) = arranged.read(part, ["part"])
        assert set(batch.column(0).to_pylist()) == {2 * part}
    files = list(tmp_path.rglob("*.arrow"))
    assert len(files) == {0: 12, 6_000: 9}.get(limit, 0)
    del arranged
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_no_rows_have_no_parts():
    assert ArrowTable.of(rows()[:0]).arranged("part", ["part"], 3).parts == 0
