"""Encode rows as an Arrow column of Spark ML vectors."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_auc.core.types import Rows

# Values of ``type`` in `VectorUDT`.
_SPARSE, _DENSE = 0, 1
# Older versions of pyarrow do not cast nullable fields to Spark's, which are not.
_INDICES = pa.list_(pa.field("element", pa.int32(), nullable=False))
_VALUES = pa.list_(pa.field("element", pa.float64(), nullable=False))
_FIELDS = [
    pa.field("type", pa.int8(), nullable=False),
    pa.field("size", pa.int32()),
    pa.field("indices", _INDICES),
    pa.field("values", _VALUES),
]
VECTOR = pa.struct(_FIELDS)


def encode_vectors(X: Rows) -> pa.Array:
    """Rows ``(n, d)``, dense or CSR, as the Arrow structs of `VectorUDT`."""
    n, d = X.shape
    if isinstance(X, np.ndarray):
        offsets = pa.array(np.arange(0, n * d + 1, max(d, 1), dtype=np.int32))
        values = pa.ListArray.from_arrays(offsets, np.ascontiguousarray(X, float).ravel(), _VALUES)
        size = pa.nulls(n, pa.int32())
        indices = pa.nulls(n, _INDICES)
        kind = _DENSE
    else:
        offsets = pa.array(X.indptr.astype(np.int32))
        values = pa.ListArray.from_arrays(offsets, np.asarray(X.data, float), _VALUES)
        indices = pa.ListArray.from_arrays(offsets, X.indices.astype(np.int32), _INDICES)
        size = pa.array(np.full(n, d, np.int32))
        kind = _SPARSE
    parts = [pa.array(np.full(n, kind, np.int8)), size, indices, values]
    return pa.StructArray.from_arrays(parts, fields=_FIELDS)
