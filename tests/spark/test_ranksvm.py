"""RankSVM over a DataFrame, which keeps its rows; `tests.pipeline.test_hinge` has the optimum."""

import numpy as np
import pytest
from chispa import assert_df_equality
from pyspark import StorageLevel
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, StructField, StructType

from spark_auc import LinearRankerModel, MBAClassifier, RankSVMClassifier
from spark_auc.errors import ConvergenceError, DataError
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.columns import TrainingColumns
from spark_auc.tables.features import PreparedFeatures
from spark_auc.tables.rows import TableRows
from spark_auc.training import ranksvm
from tests.pipeline.test_hinge import REG, TOL, U, X, Y, columns, hinge
from tests.tables.feature_rows import D


def sparse_of(x):
    kept = np.flatnonzero(x)
    return Vectors.sparse(D, kept.tolist(), x[kept].tolist())


@pytest.fixture(scope="module")
def rows(spark):
    """Dense and sparse vectors in turn."""
    kinds = {"features": VectorUDT(), "label": DoubleType(), "u": DoubleType()}
    vectors = [(Vectors.dense, sparse_of)[k % 2](x) for k, x in enumerate(X)]
    listed = [*zip(vectors, Y.astype(float).tolist(), U.tolist(), strict=True)]
    schema = StructType([StructField(*kind) for kind in kinds.items()])
    made = spark.createDataFrame(listed, schema).repartition(2).cache()
    made.count()
    yield made
    made.unpersist()


@pytest.fixture(scope="module")
def model(rows):
    return RankSVMClassifier(regParam=REG, tol=TOL, weightCol="u").fit(rows)


def test_weights_are_those_of_one_process(model):
    expected = hinge().fitted(ArrowTable.of(columns(), 150))
    np.testing.assert_allclose(model.scorer.w, expected.scorer.w, rtol=1e-7, atol=1e-10)
    assert model.getThreshold() == pytest.approx(expected.getThreshold(), rel=1e-7)
    assert model.summary.rows == expected.summary.rows
    assert set(model.summary.seconds) == {"survey", "solve"}
    assert model.summary.certificate["reason"] == "converged"


def test_folds_choose_the_penalty(rows, tmp_path):
    place = F.floor(F.col("u") * 1000) % 4
    grouped = rows.withColumn("fold", place.cast("string"))
    settings = {"weightCol": "u", "foldCol": "fold", "standardization": False}
    estimator = RankSVMClassifier(**settings)
    model = estimator.fit(grouped)
    chosen = MBAClassifier(**settings).fit(grouped).summary
    assert estimator.selects
    assert estimator.copy().selects
    assert not estimator.copy({estimator.regParam: 1e-3}).selects
    estimator.save(str(tmp_path / "estimator"))
    assert RankSVMClassifier.load(str(tmp_path / "estimator")).selects
    assert model.getRegParam() == model.summary.reg_param == chosen.reg_param
    assert model.summary.selection == chosen.selection
    model.save(str(tmp_path / "model"))
    assert LinearRankerModel.load(str(tmp_path / "model")).getRegParam() == model.getRegParam()


def test_save_and_load(rows, model, tmp_path):
    model.save(str(tmp_path / "model"))
    loaded = LinearRankerModel.load(str(tmp_path / "model"))
    assert loaded.summary == model.summary
    first, second = (
        m.transform(rows).select("rawPrediction", "prediction") for m in (model, loaded)
    )
    assert_df_equality(first, second)
    estimator = RankSVMClassifier(featuresCol=["a", "b"], tol=1e-3)
    estimator.save(str(tmp_path / "estimator"))
    again = RankSVMClassifier.load(str(tmp_path / "estimator"))
    assert again.getOrDefault("featuresCol") == ["a", "b"]
    assert (again.getTol(), again.getRegParam(), again.selects) == (1e-3, None, True)
    assert "regParam" in again.explainParams()


