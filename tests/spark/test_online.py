"""Learners over a DataFrame: in sequence the same bits as a loop, distributed near it."""

import numpy as np
import pytest
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.linalg import Vectors
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder
from pyspark.sql import functions as F
from sklearn.metrics import roc_auc_score

from spark_auc import (
    AdaDSGClassifier,
    AUCEvaluator,
    LinearRankerModel,
    MBAClassifier,
    NSAUCClassifier,
    OPAUCClassifier,
    SOLAMClassifier,
    evaluate,
    local,
)
from spark_auc.core.batch import Batch
from spark_auc.errors import ConfigError, DataError
from spark_auc.learners.blocks import blocks
from spark_auc.learners.dsgd import DSGD
from spark_auc.learners.losses import LOSSES
from spark_auc.learners.nsauc import NSAUC
from spark_auc.learners.opauc import OPAUC
from spark_auc.learners.solam import SOLAM
from spark_auc.learners.stages import subset
from spark_auc.spark.data.spark_table import SparkTable
from tests.learners import references

N, D = 3000, 6
RNG = np.random.default_rng(12)
X = RNG.normal(size=(N, D)) * np.geomspace(0.3, 3, D)
Y = X @ RNG.normal(size=D) + RNG.normal(size=N) * 2 > 2.5
U = RNG.uniform(0.5, 2, N)
SCALE = X.std(axis=0, ddof=1)
ONLINE = {
    "solam": SOLAMClassifier,
    "opauc": OPAUCClassifier,
    "adadsg": AdaDSGClassifier,
    "nsauc": NSAUCClassifier,
}
GIVEN = {
    "solam": {"stepSize": 0.3, "radius": 10.0},
    "opauc": {"stepSize": 0.01},
    "adadsg": {"stepSize": 0.2, "penalty": 1.0},
    "nsauc": {"stepSize": 0.1},
}


def beside(name, names):
    """The names, of which all but one are of slow tests."""
    return [pytest.param(each, marks=[pytest.mark.slow] * (each != name)) for each in names]


@pytest.fixture(scope="module")
def rows(spark):
    made = [(k, Vectors.dense(X[k]), float(Y[k]), float(U[k])) for k in RNG.permutation(N).tolist()]
    rows = spark.createDataFrame(made, ["id", "features", "label", "u"]).repartition(5).cache()
    # Until a cache is filled, Spark may join partitions in another order, which moves last bits.
    rows.count()
    return rows


def loop(name, scale):
    """The weights that a loop over all rows gives."""
    scaled = X / scale
    if name == "solam":
        learner = SOLAM(D, 0.3, 10.0, np.sqrt((scaled**2).sum(axis=1).max()))
        learner.learn(scaled, Y)
    elif name == "opauc":
        learner = OPAUC(D, 0.01, 1e-3)
        learner.learn(scaled, Y)
    elif name == "nsauc":
        learner = NSAUC(D, 0.1, 1e-6)
        learner.learn(scaled, Y)
    else:
        learner, everything = DSGD(D, 0.2, 1.0, 0), Batch(scaled, Y, None, Batch(X, Y).keys())
        for share in np.minimum(256 / N * 2.0 ** np.arange(5), 1):
            part = subset(everything, share, 0)
            learner.stage(part.y.size)
            for block in blocks([part], 65_536):
                learner.learn(block.X, block.y)
    return learner.w / scale


@pytest.mark.parametrize("name", ONLINE)
def test_in_sequence_it_is_the_loop(rows, name):
    estimator = ONLINE[name](parallelism="sequential", orderCol="id", **GIVEN[name])
    model = estimator.fit(rows)
    scale = estimator.prepared(SparkTable(rows)).scale
    np.testing.assert_allclose(scale, SCALE, rtol=1e-12)
    np.testing.assert_array_equal(model.scorer.w, loop(name, scale))
    assert model.summary.estimator in {"SOLAM", "OPAUC", "DSGD", "NSAUC"}
    assert model.summary.certificate is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ONLINE)
def test_defaults_rank_nearly_as_well_as_the_exact_solution(rows, name):
    exact = MBAClassifier(regParam=1e-3).fit(rows)
    sequential = ONLINE[name](parallelism="sequential", orderCol="id").fit(rows)
    distributed = ONLINE[name](parallelism="distributed").fit(rows)
    best, *others = (evaluate(m.transform(rows)).auc for m in (exact, sequential, distributed))
    assert min(others) > best - 0.015


@pytest.mark.parametrize("centering", [True, False])
def test_centering_of_solam(spark, caplog, centering):
    """Without it, the columns as they are and the published steps are the paper's algorithm."""
    offset = np.array([5.0, 0, 0, -9.0, 0, 0.1])
    values = [
        (k, Vectors.dense(x), float(v)) for k, (x, v) in enumerate(zip(X + offset, Y, strict=True))
    ]
    df = spark.createDataFrame(values, ["id", "features", "label"])
    published = {"stepSize": 1.0, "radius": 10.0, "standardization": False, "orderCol": "id"}
    with caplog.at_level("INFO", "spark_auc"):
        model = SOLAMClassifier(centering=centering, **published).fit(df)
    assert ("2 of 6 columns are learnt minus their mean" in caplog.text) == centering
    origin = np.where(offset**2 > 1, (X + offset).mean(axis=0), 0.0) if centering else 0.0
    learnt = X + offset - origin
    kappa = np.sqrt((learnt**2).sum(axis=1).max())
    w, others = references.solam_averages(learnt, Y, 1.0, 10.0, kappa)
    np.testing.assert_allclose(model.scorer.w, w, rtol=0, atol=1e-12)
    assert model.summary.saddle == pytest.approx(
        dict(zip(("a", "b", "alpha"), others, strict=True)), rel=0, abs=1e-12
    )


