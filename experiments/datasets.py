"""The papers' data sets, as rows in memory and as DataFrames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from spark_auc.core.batch import Batch
from spark_auc.core.types import Int
from spark_auc.errors import DataError
from spark_auc.publication.directory import Directory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class DataSet:
    """A LIBSVM text file with two labels, of which the larger is positive.

    The file ``NAME.t`` in the same directory has the test rows. Without it, training and test rows
    are the halves of scikit-learn's stratified ``train_test_split`` with ``random_state=0``.

    Parameters
    ----------
    dimension
        Number of features ``d``.
    standardization
        Whether columns are scaled to unit variance; otherwise rows are scaled to unit length.
    note
        How the rows differ from the paper's.
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
# Ten columns and a class, g or h; the rarer class h is positive; a fifth are test rows.
MAGIC = "magic04.csv"


def present(directory: Directory) -> dict[str, DataSet]:
    """The data sets whose files are in the directory."""
    names = set(directory.names())
    return {name: data_set for name, data_set in SETS.items() if name in names}


def load(directory: Directory, name: str, seed: int = 0) -> tuple[Batch, Batch]:
    """Training and test rows; the keys are row numbers in the file.

    Parameters
    ----------
    directory
        Directory of the file.
    name
        One of `SETS`, or `MAGIC`.
    seed
        Seed of the split, for a set without test rows of its own.

    Raises
    ------
    DataError
        A file is not LIBSVM text with two labels, or `MAGIC` is not in its distributed form.
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
    """A DataFrame of sparse rows, with the columns label, indices and values."""
    X = cast(sparse.csr_matrix, rows.X)
    offsets = X.indptr.astype(np.int32)
    indices, values = (
        pa.ListArray.from_arrays(offsets, each)
        for each in (X.indices.astype(np.int32), X.data.astype(float))
    )
    columns = {"label": rows.y.astype(float), "indices": indices, "values": values}
    return spark.createDataFrame(pa.table(columns))


def _read(directory: Directory, name: str) -> Batch:
    data_set = SETS[name.removesuffix(".t")]
    lines = directory.read(name).decode().splitlines()
    entries = np.array([line.count(":") for line in lines])
    try:
        numbers = np.array(" ".join(lines).replace(":", " ").split(), float)
        starts = np.cumsum(2 * entries + 1) - 2 * entries - 1
        labels, pairs = numbers[starts], np.delete(numbers, starts).reshape(-1, 2)
        shape = len(lines), data_set.dimension
        indptr = np.append(0, np.cumsum(entries))
        X = sparse.csr_matrix((pairs[:, 1], pairs[:, 0].astype(np.int32) - 1, indptr), shape)
        X.check_format(full_check=True)
    except (ValueError, IndexError) as error:
        raise DataError(
            f"found {name!r} ({error}), expected lines 'label index:value ...' of at most "
            f"{data_set.dimension} features; put the distributed file into the directory of --data"
        ) from None
    values = np.unique(labels)
    if values.size != 2:
        raise DataError(
            f"found the labels {values.tolist()} in {name!r}, expected two; put the "
            "distributed file into the directory of --data"
        )
    if not data_set.standardization:
        norms = np.sqrt(np.asarray(X.power(2).sum(axis=1))).ravel()
        X.data /= np.repeat(norms, entries)
    return Batch(X, labels == values[1], None, np.arange(len(lines), dtype=np.uint64))


def _magic(directory: Directory) -> Batch:
    lines = directory.read(MAGIC).decode().split()
    try:
        cells = np.array([line.split(",") for line in lines])
        X, label = cells[:, :-1].astype(float), cells[:, -1]
        faults = sorted(set(label) - {"g", "h"})
    except (ValueError, IndexError) as error:
        faults = [str(error)]
    if faults:
        raise DataError(
            f"found {MAGIC!r} ({', '.join(faults)}), expected lines of numbers and a class, g or "
            "h; put the file of UCI into the directory of --data"
        )
    return Batch(X, label == "h", None, np.arange(len(lines), dtype=np.uint64))


def halves(y: NDArray[np.bool_], seed: int = 0) -> tuple[Int, Int]:
    """Row numbers of the training and of the test half of scikit-learn's stratified split.

    The split must be the same for comparable AUCs: german's varies by more than a point.
    """
    rng = np.random.RandomState(seed)
    counts = np.bincount(y)
    firsts = _allocated(counts, y.size // 2, rng)
    # scikit-learn allocates the test half too; this may draw from rng if rounding lost a row.
    _allocated(counts - firsts, y.size - y.size // 2, rng)
    parts = []
    for label, first in enumerate(firsts):
        of_class = np.flatnonzero(y == bool(label))[rng.permutation(counts[label])]
        parts.append((of_class[:first], of_class[first:]))
    train, test = (np.sort(np.concatenate(part)) for part in zip(*parts, strict=True))
    return train, test


def _allocated(counts: Int, total: int, rng: np.random.RandomState) -> Int:
    """Allocate ``total`` rows to classes in proportion to ``counts``, with random tie-breaking."""
    continuous = counts / counts.sum() * total
    counts_drawn: Int = np.floor(continuous).astype(np.int64)
    remainder = continuous - counts_drawn
    for value in np.unique(remainder)[::-1]:
        missing = int(total - counts_drawn.sum())
        if missing:
            tied = np.flatnonzero(remainder == value)
            counts_drawn[rng.choice(tied, min(tied.size, missing), replace=False)] += 1
    return counts_drawn
