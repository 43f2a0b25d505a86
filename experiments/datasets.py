"""Data sets of the papers' tables, as rows in memory and as DataFrames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from spark_auc.app.directory import Directory
from spark_auc.core.batch import Batch
from spark_auc.core.types import Int
from spark_auc.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class DataSet:
    """A file of LIBSVM text of two labels, the larger being positive.

    ``NAME.t`` beside it has the test rows; else the halves that scikit-learn's stratified
    ``train_test_split`` makes with ``random_state=0`` are training and test rows.

    Parameters
    ----------
    dimension
        Number of features ``d``.
    standardization
        Whether columns are brought to unit variance in training; else rows have unit length.
    note
        In what the rows differ from the paper's.
    """

    dimension: int
    standardization: bool = True
    note: str = ""


HALVES = "another half"
SETS = {
    "a1a": DataSet(123),
    "a9a": DataSet(123),
    "diabetes_scale": DataSet(8),
    "fourclass_scale": DataSet(2),
    "german.numer_scale": DataSet(24, note=HALVES),
    "ijcnn1": DataSet(22, note="half of the training file; the paper has the official test rows"),
    "madelon": DataSet(500),
    "mushrooms": DataSet(112, note=HALVES),
    "splice_scale": DataSet(60),
    "svmguide3": DataSet(22, note=HALVES),
    "usps.binary": DataSet(256, note="digits 5-9 against 0-4; the paper's grouping is another"),
    "w1a": DataSet(300),
    "reuters_earn": DataSet(35404, standardization=False),
    "20news.binary": DataSet(167699, standardization=False),
}
# Ten columns and a class, g or h; the rarer, h, is positive. A fifth of the rows are test rows.
MAGIC = "magic04.csv"


def present(directory: Directory) -> dict[str, DataSet]:
    """The data sets whose files are there."""
    there = set(directory.names())
    return {name: each for name, each in SETS.items() if name in there}


def load(directory: Directory, name: str, seed: int = 0) -> tuple[Batch, Batch]:
    """Training and test rows; their keys are their places in the file.

    Parameters
    ----------
    directory
        Where the file is.
    name
        One of `SETS`, or `MAGIC`.
    seed
        Of the parts, where the set has no test rows of its own.

    Raises
    ------
    DataError
        A file is no LIBSVM text of two labels, or `MAGIC` not as it was distributed.
    """
    if name == MAGIC:
        rows = _magic(directory)
        order = np.random.default_rng(seed).permutation(rows.y.size)
        test, train = np.split(order, [rows.y.size // 5])
        return rows.take(np.sort(train)), rows.take(np.sort(test))
    rows = _read(directory, name)
    if f"{name}.t" in directory.names():
        return rows, _read(directory, f"{name}.t")
    train, test = halves(rows.y, seed)
    return rows.take(train), rows.take(test)


def frame(spark: SparkSession, rows: Batch) -> DataFrame:
    """Columns label, indices and values of sparse rows."""
    X = cast(sparse.csr_matrix, rows.X)
    offsets = X.indptr.astype(np.int32)
    indices, values = (
        pa.ListArray.from_arrays(offsets, each)
        for each in (X.indices.astype(np.int32), X.data.astype(float))
    )
    columns = {"label": rows.y.astype(float), "indices": indices, "values": values}
    return spark.createDataFrame(pa.table(columns))


def _read(directory: Directory, name: str) -> Batch:
    given = SETS[name.removesuffix(".t")]
    lines = directory.read(name).decode().splitlines()
    entries = np.array([line.count(":") for line in lines])
    try:
        numbers = np.array(" ".join(lines).replace(":", " ").split(), float)
        starts = np.cumsum(2 * entries + 1) - 2 * entries - 1
        labels, pairs = numbers[starts], np.delete(numbers, starts).reshape(-1, 2)
        shape = len(lines), given.dimension
        indptr = np.append(0, np.cumsum(entries))
        X = sparse.csr_matrix((pairs[:, 1], pairs[:, 0].astype(np.int32) - 1, indptr), shape)
        X.check_format(full_check=True)
    except (ValueError, IndexError) as error:
        raise DataError(
            f"found {name!r} ({error}), expected lines 'label index:value ...' of at most "
            f"{given.dimension} features; put the file as it was distributed into reproduce.data"
        ) from None
    values = np.unique(labels)
    if values.size != 2:
        raise DataError(
            f"found the labels {values.tolist()} in {name!r}, expected two; put the file as it was "
            "distributed into reproduce.data"
        )
    if not given.standardization:
        norms = np.sqrt(np.asarray(X.power(2).sum(axis=1))).ravel()
        X.data /= np.repeat(norms, entries)
    return Batch(X, labels == values[1], None, np.arange(len(lines), dtype=np.uint64))


def _magic(directory: Directory) -> Batch:
    lines = directory.read(MAGIC).decode().split()
    try:
        cells = np.array([line.split(",") for line in lines])
        X, label = cells[:, :-1].astype(float), cells[:, -1]
        wrong = sorted(set(label) - {"g", "h"})
    except (ValueError, IndexError) as error:
        wrong = [str(error)]
    if wrong:
        raise DataError(
            f"found {MAGIC!r} ({', '.join(wrong)}), expected lines of numbers and a class, g or "
            "h; put the file as it was distributed into reproduce.data"
        )
    return Batch(X, label == "h", None, np.arange(len(lines), dtype=np.uint64))


def halves(y: NDArray[np.bool_], seed: int = 0) -> tuple[Int, Int]:
    """Rows of the training and of the test half, as scikit-learn's stratified split has them.

    A reference AUC is that of one split: over others german's moves by more than a point.
    """
    rng = np.random.RandomState(seed)
    counts = np.bincount(y)
    firsts = _shared(counts, y.size // 2, rng)
    # What is left is shared too, which may draw from rng where rounding has lost a row.
    _shared(counts - firsts, y.size - y.size // 2, rng)
    parts = []
    for label, first in enumerate(firsts):
        mine = np.flatnonzero(y == bool(label))[rng.permutation(counts[label])]
        parts.append((mine[:first], mine[first:]))
    train, test = (np.sort(np.concatenate(part)) for part in zip(*parts, strict=True))
    return train, test


def _shared(counts: Int, total: int, rng: np.random.RandomState) -> Int:
    """So many rows of classes of these counts, in proportion, ties broken at random."""
    continuous = counts / counts.sum() * total
    found: Int = np.floor(continuous).astype(np.int64)
    remainder = continuous - found
    for value in np.unique(remainder)[::-1]:
        missing = int(total - found.sum())
        if missing:
            tied = np.flatnonzero(remainder == value)
            found[rng.choice(tied, min(tied.size, missing), replace=False)] += 1
    return found
