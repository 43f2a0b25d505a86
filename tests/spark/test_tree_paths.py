"""Pipelines with the trees of saved models: the leaves of the libraries, on every row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyspark.ml import classification
from pyspark.ml.functions import array_to_vector, vector_to_array
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_auc import FeatureRecipe, FeatureRecipeModel, MBAClassifier, RankerPipeline
from spark_auc.errors import ConfigError, ModelFormatError

pytestmark = pytest.mark.slow

# Columns in the order of the models, which is not that of the DataFrames.
NAMES = ["price", "age of it", "kind"]
ROWS = 1500


def made() -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels; the last column has categories."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(ROWS, 3))
    X[:, 1] = X[:, 1].round(1)
    X[:, 2] = rng.integers(0, 9, ROWS)
    score = X[:, 0] * X[:, 1] + np.isin(X[:, 2], [1, 4, 6]) + rng.normal(0, 0.4, ROWS)
    return X, (score > 0.4).astype(float)


X, Y = made()


def hostile() -> np.ndarray:
    """Missing values, and categories and numbers that no row of the training has."""
    H = X[:400].copy()
    H[:90:2, 0], H[30:120:3, 1], H[60:150, 2] = np.nan, np.nan, np.nan
    H[150:200, 2] = np.arange(9, 59)
    H[200:230, 0], H[230:260, 1] = 1e30, -1e30
    return H


HOSTILE = hostile()


def frame(spark: SparkSession, values: np.ndarray, y: np.ndarray) -> DataFrame:
    """Rows with an id and other columns between; half of the missing values are null."""
    lines = [
        (int(k), float(row[2]), float(row[1]), "text", float(row[0]), float(label))
        for k, (row, label) in enumerate(zip(values, y, strict=True))
    ]
    df = spark.createDataFrame(
        lines, "id long, kind double, `age of it` double, name string, price double, label double"
    )
    is_null = F.isnan("price") & (F.col("id") % 4 == 0)
    return df.withColumn("price", F.when(~is_null, F.col("price"))).repartition(3)


def lightgbm_model(spark: SparkSession, path: Path) -> tuple[str, np.ndarray]:
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    rows = lightgbm.Dataset(X, Y, feature_name=NAMES, categorical_feature=["kind"])
    settings = {"objective": "binary", "num_leaves": 8, "verbose": -1, "num_threads": 1}
    model = lightgbm.train(settings | {"min_data_per_group": 5, "cat_smooth": 1}, rows, 9)
    model.save_model(path / "model.txt")
    return str(path / "model.txt"), model.predict(HOSTILE, pred_leaf=True)


def xgboost_model(suffix: str, spark: SparkSession, path: Path) -> tuple[str, np.ndarray]:
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
    kinds = {"feature_names": NAMES, "feature_types": ["float", "float", "c"], "nthread": 1}
    rows = xgboost.DMatrix(X, Y, enable_categorical=True, **kinds)
    settings = {"objective": "binary:logistic", "max_depth": 4, "nthread": 1}
    model = xgboost.train(settings | {"max_cat_to_onehot": 1}, rows, 9)
    (path / f"model{suffix}").write_bytes(model.save_raw(suffix.strip(".") or "ubj"))
    others = xgboost.DMatrix(HOSTILE, enable_categorical=True, **kinds)
    return str(path / f"model{suffix}"), model.predict(others, pred_leaf=True)


def vectors(spark: SparkSession, values: np.ndarray) -> DataFrame:
    lines = [(k, row.tolist(), float(Y[k])) for k, row in enumerate(values)]
    df = spark.createDataFrame(lines, "id long, x array<double>, label double")
    nominal = [{"idx": 2, "vals": [str(k) for k in range(9)]}]
    attributes = {"numeric": [{"idx": 0}, {"idx": 1}], "nominal": nominal}
    kept = {"ml_attr": {"attrs": attributes, "num_attrs": 3}}
    return df.withColumn("v", array_to_vector("x")).withColumn(
        "features", F.col("v").alias("features", metadata=kept)
    )


def spark_model(name: str, spark: SparkSession, path: Path) -> tuple[str, np.ndarray]:
    sizes = {"maxDepth": 3, "seed": 1}
    trainer = {
        "gbt": classification.GBTClassifier(maxIter=4, **sizes),
        "forest": classification.RandomForestClassifier(numTrees=5, **sizes),
    }[name]
    model = trainer.fit(vectors(spark, X)).setLeafCol("leaf")
    model.write().save(str(path / "model"))
    # On Spark 4.1 tasks cannot take a trained forest, if any rows were counted by ``observe``.
    model = type(model).load(str(path / "model"))
    leaf = model.transform(vectors(spark, HOSTILE)).orderBy("id").select(vector_to_array("leaf"))
    return str(path / "model"), np.array(leaf.toArrow()[0].to_pylist())


MODELS = {
    "lightgbm": lightgbm_model,
    "json": lambda *given: xgboost_model(".json", *given),
    "ubj": lambda *given: xgboost_model(".ubj", *given),
    "no suffix": lambda *given: xgboost_model("", *given),
    "gbt": lambda *given: spark_model("gbt", *given),
    "forest": lambda *given: spark_model("forest", *given),
}


@pytest.mark.parametrize("name", MODELS)
def test_leaves_of_a_pipeline_are_those_of_the_library(name, spark, tmp_path):
    path, expected = MODELS[name](spark, tmp_path)
    trees = {"path": path} | ({"columns": NAMES} if name in ("gbt", "forest") else {})
    recipe = FeatureRecipe(auto=False, trees=trees, unit=False)
    ranker = MBAClassifier(regParam=0.1, standardization=False)
    model = RankerPipeline([recipe, ranker]).fit(frame(spark, X, Y))
    # No row is left out.
    assert sum(model.ranker.summary.rows.values()) == ROWS
    of_trees = model.recipe.trees
    assert [column.name for column in of_trees.columns] == NAMES
    rows = frame(spark, HOSTILE, Y[: len(HOSTILE)])
    mapped = FeatureRecipeModel(model.recipe).transform(rows).orderBy("id").toArrow()
    # The numbers of leaves that the library gives, from the names of the features.
    names, labels = model.recipe.names(), expected.astype(int)
    for row, vector in zip(labels, mapped["features"].to_pylist(), strict=True):
        assert vector["values"] == [1.0] * len(row)
        found = [names[k] for k in vector["indices"]]
        assert found == [f"tree {t} leaf {leaf}" for t, leaf in enumerate(row)]
    # Scores are the sums of the weights of these leaves.
    weights = dict(zip(names, model.ranker.coefficients.tolist(), strict=True))
    sums = [sum(weights[f"tree {t} leaf {k}"] for t, k in enumerate(row)) for row in labels]
    scores = model.transform(rows).orderBy("id").toArrow()["rawPrediction"].to_numpy()
    np.testing.assert_allclose(scores - scores[0], np.array(sums) - sums[0], atol=1e-12)


def test_models_without_names_ask_for_columns(spark, tmp_path):
    path, _ = spark_model("forest", spark, tmp_path)
    rows = frame(spark, X, Y)

    def fitted(**trees):
        return FeatureRecipe(auto=False, trees=trees).fit(rows)

    with pytest.raises(ConfigError, match=r"no names of columns .* set trees\.columns"):
        fitted(path=path)
    path, _ = lightgbm_model(spark, tmp_path)
    with pytest.raises(ConfigError, match=r"'price' \(0 columns\)"):
        FeatureRecipe(auto=False, trees={"path": path}).fit(rows.drop("price"))
    with pytest.raises(ConfigError, match="found column 'name' of type text"):
        fitted(path=path, columns=["price", "name", "kind"])
    with pytest.raises(ConfigError, match="found 2 columns for trees of 3"):
        fitted(path=path, columns=NAMES[:2])
    (tmp_path / "other").write_bytes(b"binf\xff\xfe")
    with pytest.raises(ModelFormatError, match="found other binary data"):
        fitted(path=str(tmp_path / "other"))
    (tmp_path / "cut.ubj").write_bytes(b"{L" + bytes(7) + b"\7learner{")
    with pytest.raises(ModelFormatError, match="of Universal Binary JSON"):
        fitted(path=str(tmp_path / "cut.ubj"))


@pytest.mark.parametrize("others", [{"standard": ["price"]}, {"tokens": ["name"]}])
def test_columns_of_trees_alone_are_watched(others, spark, tmp_path):
    path, _ = lightgbm_model(spark, tmp_path)
    train = frame(spark, X, Y).withColumn("kind", F.when(F.col("id") % 5 > 0, F.col("kind")))
    fitted = FeatureRecipe(auto=False, trees={"path": path}, **others).fit(train)
    assert fitted.drift_of(train).excesses(fitted.drift) == ()
    places = [column.name for column in fitted.recipe.columns]
    assert fitted.drift.counts[places.index("kind"), :2].tolist() == [ROWS, ROWS // 5]
    changed = train.withColumn("kind", F.lit(None).cast("double"))
    assert {e.column for e in fitted.drift_of(changed).excesses(fitted.drift)} == {"kind"}