@pytest.mark.parametrize(("schedule", "step"), [("published", 0.2), ("theory", None)])
def test_adadsg_as_published(rows, schedule, step):
    """Uniform pairs of a stage of all rows, by the steps of Algorithm 2."""
    given = {"stepSize": step} if step else {}
    model = AdaDSGClassifier(
        loss="logistic",
        pairs="uniform",
        schedule=schedule,
        penalty=1.0,
        standardization=False,
        firstStage=N,
        stages=1,
        orderCol="id",
        keyCol="id",
        **given,
    ).fit(rows)
    learner = DSGD(D, step or 1.0, 1.0, 0, False, "logistic", "uniform", schedule == "theory")
    learner.stage(N)
    learner.learn(X, Y)
    np.testing.assert_allclose(model.scorer.w, learner.w, rtol=1e-9)
    with pytest.raises(ConfigError, match=r"found stepSize 1\.0 with schedule 'theory'"):
        AdaDSGClassifier(schedule="theory", stepSize=1.0).check()
    with pytest.raises(ConfigError, match="found penalty 0 with schedule 'theory'"):
        AdaDSGClassifier(schedule="theory", penalty=0.0).check()


@pytest.mark.parametrize("loss", beside("squared", LOSSES))
def test_every_loss_ranks_by_default(rows, loss):
    exact = roc_auc_score(Y, X @ local.MBAClassifier(regParam=1e-3).fit(X, Y).coef_[0])
    model = AdaDSGClassifier(loss=loss).fit(rows)
    assert roc_auc_score(Y, X @ model.scorer.w) > exact - 0.02


def test_opauc_without_steps_is_exact_ridge(rows):
    ours = OPAUCClassifier(regParam=0.01).fit(rows)
    theirs = MBAClassifier(regParam=0.01).fit(rows)
    np.testing.assert_allclose(ours.scorer.w, theirs.scorer.w, rtol=1e-8)
    assert ours.summary.certificate["reason"] == "converged"


def test_stages_are_of_the_key_column(rows):
    given = AdaDSGClassifier(keyCol="id").prepared(SparkTable(rows))
    keys = np.concatenate([batch.keys() for batch in given.rows_scaled.gathered().batches])
    assert set(keys.view(np.int64)) == {
        k.h for k in rows.select(F.xxhash64("id").alias("h")).collect()
    }


def test_weights_where_they_are_defined(rows):
    model = SOLAMClassifier(weightCol="u", orderCol="id").fit(rows)
    assert model.summary.positive_weight == pytest.approx(U[Y].sum())
    plain = SOLAMClassifier(orderCol="id").fit(rows)
    assert (model.scorer.w != plain.scorer.w).all()
    for estimator in (AdaDSGClassifier, NSAUCClassifier, OPAUCClassifier):
        with pytest.raises(TypeError, match="not defined with row weights; use MBAClassifier"):
            estimator(weightCol="u")


def test_pairs_need_both_classes_in_a_block(rows):
    sorted_rows = rows.orderBy("label")
    with pytest.raises(DataError, match="no block of rows with both classes"):
        AdaDSGClassifier(orderCol="label", blockSize=1, firstStage=N).fit(sorted_rows)


@pytest.mark.parametrize("name", beside("solam", ONLINE))
def test_as_stages_of_spark_ml(rows, name, tmp_path):
    estimator = ONLINE[name](featuresCol="features")
    fitted = Pipeline(stages=[estimator]).fit(rows)
    fitted.save(str(tmp_path / "fitted"))
    again = PipelineModel.load(str(tmp_path / "fitted")).stages[0]
    assert isinstance(again, LinearRankerModel)
    np.testing.assert_array_equal(again.scorer.w, fitted.stages[0].scorer.w)
    assert again.summary == fitted.stages[0].summary
    estimator.save(str(tmp_path / "estimator"))
    values = [
        {p.name: v for p, v in e.extractParamMap().items()}
        for e in (estimator, type(estimator).load(str(tmp_path / "estimator")))
    ]
    assert values[0] == values[1]


@pytest.mark.slow
def test_settings_by_cross_validation(rows):
    estimator = OPAUCClassifier()
    grid = ParamGridBuilder().addGrid(estimator.regParam, [1e-3, 1e3]).build()
    folded = rows.withColumn("fold", (F.col("id") % 2).cast("int"))
    tuner = CrossValidator(
        estimator=estimator, estimatorParamMaps=grid, evaluator=AUCEvaluator(), foldCol="fold"
    ).setNumFolds(2)
    fitted = tuner.fit(folded)
    held_out = [folded.where(f"fold = {k}") for k in range(2)]
    for given, found in zip(grid, fitted.avgMetrics, strict=True):
        models = [estimator.copy(given).fit(fold) for fold in held_out]
        scored = [model.transform(held_out[1 - k]) for k, model in enumerate(models)]
        assert found == pytest.approx(np.mean([evaluate(each).auc for each in scored]), abs=1e-12)
    chosen = fitted.bestModel.summary.reg_param
    assert chosen == (1e-3, 1e3)[int(np.argmax(fitted.avgMetrics))]


@pytest.mark.parametrize(
    ("estimator", "wrong"),
    [
        (SOLAMClassifier, {"radius": -1.0}),
        (SOLAMClassifier, {"rounds": 0}),
        (SOLAMClassifier, {"orderCol": "nowhere"}),
        (AdaDSGClassifier, {"stages": 0}),
        (AdaDSGClassifier, {"stepSize": -0.1}),
    ],
)
def test_settings_out_of_range(rows, estimator, wrong):
    with pytest.raises(ConfigError, match="found"):
        estimator(**wrong).fit(rows)
