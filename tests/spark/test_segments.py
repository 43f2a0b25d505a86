"""Rankers of segments as a Spark stage, beside numpy on all rows."""

import numpy as np
import pandas as pd
import pytest
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql import functions as F

from spark_auc import (
    FeatureRecipe,
    LinearRankerModel,
    MBAClassifier,
    RankerPipeline,
    RankerPipelineModel,
)
from spark_auc.core import memory
from spark_auc.core.batch import Batch
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.sampling.folds import Folds
from spark_auc.errors import ConfigError, ResourceError
from spark_auc.pipeline import segment_rankers as segments_stage
from spark_auc.solvers.candidates import Candidate
from spark_auc.spark.contributions import with_contributions
from spark_auc.spark.data import resources
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.tables import segments as segment_column
from spark_auc.training.fold_moments import FoldsInMemory
from spark_auc.training.prior import Prior
from spark_auc.training.segments import REST, segment_rankers
from spark_auc.training.settings import TrainingSettings

D, N = 4, 3000
COLUMNS = [f"x{j}" for j in range(D)]


@pytest.fixture(scope="module")
def table():
    """Rows of four sites and of none, with effects of their own."""
    rng = np.random.default_rng(5)
    site = rng.choice(["news", "shop", "mail", "rare", ""], N, p=[0.4, 0.3, 0.2, 0.02, 0.08])
    number = np.searchsorted(["mail", "news", "shop"], site) % 4
    y = rng.random(N) < np.array([0.2, 0.4, 0.3, 0.2])[number]
    effect = np.array([[1, 0, 0.6, 0], [1, 0.5, -0.6, 0], [1, 0, 0, 0.8], [1, 0, 0, 0]])[number]
    rows = pd.DataFrame(rng.normal(size=(N, D)) + y[:, None] * effect, columns=COLUMNS)
    site = pd.Series(site).where(rng.random(N) < 0.95, None)
    return rows.assign(site=site, label=y.astype(float))


@pytest.fixture(scope="module")
def rows(spark, table):
    return spark.createDataFrame(table).repartition(3).cache()


@pytest.fixture(scope="module")
def model(rows):
    return MBAClassifier(featuresCol=COLUMNS, regParam=0.1, segmentCol="site", seed=3).fit(rows)


def numbers(site, values):
    return np.array([values.index(s) if s in values else len(values) for s in site])


@pytest.mark.parametrize("has_prior", [False, True])
def test_model_is_that_of_arrays(table, rows, model, has_prior):
    settings = TrainingSettings()
    if has_prior:
        before = MBAClassifier(featuresCol=COLUMNS, regParam=5.0).fit(rows.limit(300))
        settings = TrainingSettings(prior=Prior(before.scorer.w, D))
        named = {"regParam": 2.0, "segmentCol": "site", "seed": 3, "prior": before}
        model = MBAClassifier(featuresCol=COLUMNS, **named).fit(rows)
    penalty = Candidate(2.0 if has_prior else 0.1, 0.0, has_prior)
    X, y = table[COLUMNS].to_numpy(), table["label"].to_numpy() > 0
    site = table["site"].fillna(REST).to_numpy()
    fold = Folds(5, 3).of(Batch(X, y))

    def moments(chosen):
        return FoldsInMemory(
            [PairMoments.of(X[at], y[at]) for at in (chosen & (fold == k) for k in range(5))]
        )

    parts = {name: moments(site == name) for name in np.unique(site)}
    made = segment_rankers(
        moments(np.full(N, True)),
        parts,
        model.scorer.w,
        penalty,
        settings,
    )
    segments = model.scorer.segments
    assert segments.column == "site"
    # Too few rows of "rare" and of no site have both classes.
    assert segments.weights.values == ("mail", "news", "shop")
    np.testing.assert_allclose(segments.weights.W, made.weights.W, rtol=1e-9)
    np.testing.assert_allclose(segments.weights.intercept, made.weights.intercept, rtol=1e-9)
    assert model.getThreshold() == pytest.approx(made.threshold, rel=1e-9)
    assert model.summary.segments["column"] == "site"
    assert model.summary.segments["chosen"] == made.selection["chosen"]
    whole = MBAClassifier(featuresCol=COLUMNS, regParam=0.1)
    assert not whole.isDefined("segmentCol")


