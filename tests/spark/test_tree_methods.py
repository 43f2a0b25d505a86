"""Trees that all rows grow among the candidates of a choice, on DataFrames."""

import builtins
import sys

import numpy as np
import pytest
from pyspark.sql import functions as F
from sklearn.metrics import roc_auc_score

from spark_auc.core.batch import Batch
from spark_auc.core.sampling.folds import Folds, GroupCounts
from spark_auc.features.row_groups import row_groups
from spark_auc.pipeline.drift import drift_of
from spark_auc.pipeline.estimators import MBAEstimator, MethodEstimator, RecipeEstimator
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.spark.pipeline_model import RankerPipelineModel
from spark_auc.training.tree_candidates import CANDIDATES, measured
from tests.training.test_tree_candidates import TYPES, raw

pytestmark = pytest.mark.slow

pytest.importorskip("lightgbm", reason="lightgbm is not installed")

RECIPE = {"spline": ["a"], "standard": ["b", "c", "d"], "auto": False, "numKnots": 4}


@pytest.fixture(scope="module")
def drawn():
    X, rows = raw(0, 1200)
    weight = np.random.default_rng(9).uniform(0.5, 2.0, 1200)
    return X, rows._replace(weight=weight, groups=row_groups(rows.columns))


@pytest.fixture(scope="module")
def df(spark, drawn):
    X, rows = drawn
    values = zip(X.tolist(), rows.y.tolist(), rows.weight.tolist(), strict=True)
    named = spark.createDataFrame(
        [(*x, "yes" if label else "no", u) for x, label, u in values], [*"abcd", "label", "u"]
    )
    return named.repartition(3)


@pytest.fixture(scope="module")
def ranker():
    return MBAEstimator(positiveLabel="yes", weightCol="u", seed=2)


@pytest.fixture(scope="module")
def model(df, ranker):
    return MethodEstimator(RecipeEstimator(**RECIPE), ranker, ["trees"]).fitted(SparkTable(df))


def scored(model, df):
    return model.scored(SparkTable(df)).frame


def test_trees_win_where_columns_interact(model, df, drawn):
    told = model.ranker.summary.selection["methods"]
    chosen = told["candidates"][told["chosen"]]
    assert "leaves" in chosen["blocks"]
    assert chosen["auc"] > told["candidates"][0]["auc"] + 0.03
    assert model.recipe.trees.grown is None
    assert model.ranker.summary.rows == {
        "no": int((~drawn[1].y).sum()),
        "yes": int(drawn[1].y.sum()),
    }
    own = scored(model, df).toPandas()
    others, labels = raw(1, 3000)[0], raw(1, 3000)[1].y
    new = df.sparkSession.createDataFrame(
        [(*x, "no", 1.0) for x in others.tolist()], [*"abcd", "label", "u"]
    )
    scores = np.array([row[0] for row in scored(model, new).select("rawPrediction").collect()])
    assert roc_auc_score(labels, scores) == pytest.approx(chosen["auc"], abs=0.03)
    assert set(own["prediction"]) == {"yes", "no"}


def test_the_drift_of_the_chosen_model_counts_its_columns(model, df):
    assert model.recipe.trees is not None
    before = model.fitted_recipe.drift
    assert drift_of(SparkTable(df), model.recipe).excesses(before) == ()
    gone = df.withColumn("a", F.lit(None).cast("double"))
    found = drift_of(SparkTable(gone), model.recipe).excesses(before)
    assert {excess.column for excess in found} == {"a"}


def test_held_out_aucs_are_those_of_arrays(model, drawn):
    _, rows = drawn
    told = model.ranker.summary.selection["methods"]
    alone = [candidate for candidate in CANDIDATES if not candidate.beside]
    batch = Batch(np.empty((rows.y.size, 0)), rows.y, group=rows.groups)
    folds = Folds(5, 2).assigned(GroupCounts.zero(10_000).update(batch))
    listed = {each["name"]: each for each in told["candidates"]}
    kept = [each for each in alone if listed[each.name]["leftOut"] is None]
    assert kept
    for candidate in kept:
        (result,) = measured([candidate], rows, TYPES, folds, model.recipe)
        assert listed[candidate.name]["seconds"] > 0
        assert listed[candidate.name]["folds"] == pytest.approx(result.auc.tolist(), abs=1e-6)


def test_a_stored_model_scores_without_lightgbm(model, df, tmp_path, monkeypatch):
    model.save(str(tmp_path / "model"))
    found = builtins.__import__

    def blocked(name, *others, **named):
        assert not name.startswith("lightgbm")
        return found(name, *others, **named)

    monkeypatch.setattr(builtins, "__import__", blocked)
    monkeypatch.delitem(sys.modules, "lightgbm", raising=False)
    loaded = RankerPipelineModel.load(str(tmp_path / "model"))
    both = (
        rows.select("rawPrediction").collect() for rows in (scored(model, df), loaded.transform(df))
    )
    assert next(both) == next(both)


def test_without_trees(df, ranker, monkeypatch):
    recipe = RecipeEstimator(**RECIPE)
    names = ["additive", "additive, hinge"]

    def candidates(*others):
        added = ["hinge", *others]
        made = MethodEstimator(recipe, ranker, added).fitted(SparkTable(df))
        return made.ranker.summary.selection["methods"]["candidates"]

    assert [c["name"] for c in candidates()] == names
    monkeypatch.setattr("spark_auc.pipeline.method_fit.MOST_COMPARED_ROWS", 1199)
    listed = candidates("trees")
    assert [c["name"] for c in listed[:2]] == names
    assert all("found 1200 rows, expected at most 1199" in c["leftOut"] for c in listed[2:])
    monkeypatch.setattr("spark_auc.pipeline.method_fit.MOST_COMPARED_ROWS", 1200)
    monkeypatch.setattr("spark_auc.errors.find_spec", lambda name: None)
    assert "pip install 'spark-auc[trees]'" in candidates("trees")[2]["leftOut"]


def test_equal_rows_and_keys_are_in_one_fold(spark, ranker):
    """Rows of a key repeat with other noise: the fold of the key holds all of them."""
    rng = np.random.default_rng(5)
    base, labels = rng.normal(size=(150, 4)), rng.random(150) < 0.4
    rows = [
        (*(x + 1e-3 * rng.normal(size=4)).tolist(), "yes" if label else "no", 1.0, k)
        for k, (x, label) in enumerate(zip(base, labels, strict=True))
        for _ in range(4)
    ]
    df = spark.createDataFrame(rows, [*"abcd", "label", "u", "key"])
    keyed = ranker.with_values(keyCol="key")
    told = MethodEstimator(RecipeEstimator(**RECIPE), keyed).fitted(SparkTable(df))
    candidates = told.ranker.summary.selection["methods"]["candidates"]
    measured_ones = [candidate for candidate in candidates if candidate["auc"]]
    # Trees that are behind on two folds are left out.
    assert any("leaves" in candidate["blocks"] for candidate in measured_ones)
    for candidate in measured_ones:
        assert candidate["auc"] < 0.65, candidate["name"]
