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
