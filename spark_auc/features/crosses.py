"""Hashed conjunctions of pairs of sparse features."""

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
# Separates these hashes from other uses of the same seed.
_CROSSES = np.uint64(0xC5)


@dataclass(frozen=True)
class Crosses:
    """Hashed products of the features of pairs of columns; see `CrossMap`.

    A pair of tokens is hashed by their hashes before these are reduced to the dimension.

    Parameters
    ----------
    pairs
        Names of the columns of each pair. Default: all pairs of columns. All features of a column
        are crossed with all of the other.
    bits
        Logarithm of the number of features.
    """

    pairs: tuple[tuple[str, str], ...] | None = None
    bits: int = 20

    def __post_init__(self) -> None:
        check_whole("bits", self.bits, 1)
        if self.bits > 30:
            raise ConfigError(f"found bits = {self.bits}, expected at most 30; set fewer bits")
        if self.pairs is not None:
            sets = [frozenset(pair) for pair in self.pairs]
            if not sets or len(set(sets)) < len(sets) or any(len(pair) != 2 for pair in sets):
                raise ConfigError(
                    f"found crosses {[list(pair) for pair in self.pairs]}, expected different "
                    "pairs of two columns; remove repetitions"
                )


@dataclass(frozen=True, eq=False)
class CrossMap(Stored):
    """The features of a row, followed by the hashed products ``x_a x_b`` of its non-zeros.

    A row with ``m`` non-zeros has ``m (m - 1) / 2`` pairs ``a < b``. The product of pair
    ``(a, b)`` is added to column ``d + (hash(a, b, seed) mod 2^bits)``. For one-hot categorical
    rows, a linear model of these features has a weight for each pair of categories (MBA's
    "conjunctions", Gultekin et al., Section III-B), without a dictionary of pairs.

    Products have no random sign, as in Spark's FeatureHasher, so that non-negative features never
    cancel. Rows are not normalised, and their length grows with ``m``: normalise the result for
    learners that expect rows of unit length.

    Parameters
    ----------
    input_dimension
        Number of features ``d``.
    bits
        Logarithm of the number of pair columns; 1 to 30, with ``d + 2^bits`` below 2^31.
    seed
        Seed of the hash, at least 0.

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
                "set bits in this range"
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
            The rows have another dimension.
        ResourceError
            The rows have more pairs than a matrix with 32-bit indices can hold.
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
                f"found {counts.size} rows with {indptr[-1]} non-zeros and pairs, expected at most "
                f"{_MOST}; map fewer rows at a time, or cross fewer columns"
            )
        data, indices = np.empty(indptr[-1]), np.empty(indptr[-1], np.int32)
        starts = np.zeros_like(indptr)
        entries = rows.data, rows.indices, rows.indptr
        _fill(*entries, self.input_dimension, self.bits, salt_of(self.seed), data, indices, starts)
        last = starts[-1]
        return sparse.csr_matrix(
            (data[:last], indices[:last], starts), (counts.size, self.dimension)
        )


def salt_of(seed: int) -> np.uint64:
    """The number with which the hash of a pair begins: ``mix(mix(salt ^ a) ^ b)``."""
    return np.uint64(mixed(np.array([seed], np.uint64) ^ _CROSSES)[0])


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
    mask = np.uint64((1 << bits) - 1)
    longest = np.diff(indptr).max() if indptr.size > 1 else 0
    # The pairs of a row, and a buffer to sort them.
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
                pairs[0, count] = mix(first ^ np.uint64(indices[q])) & mask
                products[0, count] = data[p] * data[q]
                count += 1
        line = sort_by_key(pairs, products, count, bits)
        column = -1
        for k in range(count):
            if pairs[line, k] == column:
                values[stored - 1] += products[line, k]
            else:
                column = pairs[line, k]
                values[stored], columns[stored] = products[line, k], dimension + column
                stored += 1
        starts[i + 1] = stored


@compiled()
def sort_by_key(keys: NDArray[np.int64], values: Float, count: int, bits: int) -> int:
    """Radix sort of the first line by keys of ``bits`` bits; returns the line of the result."""
    line = 0
    places = np.empty(257, np.int64)
    for shift in range(0, bits, 8):
        for b in range(257):
            places[b] = 0
        for k in range(count):
            places[((keys[line, k] >> shift) & 255) + 1] += 1
        for b in range(256):
            places[b + 1] += places[b]
        for k in range(count):
            b = (keys[line, k] >> shift) & 255
            keys[1 - line, places[b]] = keys[line, k]
            values[1 - line, places[b]] = values[line, k]
            places[b] += 1
        line = 1 - line
    return line
