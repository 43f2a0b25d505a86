"""Trees of a recipe, grown from a part of the rows: the other rows are for the weights."""

from __future__ import annotations

import logging

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from sklearn.metrics import roc_auc_score

from spark_auc import (
    FeatureRecipe,
    MBAClassifier,
    RankerPipeline,
    RankSVMClassifier,
    SOLAMClassifier,
    TanhNetwork,
)
from spark_auc.features.row_groups import row_groups
from spark_auc.spark.features.recipe_model import FeatureRecipeModel
from spark_auc.tables.arrow_columns import raw_column
from spark_auc.trees.grow import grow

pytestmark = pytest.mark.slow

lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")

ROWS = 3000
GROW = {"grow": {"numTrees": 20, "numLeaves": 8}}
NAMES = ["age", "income", "city"]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(4)
    age = rng.integers(18, 80, ROWS)
    city = rng.choice(["a", "b", "c", "köln"], ROWS)
    income = rng.lognormal(8, 2, ROWS)
    score = ((age > 50) ^ np.isin(city, ["a", "köln"])) + rng.normal(0, 0.5, ROWS)
    return pa.table(
        {
            "age": pa.array(age),
            "income": pa.array(income, mask=rng.random(ROWS) < 0.2),
            "city": pa.array(city, mask=rng.random(ROWS) < 0.1),
            "user": pa.array(rng.integers(0, 600, ROWS)),
            "label": pa.array((score > 0.5).astype(float)),
            "noise": pa.array((rng.random(ROWS) < 0.4).astype(float)),
        }
    )


@pytest.fixture(scope="module")
def rows(spark: SparkSession, table: pa.Table) -> DataFrame:
    return spark.createDataFrame(table).repartition(3).cache()


def leaves(**params: object) -> FeatureRecipe:
    return FeatureRecipe(auto=False, trees=GROW, unit=False, leaveOut=["user", "noise"], **params)


def ridge(X: np.ndarray, y: np.ndarray, penalty: float) -> np.ndarray:
    """The weights of the squared loss of all pairs, by its definition."""
    mean = [X[y == c].mean(axis=0) for c in (0, 1)]
    sigma = sum(np.cov(X[y == c].T, bias=True) for c in (0, 1))
    difference = mean[1] - mean[0]
    sigma = sigma + np.outer(difference, difference)
    return np.linalg.solve(sigma + penalty * np.eye(len(difference)), difference)


def test_weights_are_those_of_lightgbms_leaves_of_the_other_rows(rows, table, caplog):
    """Leaves alone; the trees are grown again by the library, from the rows of the sample."""
    with caplog.at_level(logging.INFO, "spark_auc"):
        ranker = MBAClassifier(regParam=0.1, standardization=False)
        model = RankerPipeline([leaves(), ranker]).fit(rows)
    trees = model.recipe.trees
    assert trees.columns[2].values == tuple(
        v for v, _ in sorted(trees_values(table, trees).items(), key=lambda item: -item[1])
    )
    code = {value: k for k, value in enumerate(trees.columns[2].values)}
    numbers = [table[n].to_numpy().astype(float) for n in ("age", "income")]
    city = [code.get(value, np.nan) for value in table["city"].to_pylist()]
    X, y = np.column_stack([*numbers, city]), table["label"].to_numpy()
    inside = trees.grown.of(groups(table))
    order = np.argsort(groups(table)[inside], kind="stable")
    settings = {
        "objective": "binary",
        "num_leaves": 8,
        "learning_rate": 0.1,
        "deterministic": True,
        "force_col_wise": True,
        "cat_smooth": 50.0,
        "cat_l2": 50.0,
        "verbose": -1,
    }
    known = lightgbm.Dataset(X[inside][order], y[inside][order], categorical_feature=[2])
    booster = lightgbm.train(settings, known, 20)
    at = booster.predict(X[~inside], pred_leaf=True)
    counts = [tree["num_leaves"] for tree in booster.dump_model()["tree_info"]]
    assert sum(counts) == trees.forest.leaves
    hot = np.concatenate([np.eye(n)[at[:, k]] for k, n in enumerate(counts)], axis=1)
    expected = ridge(hot, y[~inside], 0.1)
    names = [f"tree {t} leaf {leaf}" for t, n in enumerate(counts) for leaf in range(n)]
    made = dict(zip(trees.names(), model.ranker.coefficients.tolist(), strict=True))
    np.testing.assert_allclose([made[name] for name in names], expected, atol=1e-7)
    # The log says how many rows grew the trees, and the summary how many train.
    assert f"grew from {inside.sum()} rows" in caplog.text
    assert sum(model.ranker.summary.rows.values()) == (~inside).sum()


def trees_values(table: pa.Table, trees) -> dict[str, int]:
    inside = trees.grown.of(groups(table))
    values = table["city"].filter(pa.array(inside)).drop_null().value_counts().to_pylist()
    return {item["values"]: item["counts"] for item in values}