def test_rows_are_scored_by_their_segment(table, rows, model, tmp_path):
    weights = model.scorer.segments.weights
    scored = model.transform(rows).toPandas()
    X, number = scored[COLUMNS].to_numpy(), numbers(scored["site"], weights.values)
    expected = np.einsum("nd,nd->n", X, weights.W[number]) + weights.intercept[number]
    np.testing.assert_allclose(scored["rawPrediction"], expected, rtol=1e-10, atol=1e-12)
    assert (scored["prediction"] == (scored["rawPrediction"] >= model.getThreshold())).all()
    assert scored["prediction"].mean() == pytest.approx(table["label"].mean(), abs=0.05)
    # The same bits after saving, for other partitions, a column of other values, and one by one.
    model.save(str(tmp_path / "model"))
    loaded = LinearRankerModel.load(str(tmp_path / "model"))
    assert loaded.summary == model.summary
    other = loaded.transform(rows.repartition(7)).toPandas()
    both = scored.merge(other, on=COLUMNS)
    assert len(both) == N
    assert (both["rawPrediction_x"] == both["rawPrediction_y"]).all()
    unseen = rows.limit(5).withColumn("site", F.lit("never seen"))
    unknown = loaded.transform(unseen).toPandas()
    assert (
        unknown["rawPrediction"]
        == weights.scores(unknown[COLUMNS].to_numpy(), np.full(5, len(weights.values)))
    ).all()
    with pytest.raises(ConfigError, match="found no column 'site'"):
        loaded.transform(rows.drop("site"))
    with pytest.raises(ConfigError, match="segment column 'site' of type double"):
        loaded.transform(rows.withColumn("site", F.lit(1.0)))


def test_damaged_segments_are_refused(model):
    facts = model.scorer.segments.facts()
    table, _ = model._saved()
    for changed in (
        facts | {"values": ["news", "news", "shop"]},
        facts | {"intercept": [0.0]},
        facts | {"column": 3},
        facts | {"intercept": [0.0, np.nan, 0.0, 0.0]},
    ):
        with pytest.raises(ValueError, match="weights of segments are invalid"):
            type(model.scorer.segments).restored(table, changed)


@pytest.mark.slow
def test_a_recipe_with_segments_is_one_stage(rows, tmp_path):
    """The segment column is a raw column too; tasks map and score in one step."""
    stages = [FeatureRecipe(numKnots=4), MBAClassifier(segmentCol="site", numFolds=3)]
    pipeline = RankerPipeline(stages).fit(rows)
    segments = pipeline.ranker.scorer.segments
    assert segments is not None
    assert "site" in [column.name for column in pipeline.recipe.columns]
    scored = pipeline.transform(rows).select("x0", "site", "rawPrediction").toPandas()
    X = pipeline.stages[0].transform(rows).select("features", "site").toPandas()
    dense = np.array([v.toArray() for v in X["features"]])
    number = numbers(X["site"], segments.weights.values)
    np.testing.assert_allclose(
        scored["rawPrediction"], segments.weights.scores(dense, number), rtol=1e-12
    )
    pipeline.save(str(tmp_path / "pipeline"))
    loaded = RankerPipelineModel.load(str(tmp_path / "pipeline"))
    again = loaded.transform(rows).select("rawPrediction").toPandas()
    assert (again["rawPrediction"] == scored["rawPrediction"]).all()
    assert_contributions(loaded, rows, segments.weights, dense, number)


def assert_contributions(model, rows, weights, X, number):
    """Contributions are the products of features and the weights of the row's segment."""
    shown = with_contributions(model, rows, 100).toPandas()
    sums = [sum(pair["value"] for pair in pairs) for pairs in shown["contributions"]]
    np.testing.assert_allclose(sums, shown["rawPrediction"], rtol=1e-10, atol=1e-13)
    names, tokens = np.array(model.recipe.names()), model.recipe.starts[-3]
    products = X * weights.W[number]
    expected = {
        column: products[:, :tokens][:, np.char.startswith(names, column)].sum(axis=1)
        for column in COLUMNS
    }
    found = [{p["feature"]: p["value"] for p in pairs} for pairs in shown["contributions"]]
    for row, place in enumerate(number):
        values = dict(found[row])
        site = shown["site"][row]
        is_ranked = place < len(weights.values)
        intercept = values.pop(f"segment site={site}" if is_ranked else "no segment of site")
        assert intercept == weights.intercept[place]
        token = values.pop(f"site={site}" if site else "site missing", 0.0)
        assert token == pytest.approx(products[row, tokens:].sum(), rel=1e-12)
        assert values.keys() <= expected.keys()
        for column, value in values.items():
            assert value == pytest.approx(expected[column][row], rel=1e-12)


