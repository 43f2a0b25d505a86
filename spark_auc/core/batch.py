"""Rows in memory: features, labels, weights, and by what a row is drawn or held out."""

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
# The fields that a batch may lack.
_OPTIONAL = ("weight", "key", "group", "place")


# Least and greatest weight of a row: squares, sums and products of the sums of two classes neither
# overflow nor vanish.
WEIGHTS = (1e-100, 1e100)


class Batch(NamedTuple):
    """Some rows.

    Parameters
    ----------
    X : (n, d), dense or CSR
        Features.
    y : (n,)
        True where positive.
    weight : (n,), optional
        Row weights, each within `WEIGHTS`; 1 where not given.
    key : (n,), optional
        By what a row is drawn; a hash of label, weight and features where not given.
    group : (n,), optional
        What rows of one fold have in common; a hash of the features where not given.
    place : (n,), optional
        Number of the partition or row group that a row was read from. Rows of one place come one
        after another.
    """

    X: Rows
    y: NDArray[np.bool_]
    weight: Float | None = None
    key: Keys | None = None
    group: Keys | None = None
    place: NDArray[np.int64] | None = None

    @property
    def weights(self) -> Float:
        """Row weights ``(n,)``."""
        return np.ones(self.y.size) if self.weight is None else self.weight

    def keys(self) -> Keys:
        """Row keys ``(n,)``: rows that are equal in everything have equal ones."""
        if self.key is not None:
            return self.key
        own = mixed(self.y.astype(np.uint64)) ^ self.weights.view(np.uint64)
        return mixed(_hashed(self.X) ^ mixed(own))

    def groups(self) -> Keys:
        """Row groups ``(n,)``: rows of equal features have equal ones, whatever label or weight."""
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
        """The rows that `to_bytes` stored; `ModelFormatError` if they are none."""
        a = _SCHEMA.decode(data)
        X = a["X"]
        if X is None:
            parts = a["data"], a["indices"], a["indptr"]
            X = sparse.csr_matrix(parts, tuple(a["shape"].tolist()))
        return cls(X, a["y"], *(a[name] for name in _OPTIONAL))

    def take(self, rows: NDArray[np.int64], weight: Float | None = None) -> Batch:
        """Some of the rows, with their own weights or others."""
        kept = Batch._make(None if values is None else values[rows] for values in self)
        return kept if weight is None else kept._replace(weight=weight)


# Batches of rows to other batches, such as those of a fold or of draws.
Change: TypeAlias = Callable[[Iterator[Batch]], Iterator[Batch]]


def _rows_stored(values: Values) -> str | None:
    parts = [values[name] for name in ("data", "indices", "indptr", "shape")]
    given = [part is not None for part in parts]
    if values["X"] is not None:
        return "its rows are dense and sparse" if any(given) else None
    if not all(given):
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
    """Which row weights ``(n,)`` lie within `WEIGHTS`; NaN does not."""
    usable: NDArray[np.bool_] = (weight >= WEIGHTS[0]) & (weight <= WEIGHTS[1])
    return usable


def stacked(batches: Sequence[Batch]) -> Batch:
    """The rows of several batches as one."""
    first = batches[0]
    if len(batches) == 1:
        return first
    parts = [b.X for b in batches]
    dense = all(isinstance(X, np.ndarray) for X in parts)
    X = np.vstack(parts) if dense else sparse.vstack(parts, "csr")
    others = zip(*(b[1:] for b in batches), strict=True)
    return Batch._make([X, *(None if part[0] is None else np.concatenate(part) for part in others)])


def divided(X: Rows, scale: Float) -> Rows:
    """Rows ``(n, d)`` with columns divided by ``scale`` ``(d,)``."""
    if isinstance(X, np.ndarray):
        return np.asarray(X / scale)
    return sparse.csr_matrix((X.data / scale[X.indices], X.indices, X.indptr), X.shape)


def hashed_shares(keys: Keys, seed: int, salt: int) -> Float:
    """Numbers in [0, 1) ``(n,)`` that keys ``(n,)`` draw, others for each seed and salt."""
    start = np.array([seed], np.int64).view(np.uint64) ^ np.uint64(salt)
    hashed = mixed(keys ^ mixed(start))
    return (hashed >> np.uint64(11)).astype(float) * 2.0**-53


def _hashed(X: Rows) -> Keys:
    """A hash of each row ``(n,)``, the same for dense and CSR rows."""
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
