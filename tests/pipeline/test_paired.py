"""Pairs of columns that a pipeline takes where they rank held-out rows better."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.metrics import roc_auc_score

from spark_auc import train
from spark_auc.errors import ConfigError
from spark_auc.pipeline import pipeline_fit
from spark_auc.pipeline.estimators import MBAEstimator, PipelineEstimator, RecipeEstimator
from spark_auc.tables.arrow_table import ArrowTable


def frame(kind, n=1500, seed=0):
    """Rows of numbers, the first two of which interact, add up, or have no relation."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    signal = {"product": X[:, 0] * X[:, 1], "sum": X[:, 0] + X[:, 1], "none": 0.0 * X[:, 0]}[kind]
    y = signal + 0.5 * rng.normal(size=n) > 0
    return pd.DataFrame(X, columns=list("abcd")).assign(y=y)


def test_columns_that_interact_are_paired_and_rank_new_rows_better():
    new = frame("product", 4000, 1)
    found = {}
    for pairs in (None, "auto"):
        trained = train(frame("product"), "y", features={"pairs": pairs})
        found[pairs] = roc_auc_score(new["y"], trained.score(new)), trained.model
    assert found[None][0] < 0.6
    assert found["auto"][0] > 0.8
    model = found["auto"][1]
    told = model.summary.selection["methods"]
    without, with_them = told["candidates"][0], told["candidates"][told["chosen"]]
    assert (without["blocks"], with_them["blocks"]) == (["additive"], ["additive", "pairs"])
    assert without["behind"] > without["standardError"] > 0
    names = [sorted(column.name for column in pair.columns) for pair in model.recipe.pairs]
    assert ["a", "b"] in names
    # The choice of the penalty is told beside it.
    assert "candidates" in model.summary.selection


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("kind", "n"), [("sum", 300), ("none", 300), ("sum", 80)])
def test_columns_without_interactions_stay_as_they_are(kind, n, seed):
    models = [
        train(frame(kind, n, seed), "y", features={"pairs": pairs}).model
        for pairs in (None, "auto")
    ]
    assert models[1].recipe == models[0].recipe
    assert models[1].recipe.pairs == ()


def test_of_many_rows_none_are_tried(monkeypatch, caplog):
    monkeypatch.setattr(pipeline_fit, "MOST_COMPARED_ROWS", 1000)
    caplog.set_level("INFO")
    model = train(frame("product"), "y").model
    assert model.recipe.pairs == ()
    assert "no pairs of columns are tried of 1200 rows" in caplog.text


def test_a_ranker_without_folds_cannot_choose():
    fit = PipelineEstimator(
        [RecipeEstimator(labelCol="y", pairs="auto"), MBAEstimator(labelCol="y", regParam=1.0)]
    )
    with pytest.raises(ConfigError, match="pairs 'auto' and a MBAClassifier that chooses no"):
        fit.fitted(ArrowTable.of(pa.Table.from_pandas(frame("sum"))))


def test_a_recipe_alone_cannot_choose():
    recipe = RecipeEstimator(labelCol="y", pairs="auto")
    with pytest.raises(ConfigError, match="pairs 'auto' of a recipe without a ranker"):
        recipe.fitted(ArrowTable.of(pa.Table.from_pandas(frame("sum"))))


def test_what_the_choice_lists_is_the_published_model():
    """Also where pairs were proposed in vain, and single columns compared again."""
    listed = set()
    for seed in range(8):
        model = train(frame("sum", 300, seed), "y", test=0).model
        selection = model.summary.selection
        methods = selection["methods"]
        chosen = methods["candidates"][methods["chosen"]]
        assert chosen["regParam"] == model.summary.candidate.regParam
        assert chosen["folds"] == selection["candidates"][selection["chosen"]]["folds"]
        assert chosen["name"].startswith("additive + pairs") == bool(model.recipe.pairs)
        listed |= {c["leftOut"] for c in methods["candidates"] if c["leftOut"]}
    assert any("without the rows that chose its features" in reason for reason in listed)


def test_labels_that_no_column_tells_apart():
    rows = frame("sum", 300).drop(columns="y")
    both = pd.concat([rows.assign(y=True), rows.assign(y=False)])
    assert train(both, "y").evaluation.auc == 0.5


def test_pairs_that_are_named_are_told_beside_the_single_columns():
    settings = {"pairs": [["a", "b"]], "crosses": "auto"}
    words = frame("product").assign(u=["x", "y", "y"] * 500, v=["s", "t"] * 750)
    same = (words["u"] == "x") == (words["v"] == "s")
    words["y"] = words["a"] * words["b"] + np.where(same, 1, -1) > 0
    methods = train(words, "y", features=settings).model.summary.selection["methods"]
    names = [c["name"] for c in methods["candidates"]]
    assert names == ["additive + pairs", "additive + pairs + crosses"]


def test_a_setting_declines_in_its_own_section_alone():
    assert train(frame("product"), "y", training={"seed": 1}).model.recipe.pairs
    assert not train(frame("product"), "y", features={"pairs": None}).model.recipe.pairs
