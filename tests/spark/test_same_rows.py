"""Training on the rows that grew the trees: a DataFrame beside arrays of the same rows."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from sklearn.metrics import roc_auc_score

from spark_auc import (
    FeatureRecipe,
    MBAClassifier,
    MBASelector,
    NystroemEmbedding,
    RankerPipeline,
    RankSVMClassifier,
    SOLAMClassifier,
)
from spark_auc.core.batch import Batch
from spark_auc.core.row_source import ArrayRows
from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.errors import ConfigError, DataError
from spark_auc.features.raw_columns import Numbers
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_trees import TreeLeaves
from spark_auc.features.row_groups import row_groups
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.spark.method_choice import MethodChooser
from spark_auc.tables.arrow_columns import raw_column
from spark_auc.tables.columns import TrainingColumns
from spark_auc.tables.raw_features import RawFeatures
from spark_auc.tables.rows import TableRows
from spark_auc.training.prior import Prior
from spark_auc.training.same_rows import GrownRows, train_on_same_rows
from spark_auc.training.settings import TrainingSettings
from spark_auc.trees.grow import grow

TYPES = {"a": "float", "b": "float"}
GROW = {"numTrees": 15, "numLeaves": 6, "growShare": 1.0, "seed": 3}
ROWS = 1600


def table(seed, noise=False):
    rng = np.random.default_rng(seed)
    a, b, c = rng.normal(size=(3, ROWS)).round(3)
    city = rng.choice(["a", "b", "c", "köln"], ROWS)
    score = a * b + c + np.isin(city, ["a", "köln"]) + rng.normal(size=ROWS)
    y = (rng.random(ROWS) < 0.4) if noise else score > 0.7
    columns = {"city": city, "a": a, "b": b, "c": c, "user": rng.integers(0, 500, ROWS)}
    weight = rng.choice([0.5, 1.0, 3.0], ROWS)
    return pa.table({**columns, "weight": weight, "label": y.astype(float)})


@pytest.fixture(scope="module")
def rows(spark):
    return spark.createDataFrame(table(0)).repartition(3).cache()


def recipe(**params):
    grow = GROW | params.pop("grow", {})
    return FeatureRecipe(**{"auto": False, "trees": {"grow": grow}} | params)


def one_hot(booster, X):
    """The leaves of rows by the library, their values, and their names in a recipe."""
    at = booster.predict(X, pred_leaf=True)
    trees = booster.dump_model()["tree_info"]
    counts = [tree["num_leaves"] for tree in trees]
    hot = np.concatenate([np.eye(n)[at[:, k]] for k, n in enumerate(counts)], axis=1)
    values = [booster.get_leaf_output(t, j) for t, n in enumerate(counts) for j in range(n)]
    names = [f"tree {t} leaf {j}" for t, n in enumerate(counts) for j in range(n)]
    return hot, np.array(values), names


def ridge(L, y, u, number, values):
    """Weights for a penalty of the default ones by weighted means and covariances, and it."""
    mean = [np.average(L[y == c], axis=0, weights=u[y == c]) for c in (0, 1)]
    mu = mean[1] - mean[0]
    Sigma = sum(np.cov(L[y == c].T, ddof=0, aweights=u[y == c]) for c in (0, 1))
    Sigma = Sigma + np.outer(mu, mu)
    centre = np.zeros(mu.size)
    if number >= 25:
        centre = values * (values @ mu) / (values @ Sigma @ values)
    reg = np.trace(Sigma) * 10.0 ** (-7 + 8 * (number % 25) / 24)
    return centre + np.linalg.solve(Sigma + reg * np.eye(mu.size), mu - Sigma @ centre), reg


def boosted(lightgbm, X, y, u, groups):
    """The library's trees; rows of a group are in their order."""
    order = np.argsort(groups, kind="stable")
    settings = {"objective": "binary", "num_leaves": 6, "seed": 3, "verbose": -1}
    settings |= {"deterministic": True, "force_col_wise": True, "num_threads": 1}
    settings |= {"cat_smooth": 50.0, "cat_l2": 50.0}
    known = lightgbm.Dataset(X[order], y[order], weight=u[order], categorical_feature=[0])
    return lightgbm.train(settings, known, 15)


def groups_of(data, spark, keyed):
    if not keyed:
        names = ("city", "a", "b", "c")
        return row_groups({n: raw_column(n, data[n].combine_chunks()) for n in names})
    hashed = spark.createDataFrame(data).select("user", F.xxhash64("user")).distinct()
    of_user = {user: np.int64(value).astype(np.uint64) for user, value in hashed.collect()}
    return np.array([of_user[user] for user in data["user"].to_pylist()], np.uint64)


def scores_of(L, w):
    """Scores that are equal for equal rows; BLAS adds up some rows in another order."""
    return (L * w).sum(axis=1)


