"""LIBSVM text: what is read, and what is said of corrupt lines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spark_auc.errors import DataError
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.libsvm import libsvm
from tests import data

GOOD = [
    "+1 1:2 3:4.5",
    "# a comment",
    "",
    "-1  2:1e-3",
    "2",
    " 1 3:-1 ",
    "1\t1:+2\t 2:0\t",
    "\t# another",
]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.mark.parametrize(("dimension", "found"), [(None, 3), (3, 3), (7, 7)])
def test_rows_and_dimension(spark, tmp_path, dimension, found):
    path = write(tmp_path / "rows", GOOD)
    with translated():
        rows = libsvm(spark, path, dimension).collect()
    assert [row.label for row in rows] == [1.0, -1.0, 2.0, 1.0, 1.0]
    expected = np.zeros((5, found))
    expected[[0, 0, 1, 3, 4], [0, 2, 1, 2, 0]] = 2, 4.5, 1e-3, -1, 2
    np.testing.assert_array_equal([row.features.toArray() for row in rows], expected)
    assert libsvm(spark, str(path), dimension).schema["features"].metadata["numFeatures"] == found


def test_no_rows(spark, tmp_path):
    rows = libsvm(spark, write(tmp_path / "rows", ["# none"]))
    assert rows.count() == 0


@pytest.mark.parametrize(
    "line",
    ["1 1:x", "one 1:1", "1 1", "1 2:1 1:1", "1 2:1 2:1", "1 0:1", "1 1:1,2:1", "1 1:nan", "inf"],
)
@pytest.mark.parametrize("dimension", [None, 3])
def test_corrupt_line_names_file_and_text(spark, tmp_path, line, dimension):
    write(tmp_path / "a", GOOD)
    path = write(tmp_path / "b", [*GOOD, line])
    with pytest.raises(DataError) as raised, translated():
        libsvm(spark, tmp_path, dimension).collect()
    assert f"found '{line}' in file:{path}; expected 'label index:value ...'" in str(raised.value)


def test_index_beyond_the_dimension(spark, tmp_path):
    path = write(tmp_path / "rows", GOOD)
    expected = r"found '\+1 1:2 3:4.5' .* tabs .* ascending indices in 1..2"
    with pytest.raises(DataError, match=expected), translated():
        libsvm(spark, path, 2).collect()


def test_real_rows(spark):
    path = data.path("a9a")
    X, y = data.libsvm("a9a", 123)
    rows = libsvm(spark, path).collect()
    assert rows[0].features.size == 123
    np.testing.assert_array_equal([row.label for row in rows], y)
    np.testing.assert_array_equal([row.features.toArray() for row in rows], X.toarray())
