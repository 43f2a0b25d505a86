"""The exponential function of Java's ``StrictMath``, to the bit, on every processor.

Spark SQL's ``exp`` is this function. That of NumPy and of C libraries differs in the last bit for
some numbers, and between processors. The algorithm is that of fdlibm (``e_exp.c``): the argument is
reduced to ``r`` with ``|r| <= ln(2) / 2``, and ``exp(r)`` is a rational function of ``r``.
"""

from __future__ import annotations

import numpy as np

from spark_auc.core.kernels import compiled
from spark_auc.core.types import Float, Int

_LARGEST, _SMALLEST = 7.09782712893383973096e02, -7.45133219101941108420e02
# ln(2) in two parts, so that multiples of the first are exact.
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_INVERSE_LN2 = 1.44269504088896338700
_P1, _P2, _P3 = 1.66666666666666019037e-01, -2.77777777770155933842e-03, 6.61375632143793436117e-05
_P4, _P5 = -1.65339022054652515390e-06, 4.13813679705723846039e-08
_SUBNORMAL = 9.33263618503218878990e-302
# High words of ln(2) / 2, of 1.5 ln(2), and of 2^-28.
_HALF, _THREE_HALVES, _TINY = 0x3FD62E42, 0x3FF0A2B2, 0x3E300000


def strict_exp(x: Float) -> Float:
    """``exp(x)`` ``(n,)`` of numbers ``(n,)``, as Java's ``StrictMath.exp`` and Spark's ``exp``."""
    x = np.ascontiguousarray(x, np.float64)
    out = np.empty(x.size)
    _exp(x, x.view(np.int64), out, out.view(np.int64))
    return out


@compiled()
def _exp(x: Float, bits: Int, out: Float, out_bits: Int) -> None:
    for i in range(x.size):
        value, k, high, low = x[i], 0, 0.0, 0.0
        word = (bits[i] >> 32) & 0x7FFFFFFF
        negative = bits[i] < 0
        if np.isnan(value) or value > _LARGEST:
            out[i] = value if np.isnan(value) else np.inf
            continue
        if value < _SMALLEST:
            out[i] = 0.0
            continue
        if word > _HALF:
            if word < _THREE_HALVES:
                k = -1 if negative else 1
                high, low = value - k * _LN2_HIGH, k * _LN2_LOW
            else:
                k = int(_INVERSE_LN2 * value + (-0.5 if negative else 0.5))
                high, low = value - k * _LN2_HIGH, k * _LN2_LOW
            value = high - low
        elif word < _TINY:
            out[i] = 1.0 + value
            continue
        t = value * value
        c = value - t * (_P1 + t * (_P2 + t * (_P3 + t * (_P4 + t * _P5))))
        if k == 0:
            out[i] = 1.0 - ((value * c) / (c - 2.0) - value)
            continue
        out[i] = 1.0 - ((low - (value * c) / (2.0 - c)) - high)
        if k >= -1021:
            out_bits[i] += k << 52
        else:
            out_bits[i] += (k + 1000) << 52
            out[i] *= _SUBNORMAL
