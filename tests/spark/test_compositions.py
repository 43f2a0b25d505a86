"""Pipelines of an embedding and a learner, as the papers compose them."""

import numpy as np
import pytest
from chispa import assert_approx_df_equality
from pyspark.ml import Pipeline
from pyspark.ml.tuning import CrossValidator
from pyspark.sql import functions as F
from scipy.optimize import minimize
from sklearn.metrics import roc_auc_score

from experiments.oam_classifier import OAMClassifier
from spark_auc import (
    AUCEvaluator,
    MBAClassifier,
    NSAUCClassifier,
    NystroemEmbedding,
    RandomFourierFeatures,
    RankSVMClassifier,
    SOLAMClassifier,
)
from spark_auc.errors import ConfigError
from spark_auc.features.kernels import Kernel
from tests.spark.embedding_rows import SEED, N, X, Y, table

pytestmark = pytest.mark.slow

AS_THEY_ARE = {"featuresCol": "embedded", "standardization": False}


@pytest.fixture(scope="module")
def rows(spark):
    made = table(spark).withColumn("fold", F.expr("int(id % 2)")).repartition(2, "id").cache()
    made.count()
    yield made
    made.unpersist()


def nystroem(landmarks=40, bandwidth=2.0):
    given = {"inputCol": "dense", "landmarks": "sample", "seed": SEED, "scaling": "standard"}
    return NystroemEmbedding(numLandmarks=landmarks, bandwidth=bandwidth, **given)


def fourier():
    return RandomFourierFeatures(inputCol="dense", numOutputs=40, bandwidth=2.0, seed=SEED)


@pytest.mark.parametrize(
    ("embedding", "learner"),
    [
        (nystroem, lambda **to: MBAClassifier(regParam=0.01, **to)),
        (nystroem, lambda **to: RankSVMClassifier(regParam=0.01, **to)),
        (fourier, lambda **to: RankSVMClassifier(regParam=0.01, **to)),
        (nystroem, lambda **to: NSAUCClassifier(stepSize=1.0, **to)),
        (nystroem, lambda **to: NSAUCClassifier(averaging=False, stepSize=0.3, **to)),
        (nystroem, lambda **to: SOLAMClassifier(rounds=20, stepSize=1.0, **to)),
        (nystroem, OAMClassifier),
        (nystroem, lambda **to: OAMClassifier(update="gradient", bufferSize=9, penalty=0.1, **to)),
    ],
    ids=["Nystroem + MBA", "NBAUC", "RFAUC", "NSAUC", "NSVMSGD2", "NSOLAM", "NOAM", "NOAM, gra"],
)
def test_two_stages(rows, embedding, learner):
    fitted = Pipeline(stages=[embedding(), learner(**AS_THEY_ARE)]).fit(rows)
    found = fitted.transform(rows).select("id", "rawPrediction")
    scores = fitted.stages[0].embedding.transform(X) @ fitted.stages[1].scorer.w
    listed = [(float(k), score) for k, score in enumerate(scores.tolist())]
    expected = rows.sparkSession.createDataFrame(listed, "id double, rawPrediction double")
    assert_approx_df_equality(found, expected, 1e-10, ignore_nullable=True, ignore_row_order=True)
    assert roc_auc_score(Y, scores) > 0.7


def test_every_row_a_landmark_is_kernel_ranksvm(rows):
    """Against all pairs of the functions that the kernel spans, by coefficients of rows."""
    reg, bandwidth = 0.01, 4.0
    embedding = nystroem(N, bandwidth)
    learner = RankSVMClassifier(regParam=reg, tol=1e-8, **AS_THEY_ARE)
    fitted = Pipeline(stages=[embedding, learner]).fit(rows)
    found = sorted(fitted.transform(rows).select("id", "rawPrediction").collect())
    scaled = X / X.std(axis=0, ddof=1)
    gram = Kernel("gaussian", bandwidth).between(scaled, scaled)

    def objective(alpha):
        scores = gram @ alpha
        missing = np.maximum(0, 1 - np.subtract.outer(scores[Y], scores[~Y]))
        slopes = np.zeros(N)
        slopes[Y], slopes[~Y] = -missing.sum(axis=1), missing.sum(axis=0)
        value = reg / 2 * alpha @ scores + (missing**2).mean() / 2
        return value, gram @ (reg * alpha + slopes / missing.size)

    best = minimize(objective, np.zeros(N), jac=True, options={"gtol": 1e-9, "maxiter": 10_000})
    scores, expected = np.array([row[1] for row in found]), gram @ best.x
    # Scores are equal but for a constant, which no pair sees.
    np.testing.assert_allclose(scores - scores[0], expected - expected[0], rtol=0, atol=1e-5)


def test_cross_validation_of_both_stages(rows):
    embedding, learner = nystroem(), MBAClassifier(**AS_THEY_ARE)
    grid = [
        {embedding.bandwidth: width, learner.regParam: reg}
        for width, reg in [(1.0, 9.0), (5, 1e-3)]
    ]
    pipeline = Pipeline(stages=[embedding, learner])
    tuner = CrossValidator(
        estimator=pipeline,
        estimatorParamMaps=grid,
        evaluator=AUCEvaluator(),
        numFolds=2,
        foldCol="fold",
    )
    found = tuner.fit(rows)
    for setting, metric in zip(grid, found.avgMetrics, strict=True):
        aucs = []
        for k in range(2):
            fitted = pipeline.copy(setting).fit(rows.filter(F.col("fold") != k))
            held = np.arange(N) % 2 == k
            w = fitted.stages[1].scorer.w
            aucs.append(roc_auc_score(Y[held], fitted.stages[0].embedding.transform(X[held]) @ w))
        assert metric == pytest.approx(np.mean(aucs), abs=1e-9)
    best = grid[int(np.argmax(found.avgMetrics))]
    assert found.bestModel.stages[1].summary.reg_param == best[learner.regParam]


def test_learners_that_cannot_be_averaged(rows):
    estimator = OAMClassifier(featuresCol="dense")
    estimator.set(estimator.parallelism, "distributed")
    with pytest.raises(ConfigError, match="cannot be averaged"):
        estimator.fit(rows)
