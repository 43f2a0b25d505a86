"""Crosses that the fit of a recipe chooses, by the command line and by Params."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import OneHotEncoder

from spark_auc import FeatureRecipe
from spark_auc.app.running import run
from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.errors import ConfigError
from spark_auc.features.recipe_json import from_json

SIZES = (3, 4, 5, 6, 8, 12, 20, 40, 100)
PLANTED = {("c1", "c7"), ("c4", "c5")}


def table(n, seed=0):
    """Nine columns of text; two pairs of them interact."""
    rng = np.random.default_rng(seed)
    codes, odds = {}, np.full(n, -1.0)
    for k, size in enumerate(SIZES):
        p = 1 / np.arange(1, size + 1)
        codes[f"c{k}"] = rng.choice(size, n, p=p / p.sum())
        odds += rng.normal(0, 0.3, size)[codes[f"c{k}"]]
    for a, b in sorted(PLANTED):
        cell = codes[a] * 1000 + codes[b]
        odds += rng.normal(0, 2, cell.max() + 1)[cell]
    frame = pd.DataFrame({name: [f"v{v}" for v in code] for name, code in codes.items()})
    frame["label"] = (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(int)
    return frame


def all_pairs_by_hand(frame, train, test):
    """AUC of scikit-learn's ridge on exact one-hot columns of all values and all pairs."""
    names = [name for name in frame if name != "label"]
    crossed = {f"{a} {b}": frame[a] + frame[b] for k, a in enumerate(names) for b in names[k + 1 :]}
    wide = pd.concat([frame[names], pd.DataFrame(crossed)], axis=1)
    encoder = OneHotEncoder(handle_unknown="ignore").fit(wide[train])
    X = {
        half: sparse.csr_matrix(encoder.transform(wide[rows]))
        for half, rows in (("a", train), ("b", test))
    }
    y = frame["label"].to_numpy()
    return max(
        roc_auc_score(
            y[test],
            RidgeClassifier(alpha, class_weight="balanced", solver="sparse_cg")
            .fit(X["a"], y[train])
            .decision_function(X["b"]),
        )
        for alpha in (10.0, 30.0, 100.0)
    )


@pytest.mark.slow
def test_one_command_ranks_nine_categories_as_all_pairs_by_hand(
    spark, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    frame = table(8000)
    frame.to_csv("rows.csv", index=False)
    code = run("train", None, (), (), {"data": "rows.csv", "label": "label", "output": "model"})
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert code == 0, result
    (stored,) = tmp_path.glob("model/versions/*/recipe.json")
    recipe = from_json(stored.read_text())
    assert recipe.crosses is not None
    # At a false discovery rate of 10 % a pair may be found by chance.
    assert set(recipe.crosses.pairs) >= PLANTED
    assert len(recipe.crosses.pairs) <= len(PLANTED) + 1
    assert recipe.crosses.bits <= 12
    assert recipe.chosen_by is not None
    folds = np.random.default_rng(0).random(len(frame)) < 0.8
    by_hand = all_pairs_by_hand(frame, folds, ~folds)
    half_width = (result["interval"]["upper"] - result["interval"]["lower"]) / 2
    assert result["auc"] > by_hand - half_width


def test_params(spark):
    rows = spark.createDataFrame(table(3000))
    found = FeatureRecipe(crosses="auto").fit(rows).recipe
    assert found.crosses is not None
    assert ("c1", "c7") in found.crosses.pairs
    assert FeatureRecipe(crosses="auto").fit(rows.repartition(5)).recipe == found
    numbers = rows.selectExpr("length(c0) + rand(1) AS x", "c1", "label")
    assert FeatureRecipe(crosses="auto").fit(numbers).recipe.crosses is None
    with pytest.raises(ConfigError, match="or 'all' or 'auto'"):
        FeatureRecipe(crosses="some")


def test_the_rows_that_grew_trees_choose(spark):
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    rows = spark.createDataFrame(table(3000))
    trees = {"grow": {"numTrees": 5, "numLeaves": 4, "growShare": 0.6}}
    recipe = FeatureRecipe(crosses="auto", trees=trees).fit(rows).recipe
    assert recipe.trees.grown == KeySample(0.6)
    assert ("c1", "c7") in recipe.crosses.pairs
    assert recipe.chosen_by is None