@pytest.mark.parametrize("keyed", [True, False], ids=["key and weight", "plain"])
def test_weights_are_those_of_lightgbms_leaves_of_the_same_rows(keyed, rows, spark):
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    made, ranker = recipe(leaveOut=["user", "weight"]), MBAClassifier()
    if keyed:
        made, ranker = recipe(), MBAClassifier(keyCol="user", weightCol="weight")
    model = RankerPipeline([made, ranker]).fit(rows)
    data, trees, summary = table(0), model.recipe.trees, model.ranker.summary
    assert trees.grown is None
    assert [c.name for c in trees.columns] == ["city", "a", "b", "c"]
    known = {value: k for k, value in enumerate(trees.columns[0].values)}
    assert set(known) == {"a", "b", "c", "köln"}
    city = [known[value] for value in data["city"].to_pylist()]
    X = np.column_stack([city, *(data[name].to_numpy() for name in "abc")])
    y, groups = data["label"].to_numpy(), groups_of(data, spark, keyed)
    u = data["weight"].to_numpy() if keyed else np.ones(ROWS)
    inside = KeySample(0.8, 3).of(groups)

    # The penalties by their AUC on the rows that grew nothing.
    some = (part[inside] for part in (X, y, u, groups))
    L, values, _ = one_hot(boosted(lightgbm, *some), X)
    candidates = summary.selection["candidates"]
    assert len(candidates) == 50
    for number in (12, 24, 37, 49):
        found = candidates[number]
        assert found["prior"] == (number >= 25)
        w, reg = ridge(L[inside], y[inside], u[inside], number, values)
        assert found["regParam"] == pytest.approx(reg, rel=1e-9)
        expected = roc_auc_score(y[~inside], scores_of(L[~inside], w), sample_weight=u[~inside])
        assert found["auc"] == pytest.approx(expected, abs=1e-6)
        assert found["standardError"] is None
    # The weights by the trees of all rows.
    L, values, names = one_hot(boosted(lightgbm, X, y, u, groups), X)
    chosen = summary.selection["chosen"]
    expected, reg = ridge(L, y, u, chosen, values)
    weights = dict(zip(trees.names(), model.ranker.coefficients.tolist(), strict=True))
    np.testing.assert_allclose([weights[name] for name in names], expected, atol=1e-6)
    assert summary.reg_param == pytest.approx(reg, rel=1e-9)
    assert sum(summary.rows.values()) == ROWS
    assert summary.prior["shared"] == values.size
    assert (summary.prior["scale"] is not None) == (chosen >= 25)


def test_held_out_rows_are_ranked_no_worse_than_by_the_trees(spark, rows):
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    others = table(1)
    differences = []
    for seed in range(3):
        made = recipe(leaveOut=["user", "weight"], grow={"seed": seed})
        model = RankerPipeline([made, MBAClassifier()]).fit(rows)
        names = ("city", "a", "b", "c")
        columns = {n: raw_column(n, others[n].combine_chunks()) for n in names}
        L, y = model.recipe.transform(columns), others["label"].to_numpy()
        ours, trees = (
            roc_auc_score(y, L @ w)
            for w in (model.ranker.coefficients, model.recipe.trees.forest.values)
        )
        differences.append(ours - trees)
    assert min(differences) > -0.01
    assert np.mean(differences) > -0.003


def test_labels_of_noise_are_not_believed(spark):
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    made = recipe(leaveOut=["user", "weight"], grow={"numTrees": 60})
    model = RankerPipeline([made, MBAClassifier()]).fit(spark.createDataFrame(table(2, True)))
    found = [c["auc"] for c in model.ranker.summary.selection["candidates"]]
    assert np.abs(np.array(found) - 0.5).max() < 0.08


def test_leaves_beside_splines_and_tokens(rows, tmp_path):
    """Their weights are 0 in the prior; a saved model scores the same."""
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    columns = {"numKnots": 4, "dimension": 16, "leaveOut": ["user", "weight"]}
    made = recipe(auto=True, **columns, crosses="all", crossBits=6)
    ranker = MBASelector(regParams=[1e-2, 1.0, 1e4])
    model = RankerPipeline([made, ranker]).fit(rows)
    assert model.recipe.numeric
    assert model.recipe.hashed
    assert not model.recipe.unit
    prior = model.ranker.summary.prior
    assert prior["shared"] == model.recipe.trees.size
    assert prior["new"] == model.recipe.size - model.recipe.trees.size > 16
    assert len(model.ranker.summary.selection["candidates"]) == 6
    model.save(str(tmp_path / "model"))
    again = type(model).load(str(tmp_path / "model"))
    both = [m.transform(rows).select("rawPrediction", "label").toArrow() for m in (model, again)]
    assert both[0] == both[1]
    assert roc_auc_score(both[0]["label"].to_numpy(), both[0]["rawPrediction"].to_numpy()) > 0.8