@pytest.mark.slow
@pytest.mark.parametrize("matrix", [True, False])
def test_where_scores_do_not_fit_ranges_of_them_train(rows, model, monkeypatch, caplog, matrix):
    """By a matrix of features and without, to the weights of gathered scores."""
    if not matrix:
        monkeypatch.setattr(ranksvm, "_MATRIX", D - 1)
    monkeypatch.setattr(ranksvm, "_SCORE_BYTES", 1 << 40)
    monkeypatch.setattr(ranksvm, "_RANGES", 16)
    with caplog.at_level("INFO"):
        fitted = RankSVMClassifier(regParam=REG, tol=1e-6, weightCol="u").fit(rows)
    assert "summarised in ranges: found scores of 300 rows" in caplog.text
    assert "more ranges" in caplog.text
    assert fitted.summary.certificate["reason"] == "converged"
    np.testing.assert_allclose(fitted.scorer.w, model.scorer.w, rtol=1e-3, atol=1e-4)


@pytest.fixture
def persisted(rows, monkeypatch):
    """The frames that were asked to be kept."""
    kind, made = type(rows), []
    persist = kind.persist

    def recorded(frame, *args, **kwargs):
        made.append(frame)
        return persist(frame, *args, **kwargs)

    monkeypatch.setattr(kind, "persist", recorded)
    return made


def released(frames):
    return all(frame.storageLevel == StorageLevel.NONE for frame in frames)


def test_rows_are_kept_while_they_are_read_again(rows, model, persisted):
    derived = rows.filter("u > 0")
    estimator = RankSVMClassifier(regParam=REG, tol=TOL, weightCol="u")
    fitted = estimator.fit(derived)
    np.testing.assert_allclose(fitted.scorer.w, model.scorer.w, rtol=1e-7, atol=1e-10)
    assert len(persisted) == 1
    assert released(persisted)
    assert rows.storageLevel.useMemory


@pytest.mark.parametrize("failure", ["a value", "a tolerance"])
def test_rows_are_released_after_a_failure(rows, persisted, failure):
    derived = rows.filter("u > 0")
    if failure == "a value":
        spoilt = derived.withColumn("u", F.when(F.col("u") < 0.6, -1.0).otherwise(F.col("u")))
        with pytest.raises(DataError, match="weights"):
            RankSVMClassifier(weightCol="u").fit(spoilt)
    else:
        with pytest.raises(ConvergenceError):
            RankSVMClassifier(regParam=1e-6, tol=1e-14, maxIter=1).fit(derived)
    assert len(persisted) == 1
    assert released(persisted)


@pytest.mark.slow
def test_sources_that_are_cheap_to_read_are_not_kept(rows, model, persisted, tmp_path):
    estimator = RankSVMClassifier(regParam=REG, tol=TOL, weightCol="u")
    rows.write.parquet(str(tmp_path / "rows"))
    for source in (rows, rows.sparkSession.read.parquet(str(tmp_path / "rows"))):
        np.testing.assert_allclose(
            estimator.fit(source).scorer.w, model.scorer.w, rtol=1e-7, atol=1e-10
        )
    assert not persisted


def test_kept_rows_are_the_rows(rows):
    """In parts of any size, with their weights, and empty partitions among them."""
    derived = rows.filter("u > 0").repartition(6, "label")
    table = SparkTable(derived)
    features = PreparedFeatures.resolve(table, "features")
    columns = TrainingColumns.resolve(table, features, "label", None, "u")
    with TableRows.of(table, columns).kept() as kept:
        assert kept.table.frame.storageLevel.useMemory
        batch = kept.gathered().joined()
        with kept.kept() as again:
            assert again is kept
    found = np.column_stack([batch.X.toarray(), batch.y, batch.weights])
    expected = np.column_stack([X, Y, U])
    np.testing.assert_array_equal(found[np.argsort(found[:, -1])], expected[np.argsort(U)])
