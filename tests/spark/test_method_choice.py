"""The choice of a model of a DataFrame, against the same choice on arrays."""

import numpy as np
import pytest
from pyspark.sql.types import BooleanType, DoubleType, StringType, StructField, StructType

from spark_auc.core.batch import Batch
from spark_auc.core.row_source import ArrayRows
from spark_auc.core.sampling.folds import Folds
from spark_auc.errors import ConfigError
from spark_auc.features.recipe_blocks import blocks_of, of_blocks
from spark_auc.features.row_groups import row_groups
from spark_auc.pipeline.estimators import (
    MBAEstimator,
    MethodEstimator,
    PipelineEstimator,
    RecipeEstimator,
)
from spark_auc.pipeline.pair_moments_fit import SMOOTHNESS
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.training.method_choice import compare_methods
from spark_auc.training.settings import MethodSettings
from tests.features.test_recipe_blocks import whole


def frame(spark, columns, y):
    fields = [("x", DoubleType()), ("z", DoubleType()), ("word", StringType())]
    schema = StructType([*(StructField(*f) for f in fields), StructField("label", BooleanType())])
    words = columns["word"]
    text = [
        bytes(words.data[a:b]).decode()
        for a, b in zip(words.starts.tolist(), words.ends.tolist(), strict=True)
    ]
    x, z = (columns[name].values.tolist() for name in ("x", "z"))
    return spark.createDataFrame(list(zip(x, z, text, y.tolist(), strict=True)), schema)


@pytest.mark.slow
def test_a_choice_of_a_dataframe_is_that_of_its_arrays(spark):
    _, columns, y = whole(3, 600)
    rows = SparkTable(frame(spark, columns, y).repartition(2))
    plan = RecipeEstimator(
        spline=["x", "z"],
        tokens=["word"],
        auto=False,
        numKnots=4,
        dimension=16,
        crosses="all",
        crossBits=5,
        trees={"grow": {"numTrees": 5, "numLeaves": 4, "growShare": 0.5}},
    )
    chooser = MethodEstimator(plan)
    fitted = chooser.pipeline.fitted_recipe(rows, candidates=True)
    recipe = fitted.recipe
    model = chooser.fitted(rows)
    summary = model.ranker.summary
    told = summary.selection["methods"]

    batch = Batch(recipe.transform(columns), y, group=row_groups(columns))
    comparison = compare_methods(
        ArrayRows([batch], recipe.size),
        blocks_of(recipe),
        MethodSettings(
            Folds(5, 0, never_held_out=recipe.trees.grown),
            frozenset({"leaves"}),
            curves=recipe.curves,
            smoothness=SMOOTHNESS,
        ),
    )
    expected = comparison.as_dict()
    assert told["chosen"] == expected["chosen"]
    for mine, theirs in zip(told["candidates"], expected["candidates"], strict=True):
        assert mine["name"] == theirs["name"]
        assert (mine["leftOut"] is None) == (theirs["leftOut"] is None)
        if mine["auc"] is not None:
            assert mine["auc"] == pytest.approx(theirs["auc"], abs=1e-3)
    chosen = told["candidates"][told["chosen"]]
    assert model.recipe == of_blocks(recipe, chosen["blocks"])
    assert summary.reg_param == chosen["regParam"]
    assert model.ranker.numFeatures == chosen["dimension"]
    # Rows that grew the trees train the candidates without leaves alone.
    outside = recipe.trees.grown.of(batch.group)
    trains = np.count_nonzero(~outside) if "leaves" in chosen["blocks"] else y.size
    assert sum(summary.rows.values()) == trains
    assert model.evaluate(rows).auc > 0.9


def test_tokens_too_many_for_a_matrix_are_chosen_and_trained(spark):
    """11,000 tokens occur: their moments have no matrix, and the rows are in memory."""
    rng = np.random.default_rng(6)
    number, tokens = rng.normal(size=4500), rng.integers(0, 4500, (4500, 4))
    scores = rng.normal(size=(4, 4500))[np.arange(4), tokens].sum(axis=1)
    y = (0.2 * number + scores + rng.logistic(size=4500) > 1).tolist()
    columns = zip(number.tolist(), *tokens.astype(str).T.tolist(), y, strict=True)
    rows = SparkTable(spark.createDataFrame(list(columns), ["x", *"abcd", "label"]))
    plan = {"spline": ["x"], "tokens": [*"abcd"], "auto": False, "numKnots": 3, "unit": False}
    recipe = RecipeEstimator(dimension=2**15, **plan)
    model = MethodEstimator(recipe, added=["hinge"]).fitted(rows)
    additive, hinge = model.ranker.summary.selection["methods"]["candidates"]
    assert additive["dimension"] == hinge["dimension"] > 8192
    assert 0.55 < additive["auc"] < 0.8
    # The hinge is trained on the rows too.
    assert hinge["auc"] is not None or "that of the squared loss" in hinge["leftOut"]
    assert model.ranker.summary.selection["methods"]["chosen"] == 0
    ranker = MBAEstimator(regParam=additive["regParam"], standardization=False)
    alone = PipelineEstimator([recipe, ranker]).fitted(rows)
    np.testing.assert_array_equal(model.ranker.scorer.w, alone.ranker.scorer.w)


def test_params_that_contradict_the_choice():
    with pytest.raises(ConfigError, match="found regParam for a choice"):
        MethodEstimator(RecipeEstimator(), MBAEstimator(regParam=0.1)).check()
    with pytest.raises(ConfigError, match="unit = True"):
        MethodEstimator(RecipeEstimator(unit=True)).check()