def test_one_penalty_grows_once(rows, monkeypatch):
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    given = []

    def seen(X, *others, **settings):
        given.append(len(X))
        return grow(X, *others, **settings)

    monkeypatch.setattr("spark_auc.features.tree_growth.grow", seen)
    model = RankerPipeline([recipe(), MBAClassifier(regParam=1.0)]).fit(rows)
    assert given == [ROWS]
    assert model.ranker.summary.selection is None
    assert model.ranker.summary.prior["scale"] > 0


@pytest.mark.parametrize(
    ("params", "stages", "found"),
    [
        ({}, [RankSVMClassifier(regParam=0.1)], "a RankSVMClassifier"),
        ({}, [SOLAMClassifier()], "a SOLAMClassifier"),
        ({}, [NystroemEmbedding(), MBAClassifier()], "1 embeddings"),
        ({}, [MBAClassifier(prior="old")], "found prior with"),
        ({}, [MBAClassifier(estimator="paired")], "found estimator with"),
        ({}, [MBAClassifier(segmentCol="city")], "found segmentCol with"),
        ({}, [MBAClassifier(foldCol="user")], "found foldCol with"),
        ({}, [MBASelector(numFolds=3)], "found numFolds with"),
        ({}, [MBASelector(selectionRule="oneStandardError")], "found selectionRule with"),
        ({}, [MBAClassifier(seed=3)], "found seed with"),
        ({}, [MBAClassifier(keepMoments=True)], "found keepMoments with"),
        ({}, [MBAClassifier(maxFPR=0.1)], "found maxFPR with"),
        ({"pairs": 3}, [MBAClassifier()], "found pairs 3 with"),
        ({}, [MBAClassifier(standardization=True)], "found standardization with"),
        ({"unit": True}, [MBAClassifier()], "found unit with"),
        ({"crosses": "auto"}, [MBAClassifier()], "found crosses 'auto' with"),
        ({"numKnots": [2, 9]}, [MBAClassifier()], r"found numKnots \[2, 9\] with"),
    ],
)
def test_other_stages_are_refused(spark, params, stages, found):
    pipeline = RankerPipeline([recipe(**params), *stages])
    for refused in (pipeline.check, lambda: pipeline.fit(None)):
        with pytest.raises(ConfigError, match=found) as error:
            refused()
        assert "growShare 1" in str(error.value)
        assert "\n" not in str(error.value)


def test_a_recipe_without_its_ranker_is_refused(rows):
    with pytest.raises(ConfigError, match="growShare 1 for a recipe that is fitted before"):
        recipe().fit(rows)
    with pytest.raises(ConfigError, match="growShare 1 for a choice of methods"):
        MethodChooser(recipe()).fit(rows)


def test_rows_above_the_most_are_refused(rows):
    pipeline = RankerPipeline([recipe(grow={"maxGrowRows": 1000}), MBAClassifier()])
    with pytest.raises(ConfigError, match=r"found 1600 rows .* maxGrowRows 1000; set a growShare"):
        pipeline.fit(rows)


def test_rows_of_one_class_are_refused(rows):
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    with pytest.raises(DataError, match="0 negative rows"):
        RankerPipeline([recipe(), MBAClassifier()]).fit(rows.filter("label = 1"))


def test_a_dataframe_and_arrays_train_the_same_weights(spark):
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2)).round(2)
    y = X[:, 0] * X[:, 1] + rng.normal(size=600) > 0.3
    df = spark.createDataFrame(
        [(*map(float, x), int(label)) for x, label in zip(X, y, strict=True)],
        ["a", "b", "label"],
    ).repartition(3)
    columns = {name: Numbers(values) for name, values in zip(TYPES, X.T, strict=True)}
    groups = row_groups(columns)

    def recipe_of(sample):
        inside = np.ones(y.size, bool) if sample is None else sample.of(groups)
        forest = grow(X[inside], y[inside], numTrees=8, numLeaves=5)
        return Recipe(trees=TreeLeaves.of(forest, TYPES), unit=False)

    def distributed(sample):
        recipe = recipe_of(sample)
        features = replace(RawFeatures.of(SparkTable(df), recipe), by_values=True)
        source = TableRows.of(
            SparkTable(df), TrainingColumns.resolve(SparkTable(df), features, "label")
        )
        return GrownRows(source, Prior.of_trees(recipe))

    def in_memory(sample):
        recipe = recipe_of(sample)
        batch = Batch(recipe.transform(columns), y, group=groups)
        return GrownRows(ArrayRows((batch,), recipe.size), Prior.of_trees(recipe))

    settings = TrainingSettings(reg_params=(1e-2, 1.0, 1e3), standardize=False)
    sample = KeySample(0.8, 1)
    theirs = train_on_same_rows(in_memory, sample, settings)
    ours = train_on_same_rows(distributed, sample, settings)
    np.testing.assert_allclose(ours.selection.auc, theirs.selection.auc, atol=1e-12)
    assert ours.selection.chosen == theirs.selection.chosen
    np.testing.assert_allclose(ours.w, theirs.w, rtol=1e-8, atol=1e-12)
    assert ours.labels.rows == {0: int((~y).sum()), 1: int(y.sum())}
