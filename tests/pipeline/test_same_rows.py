"""Pipelines that train on the rows that grew their trees, beside the library's leaves."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from sklearn.metrics import roc_auc_score

from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.errors import ConfigError, DataError
from spark_auc.features.row_groups import row_groups
from spark_auc.pipeline.estimators import MBAEstimator, PipelineEstimator, RecipeEstimator
from spark_auc.tables.arrow_columns import raw_column
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.hashes import xxhash64
from spark_auc.trees.grow import grow

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


def fitted(data, made, ranker=None):
    return PipelineEstimator([made, ranker or MBAEstimator()]).fitted(ArrowTable.of(data, 500))


def settings(**params):
    grow = GROW | params.pop("grow", {})
    return {"auto": False, "trees": {"grow": grow}} | params


def recipe(**params):
    return RecipeEstimator(**settings(**params))


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


def groups_of(data, keyed):
    if keyed:
        return xxhash64([data["user"].combine_chunks()])
    names = ("city", "a", "b", "c")
    return row_groups({n: raw_column(n, data[n].combine_chunks()) for n in names})


def scores_of(L, w):
    """Scores that are equal for equal rows; BLAS adds up some rows in another order."""
    return (L * w).sum(axis=1)


@pytest.mark.parametrize("keyed", [True, False], ids=["key and weight", "plain"])
def test_weights_are_those_of_lightgbms_leaves_of_the_same_rows(keyed):
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    made, ranker = recipe(leaveOut=["user", "weight"]), MBAEstimator()
    if keyed:
        made, ranker = recipe(), MBAEstimator(keyCol="user", weightCol="weight")
    data = table(0)
    model = fitted(data, made, ranker)
    trees, summary = model.recipe.trees, model.ranker.summary
    assert trees.grown is None
    assert [c.name for c in trees.columns] == ["city", "a", "b", "c"]
    known = {value: k for k, value in enumerate(trees.columns[0].values)}
    assert set(known) == {"a", "b", "c", "köln"}
    city = [known[value] for value in data["city"].to_pylist()]
    X = np.column_stack([city, *(data[name].to_numpy() for name in "abc")])
    y, groups = data["label"].to_numpy(), groups_of(data, keyed)
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
    weights = dict(zip(trees.names(), model.ranker.scorer.w.tolist(), strict=True))
    np.testing.assert_allclose([weights[name] for name in names], expected, atol=1e-6)
    assert summary.reg_param == pytest.approx(reg, rel=1e-9)
    assert sum(summary.rows.values()) == ROWS
    assert summary.prior["shared"] == values.size
    assert (summary.prior["scale"] is not None) == (chosen >= 25)


def test_held_out_rows_are_ranked_no_worse_than_by_the_trees():
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    others = table(1)
    differences = []
    for seed in range(3):
        made = recipe(leaveOut=["user", "weight"], grow={"seed": seed})
        model = fitted(table(0), made)
        names = ("city", "a", "b", "c")
        columns = {n: raw_column(n, others[n].combine_chunks()) for n in names}
        L, y = model.recipe.transform(columns), others["label"].to_numpy()
        ours, trees = (
            roc_auc_score(y, L @ w)
            for w in (model.ranker.scorer.w, model.recipe.trees.forest.values)
        )
        differences.append(ours - trees)
    assert min(differences) > -0.01
    assert np.mean(differences) > -0.003


def test_labels_of_noise_are_not_believed():
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    made = recipe(leaveOut=["user", "weight"], grow={"numTrees": 60})
    model = fitted(table(2, True), made)
    found = [c["auc"] for c in model.ranker.summary.selection["candidates"]]
    assert np.abs(np.array(found) - 0.5).max() < 0.08


def test_one_penalty_grows_once(monkeypatch):
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    given = []

    def seen(X, *others, **settings):
        given.append(len(X))
        return grow(X, *others, **settings)

    monkeypatch.setattr("spark_auc.features.tree_growth.grow", seen)
    model = fitted(table(0), recipe(), MBAEstimator(regParam=1.0))
    assert given == [ROWS]
    assert model.ranker.summary.selection is None
    assert model.ranker.summary.prior["scale"] > 0


def test_rows_above_the_most_are_refused():
    with pytest.raises(ConfigError, match=r"found 1600 rows .* maxGrowRows 1000; set a growShare"):
        fitted(table(0), recipe(grow={"maxGrowRows": 1000}))


def test_rows_of_one_class_are_refused():
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    with pytest.raises(DataError, match=r"found one class only: 1\.0"):
        fitted(table(0).filter(pc.field("label") == 1), recipe())
