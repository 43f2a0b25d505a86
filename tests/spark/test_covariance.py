"""Approximate covariances over a DataFrame: the weights of arrays, and the published steps."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from pyspark.ml.linalg import Vectors
from scipy import sparse

from spark_auc import (
    FeatureRecipe,
    LinearRankerModel,
    MBAClassifier,
    OPAUCClassifier,
    RandomFourierFeatures,
    RankerPipeline,
)
from spark_auc.app.running import run
from spark_auc.core.batch import Batch
from spark_auc.core.moments.head_moments import HeadAccumulator
from spark_auc.core.moments.low_rank_moments import LowRankAccumulator
from spark_auc.errors import ConfigError, ResourceError
from spark_auc.features.raw_columns import Numbers
from spark_auc.learners.opauc_low_rank import OPAUCr
from spark_auc.local import MBAClassifier as LocalMBAClassifier
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.spark.pipeline_model import RankerPipelineModel

N, D = 600, 90
RNG = np.random.default_rng(6)
X = sparse.csr_matrix(RNG.random((N, D)) < 0.5 / np.arange(1, D + 1) ** 0.5, dtype=float)
Y = X @ RNG.normal(size=D) + RNG.normal(size=N) > 1.0


@pytest.fixture(scope="module")
def rows(spark):
    made = [
        (k, Vectors.sparse(D, X[k].indices.tolist(), X[k].data.tolist()), float(Y[k]))
        for k in range(N)
    ]
    return spark.createDataFrame(made, ["id", "features", "label"]).repartition(3).cache()


@pytest.mark.parametrize("reg", [0.05, None])
def test_a_head_is_that_of_arrays(rows, reg, tmp_path):
    given = {"covariance": "head", "headSize": 25, "regParam": reg, "numFolds": 3, "tol": 1e-9}
    if reg is not None:
        del given["numFolds"]
    model = MBAClassifier(**given).fit(rows)
    local = LocalMBAClassifier(**given).fit(X, Y)
    w = local.coef_[0]
    np.testing.assert_allclose(model.scorer.w, w, atol=1e-6 * np.abs(w).max())
    summary = model.summary
    assert summary.covariance["covariance"] == "head"
    assert 0.3 < summary.covariance["exactTraceShare"] < 1.0
    assert summary.certificate["headSize"] == 25
    model.save(str(tmp_path / "m"))
    assert LinearRankerModel.load(str(tmp_path / "m")).summary == summary
    opauc = {**given, "tol": 1e-6}
    if reg is not None:
        opauc = OPAUCClassifier(**{k: v for k, v in given.items() if k != "tol"}).fit(rows)
        np.testing.assert_allclose(opauc.scorer.w, w, atol=1e-4 * np.abs(w).max())


def test_fits_with_a_recipe_take_the_head_that_it_names(spark, tmp_path):
    rng = np.random.default_rng(3)

    def drawn(count, mean):
        raw = rng.normal(mean, 1.0, (count, 2))
        y = raw.sum(axis=1) + rng.normal(size=count) > 2 * mean
        table = [(*map(float, row), float(label)) for row, label in zip(raw, y, strict=True)]
        return raw, y, spark.createDataFrame(table, ["a", "b", "label"])

    head = {"covariance": "head", "regParam": 0.1, "standardization": False}
    raw, y, small = drawn(60, 1.0)
    stages = FeatureRecipe(spline=["a", "b"], auto=False, unit=False, numKnots=5)
    first = RankerPipeline([stages, MBAClassifier(headSize=3, **head)]).fit(drawn(500, 0.0)[2])
    assert first.recipe.head == tuple(first.ranker.summary.head)
    first.save(str(tmp_path / "m"))
    recipe = RankerPipelineModel.load(str(tmp_path / "m")).fitted_recipe
    assert recipe.recipe == first.recipe
    rows = recipe.recipe.transform({"a": Numbers(raw[:, 0]), "b": Numbers(raw[:, 1])})
    second = np.asarray(rows.multiply(rows).sum(axis=0)).ravel()
    assert set(np.argsort(-second)[:3].tolist()) != set(first.recipe.head)
    made = HeadAccumulator(rows.shape[1], np.array(first.recipe.head))
    made.add(Batch(rows, y))
    quadratic = made.finish().quadratic()
    dense = quadratic.Sigma.matmat(np.eye(rows.shape[1])) + 0.1 * np.eye(rows.shape[1])
    again = RankerPipeline([recipe, OPAUCClassifier(**head)]).fit(small)
    expected = np.linalg.solve(dense, quadratic.mu)
    np.testing.assert_allclose(again.ranker.scorer.w, expected, rtol=1e-4, atol=1e-7)
    assert again.recipe == first.recipe
    with pytest.raises(ConfigError, match="found headSize 2 with a recipe that names a head of 3"):
        RankerPipeline([recipe, OPAUCClassifier(headSize=2, **head)]).fit(small)
    # The features of an embedding are others.
    fourier = RandomFourierFeatures(numOutputs=8)
    embedded = RankerPipeline([recipe, fourier, MBAClassifier(headSize=2, **head)]).fit(small)
    assert len(embedded.ranker.summary.head) == 2
    assert embedded.recipe == first.recipe


def test_sketches_draw_by_the_key_column(rows, spark):
    given = {"covariance": "lowRank", "covarianceRank": 20, "seed": 4, "regParam": 0.1}
    model = MBAClassifier(keyCol="id", standardization=False, tol=1e-9, **given).fit(rows)
    keys = [r[0] for r in rows.sort("id").selectExpr("xxhash64(id)").collect()]
    made = LowRankAccumulator(D, 20, 4)
    made.add(Batch(X, Y, None, np.array(keys).view(np.uint64)))
    quadratic = made.finish().quadratic()
    dense = quadratic.Sigma.matmat(np.eye(D)) + 0.1 * np.eye(D)
    expected = np.linalg.solve(dense, quadratic.mu)
    np.testing.assert_allclose(model.scorer.w, expected, atol=1e-6 * np.abs(expected).max())
    # Without keys, equal rows draw apart: each row is drawn by its place.
    placed = MBAClassifier(standardization=False, **given).fit(rows)
    assert placed.summary.covariance == {
        "covariance": "lowRank",
        "covarianceRank": 20,
        "exactTraceShare": 0.0,
    }


def test_in_sequence_low_rank_is_opauc_r(rows):
    given = {"stepSize": 0.05, "regParam": 0.01, "covariance": "lowRank", "covarianceRank": 8}
    model = OPAUCClassifier(
        parallelism="sequential", orderCol="id", standardization=False, seed=2, **given
    ).fit(rows)
    learner = OPAUCr(D, 0.05, 0.01, 8, 2)
    learner.learn(X, Y)
    np.testing.assert_allclose(model.scorer.w, learner.w, rtol=1e-6, atol=1e-9)
    assert model.summary.estimator == "OPAUCr"


@pytest.mark.parametrize(
    ("estimator", "given", "message"),
    [
        (MBAClassifier, {"covariance": "head", "segmentCol": "s"}, "segmentCol 's' with cov"),
        (MBAClassifier, {"covariance": "head", "maxFPR": 0.1}, "maxFPR 0.1 with covariance 'head'"),
        (MBAClassifier, {"covariance": "head", "estimator": "paired"}, "estimator 'paired' with"),
        (MBAClassifier, {"covariance": "lowRank", "keepMoments": True}, "keepMoments True with"),
        (MBAClassifier, {"covariance": "lowRank", "headSize": 9}, "headSize 9 with covariance"),
        (MBAClassifier, {"headSize": 9}, "headSize 9 with covariance 'full'"),
        (OPAUCClassifier, {"covarianceRank": 9}, "covarianceRank 9 with covariance 'full'"),
        (
            OPAUCClassifier,
            {"covariance": "head", "parallelism": "sequential"},
            "covariance 'head' with parallelism 'sequential'",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(estimator, given, message):
    with pytest.raises(ConfigError, match=message):
        estimator(**given).check()


def test_a_state_that_does_not_fit_is_refused_before_it_is_made(rows):
    for covariance, what in (("full", "167699 features"), ("lowRank", "20000000000 features")):
        d = int(what.split()[0])
        estimator = OPAUCClassifier(
            parallelism="sequential", covariance=covariance, regParam=0.1, stepSize=0.1
        )
        prepared = estimator.prepared(SparkTable(rows))
        huge = SimpleNamespace(dimension=d, memory=prepared.rows.memory)
        with pytest.raises(ResourceError, match=f"OPAUC's covariances of {what} that take"):
            estimator.learner(replace(prepared, rows=huge))


def test_the_job_opauc_takes_a_head(rows, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows.write.parquet(str(tmp_path / "rows"))
    section = {
        "data": {"path": "rows"},
        "training": {"regParam": 0.05, "covariance": "head", "headSize": 25},
        "output": {"path": "model"},
    }
    (tmp_path / "conf.yaml").write_text(yaml.safe_dump({"opauc": section}))
    code = run("opauc", "conf.yaml")
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert code == 0, result
    assert result["certificate"]["covariance"] == "head"
