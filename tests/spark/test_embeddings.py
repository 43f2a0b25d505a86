"""The stages of embeddings: each against the map that numpy's own figures of the columns give.

Nystroem's kernel takes columns in the default, robust scale here; the random Fourier features take
columns divided by their standard deviation.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.classification import LogisticRegression
from pyspark.sql import functions as F
from sklearn.metrics import roc_auc_score

from spark_auc import (
    EmbeddingModel,
    FeatureCrosses,
    MBAClassifier,
    NSAUCClassifier,
    NystroemEmbedding,
    RandomFourierFeatures,
    RandomThresholds,
    RankSVMClassifier,
    SplineBasis,
    TanhNetwork,
)
from spark_auc.errors import ConfigError, DataError
from spark_auc.features.composition import Composition
from spark_auc.features.crosses import CrossMap
from spark_auc.features.fourier import FourierMap
from spark_auc.features.kernels import Kernel
from spark_auc.features.knots import knots_of
from spark_auc.features.network import NetworkMap
from spark_auc.features.nystroem import NystroemMap
from spark_auc.features.robust_scale import RobustScale
from spark_auc.features.splines import Splines
from spark_auc.features.thresholds import ThresholdMap
from spark_auc.features.value_counts import ValueCounts
from spark_auc.tables.arrow_table import ArrowTable
from tests.spark.embedding_rows import (
    COLUMNS,
    FORMS,
    SEED,
    D,
    N,
    X,
    Y,
    embedded,
    fitted,
    table,
    table_here,
)

MAKERS = {
    "splines": lambda **to: SplineBasis(numKnots=5, **to),
    "nystroem": lambda **to: NystroemEmbedding(
        numLandmarks=12, landmarks="sample", seed=SEED, **to
    ),
    "fourier": lambda **to: RandomFourierFeatures(
        numOutputs=9, seed=SEED, scaling="standard", **to
    ),
    "thresholds": lambda **to: RandomThresholds(numOutputs=9, seed=SEED, **to),
    "network": lambda **to: TanhNetwork(numOutputs=9, seed=SEED, **to),
    "crosses": lambda **to: FeatureCrosses(numBits=6, seed=SEED, **to),
}
VALUES = [ValueCounts.of(x).weighted() for x in X.T]
all_of_them = pytest.mark.parametrize("name", MAKERS)


def expected_map(name, landmarks=None):
    """The map that one machine makes of the same rows; landmarks are any of them."""
    mean, scale = X.mean(axis=0), X.std(axis=0, ddof=1)
    bandwidth = ((X / scale).var(axis=0)).sum()
    if name == "splines":
        return Splines.of_knots([knots_of(*values, 5) for values in VALUES])
    if name == "nystroem":
        kernel = Kernel("gaussian", float(D))
        return Composition((RobustScale.of(VALUES), NystroemMap.of_landmarks(landmarks, kernel)))
    if name == "fourier":
        return FourierMap.random(D, bandwidth, 9, SEED).of_columns(scale)
    if name == "thresholds":
        return ThresholdMap.random(mean, scale, 9, SEED)
    if name == "network":
        return NetworkMap.random(D, 9, seed=SEED).of_columns(mean, scale)
    return CrossMap(D, 6, SEED)


@pytest.fixture(scope="module")
def rows(spark):
    made = table(spark).repartition(2, "id").cache()
    made.count()
    yield made
    made.unpersist()


@pytest.fixture(scope="module")
def here():
    return table_here()


@pytest.fixture(scope="module")
def models(here):
    """Models of the numeric columns."""
    return {name: fitted(make(inputCol=COLUMNS), here) for name, make in MAKERS.items()}


def dense(mapped):
    return mapped if isinstance(mapped, np.ndarray) else mapped.toarray()


def assert_expected(name, embedding):
    found = dense(embedding.transform(X))
    if name == "nystroem":
        scale, kernel_map = embedding.maps
        own = kernel_map.landmarks
        # They are rows of the data, in that scale.
        assert {row.tobytes() for row in own} <= {row.tobytes() for row in scale.transform(X)}
        assert np.unique(own, axis=0).shape == (12, D)
        expected = expected_map(name, own).transform(X)
        np.testing.assert_allclose(found @ found.T, expected @ expected.T, rtol=0, atol=1e-10)
    else:
        expected = dense(expected_map(name).transform(X))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("form", FORMS)
@all_of_them
def test_maps_of_one_process(here, name, form):
    assert_expected(name, fitted(MAKERS[name](inputCol=FORMS[form]), here).embedding)


@pytest.mark.parametrize(("name", "form"), [*zip(MAKERS, [*FORMS, *FORMS], strict=False)])
def test_the_column_is_what_one_machine_makes(rows, name, form):
    model = MAKERS[name](inputCol=FORMS[form]).fit(rows)
    assert_expected(name, model.embedding)
    expected = dense(model.embedding.transform(X))
    np.testing.assert_allclose(embedded(model, rows), expected, rtol=0, atol=1e-10)


def test_centres_of_kmeans(rows):
    settings = {"sampleSize": 200, "maxIter": 5, "seed": SEED, "scaling": "standard"}
    model = NystroemEmbedding(inputCol="dense", numLandmarks=8, **settings).fit(rows)
    own, unit = model.embedding.landmarks, X.std(axis=0, ddof=1)
    assert own.shape == (8, D)
    apart = ((X / unit)[:, None] - own) ** 2
    nearest = apart.sum(axis=2).min(axis=1)
    for k in range(50):
        drawn = X[np.random.default_rng(k).permutation(N)[:8]] / unit
        further = ((X / unit)[:, None] - drawn) ** 2
        assert nearest.mean() < further.sum(axis=2).min(axis=1).mean()
    expected = NystroemMap.of_landmarks(own, model.embedding.kernel, scale=unit).transform(X)
    found = embedded(model, rows)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, rtol=0, atol=1e-10)


def first_rows(table, count):
    return ArrowTable.of(table.gathered()[:count])


def test_fewer_rows_than_landmarks_are_told(here, caplog):
    made = NystroemEmbedding(inputCol="dense", numLandmarks=30, landmarks="sample", seed=SEED)
    embedding = fitted(made, first_rows(here, 20)).embedding
    assert embedding.maps[-1].landmarks.shape[0] == 20
    assert "found 20 landmarks, expected numLandmarks 30" in caplog.text


def test_a_trained_layer(here):
    made = TanhNetwork(inputCol="array", trained=True, numOutputs=3, maxIter=5, seed=SEED)
    found = fitted(made, here).embedding.transform(X)
    mean, unit = X.mean(axis=0), X.std(axis=0, ddof=1)
    layer = NetworkMap.trained((X - mean) / unit, Y, features=3, max_iter=5, seed=SEED)
    np.testing.assert_allclose(found, layer.transform((X - mean) / unit), rtol=0, atol=1e-7)
    with pytest.raises(DataError, match="one class only"):
        fitted(made, ArrowTable.of(here.gathered().filter(pc.field("label") == 1)))


@all_of_them
def test_saving_and_loading(rows, models, name, tmp_path):
    model, where = models[name], str(tmp_path / "model")
    model.save(where)
    if name == "splines":
        with pytest.raises(Exception, match="already exists"):
            model.save(where)
        model.write().overwrite().save(where)
    loaded = EmbeddingModel.load(where)
    assert loaded.uid == model.uid
    assert loaded.getOrDefault("inputCol") == COLUMNS
    assert loaded.embedding.to_bytes() == model.embedding.to_bytes()
    np.testing.assert_array_equal(embedded(loaded, rows), embedded(model, rows))


@all_of_them
def test_params(models, name, tmp_path):
    estimator = MAKERS[name](inputCol=COLUMNS)
    text = estimator.explainParams()
    assert all(f"{p.name}: " in text and p.doc for p in estimator.params)
    copied = estimator.copy({estimator.outputCol: "other"})
    assert (copied.getOutputCol(), estimator.getOutputCol()) == ("other", "embedded")
    estimator.save(str(tmp_path / "estimator"))
    again = type(estimator).load(str(tmp_path / "estimator"))
    assert {p.name: v for p, v in again.extractParamMap().items()} == {
        p.name: v for p, v in estimator.extractParamMap().items()
    }
    model = models[name].copy({models[name].outputCol: "other"})
    assert model.getOutputCol() == "other"
    assert model.embedding is models[name].embedding


# Spark ML's own stages need a session to exist.
LEARNERS = {
    "splines": lambda: MBAClassifier(featuresCol="embedded"),
    "nystroem": lambda: RankSVMClassifier(featuresCol="embedded", standardization=False),
    "fourier": lambda: NSAUCClassifier(
        featuresCol="embedded", standardization=False, orderCol="id"
    ),
    "network": lambda: LogisticRegression(featuresCol="embedded", regParam=0.01),
}
SLOW = ("nystroem", "fourier", "network")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in LEARNERS],
)
def test_pipelines(rows, name, tmp_path):
    stages = [MAKERS[name](inputCol="dense"), LEARNERS[name]()]
    Pipeline(stages=stages).save(str(tmp_path / "unfitted"))
    fitted = Pipeline.load(str(tmp_path / "unfitted")).fit(rows)
    fitted.write().overwrite().save(str(tmp_path / "fitted"))
    loaded = PipelineModel.load(str(tmp_path / "fitted"))
    first, second = (
        m.transform(rows).select("id", "rawPrediction", "prediction").collect()
        for m in (fitted, loaded)
    )
    assert first == second
    score = [r[1] if np.isscalar(r[1]) else r[1][1] for r in first]
    assert roc_auc_score(Y[[int(r[0]) for r in first]], score) > 0.6


@all_of_them
def test_where_rows_lie_does_not_matter(here, models, name):
    expected = models[name].embedding
    order = np.random.default_rng(3).permutation(N)
    for other in (here, ArrowTable.of(here.gathered().take(order), 37)):
        found = fitted(MAKERS[name](inputCol=COLUMNS), other).embedding
        # Moments of columns are merged in another order; values, their numbers of rows and hashes
        # do not depend on it.
        if other is here or name in {"splines", "nystroem", "crosses"}:
            assert found.to_bytes() == expected.to_bytes()
        else:
            # An eigenvector's sign and, where values are close, direction are not determined.
            a, b = found.transform(X), expected.transform(X)
            np.testing.assert_allclose(a @ a.T, b @ b.T, rtol=0, atol=1e-10)


def spoilt(rows, bad):
    value = F.when(F.col("id") == 3, F.lit(bad)).otherwise(F.col("`x.1`"))
    return rows.withColumn("x.1", value)


@pytest.mark.parametrize(
    ("name", "bad"),
    [("fourier", np.nan), ("fourier", np.inf), ("thresholds", None), ("network", -np.inf)],
)
def test_values_that_no_map_learns_from(here, name, bad):
    rows = here.gathered()
    values = pc.if_else(pc.equal(rows["id"], 3), pa.scalar(bad, pa.float64()), rows["x.1"])
    changed = rows.set_column(rows.schema.get_field_index("x.1"), "x.1", values)
    with pytest.raises(DataError, match=r"found .*expected"):
        fitted(MAKERS[name](inputCol=COLUMNS), ArrowTable.of(changed))


def test_values_that_cannot_be_learnt_from(rows):
    with pytest.raises(DataError, match=r"found .*expected"):
        MAKERS["network"](inputCol=COLUMNS).fit(spoilt(rows, -np.inf))


@pytest.mark.parametrize("make", [MAKERS["nystroem"], RandomFourierFeatures])
def test_raw_columns_that_no_division_scales(make):
    """Missing and infinite values, an outlier and a constant column."""
    k = np.arange(N)
    infinite, outlier = X[:, 1].copy(), np.exp(X[:, 2])
    infinite[[3, 4]], outlier[5] = (np.inf, np.nan), 1e300
    columns = {
        "null": pa.array(X[:, 0], mask=k % 3 == 0),
        "infinite": infinite,
        "outlier": outlier,
        "constant": np.full(N, 7.0),
    }
    raw = ArrowTable.of(pa.table(columns), 70)
    model = fitted(make(inputCol=[*columns]), raw)
    features = model.features(model.input_features(raw))
    found = features.decode([c.combine_chunks() for c in raw.gathered().columns])
    local = np.column_stack([np.where(k % 3 > 0, X[:, 0], np.nan), *list(columns.values())[1:]])
    np.testing.assert_array_equal(found, model.embedding.transform(local))
    # Rows differ: no column's tail is all of the distances.
    distances = ((found[:, None] - found) ** 2).sum(axis=2)
    assert np.median(distances) > 0.5
    with pytest.raises(DataError, match=r"found .*expected"):
        fitted(make(inputCol=[*columns], scaling="standard"), raw)


def test_wide_rows_are_divided(caplog):
    repeated = np.repeat(X[:, :1], 257, axis=1)
    wide = ArrowTable.of(pa.table({"wide": list(repeated)}), 70)
    caplog.set_level("INFO", "spark_auc")
    made = RandomFourierFeatures(inputCol="wide", numOutputs=3)
    assert isinstance(fitted(made, wide).embedding, FourierMap)
    assert "scaling is 'standard', by default for 257 columns" in caplog.text
    # The robust scale takes a pass for each 96 columns.
    scale = fitted(made.copy({made.scaling: "robust"}), wide).embedding.maps[0]
    np.testing.assert_array_equal(
        scale.transform(repeated),
        np.repeat(RobustScale.of(VALUES[:1]).transform(X[:, :1]), 257, axis=1),
    )


def test_values_that_cannot_be_embedded(rows, models):
    with pytest.raises(Exception, match=r"DataError: found .*expected"):
        models["thresholds"].transform(spoilt(rows, None)).select("embedded").collect()


@pytest.mark.parametrize("name", ["splines", "nystroem"])
def test_columns_that_cannot_serve(rows, models, name):
    make = MAKERS[name]
    with pytest.raises(ConfigError, match=r"no column 'dens', .*did you mean 'dense'"):
        make(inputCol="dens").fit(rows)
    with pytest.raises(ConfigError, match="expected one vector column"):
        make(inputCol=["dense", "array"]).fit(rows)
    with pytest.raises(ConfigError, match="'embedded' in the data already"):
        models[name].transform(rows.withColumn("embedded", F.lit(0)))
    with pytest.raises(DataError, match=r"found .*expected"):
        make(inputCol="dense").fit(rows.filter("id < 0"))


@pytest.mark.parametrize("name", ["splines", "thresholds"])
def test_no_rows(here, name):
    with pytest.raises(DataError, match=r"found no .*expected"):
        fitted(MAKERS[name](inputCol=COLUMNS), first_rows(here, 0))


def test_rows_of_another_dimension(rows, models):
    model = models["thresholds"]
    with pytest.raises(DataError, match=r"found 3 feature columns, expected 5"):
        model.copy({model.inputCol: COLUMNS[:3]}).transform(rows)
    short = rows.withColumn("array", F.slice("array", 1, 3))
    with pytest.raises(Exception, match=r"DataError: found .*expected 5"):
        model.copy({model.inputCol: "array"}).transform(short).select("embedded").collect()


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("splines", {"numKnots": 1}),
        ("nystroem", {"numLandmarks": 0}),
        ("nystroem", {"landmarks": "kmeans", "sampleSize": 11}),
        ("nystroem", {"landmarks": "kmeans", "numLandmarks": 1}),
        ("nystroem", {"bandwidth": 0.0}),
        ("nystroem", {"bandwidth": -1.0}),
        ("nystroem", {"kernel": "polynomial", "degree": 0}),
        ("nystroem", {"rank": 0}),
        ("fourier", {"bandwidth": 0.0}),
        ("fourier", {"bandwidth": -1.0}),
        ("fourier", {"numOutputs": 0}),
        ("thresholds", {"numOutputs": 0}),
        ("thresholds", {"seed": -1}),
        ("network", {"numOutputs": 0}),
        ("network", {"numOutputs": 0, "trained": True}),
        ("network", {"sampleSize": 0, "trained": True}),
        ("network", {"maxIter": 0, "trained": True}),
        ("crosses", {"numBits": 0}),
        ("crosses", {"numBits": 31}),
    ],
)
def test_params_out_of_range(here, name, wrong):
    with pytest.raises(ConfigError, match=r"found .*expected .*; set"):
        fitted(MAKERS[name](inputCol=COLUMNS).setParams(**wrong), here)


def test_words_that_are_no_choice():
    for wrong in ({"landmarks": "all"}, {"kernel": "cosine"}):
        with pytest.raises(ConfigError, match=r"found .*expected"):
            NystroemEmbedding(**wrong)
    with pytest.raises(TypeError, match=r"found .*expected"):
        NystroemEmbedding(inputCol=3)


@pytest.fixture(scope="module")
def stored(rows, tmp_path_factory):
    where = str(tmp_path_factory.mktemp("rows") / "parquet")
    rows.write.parquet(where)
    return rows.sparkSession.read.parquet(where)


@pytest.mark.parametrize(
    ("name", "form"), [*zip(["thresholds", "splines"] * 2, FORMS, strict=True)]
)
def test_rows_that_are_stored_by_column(stored, models, name, form):
    """Spark hands rows of Parquet to the tasks by another way."""
    model = models[name].copy({models[name].inputCol: FORMS[form]})
    expected = dense(model.embedding.transform(X))
    np.testing.assert_allclose(embedded(model, stored), expected, rtol=0, atol=1e-10)


def test_rows_that_are_stored_by_column_are_learnt_from(stored, models):
    again = MAKERS["nystroem"](inputCol=COLUMNS).fit(stored).embedding
    assert again.to_bytes() == models["nystroem"].embedding.to_bytes()
