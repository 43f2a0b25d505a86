"""Decode Arrow columns of features to arrays, and check every value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import sparse

from spark_auc.core.types import Bool, Float, Rows
from spark_auc.errors import DataError
from spark_auc.tables.arrow_columns import doubles_of_decimals


def without_nulls(array: pa.Array, what: str) -> pa.Array:
    """The array; `DataError` that names it ``what`` if it contains nulls."""
    if array.null_count:
        raise DataError(
            f"found {array.null_count} nulls in {what} in a batch of {len(array)} rows; "
            "expected none; impute or drop these rows"
        )
    return array


def as_doubles(array: pa.Array) -> pa.Array:
    """Numbers or booleans as doubles."""
    if pa.types.is_decimal(array.type):
        return doubles_of_decimals(array)
    return array.cast(pa.float64(), safe=False)


def _column(name: str) -> str:
    return f"column {name!r}"


def _lists(array: pa.Array, what: str) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Offsets ``(n + 1,)`` that start at 0, and elements, of a list array."""
    offsets = array.offsets.to_numpy().astype(np.int64)
    values = array.values.slice(offsets[0], offsets[-1] - offsets[0])
    return offsets - offsets[0], without_nulls(values, what).to_numpy(zero_copy_only=False)


def _named_lists(array: pa.Array, name: str) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """See `_lists`; neither the lists of a column nor their elements may be null."""
    return _lists(without_nulls(array, _column(name)), f"elements of {_column(name)}")


def _check_sizes(sizes: NDArray[np.int64], dimension: int) -> None:
    wrong = sizes[sizes != dimension]
    if wrong.size:
        raise DataError(
            f"found {wrong.size} vectors of another dimension (the first has {wrong[0]} features), "
            f"expected {dimension}; make every vector of the same dimension or set numFeatures"
        )


def _dense(offsets: NDArray[np.int64], values: NDArray[Any], dimension: int) -> Float:
    _check_sizes(np.diff(offsets), dimension)
    return np.asarray(values, float).reshape(len(offsets) - 1, dimension)


def _csr(
    values: NDArray[Any],
    indices: NDArray[Any],
    offsets: NDArray[np.int64],
    dimension: int,
) -> sparse.csr_matrix:
    if indices.size:
        outside = (indices < 0) | (indices >= dimension)
        if outside.any():
            raise DataError(
                f"found feature index {indices[outside][0]}, expected 0 to {dimension - 1}; "
                "repair the indices or set numFeatures"
            )
        falling = np.diff(indices) <= 0
        starts = offsets[1:-1][(offsets[1:-1] > 0) & (offsets[1:-1] < indices.size)]
        falling[starts - 1] = False
        if falling.any():
            at = int(np.flatnonzero(falling)[0])
            raise DataError(
                f"found feature index {indices[at + 1]} after {indices[at]} in one row, expected "
                "ascending indices without repetition; sort and combine them"
            )
    matrix = (np.asarray(values, float), indices.astype(np.int32), offsets)
    return sparse.csr_matrix(matrix, shape=(len(offsets) - 1, dimension), copy=False)


def _decode_vectors(arrays: Sequence[pa.Array], names: Sequence[str], dimension: int) -> Rows:
    kind, size, indices, values = without_nulls(arrays[0], _column(names[0])).flatten()
    is_dense = kind.to_numpy(zero_copy_only=False) == 1
    offsets, elements = _lists(values, f"values of {_column(names[0])}")
    if is_dense.all():
        return _dense(offsets, elements, dimension)
    lengths = np.diff(offsets)
    _check_sizes(np.where(is_dense, lengths, size.fill_null(0).to_numpy()), dimension)
    _, stored = _lists(indices, f"indices of {_column(names[0])}")
    if is_dense.any():
        by_element = np.repeat(is_dense, lengths)
        all_indices = np.arange(len(elements)) - np.repeat(offsets[:-1], lengths)
        all_indices[~by_element] = stored
        stored = all_indices
    return _csr(elements, stored, offsets, dimension)


def _decode_arrays(arrays: Sequence[pa.Array], names: Sequence[str], dimension: int) -> Rows:
    return _dense(*_named_lists(arrays[0], names[0]), dimension)


