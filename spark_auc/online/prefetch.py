"""A hint to the processor for kernels that read rows at random places."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

# Bytes that one hint fetches.
LINE = 64


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


prefetch: Any = intrinsic(_prefetch)
