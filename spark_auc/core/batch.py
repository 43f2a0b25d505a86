"""Batches of rows in memory: features, labels, weights, sampling keys and fold groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spark_auc.core.kernels import compiled
from spark_auc.core.state.rules import ABOVE_0, not_csr
from spark_auc.core.state.schema import Field, Schema, Values, array
from spark_auc.core.types import Float, Keys, Rows

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
# The optional fields of a batch.
_OPTIONAL = ("weight", "key", "group", "place", "segment")


# Least and greatest weight of a row. Within this range squares, sums and the product of the two
# classes' sums neither overflow nor underflow.
WEIGHTS = (1e-100, 1e100)


class Batch(NamedTuple):
    """A batch of rows.

    Parameters
    ----------
    X : (n, d), dense or CSR
        Features.
    y : (n,)
        True for positive rows.
    weight : (n,), optional
        Row weights, each within `WEIGHTS`. Default: 1.
    key : (n,), optional
        Hash from which a row's draws are made. Default: a hash of label, weight and features.
    group : (n,), optional
        Group of each row; the rows of a group are in the same fold. Default: a hash of the
        features.
    place : (n,), optional
        Number of the partition or row group from which a row was read. The rows of a place are
        consecutive.
    segment : (n,), optional
        Number of the segment of each row.
    """

    X: Rows
    y: NDArray[np.bool_]
    weight: Float | None = None
    key: Keys | None = None
    group: Keys | None = None
    place: NDArray[np.int64] | None = None
    segment: NDArray[np.int64] | None = None

    @property
    def weights(self) -> Float:
        """Row weights ``(n,)``."""
        return np.ones(self.y.size) if self.weight is None else self.weight

    @property
    def nbytes(self) -> int:
        """Size of the arrays in bytes."""
        X = self.X
        arrays = (X,) if isinstance(X, np.ndarray) else (X.data, X.indices, X.indptr)
        return sum(array.nbytes for array in (*arrays, *self[1:]) if array is not None)

    def keys(self) -> Keys:
        """Row keys ``(n,)``; identical rows have the same key."""
        if self.key is not None:
            return self.key
        label_and_weight = mixed(self.y.astype(np.uint64)) ^ self.weights.view(np.uint64)
        return mixed(_hashed(self.X) ^ mixed(label_and_weight))

    def groups(self) -> Keys:
        """Row groups ``(n,)``; by default rows with equal features are in the same group."""
        return _hashed(self.X) if self.group is None else self.group

    def to_bytes(self) -> bytes:
        """Versioned bytes."""
        X, values = self.X, dict.fromkeys(_SCHEMA.fields) | self._asdict()
        if not isinstance(X, np.ndarray):
            parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr}
            values |= {"X": None, "shape": np.array(X.shape), **parts}
        return _SCHEMA.encode(values)

    @classmethod
    def from_bytes(cls, data: bytes) -> Batch:
        """The batch that `to_bytes` stored; raises `ModelFormatError` for other bytes."""
        values = _SCHEMA.decode(data)
        X = values["X"]
        if X is None:
            # SciPy copies the entries; views of the other arrays would keep the bytes of these too.
            values = {k: v if v is None else v.copy() for k, v in values.items()}
            parts = values["data"], values["indices"], values["indptr"]
            X = sparse.csr_matrix(parts, tuple(values["shape"].tolist()))
        return cls(X, values["y"], *(values[name] for name in _OPTIONAL))

    def take(self, rows: NDArray[np.int64], weight: Float | None = None) -> Batch:
        """The rows of the given numbers ``(m,)``, optionally with new weights ``(m,)``."""
        batch = Batch._make(None if values is None else values[rows] for values in self)
        return batch if weight is None else batch._replace(weight=weight)


# A function from batches to batches, such as the selection of a fold or of the rows drawn.
Change: TypeAlias = Callable[[Iterator[Batch]], Iterator[Batch]]


def _rows_stored(values: Values) -> str | None:
    parts = [values[name] for name in ("data", "indices", "indptr", "shape")]
    present = [part is not None for part in parts]
    if values["X"] is not None:
        return "it has both dense and sparse rows" if any(present) else None
    if not all(present):
        return "it has no rows"
    return not_csr(*parts[1:3], *parts[3].tolist())


_NUMBERS, _PLACES = ("<f8", "<f4"), ("<i4", "<i8")
_SCHEMA = Schema(
    "Batch",
    1,
    {
        "weight": array("<f8", "n", rule=ABOVE_0, optional=True),
        "key": array("<u8", "n", optional=True),
        "group": array("<u8", "n", optional=True),
        "place": array("<i8", "n", optional=True),
        "segment": array("<i8", "n", optional=True),
        "X": Field(_NUMBERS, ("n", "d"), optional=True),
        "data": Field(_NUMBERS, ("entries",), optional=True),
        "indices": Field(_PLACES, ("entries",), optional=True),
        "indptr": Field(_PLACES, ("n+1",), optional=True),
        "shape": array("<i8", 2, optional=True),
        "y": array("|b1", "n"),
    },
    _rows_stored,
)


def usable_weights(weight: Float) -> NDArray[np.bool_]:
    """Whether each row weight ``(n,)`` is within `WEIGHTS`; False for NaN."""
    usable: NDArray[np.bool_] = (weight >= WEIGHTS[0]) & (weight <= WEIGHTS[1])
    return usable


def stacked(batches: Sequence[Batch]) -> Batch:
    """The rows of one or more batches as one batch."""
    if len(batches) == 1:
        return batches[0]
    features = [batch.X for batch in batches]
    dense = all(isinstance(X, np.ndarray) for X in features)
    X = np.vstack(features) if dense else sparse.vstack(features, "csr")
    columns = zip(*(batch[1:] for batch in batches), strict=True)
    return Batch._make([X, *(None if c[0] is None else np.concatenate(c) for c in columns)])


def divided(X: Rows, scale: Float) -> Rows:
    """Rows ``(n, d)`` with each column divided by its ``scale`` ``(d,)``."""
    if isinstance(X, np.ndarray):
        return np.asarray(X / scale)
    return sparse.csr_matrix((X.data / scale[X.indices], X.indices, X.indptr), X.shape)


def shifted(X: Rows, shift: Float) -> Rows:
    """Rows ``(n, d)`` minus ``shift`` ``(d,)``; CSR rows store its nonzeros."""
    columns = np.flatnonzero(shift)
    if not columns.size:
        return X
    if isinstance(X, np.ndarray):
        return np.asarray(X - shift)
    n = X.shape[0]
    starts = np.arange(0, n * columns.size + 1, columns.size)
    shifts = (np.tile(shift[columns], n), np.tile(columns, n), starts)
    return sparse.csr_matrix(X - sparse.csr_matrix(shifts, X.shape))


def hashed_shares(keys: Keys, seed: int, salt: int) -> Float:
    """Pseudo-random numbers in [0, 1) ``(n,)``, a function of key ``(n,)``, seed and salt."""
    start = np.array([seed], np.int64).view(np.uint64) ^ np.uint64(salt)
    hashed = mixed(keys ^ mixed(start))
    return (hashed >> np.uint64(11)).astype(float) * 2.0**-53


def _hashed(X: Rows) -> Keys:
    """Hash of each row ``(n,)``; dense and CSR storage of a row have the same hash."""
    out = np.zeros(X.shape[0], np.uint64)
    if isinstance(X, np.ndarray):
        dense = np.ascontiguousarray(X, float)
        _hash_dense(dense, dense.view(np.uint64), out)
    else:
        data = np.asarray(X.data, float)
        _hash_sparse(data, data.view(np.uint64), X.indices, X.indptr, out)
    return out


@compiled()
def mix(x: np.uint64) -> np.uint64:
    """Spread the bits of a number over all 64 (the finaliser of SplitMix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@compiled()
def mixed(numbers: Keys) -> Keys:
    """Hashes ``(n,)`` of numbers ``(n,)``."""
    out = np.empty_like(numbers)
    for i in range(numbers.size):
        out[i] = mix(numbers[i] + _GOLDEN)
    return out


@compiled()
def _hash_sparse(
    data: Float, bits: Keys, indices: NDArray[np.int32], indptr: NDArray[np.int64], out: Keys
) -> None:
    for i in range(out.size):
        h = out[i]
        for p in range(indptr[i], indptr[i + 1]):
            if data[p] != 0.0:
                h = mix(h ^ bits[p] ^ mix(np.uint64(indices[p]) + _GOLDEN))
        out[i] = mix(h + _GOLDEN)


@compiled()
def _hash_dense(data: Float, bits: Keys, out: Keys) -> None:
    for i in range(out.size):
        h = out[i]
        for j in range(data.shape[1]):
            if data[i, j] != 0.0:
                h = mix(h ^ bits[i, j] ^ mix(np.uint64(j) + _GOLDEN))
        out[i] = mix(h + _GOLDEN)
