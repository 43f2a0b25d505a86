"""What compiled loops share, and loops over tiles.

Each kernel releases the interpreter lock, so that plain threads run it side by side.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from scipy import sparse

from spark_auc.core.types import Float, Index, Places

# Numbers of columns and stored entries: without a sign a kernel need not ask whether one counts
# from the end of an array, which takes half of a light loop's time.
# Bytes that one `prefetch` fetches.
LINE = 64
Entries = tuple[Float, Index, Index]
F = TypeVar("F", bound=Callable[..., Any])


def compiled(**options: Any) -> Callable[[F], F]:
    """`numba.njit` without the interpreter lock, cached on disk where a directory allows it."""

    def decorate(function: F) -> F:
        # numba keeps its cache beside the source or under NUMBA_CACHE_DIR, and refuses at import
        # where it can write neither; for a source inside a zip it only fails when called.
        if os.path.isfile(function.__code__.co_filename):
            try:
                return numba.njit(nogil=True, cache=True, **options)(function)  # type: ignore[no-any-return]
            except RuntimeError:
                pass
        return numba.njit(nogil=True, **options)(function)  # type: ignore[no-any-return]

    return decorate


def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Begin to fetch the cache line of ``array[index]``, for kernels; the result is nothing."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), cgutils.voidptr_t)
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, *[number] * 3])
        hint = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        # To read, into all caches, data.
        builder.call(hint, [place, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


prefetch: Callable[..., None] = intrinsic(_prefetch)


def sparse_entries(X: sparse.csr_matrix) -> Entries:
    """Values, column numbers and row starts, these as wide as they are, for kernels."""
    starts = X.indptr.view(f"u{X.indptr.itemsize}")
    return np.asarray(X.data, float), np.asarray(X.indices, np.int32).view(np.uint32), starts


@compiled()
def gather(gram: Float, starts: Places, rows: Index, columns: Index, out: Float) -> None:
    """Copy the entries at ``rows`` x ``columns`` of a symmetric matrix.

    Parameters
    ----------
    gram
        Its lower triangle.
    starts
        Where in ``gram`` each row of the matrix begins.
    rows, columns
        Row and column numbers.
    out : (at least the number of rows, at least that of columns)
        Receives the entries.
    """
    # In ascending order the test "below the diagonal" turns once a row, and reads run forward.
    order = np.argsort(columns)
    ascending = columns[order]
    for a in range(rows.size):
        turn = np.searchsorted(ascending, rows[a], "right")
        for b in range(turn):
            out[a, order[b]] = gram[starts[rows[a]] + np.uint64(ascending[b])]
        for b in range(turn, columns.size):
            out[a, order[b]] = gram[starts[ascending[b]] + np.uint64(rows[a])]


@compiled(fastmath={"reassoc", "contract"})
def tiles_times_vector(
    tiles: Float, first: int, last: int, vector: Float, tile: int, out: Float
) -> None:
    """Add the product of tiles ``first..last-1`` of a symmetric matrix with a vector to ``out``.

    ``vector`` and ``out`` are padded to a whole number of tiles. Each tile is read once and
    serves both its place and, off the diagonal, its transposed place.
    """
    block = 0
    while (block + 1) * (block + 2) // 2 <= first:
        block += 1
    for k in range(first, last):
        if (block + 1) * (block + 2) // 2 <= k:
            block += 1
        other = k - block * (block + 1) // 2
        here = tiles[k]
        v_other = vector[other * tile : (other + 1) * tile]
        out_other = out[other * tile : (other + 1) * tile]
        for i in range(tile):
            row = here[i]
            total = 0.0
            if block == other:
                for j in range(tile):
                    total += row[j] * v_other[j]
            else:
                v_i = vector[block * tile + i]
                for j in range(tile):
                    total += row[j] * v_other[j]
                    out_other[j] += row[j] * v_i
            out[block * tile + i] += total