def _decode_indexed(arrays: Sequence[pa.Array], names: Sequence[str], dimension: int) -> Rows:
    offsets, indices = _named_lists(arrays[0], names[0])
    value_offsets, values = _named_lists(arrays[1], names[1])
    if not np.array_equal(offsets, value_offsets):
        row = int(np.flatnonzero(np.diff(offsets) != np.diff(value_offsets))[0])
        raise DataError(
            f"found {np.diff(offsets)[row]} indices with {np.diff(value_offsets)[row]} values in a "
            "row, expected equal numbers of both; repair the row"
        )
    return _csr(values, indices, offsets, dimension)


def _decode_numbers(arrays: Sequence[pa.Array], names: Sequence[str], dimension: int) -> Rows:
    named = zip(arrays, names, strict=True)
    return np.column_stack(
        [as_doubles(without_nulls(array, _column(name))).to_numpy() for array, name in named]
    )


_DECODERS: dict[str, Callable[[Sequence[pa.Array], Sequence[str], int], Rows]] = {
    "vector": _decode_vectors,
    "array": _decode_arrays,
    "indexed": _decode_indexed,
    "numbers": _decode_numbers,
}


def decode(
    form: str,
    arrays: Sequence[pa.Array],
    names: Sequence[str],
    dimension: int,
    *,
    missing: bool = False,
) -> Rows:
    """Decode Arrow columns to rows ``(n, d)``: CSR if any row is sparse, else dense.

    Parameters
    ----------
    form
        "vector", "array", "indexed" or "numbers"; see `Features`.
    arrays
        The columns.
    names
        Names of the columns.
    dimension
        Number of features ``d``.
    missing
        Whether missing features are valid: null numbers become NaN, and NaN and infinite values
        are kept.

    Raises
    ------
    DataError
        A feature is null, NaN or infinite although ``missing`` is false; a vector has another
        dimension; an index is out of range, or the indices of a row are not ascending.
    """
    if missing and form == "numbers":
        arrays = [as_doubles(array).fill_null(np.nan) for array in arrays]
    X = _DECODERS[form](arrays, names, dimension)
    if missing:
        return X
    values: Float = np.asarray(X.data if sparse.issparse(X) else X)
    if not np.isfinite(values).all():
        wrong = ~np.isfinite(values)
        # Elements of a vector seldom have names; the last column has the values.
        name = names[int(np.argwhere(wrong)[0, 1])] if form == "numbers" else names[-1]
        raise DataError(
            f"found {wrong.sum()} features that are NaN or infinite in a batch of {X.shape[0]} "
            f"rows (the first is {values[wrong][0]} of {_column(name)}); expected "
            "finite numbers; impute or drop these rows"
        )
    return X


def usable(form: str, arrays: Sequence[pa.Array], *, missing: bool = False) -> Bool:
    """Whether each row ``(n,)`` has features that are neither null nor, unless missing, infinite.

    Parameters
    ----------
    form, arrays, missing
        As of `decode`.
    """
    present = np.ones(len(arrays[0]), np.bool_)
    if form == "numbers":
        if not missing:
            for array in arrays:
                present &= np.isfinite(as_doubles(array).fill_null(np.nan).to_numpy())
        return present
    for array in arrays:
        present &= array.is_valid().to_numpy(zero_copy_only=False)
    lists = arrays
    if form == "vector":
        # Indices of a dense vector are null.
        lists = [pc.struct_field(arrays[0], "values")]
    for array in lists:
        present &= _whole(array, missing)
    return present


def _whole(array: pa.ListArray, missing: bool) -> Bool:
    """Whether the elements of each list ``(n,)`` are valid."""
    offsets = array.offsets.to_numpy().astype(np.int64)
    elements = array.values.slice(offsets[0], offsets[-1] - offsets[0])
    wrong = elements.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(elements.type) and not missing:
        wrong = wrong | ~np.isfinite(elements.fill_null(0.0).to_numpy())
    before = np.concatenate([[0], np.cumsum(wrong)])
    at = offsets - offsets[0]
    return np.asarray(before[at[1:]] == before[at[:-1]])
