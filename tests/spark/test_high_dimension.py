"""More features than a matrix has room for, through Spark."""

import numpy as np
import pytest
from pyspark.ml.feature import Normalizer
from pyspark.ml.linalg import Vectors
from scipy import sparse

from spark_auc import MBAClassifier, evaluate
from spark_auc.core.batch import Batch
from spark_auc.core.row_source import ArrayRows
from spark_auc.errors import ConfigError
from spark_auc.spark.data.resources import SessionMemory
from spark_auc.training import penalty_sample, problem, train
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.survey import Sampling
from tests.data import DIRECTORY

pytestmark = pytest.mark.slow

# Features, the ridge of the independent references, the least AUC, and an l1 factor.
SETS = {
    "20news.binary": (167_699, 3e-5, 0.9895, 1e-3),
    "reuters_earn": (35_404, 3e-4, 0.9980, 1e-3),
    "criteo_80k_hash20": (1 << 20, 1e-4, 0.7700, 1e-4),
}


def unit_length(spark, paths, dimension):
    raw = spark.read.format("libsvm").option("numFeatures", dimension)
    normalizer = Normalizer(inputCol="features", outputCol="unit")
    return [normalizer.transform(raw.load(str(path))).select("label", "unit") for path in paths]


@pytest.fixture(params=SETS)
def real(request, spark, tmp_path):
    """Training and test rows of one set, with what is known of it."""
    name, (dimension, l2, least, l1) = request.param, SETS[request.param]
    if name.startswith("criteo"):
        source, paths = DIRECTORY / f"{name}.libsvm", [tmp_path / "train", tmp_path / "test"]
        if source.exists():
            lines = source.read_text().splitlines(keepends=True)
            for path, part in zip(paths, (lines[:64_000], lines[64_000:]), strict=True):
                path.write_text("".join(part))
    else:
        paths = [DIRECTORY / name, DIRECTORY / f"{name}.t"]
    if not paths[0].exists():
        pytest.skip(f"no {name} in {DIRECTORY}: set SPARK_AUC_DATA")
    return *unit_length(spark, paths, dimension), l2, least, l1


def test_real_data(real):
    train, test, l2, least, l1 = real
    given = {"featuresCol": "unit", "standardization": False}
    ridge = MBAClassifier(regParam=l2, **given).fit(train)
    assert ridge.summary.form == "rows"
    assert evaluate(ridge.transform(test)).auc >= least
    net = MBAClassifier(regParam=l1, elasticNetParam=0.9, **given).fit(train).summary
    assert 0 < net.nonzeros < 0.05 * ridge.scorer.w.size
    assert net.certificate["reason"] == "converged"
    assert net.certificate["kkt"] <= 1e-6


@pytest.fixture(scope="module")
def few(spark):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 30)) * (rng.random((300, 30)) < 0.4)
    y = X[:, :4].sum(axis=1) + rng.normal(size=300) > 1
    rows = [
        (k, Vectors.sparse(30, np.flatnonzero(x).tolist(), x[x != 0].tolist()), float(c))
        for k, (x, c) in enumerate(zip(X, y, strict=True))
    ]
    return spark.createDataFrame(rows, ["id", "features", "label"]).repartition(3).cache()


@pytest.mark.parametrize("form", ["rows", "passes"])
@pytest.mark.parametrize("estimator", ["exact", "complete", "paired"])
def test_every_form_is_the_same_problem(few, monkeypatch, form, estimator):
    drawn = {} if estimator == "exact" else {"numPairs": 1024}
    trained = MBAClassifier(
        regParam=0.03, elasticNetParam=0.5, tol=1e-8, estimator=estimator, **drawn
    )
    expected = trained.fit(few)
    assert expected.summary.form == "tiles"
    monkeypatch.setattr(problem, "fits_in_matrix", lambda rows: False)
    if form == "passes":
        monkeypatch.setattr(SessionMemory, "rows_limit", 0.0)
    found = trained.fit(few)
    assert found.summary.form == form
    np.testing.assert_allclose(found.scorer.w, expected.scorer.w, atol=1e-7)
    assert found.summary.estimated_auc == pytest.approx(expected.summary.estimated_auc, abs=1e-9)
    assert found.getThreshold() == pytest.approx(expected.getThreshold(), abs=1e-6)


def test_what_cannot_be_done_without_a_matrix_is_refused(few, monkeypatch):
    for module in (problem, train):
        monkeypatch.setattr(module, "fits_in_matrix", lambda rows: False)
    with pytest.raises(ConfigError, match="set keepMoments to False"):
        MBAClassifier(regParam=0.1, keepMoments=True).fit(few)


def test_penalties_are_compared_on_the_sample_of_one_process(few, monkeypatch):
    monkeypatch.setattr(problem, "fits_in_matrix", lambda rows: False)
    monkeypatch.setattr(penalty_sample, "ENTRIES", 1_500)
    monkeypatch.setattr(SessionMemory, "rows_limit", 0.0)
    found = MBAClassifier(standardization=False, keyCol="id").fit(few).summary
    assert found.form == "passes"
    collected = few.orderBy("id").collect()
    X = sparse.csr_matrix([row["features"].toArray() for row in collected])
    y = np.array([row["label"] == 1 for row in collected])
    settings = TrainingSettings(standardize=False)
    selected = problem.select_rows(ArrayRows((Batch(X, y),), 30), Sampling(), settings.work())
    sample = penalty_sample.PenaltySample.of(selected, settings)
    rows = sum(batch.y.size for batch in sample.rows.batches)
    assert 60 < rows < 200
    grid = [value["regParam"] for value in found.selection["candidates"]]
    assert len(grid) == 25
    trace = grid[0] / sample.factor / 1e-7
    of_sample = problem.build_problem(sample.rows, Sampling()).quadratic(None)
    assert trace == pytest.approx(float(of_sample.Sigma.diagonal().sum()), rel=1e-9)
