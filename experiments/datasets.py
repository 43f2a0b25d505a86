"""The papers' data sets, and their splits into training and test rows."""

from __future__ import annotations

import csv
import io
import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import load_svmlight_file  # type: ignore[import-untyped]
from sklearn.model_selection import train_test_split  # type: ignore[import-untyped]

from experiments.experiment import AbsentError, Request
from spark_auc.core.batch import Batch, stacked
from spark_auc.core.types import Bool, Float, Int
from spark_auc.errors import DataError

Positive = Callable[[Float], Bool]


def classes(*positive: float) -> Positive:
    """The given classes are positive."""
    return lambda labels: np.isin(labels, positive)


def groups(labels: Float) -> Bool:
    """Half of the classes, drawn at random once, are positive."""
    found = np.unique(labels)
    return np.isin(labels, np.random.default_rng(0).permutation(found)[: found.size // 2])


def largest(labels: Float) -> Bool:
    """The class of the most rows is positive."""
    found, counts = np.unique(labels, return_counts=True)
    return np.asarray(labels == found[counts.argmax()])


def _larger(labels: Float) -> Bool:
    found = np.unique(labels)
    if found.size != 2:
        raise ValueError(f"labels {found.tolist()}, expected two")
    return np.asarray(labels == found[1])


@dataclass(frozen=True)
class DataSet:
    """A set of the papers: files of training and, if there are any, of test rows.

    Parameters
    ----------
    dimension
        Number of features ``d``; 0 if the file says it.
    train, test
        Names of the files; by default those of the set, and none.
    positive
        Which labels are positive; by default the larger of two.
    standardization
        Whether columns are scaled to unit variance; otherwise rows are scaled to unit length.
    read
        Reads features and labels from a file's content; by default it is LIBSVM text.
    note
        How the rows differ from the paper's.
    """

    dimension: int
    train: str = ""
    test: str = ""
    positive: Positive = _larger
    standardization: bool = True
    read: Callable[[bytes, int], tuple[Any, Float]] | None = None
    note: str = ""


def _libsvm(content: bytes, dimension: int) -> tuple[Any, Float]:
    X, labels = load_svmlight_file(
        io.BytesIO(content), n_features=dimension, zero_based=False, dtype=np.float64
    )
    return X, labels


def _images(content: bytes, dimension: int) -> tuple[Any, Float]:
    stored = np.load(io.BytesIO(content))
    images = stored["images"].reshape(-1, dimension) / 255.0
    return sparse.csr_matrix(images), stored["labels"].astype(float)


def _magic(content: bytes, dimension: int) -> tuple[Any, Float]:
    cells = np.array([line.split(",") for line in content.decode().split()])
    if faults := set(cells[:, -1]) - {"g", "h"}:
        raise ValueError(f"classes {sorted(faults)}, expected g and h")
    return cells[:, :-1].astype(float), (cells[:, -1] == "h").astype(float)


def _clicks(label: int, left_out: Sequence[int], numbers: range, delimiter: str) -> Any:
    """A reader of click logs: one column of ones for each hash of a column and its text."""

    def read(content: bytes, dimension: int) -> tuple[Any, Float]:
        lines = list(csv.reader(io.StringIO(content.decode()), delimiter=delimiter))
        lines = lines[not lines[0][label].isdigit() :]
        places = np.empty((len(lines), len(lines[0]) - 1 - len(left_out)), np.int32)
        columns = [k for k in range(len(lines[0])) if k not in (label, *left_out)]
        for k, column in enumerate(columns):
            tokens, of_row = np.unique([line[column] for line in lines], return_inverse=True)
            if column in numbers:
                tokens = np.array([_binned(token) for token in tokens])
            hashes = [zlib.crc32(f"{column}={token}".encode()) % dimension for token in tokens]
            places[:, k] = np.array(hashes)[of_row]
        return one_hot(places, dimension), np.array([float(line[label]) for line in lines])

    return read


def _binned(token: str) -> str:
    """The text of a number; those above 2 by the square of their logarithm, rounded down."""
    return f"log{int(np.log(float(token)) ** 2)}" if token and float(token) > 2 else token


def one_hot(places: NDArray[np.int32], dimension: int) -> sparse.csr_matrix:
    """Rows of ones in the given columns ``(n, k)``."""
    n, k = places.shape
    X = sparse.csr_matrix(
        (np.ones(n * k), places.ravel(), np.arange(0, n * k + 1, k)), (n, dimension)
    )
    X.sum_duplicates()
    return X


HALVES = "another half"
_SAMPLE = "a part only of the set: "
_GROUPS = "the paper does not print its random groups of classes"
_DIGITS = "digits 5-9 against 0-4"


def _wide(dimension: int, **options: Any) -> DataSet:
    return DataSet(dimension, standardization=False, **options)


def _part(name: str, dimension: int, **options: Any) -> DataSet:
    """A set of the folder of the papers' other sets."""
    return DataSet(dimension, train=f"papers/{name}.xz", **options)


def _covtype(positive: Positive, note: str = "") -> DataSet:
    note = f"{_SAMPLE}92,962 of 581,012 rows{note}"
    return _part("covtype.sample", 54, positive=positive, note=note)


def _mnist(positive: Positive, note: str) -> DataSet:
    files = "papers/mnist.train.npz", "papers/mnist.test.npz"
    return DataSet(784, *files, positive, read=_images, note=note)


def _sector(positive: Positive, note: str) -> DataSet:
    # Both files are a part of the set.
    return _wide(
        55197,
        train="papers/sector.pds.heldout.xz",
        test="papers/sector.pds.test.xz",
        positive=positive,
        note=f"{_SAMPLE}1,826 of 9,619 rows; {note}",
    )


SETS = {
    "a1a": DataSet(123, test="a1a.t"),
    "a9a": DataSet(123, test="a9a.t"),
    "diabetes_scale": DataSet(8),
    "fourclass_scale": DataSet(2),
    "german.numer_scale": DataSet(24, note=HALVES),
    "ijcnn1": DataSet(22, note="the training file alone, columns 1 to 10 rebuilt"),
    "madelon": DataSet(500, test="madelon.t"),
    "mushrooms": DataSet(112, note=HALVES),
    "splice_scale": DataSet(60, test="splice_scale.t", note="test rows rebuilt from UCI"),
    # The paper's 642 + 642 rows are those of both published files.
    "svmguide3": DataSet(
        22,
        note=f"{HALVES}, without the 41 published test rows, which are all positive: ranked first, "
        "they would raise an AUC of 78.4 to 81.0",
    ),
    "usps.binary": DataSet(256, test="usps.binary.t", note=_DIGITS),
    "usps, 5 to 9": DataSet(256, "usps.binary", "usps.binary.t"),
    "w1a": DataSet(300, test="w1a.t"),
    "reuters_earn": _wide(35404, test="reuters_earn.t"),
    "20news.binary": _wide(167699, test="20news.binary.t"),
    # Ten columns and a class; the rarer class, h, is positive.
    "magic04.csv": DataSet(10, read=_magic),
    "w7a": _part("w7a", 300, test="papers/w7a.t.xz"),
    "w8a": _part("w8a", 300, test="papers/w8a.t.xz"),
    "phishing": _part("phishing", 68, note=HALVES),
    "cod-rna": _part("cod-rna", 8, note="the training file alone"),
    "spambase": _part("spambase", 57),
    "skin_nonskin": _part("skin_nonskin", 3, positive=classes(1)),
    "connect-4": _part("connect-4", 126, positive=groups, note=_GROUPS),
    "connect-4, loss": _part("connect-4", 126, positive=classes(-1)),
    "covtype": _covtype(classes(2)),
    "covtype, groups": _covtype(groups, f"; {_GROUPS}"),
    "covtype, 4 to 7": _covtype(classes(4, 5, 6, 7)),
    "letter": _part(
        "letter.scale", 16, test="papers/letter.scale.t.xz", positive=groups, note=_GROUPS
    ),
    "mnist": _mnist(classes(1, 3, 5, 7, 9), "odd against even"),
    "mnist, groups": _mnist(groups, _GROUPS),
    "news20": _wide(62061, train="papers/news20.xz", positive=groups, note=_GROUPS),
    "sector": _sector(groups, _GROUPS),
    "sector.lvr": _sector(largest, "the largest class of these is positive"),
    "criteo": _wide(
        4096,
        train="criteo_80k.tsv",
        read=_clicks(0, (), range(1, 14), "\t"),
        note=f"{_SAMPLE}80,000 rows, hashed to 4,096 columns",
    ),
    "avazu": _wide(
        4096,
        train="avazu_9k.csv",
        read=_clicks(1, (0,), range(0), ","),
        note=f"{_SAMPLE}9,000 rows, hashed to 4,096 columns",
    ),
}
FOLDS = 5


@lru_cache(maxsize=2)
def parts(directory: Path | None, name: str) -> tuple[Batch, Batch | None]:
    """The rows of the training and of the test file; the keys are row numbers in the file.

    Raises
    ------
    AbsentError
        The set is unknown or its files are not in the directory.
    DataError
        A file is not as it was distributed.
    """
    data_set = SETS.get(name)
    files = [data_set.train or name, *([data_set.test] * bool(data_set.test))] if data_set else []
    if directory is None or not files or not all((directory / file).exists() for file in files):
        where = f"in {str(directory)!r}" if directory else "without a directory of data"
        raise AbsentError(
            f"found no {' and '.join(files) or name} {where}, expected the set {name!r}; put its "
            "files there, or name the directory by --data"
        )
    assert data_set is not None
    found = [_rows(directory, file, data_set) for file in files]
    return found[0], found[1] if len(found) > 1 else None


def _rows(directory: Path, file: str, data_set: DataSet) -> Batch:
    content = (directory / file).read_bytes()
    try:
        if file.endswith(".xz"):
            content = lzma.decompress(content)
        X, labels = (data_set.read or _libsvm)(content, data_set.dimension)
        y = data_set.positive(labels)
    except (ValueError, IndexError) as error:
        raise DataError(
            f"found {file!r} ({error}), expected the distributed file of {data_set.dimension} "
            "features; put it into the directory of --data"
        ) from None
    if not data_set.standardization:
        X = unit_length(X)
    return Batch(X, y, None, np.arange(y.size, dtype=np.uint64))


def unit_length(X: Any) -> sparse.csr_matrix:
    """Sparse rows, scaled to unit length; rows of zeros stay."""
    squares = np.asarray(sparse.csr_matrix(X).power(2).sum(axis=1)).ravel()
    return sparse.csr_matrix(sparse.diags(1 / np.sqrt(np.where(squares > 0, squares, 1.0))) @ X)


def load(directory: Path | None, name: str, seed: int = 0) -> tuple[Batch, Batch]:
    """Training and test rows: those of the files, or stratified halves that the seed draws."""
    rows, test = parts(directory, name)
    if test is not None:
        return rows, test
    return _taken(rows, *halves(rows.y, seed))


def published(request: Request) -> tuple[Batch, Batch]:
    """The split of a repeat as `load` makes it."""
    return load(request.directory, request.set, request.seed)


def shuffled(request: Request) -> tuple[Batch, Batch]:
    """The split of `published`, with the training rows in random order."""
    train, test = published(request)
    order = np.random.default_rng(request.seed).permutation(train.y.size)
    return train.take(order), test


def shares(test: float) -> Callable[[Request], tuple[Batch, Batch]]:
    """Splits with a random share of test rows; a set with test rows of its own keeps them."""

    def rows(request: Request) -> tuple[Batch, Batch]:
        rows, own = parts(request.directory, request.set)
        if own is not None:
            return rows, own
        order = np.random.default_rng(request.seed).permutation(rows.y.size)
        held_out, train = np.split(order, [int(rows.y.size * test)])
        return _taken(rows, np.sort(train), np.sort(held_out))

    return rows


def positions(request: Request) -> tuple[Batch, Batch]:
    """The last fifth of the rows are test rows."""
    rows, _ = parts(request.directory, request.set)
    return _taken(rows, *np.split(np.arange(rows.y.size), [rows.y.size * 4 // 5]))


def mixed(test: float) -> Callable[[Request], tuple[Batch, Batch]]:
    """Splits of all rows, in random order, with a random share of test rows."""

    def rows(request: Request) -> tuple[Batch, Batch]:
        rows = whole(request.directory, request.set)
        order = np.random.default_rng(request.seed).permutation(rows.y.size)
        held_out, train = np.split(order, [int(rows.y.size * test)])
        return _taken(rows, train, held_out)

    return rows


def whole(directory: Path | None, name: str) -> Batch:
    """All rows of a set, of the training and of the test file; of a9a the training file alone."""
    rows, test = parts(directory, name)
    return rows if test is None or name == "a9a" else stacked([rows, test])


def crossed(request: Request) -> tuple[Batch, Batch]:
    """Fold ``repeat % 5`` of trial ``repeat // 5`` of stratified folds, in random order."""
    rows = whole(request.directory, request.set)
    trial, fold = divmod(request.repeat, FOLDS)
    rng = np.random.default_rng((zlib.crc32(request.set.encode()), trial))
    return list(folds(rows, rng))[fold]


def folds(rows: Batch, rng: np.random.Generator) -> Iterator[tuple[Batch, Batch]]:
    """Training rows in random order and test rows of each stratified fold."""
    order = rng.permutation(rows.y.size)
    fold = np.empty(rows.y.size, np.int64)
    for label in (False, True):
        of_class = order[rows.y[order] == label]
        fold[of_class] = np.arange(of_class.size) % FOLDS
    for k in range(FOLDS):
        yield _taken(rows, order[fold[order] != k], order[fold[order] == k])


def halves(y: NDArray[np.bool_], seed: int = 0) -> tuple[Int, Int]:
    """Row numbers of the training and of the test half of scikit-learn's stratified split.

    The split must be the same for comparable AUCs: german's varies by more than a point.
    """
    found = train_test_split(np.arange(y.size), test_size=0.5, stratify=y, random_state=seed)
    return cast(tuple[Int, Int], tuple(np.sort(part) for part in found))


def _taken(rows: Batch, train: Int, test: Int) -> tuple[Batch, Batch]:
    return rows.take(train), rows.take(test)
