"""The trees of Spark ML's saved models: the leaves and scores of the models themselves."""

import numpy as np
import pytest
from pyspark.ml import classification, regression
from pyspark.ml.functions import array_to_vector, vector_to_array
from pyspark.sql import functions as F

from spark_auc.errors import ModelFormatError
from spark_auc.spark.features.tree_models import read_spark_trees
from spark_auc.trees.forest_json import from_json, to_json
from spark_auc.trees.leaves import leaves
from tests.trees.forests import edge_rows, labels, same

D = 4
SHAPE = {"maxDepth": 4, "minInstancesPerNode": 2, "seed": 1}
MAKERS = {
    "tree": (classification.DecisionTreeClassifier, {}),
    "forest": (classification.RandomForestClassifier, {"numTrees": 2}),
    "gbt": (classification.GBTClassifier, {"maxIter": 2, "stepSize": 0.3}),
    "values": (regression.RandomForestRegressor, {"numTrees": 2}),
}


def trained(name, rows):
    kind, settings = MAKERS[name]
    return kind(**SHAPE, **settings).fit(rows)


def vectors(spark, X, *others):
    """Rows as vectors, in order."""
    rows = [
        (k, row.tolist(), *map(float, more))
        for k, (row, *more) in enumerate(zip(X, *others, strict=True))
    ]
    schema = "id long, x array<double>" + ", label double" * len(others)
    return spark.createDataFrame(rows, schema).withColumn("vector", array_to_vector("x"))


def rows(n=800):
    """Two numeric columns, and two of categories."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, D))
    X[:, 1] = X[:, 1].round(1)
    X[:, 2], X[:, 3] = rng.integers(0, 7, n), rng.integers(0, 12, n)
    score = X[:, 0] + np.isin(X[:, 2], [1, 5, 6]) + np.isin(X[:, 3], [0, 2, 3, 7, 8, 9, 11])
    return X, score + rng.normal(size=n) / 2 > 1.0


X, Y = rows()


@pytest.fixture(scope="module")
def indexed(spark):
    """The rows as Spark ML's trees take them."""
    kinds = {
        "numeric": [{"idx": 0}, {"idx": 1}],
        "nominal": [{"idx": j, "vals": [f"{k}" for k in range(n)]} for j, n in ((2, 7), (3, 12))],
    }
    kept = {"ml_attr": {"attrs": kinds, "num_attrs": D}}
    features = F.col("vector").alias("features", metadata=kept)
    return vectors(spark, X, Y).select("id", "label", features).cache()


@pytest.mark.parametrize("name", MAKERS)
def test_leaves_are_those_of_spark_ml(spark, indexed, tmp_path, name):
    model = trained(name, indexed).setLeafCol("leaf")
    model.write().save(str(tmp_path / "model"))
    forest = read_spark_trees(str(tmp_path / "model"), spark)
    # On Spark 4.1 tasks cannot take a trained forest, if any rows were counted by ``observe``.
    model = type(model).load(str(tmp_path / "model"))
    assert same(from_json(to_json(forest)), forest)
    assert {0, 4, 13} <= set(forest.rule.tolist())
    hostile = np.concatenate([edge_rows(forest, 1500), X[:500]])
    scored = model.transform(vectors(spark, hostile).withColumnRenamed("vector", "features"))
    leaf = vector_to_array("leaf") if forest.trees > 1 else F.array("leaf")
    share = F.col("prediction") if name == "values" else vector_to_array("probability")[1]
    expected = scored.orderBy("id").select(leaf, share).toArrow()
    found = leaves(forest, hostile)
    np.testing.assert_array_equal(labels(forest, found), expected[0].to_pylist())
    score = found @ forest.values + forest.offset
    if name == "gbt":
        score = 1 / (1 + np.exp(-2 * score))
    np.testing.assert_allclose(score, expected[1].to_numpy(), rtol=1e-12, atol=1e-15)
    assert np.unique(found.indices).size > 0.7 * forest.leaves


def test_other_models_are_refused(spark, indexed, tmp_path):
    path = str(tmp_path / "model")
    with pytest.raises(ModelFormatError, match="found no model of trees in "):
        read_spark_trees(path, spark)
    linear = classification.LogisticRegression(maxIter=0).fit(indexed)
    linear.write().save(path)
    with pytest.raises(ModelFormatError, match=r"LogisticRegressionModel.*expected one of Dec"):
        read_spark_trees(path, spark)
    three = indexed.withColumn("label", F.col("id") % 3)
    trained("tree", three).write().overwrite().save(path)
    with pytest.raises(ModelFormatError, match="found a model of 3 classes, expected 2"):
        read_spark_trees(path, spark)
