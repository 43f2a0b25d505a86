"""Encode rows as an Arrow column of Spark ML vectors."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from spark_auc.core.types import Rows

# Values of ``type`` in `VectorUDT`.
_SPARSE, _DENSE = 0, 1
_NAMES = ["type", "size", "indices", "values"]


def vectors_frame(spark: SparkSession, X: Rows, name: str) -> DataFrame:
    """A DataFrame of one vector column.

    Parameters
    ----------
    spark
        The session.
    X
        Rows ``(n, d)``, dense or CSR.
    name
        Name of the column.
    """
    # `mapInArrow` converts structs to vectors; `createDataFrame` does not.
    structs = spark.createDataFrame(pa.table({name: encode_vectors(X)}))
    return structs.mapInArrow(lambda rows: rows, StructType([StructField(name, VectorUDT())]))


def encode_vectors(X: Rows) -> pa.Array:
    """Rows ``(n, d)``, dense or CSR, as the Arrow structs of `VectorUDT`."""
    n, d = X.shape
    if isinstance(X, np.ndarray):
        offsets = pa.array(np.arange(0, n * d + 1, max(d, 1), dtype=np.int32))
        values = pa.ListArray.from_arrays(offsets, np.ascontiguousarray(X, float).ravel())
        size = pa.nulls(n, pa.int32())
        indices = pa.nulls(n, pa.list_(pa.int32()))
        kind = _DENSE
    else:
        offsets = pa.array(X.indptr.astype(np.int32))
        values = pa.ListArray.from_arrays(offsets, np.asarray(X.data, float))
        indices = pa.ListArray.from_arrays(offsets, X.indices.astype(np.int32))
        size = pa.array(np.full(n, d, np.int32))
        kind = _SPARSE
    parts = [pa.array(np.full(n, kind, np.int8)), size, indices, values]
    return pa.StructArray.from_arrays(parts, _NAMES)
