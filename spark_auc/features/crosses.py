"""Conjunctions of two features of sparse rows, hashed into a fixed number of columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spark_auc.core.batch import mix, mixed
from spark_auc.core.kernels import compiled
from spark_auc.core.state.schema import Fields, Size
from spark_auc.core.types import Float, Rows
from spark_auc.core.validation import check_whole
from spark_auc.errors import ConfigError, ResourceError
from spark_auc.features.embedding import Stored, check_columns

_MOST = np.iinfo(np.int32).max
# Different uses of one seed must not share their numbers.
_CROSSES = np.uint64(0xC5)


@dataclass(frozen=True, eq=False)
class CrossMap(Stored):
    """A row's own features, then products ``x_a x_b`` of all pairs of its non-zeros, hashed.

    With ``m`` non-zeros a row has ``m (m - 1) / 2`` pairs ``a < b``; pair ``(a, b)`` goes to
    column ``d + (hash(a, b, seed) mod 2^bits)``, and pairs that meet there add up. For one-hot
    categorical rows a linear model of them is a model of all pairs of categories (MBA's
    "conjunctions", Gultekin et al., Section III-B), without a dictionary of those that occur.

    Products are added without a random sign, as Spark's FeatureHasher does: of features that are
    not negative no stored value cancels to 0. Rows are not scaled, and a row's length grows with
    ``m``: a learner that wants rows of unit length scales what comes out.

    Parameters
    ----------
    input_dimension
        Number of features ``d``.
    bits
        There are ``2^bits`` columns of pairs; 1 to 30, and ``d + 2^bits`` below 2^31.
    seed
        Of the hash.

    Raises
    ------
    ConfigError
        The bits are out of range, or the seed is negative.
    """

    FIELDS: ClassVar[Fields] = {"input_dimension": Size("d")}

    input_dimension: int
    bits: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        bits, room = self.bits, _MOST - self.input_dimension
        valid = bits == int(bits) and 1 <= bits <= 30 and 2**bits <= room
        if not valid:
            raise ConfigError(
                f"found bits = {bits}, expected a whole number from 1 to 30 with 2^bits <= {room}; "
                "set one"
            )
        check_whole("seed", self.seed, 0)

    @property
    def dimension(self) -> int:
        """Number of features ``F = d + 2^bits``."""
        return int(self.input_dimension + 2**self.bits)

    def transform(self, X: Rows) -> sparse.csr_matrix:
        """Map rows ``(n, d)`` to CSR ``(n, F)``, indices ascending and distinct in a row.

        Raises
        ------
        DataError
            The rows are of another dimension.
        ResourceError
            The rows have more pairs than one matrix holds.
        """
        check_columns(X, self.input_dimension)
        rows = sparse.csr_matrix(X, dtype=float)
        if not rows.has_canonical_format or not rows.data.all():
            rows = rows.copy()
            rows.sum_duplicates()
            rows.eliminate_zeros()
        counts = np.diff(rows.indptr).astype(np.int64)
        indptr = np.concatenate([[0], np.cumsum(counts + counts * (counts - 1) // 2)])
        if indptr[-1] > _MOST:
            raise ResourceError(
                f"found {counts.size} rows with {indptr[-1]} non-zeros and pairs of them, expected "
                f"at most {_MOST}; give fewer rows at a time, or cross fewer columns"
            )
        data, indices = np.empty(indptr[-1]), np.empty(indptr[-1], np.int32)
        stored = np.zeros_like(indptr)
        salt = mixed(np.array([self.seed], np.uint64) ^ _CROSSES)[0]
        own = rows.data, rows.indices, rows.indptr
        _fill(*own, self.input_dimension, self.bits, salt, data, indices, stored)
        last = stored[-1]
        return sparse.csr_matrix(
            (data[:last], indices[:last], stored), (counts.size, self.dimension)
        )


@compiled()
def _fill(
    data: Float,
    indices: NDArray[np.int32],
    indptr: NDArray[np.int32],
    dimension: int,
    bits: int,
    salt: np.uint64,
    values: Float,
    columns: NDArray[np.int32],
    starts: NDArray[np.int64],
) -> None:
    below = np.uint64((1 << bits) - 1)
    longest = np.diff(indptr).max() if indptr.size > 1 else 0
    # Pairs of a row, and room to sort them.
    pairs = np.empty((2, longest * (longest - 1) // 2), np.int64)
    products = np.empty(pairs.shape)
    stored = 0
    for i in range(indptr.size - 1):
        count = 0
        for p in range(indptr[i], indptr[i + 1]):
            values[stored], columns[stored] = data[p], indices[p]
            stored += 1
            first = mix(salt ^ np.uint64(indices[p]))
            for q in range(p + 1, indptr[i + 1]):
                pairs[0, count] = mix(first ^ np.uint64(indices[q])) & below
                products[0, count] = data[p] * data[q]
                count += 1
        now = _sort(pairs, products, count, bits)
        before = -1
        for k in range(count):
            if pairs[now, k] == before:
                values[stored - 1] += products[now, k]
            else:
                before = pairs[now, k]
                values[stored], columns[stored] = products[now, k], dimension + before
                stored += 1
        starts[i + 1] = stored


@compiled()
def _sort(keys: NDArray[np.int64], values: Float, count: int, bits: int) -> int:
    """Sort the first line by keys of so many bits, byte by byte; say in which line it ends."""
    now = 0
    places = np.empty(257, np.int64)
    for shift in range(0, bits, 8):
        places[:] = 0
        for k in range(count):
            places[((keys[now, k] >> shift) & 255) + 1] += 1
        for b in range(256):
            places[b + 1] += places[b]
        for k in range(count):
            b = (keys[now, k] >> shift) & 255
            keys[1 - now, places[b]] = keys[now, k]
            values[1 - now, places[b]] = values[now, k]
            places[b] += 1
        now = 1 - now
    return now