def test_settings_and_columns_that_cannot_serve(rows):
    with pytest.raises(ConfigError, match="found segmentCol 'site' with estimator 'paired'"):
        MBAClassifier(featuresCol=COLUMNS, segmentCol="site", estimator="paired").fit(rows)
    with pytest.raises(ConfigError, match="segment column 'x0' of type double"):
        MBAClassifier(featuresCol=COLUMNS, regParam=1.0, segmentCol="x0").fit(rows)
    with pytest.raises(ConfigError, match=r"found no column 'sites', .*did you mean 'site'"):
        MBAClassifier(featuresCol=COLUMNS, regParam=1.0, segmentCol="sites").fit(rows)


def test_moments_of_too_many_features_are_refused(rows):
    wide = F.udf(lambda a, b: Vectors.sparse(9000, {0: a, 8999: b}), VectorUDT())
    vectors = rows.limit(300).select("label", "site", wide("x0", "x1").alias("features"))
    with pytest.raises(
        ResourceError,
        match=r"found moments of 9000 features in (25|30) folds, 5 of each of 5 segments",
    ):
        MBAClassifier(regParam=1.0, segmentCol="site", whenNotConverged="warn").fit(vectors)


def test_a_choice_without_memory_is_refused_before_its_pass(rows, monkeypatch):
    """Tasks of other machines have the memory of the pass, and the driver has 35 moments of 36."""

    def check(state_bytes, slots, what, folds=0):
        if folds:
            monkeypatch.setattr(memory, "available_memory", lambda: 35 * state_bytes)
            memory.check_available(state_bytes, slots, what, folds)

    def read(*_):
        raise AssertionError("the rows are read")

    monkeypatch.setattr(resources, "check_available", check)
    monkeypatch.setattr(segments_stage, "moments_of_segments", read)
    with pytest.raises(
        ResourceError,
        match=r"30 folds, 5 of each of 5 segments and of all rows, that .* leave out segmentCol",
    ):
        MBAClassifier(featuresCol=COLUMNS, regParam=0.1, segmentCol="site").fit(rows)


def test_equal_segments_give_the_ranker_of_all_rows(rows, model):
    """Segments by a hash of the row: the model has one ranker, with the same bits."""
    hashed = rows.withColumn("part", F.pmod(F.hash(*COLUMNS), F.lit(3)))
    same = MBAClassifier(featuresCol=COLUMNS, regParam=0.1, segmentCol="part").fit(hashed)
    plain = MBAClassifier(featuresCol=COLUMNS, regParam=0.1).fit(hashed)
    assert same.summary.segments["chosen"] == "global"
    assert same.scorer.segments is None
    assert (same.scorer.w == plain.scorer.w).all()
    assert same.getThreshold() == plain.getThreshold()
    assert plain.summary.segments is None
    assert (plain.scorer.w == model.scorer.w).all()


def test_the_most_frequent_values_are_segments(rows, monkeypatch, caplog):
    monkeypatch.setattr(segment_column, "MOST_SEGMENTS", 2)
    odd = F.when(F.col("x0") > 0.5, "a\n").when(F.col("x0") < -0.5, "b" * 201).otherwise("ü's")
    column = segment_column.SegmentColumn.of(SparkTable(rows.withColumn("odd", odd)), "odd")
    assert column.values == ("ü's",)
    with caplog.at_level("INFO"):
        column = segment_column.SegmentColumn.of(SparkTable(rows), "site")
    assert column.values == ("news", "shop")
    assert "the 2 most frequent values of 'site' are segments" in caplog.text
    sites = SparkTable(rows).select(["site"]).gathered().column(0).combine_chunks()
    assert set(zip(sites.to_pylist(), column.numbers(sites).tolist(), strict=True)) == {
        ("news", 0),
        ("shop", 1),
        ("mail", 2),
        ("rare", 2),
        ("", 2),
        (None, 2),
    }