def groups(table: pa.Table, names: list[str] = NAMES) -> np.ndarray:
    return row_groups({name: raw_column(name, table[name].combine_chunks()) for name in names})


@pytest.mark.parametrize("columns", [None, ["income", "city"]], ids=["all", "named"])
def test_the_rows_left_out_are_those_that_grew_the_trees(columns, rows, table, monkeypatch):
    """In any order of the columns, and if the trees split some of them only."""
    given = []

    def seen(X, y, *others, **settings):
        given.append(X)
        return grow(X, y, *others, **settings)

    monkeypatch.setattr("spark_auc.features.tree_growth.grow", seen)
    trees = GROW | ({} if columns is None else {"columns": columns})
    recipe = FeatureRecipe(auto=False, trees=trees, leaveOut=["user", "noise"])
    model = RankerPipeline([recipe, MBAClassifier(regParam=1.0)]).fit(
        rows.select("city", "income", "age", "label", "noise", "user")
    )
    made, (X,) = model.recipe, given
    inside = made.trees.grown.of(groups(table, [c.name for c in made.columns]))
    income = table["income"].to_numpy()[inside]
    place = [c.name for c in made.trees.columns].index("income")
    np.testing.assert_array_equal(np.sort(X[:, place]), np.sort(income))
    assert sum(model.ranker.summary.rows.values()) == (~inside).sum()


def test_labels_of_noise_have_no_auc(rows):
    """With the guard, held-out folds say .5; without it the trees know their rows."""
    noise = rows.drop("label").withColumnRenamed("noise", "label")
    trees = {"grow": {"growShare": 0.7}}
    recipe = FeatureRecipe(auto=False, trees=trees, unit=False, leaveOut=["user"])
    ranker = MBAClassifier(standardization=False)
    honest = RankerPipeline([recipe, ranker]).fit(noise)
    fitted = FeatureRecipeModel(honest.recipe)
    told = RankerPipeline([fitted, ranker]).fit(noise)
    best = [max(c["auc"] for c in m.ranker.summary.selection["candidates"]) for m in (honest, told)]
    assert 0.44 < best[0] < 0.56
    assert best[1] > 0.62


def test_a_fitted_recipe_takes_all_rows_and_says_so(rows, caplog):
    fitted = leaves().fit(rows)
    assert fitted.recipe.trees.grown is not None
    with caplog.at_level(logging.WARNING, "spark_auc"):
        model = RankerPipeline([fitted, MBAClassifier(regParam=1.0)]).fit(rows)
    assert sum(model.ranker.summary.rows.values()) == ROWS
    assert "all rows train" in caplog.text


@pytest.mark.parametrize(
    "ranker",
    [
        MBAClassifier(keyCol="user"),
        RankSVMClassifier(regParam=0.1),
        SOLAMClassifier(standardization=True),
    ],
    ids=["key", "ranksvm", "solam"],
)
def test_all_learners_leave_the_rows_out(ranker, rows, table):
    model = RankerPipeline([leaves(), ranker]).fit(rows)
    grown = model.recipe.trees.grown
    if ranker.values().get("keyCol"):
        hashed = rows.select(F.xxhash64("user")).toArrow().column(0).combine_chunks()
        inside = grown.of(hashed.to_numpy().view(np.uint64))
    else:
        inside = grown.of(groups(table))
    assert sum(model.ranker.summary.rows.values()) == (~inside).sum()


def test_a_trained_network_leaves_its_rows_out(rows, table):
    """After trees, and the rows of both are left out; the labels of a network's rows are noise."""
    noise = rows.drop("label").withColumnRenamed("noise", "label")
    network = TanhNetwork(numOutputs=8, trained=True, sampleSize=600, maxIter=20)
    recipe = FeatureRecipe(auto=False, trees=GROW, unit=False, leaveOut=["user"])
    model = RankerPipeline([recipe, network, MBAClassifier(regParam=0.1)]).fit(noise)
    left = ROWS - model.recipe.trees.grown.of(groups(table)).sum()
    trained = sum(model.ranker.summary.rows.values())
    assert 0.3 * left < left - trained < 0.55 * left or abs(left - trained - 600) < 100


def test_leaves_beside_splines_tokens_and_crosses(rows, table):
    recipe = FeatureRecipe(
        trees=GROW, leaveOut=["user", "noise"], numKnots=4, dimension=64, crosses="all", crossBits=6
    )
    model = RankerPipeline([recipe, MBAClassifier()]).fit(rows)
    made = model.recipe
    assert {c.name for c in made.trees.columns} == set(NAMES)
    assert made.numeric
    assert made.hashed
    assert made.crosses
    scores = model.transform(rows).select("rawPrediction", "label").toArrow().to_pandas()
    assert roc_auc_score(scores.label, scores.rawPrediction) > 0.8
