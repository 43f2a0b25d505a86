"""Scores of rows in one fixed order of addition: the only place that computes scores.

``sum_j x_j w_j`` is added up from 0, column by column in ascending order, and each product is
rounded before it is added. A row's score is thus a function of the row and the weights alone. It
is the same to the bit for every batch, memory layout, storage (dense or sparse) and processor;
BLAS guarantees none of these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray
from scipy import sparse

from spark_auc.core.kernels import compiled, sparse_entries
from spark_auc.core.types import Float, Index, Rows

# Rows and columns of the block of the product that is kept in registers, and the number of doubles
# that one vector instruction takes.
_DEEP, _WIDE, _LANES = 4, 16, 8
# Rows that stay in the cache while all panels of weights are read.
_CACHED_ROWS = 24 * _DEEP
# For fewer rows, rearranging the weights into panels takes longer than it saves.
_FEW = 2 * _DEEP
# So few columns of weights take less time one by one.
_NARROW = 4


def settled_scores(X: Rows, w: Float) -> Float:
    """Scores ``X w`` ``(n,)`` of rows ``(n, d)`` for weights ``w`` ``(d,)``.

    CSR rows have ascending column indices. Each score depends, in every bit, on its row and ``w``
    alone.
    """
    w, out = np.ascontiguousarray(w, float), np.empty(X.shape[0])
    if isinstance(X, np.ndarray):
        _dense_scores(_plain(X), w, out)
    else:
        _sparse_scores(*sparse_entries(X), w, out)
    return out


def settled_product(X: Rows, W: Float) -> Float:
    """Scores ``X W`` ``(n, k)`` for each column of ``W`` ``(d, k)``.

    Equal to `settled_scores` of each column in every bit. As fast as BLAS for ``d`` or ``k`` up to
    200, and half as fast if both are larger.
    """
    W, out = np.ascontiguousarray(W, float), np.empty((X.shape[0], W.shape[1]))
    if W.shape[1] <= _NARROW and not isinstance(X, np.ndarray):
        for k, w in enumerate(W.T):
            out[:, k] = settled_scores(X, w)
        return out
    if isinstance(X, np.ndarray) and X.shape[0] < _FEW:
        X = sparse.csr_matrix(X, dtype=float)
    if isinstance(X, np.ndarray):
        rows, last = _plain(X), np.zeros((_DEEP, W.shape[0]))
        beyond = rows[rows.shape[0] - rows.shape[0] % _DEEP :]
        last[: beyond.shape[0]] = beyond
        d, k = W.shape
        panels = np.pad(W, ((0, 0), (0, -k % _WIDE))).reshape(d, -(-k // _WIDE), _WIDE)
        _dense_product(rows, last, np.ascontiguousarray(panels.swapaxes(0, 1)), out)
    else:
        _sparse_product(*sparse_entries(X), W, out)
    return out


def settled_score(data: Float, indices: NDArray[np.int32], w: Float) -> float:
    """The score of one sparse row, of ascending indices: equal to `settled_scores` in every bit."""
    return float(_sparse_score(data, indices, w))


def _plain(X: NDArray[Any]) -> Float:
    return np.require(X, np.float64, ["C", "A"])


@compiled()
def _dense_scores(X: Float, w: Float, out: Float) -> None:
    # Four independent sums hide the latency of an addition.
    full = out.size - out.size % 4
    for i in range(0, full, 4):
        a = b = c = e = 0.0
        for j in range(w.size):
            a += X[i, j] * w[j]
            b += X[i + 1, j] * w[j]
            c += X[i + 2, j] * w[j]
            e += X[i + 3, j] * w[j]
        out[i], out[i + 1], out[i + 2], out[i + 3] = a, b, c, e
    for i in range(full, out.size):
        a = 0.0
        for j in range(w.size):
            a += X[i, j] * w[j]
        out[i] = a


@compiled()
def _sparse_scores(data: Float, indices: Index, indptr: Index, w: Float, out: Float) -> None:
    for i in range(out.size):
        total = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            total += data[p] * w[indices[p]]
        out[i] = total


@compiled()
def _sparse_score(data: Float, indices: NDArray[np.int32], w: Float) -> float:
    total = 0.0
    for p in range(indices.size):
        total += data[p] * w[indices[p]]
    return total


@compiled()
def _sparse_product(data: Float, indices: Index, indptr: Index, W: Float, out: Float) -> None:
    for i in range(out.shape[0]):
        total = out[i]
        for c in range(total.size):
            total[c] = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            x, weights = data[p], W[indices[p]]
            for c in range(total.size):
                total[c] += x * weights[c]


def _tile(typing_context: Any, X: Any, i: Any, panel: Any, out: Any, row: Any, column: Any) -> Any:
    """Set ``out[row:row+4, column:column+16]`` to ``X[i:i+4] @ panel``; a kernel intrinsic.

    The arrays are contiguous; ``panel`` is ``(d, 16)``.
    """
    number, lane = ir.IntType(64), ir.IntType(32)
    vector = ir.VectorType(ir.DoubleType(), _LANES)
    parts = range(0, _WIDE, _LANES)
    broadcast = ir.Constant(ir.VectorType(lane, _LANES), [0] * _LANES)
    unset = ir.Constant(vector, ir.Undefined)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def array(k: int) -> tuple[Any, list[Any]]:
            argument = context.make_array(signature.args[k])(context, builder, arguments[k])
            return argument.data, cgutils.unpack_tuple(builder, argument.shape)  # type: ignore[no-untyped-call]

        def element(k: int, i: Any, j: Any) -> Any:
            data, (_, columns) = array(k)
            return builder.gep(data, [builder.add(builder.mul(i, columns), j)])

        def lanes(start: Any, offset: int) -> Any:
            return builder.bitcast(builder.gep(start, [number(offset)]), vector.as_pointer())

        panel_start, depth = array(2)[0], array(2)[1][0]
        rows = [element(0, builder.add(arguments[1], number(r)), number(0)) for r in range(_DEEP)]
        zero = ir.Constant(vector, [0.0] * _LANES)
        sums = {
            (r, c): cgutils.alloca_once_value(builder, zero)  # type: ignore[no-untyped-call]
            for r in range(_DEEP)
            for c in parts
        }
        with cgutils.for_range(builder, depth, intp=number) as loop:
            panel_row = builder.gep(panel_start, [builder.mul(loop.index, number(_WIDE))])
            # NumPy aligns doubles to 8 bytes only.
            weights = {c: builder.load(lanes(panel_row, c), align=8) for c in parts}
            for r, start in enumerate(rows):
                x = builder.load(builder.gep(start, [loop.index]))
                x = builder.insert_element(unset, x, lane(0))
                x = builder.shuffle_vector(x, unset, broadcast)
                for c in parts:
                    total = builder.load(sums[r, c])
                    builder.store(builder.fadd(total, builder.fmul(x, weights[c])), sums[r, c])
        for r in range(_DEEP):
            target = element(3, builder.add(arguments[4], number(r)), arguments[5])
            for c in parts:
                builder.store(builder.load(sums[r, c]), lanes(target, c), align=8)
        return context.get_dummy_value()

    return types.void(X, types.intp, panel, out, types.intp, types.intp), generate


# Written in vector instructions: plain loops compile to code a third as fast.
_tiled: Callable[..., None] = intrinsic(_tile)


@compiled()
def _dense_product(X: Float, last_rows: Float, panels: Float, out: Float) -> None:
    n, k = out.shape
    full, block = n - n % _DEEP, np.empty((_DEEP, _WIDE))
    for first_row in range(0, n, _CACHED_ROWS):
        for p in range(panels.shape[0]):
            first_column = p * _WIDE
            width = min(_WIDE, k - first_column)
            for i in range(first_row, min(first_row + _CACHED_ROWS, n), _DEEP):
                if i < full and width == _WIDE:
                    _tiled(X, i, panels[p], out, i, first_column)
                    continue
                if i < full:
                    _tiled(X, i, panels[p], block, 0, 0)
                else:
                    _tiled(last_rows, 0, panels[p], block, 0, 0)
                for r in range(min(_DEEP, n - i)):
                    for c in range(width):
                        out[i + r, first_column + c] = block[r, c]
