"""Rows in every form of features, and what a model makes of them."""

import numpy as np
import pyarrow as pa
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql.types import ArrayType, DoubleType, StructField, StructType
from scipy.sparse import csr_array

from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.encoders import encode_vectors

N, D, SEED = 240, 5, 7
RNG = np.random.default_rng(11)
X = np.round(RNG.normal(size=(N, D)) * [1, 2, 5, 1, 1] * (RNG.random((N, D)) < 0.8), 3)
X[:, 3] += 4
Y = X[:, 0] * X[:, 1] + RNG.normal(size=N) > 0.3
COLUMNS = [f"x.{j}" for j in range(D)]
FORMS = {"numbers": COLUMNS, "dense": "dense", "sparse": "sparse", "array": "array"}

SCHEMA = StructType(
    [StructField(c, DoubleType()) for c in ["id", "label", *COLUMNS]]
    + [StructField("array", ArrayType(DoubleType()))]
    + [StructField(c, VectorUDT()) for c in ("dense", "sparse")]
)


def table(spark, values=X):
    """Rows in every form."""

    def sparse_of(row):
        return Vectors.sparse(D, [(j, v) for j, v in enumerate(row) if v])

    listed = values.tolist()
    made = [
        (float(k), float(Y[k]), *row, row, Vectors.dense(row), sparse_of(row))
        for k, row in enumerate(listed)
    ]
    return spark.createDataFrame(made, SCHEMA)


def table_here(part_rows=70):
    """The same rows as a table of this process."""
    vectors = {"dense": encode_vectors(X), "sparse": encode_vectors(csr_array(X))}
    numbers = {"id": np.arange(float(N)), "label": Y.astype(float)}
    numbers |= {name: X[:, j] for j, name in enumerate(COLUMNS)}
    return ArrowTable.of(pa.table(numbers | {"array": list(X)} | vectors), part_rows)


def fitted(estimator, table):
    """The model that an estimator of embeddings fits to a table of any engine."""
    estimator.check()
    return estimator.fitted(table, estimator.input_features(table))


def embedded(model, df):
    """The column, in the order of the rows' numbers."""
    found = model.transform(df).select("id", model.getOutputCol()).collect()
    return np.array([row[1].toArray() for row in sorted(found, key=lambda row: row[0])])
