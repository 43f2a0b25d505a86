"""Rows in every form of features, and what a model makes of them."""

import numpy as np
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql.types import ArrayType, DoubleType, StructField, StructType

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


def embedded(model, df):
    """The column, in the order of the rows' numbers."""
    found = model.transform(df).select("id", model.getOutputCol()).collect()
    return np.array([row[1].toArray() for row in sorted(found, key=lambda row: row[0])])
