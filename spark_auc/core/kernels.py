"""Compilation of kernels, and the kernels over matrix tiles.

Kernels release the interpreter lock, so that Python threads can run them in parallel.
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

from spark_auc.core.types import Float, Index, Int, Places

# Bytes of a cache line, which one `prefetch` loads.
LINE = 64
Entries = tuple[Float, Index, Index]
F = TypeVar("F", bound=Callable[..., Any])


def compiled(**options: Any) -> Callable[[F], F]:
    """`numba.njit` that releases the interpreter lock and caches on disk if a directory allows.

    Kernels have no wrapper for calls from C, which takes a tenth of the time of compilation.

    Each kernel is compiled for each set of types of its arguments, and anew for a literal: kernels
    that call others convert indices to one width. Assigned slices, and functions of NumPy beyond
    those of single numbers, take longer to compile than loops.
    """
    shared = {"nogil": True, "no_cfunc_wrapper": True, **options}

    def decorate(function: F) -> F:
        # numba writes its cache beside the source or under NUMBA_CACHE_DIR. It raises at import
        # if it can write to neither; for a source inside a zip it raises only when called.
        if os.path.isfile(function.__code__.co_filename):
            try:
                return numba.njit(cache=True, **shared)(function)  # type: ignore[no-any-return]
            except RuntimeError:
                pass
        return numba.njit(**shared)(function)  # type: ignore[no-any-return]

    return decorate


def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Prefetch the cache line of ``array[index]``; a kernel intrinsic without a result."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), cgutils.voidptr_t)
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, *[number] * 3])
        hint = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        # The arguments mean: for reading, into all cache levels, data.
        builder.call(hint, [place, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


prefetch: Callable[..., None] = intrinsic(_prefetch)


def sparse_entries(X: sparse.csr_matrix) -> Entries:
    """Values, column indices and row starts of CSR rows as kernels take them.

    The row starts keep their width in bits.
    """
    starts = X.indptr.view(f"u{X.indptr.itemsize}")
    return np.asarray(X.data, float), np.asarray(X.indices, np.int32).view(np.uint32), starts


@compiled()
def gather(
    gram: Float,
    starts: Places,
    rows: Index,
    columns: Index,
    order: Int,
    factor: Float,
    out: Float,
) -> None:
    """Copy the entries at ``rows`` x ``columns`` of a symmetric matrix, times their factors.

    Parameters
    ----------
    gram
        The lower triangle of the matrix, flat.
    starts : (d,)
        Position in ``gram`` at which each row of the matrix begins.
    rows : (r,)
        Row indices.
    columns : (c,)
        Column indices.
    order : (c,)
        The places of ascending columns, in which order they are read.
    factor : (d,)
        Factor of each row and each column of the matrix.
    out : (at least r, at least c)
        Array that receives the entries.
    """
    # For ascending columns each row changes once from below to above the diagonal, and reads are
    # sequential.
    for a in range(rows.size):
        row = rows[a]
        for k in range(order.size):
            b = order[k]
            column = columns[b]
            both = factor[row] * factor[column]
            if column <= row:
                out[a, b] = both * gram[starts[row] + np.uint64(column)]
            else:
                out[a, b] = both * gram[starts[column] + np.uint64(row)]


@compiled(fastmath={"reassoc", "contract"})
def tiles_times_vector(
    tiles: Float, first: int, last: int, vector: Float, tile: int, out: Float
) -> None:
    """Add the product of tiles ``first..last-1`` of a symmetric matrix with a vector to ``out``.

    ``vector`` and ``out`` are padded to a whole number of tiles. Each tile is read once; an
    off-diagonal tile is used for its own position and for the transposed one.
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
