"""RankSVM over a DataFrame: the optimum over every pair, wherever the rows lie and are kept."""

import numpy as np
import pytest
from chispa import assert_df_equality
from pyspark import StorageLevel
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DoubleType, IntegerType, StructField, StructType

from spark_auc import LinearRankerModel, MBAClassifier, RankSVMClassifier
from spark_auc.core.batch import Batch
from spark_auc.core.hinge.pair_hinge import PairHinge
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import ArrayRows
from spark_auc.errors import ConfigError, ConvergenceError, DataError
from spark_auc.solvers.truncated_newton import truncated_newton
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.tables.columns import TrainingColumns
from spark_auc.tables.features import PreparedFeatures
from spark_auc.tables.rows import TableRows
from spark_auc.training import ranksvm

N, D, REG, TOL = 300, 6, 0.01, 1e-9
RNG = np.random.default_rng(5)
X = np.round(RNG.normal(size=(N, D)) * (RNG.random((N, D)) < 0.7), 3)
X[:, 0] += 5
# Ranked so well that most pairs do not violate, and some do.
Y = X @ [0.0, 1, -1, 0.5, 2, 0] + 0.5 * RNG.normal(size=N) > 1
U = RNG.uniform(0.5, 2, N)
COLUMNS = [f"x.{j}" for j in range(D)]


def sparse_of(x):
    kept = np.flatnonzero(x)
    return Vectors.sparse(D, kept.tolist(), x[kept].tolist())


def table(spark):
    """Rows in every form."""
    arrays = {"i": ArrayType(IntegerType()), "v": ArrayType(DoubleType())}
    numbers = dict.fromkeys([*COLUMNS, "label", "u"], DoubleType())
    kinds = dict.fromkeys(["dense", "sparse", "mixed"], VectorUDT()) | arrays | numbers
    made = []
    for k, x in enumerate(X):
        kept, forms = np.flatnonzero(x), [Vectors.dense(x), sparse_of(x)]
        lists = [kept.tolist(), x[kept].tolist()]
        made.append((*forms, forms[k % 2], *lists, *x.tolist(), float(Y[k]), float(U[k])))
    return spark.createDataFrame(made, StructType([StructField(*kind) for kind in kinds.items()]))


@pytest.fixture(scope="module")
def rows(spark):
    made = table(spark).withColumn("features", F.col("mixed")).repartition(2).cache()
    made.count()
    yield made
    made.unpersist()


@pytest.fixture(scope="module")
def model(rows):
    return RankSVMClassifier(regParam=REG, tol=TOL, weightCol="u").fit(rows)


def deviations(u):
    mean, n = np.average(X, axis=0, weights=u), max(N, u.sum())
    return np.sqrt(np.average((X - mean) ** 2, axis=0, weights=u) * n / (n - 1))


def objective(w, u, scale):
    """From every pair, by weights of raw columns."""
    short = np.maximum(1 - np.subtract.outer(X[Y] @ w, X[~Y] @ w), 0)
    pairs = np.outer(u[Y], u[~Y])
    return REG / 2 * np.sum((w * scale) ** 2) + np.sum(pairs * short**2) / pairs.sum() / 2


def local(u, scale):
    """Weights of raw columns by the solver of one machine."""
    batch = Batch(X, Y, u)
    hinge = PairHinge(ArrayRows((batch,), D), ColumnMoments.of(batch), REG, scale)
    quadratic = PairMoments.of(X, Y, u).quadratic(scale)
    return truncated_newton(hinge, quadratic, tol=1e-9, max_iter=500).w / scale


@pytest.mark.parametrize(
    ("kind", "weighted", "standardized"),
    [
        ("dense", True, False),
        ("mixed", False, False),
        (["i", "v"], True, True),
    ],
)
def test_weights_are_those_of_one_machine(rows, kind, weighted, standardized):
    u = U if weighted else np.ones(N)
    scale = deviations(u) if standardized else np.ones(D)
    estimator = RankSVMClassifier(
        featuresCol=kind,
        numFeatures=D,
        regParam=REG,
        tol=TOL,
        standardization=standardized,
        weightCol="u" if weighted else None,
    )
    found = estimator.fit(rows).scorer.w
    expected = local(u, scale)
    assert objective(found, u, scale) == pytest.approx(objective(expected, u, scale), rel=1e-8)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("scaled", [True, False])
def test_folds_choose_the_penalty(rows, tmp_path, scaled):
    estimator = RankSVMClassifier(standardization=scaled, weightCol="u")
    chosen = MBAClassifier(standardization=scaled, weightCol="u").fit(rows)
    model = estimator.fit(rows)
    assert estimator.selects
    assert estimator.copy().selects
    assert not estimator.copy({estimator.regParam: 1e-3}).selects
    estimator.save(str(tmp_path / "estimator"))
    assert RankSVMClassifier.load(str(tmp_path / "estimator")).selects
    assert model.getRegParam() == model.summary.reg_param == chosen.getRegParam()
    assert model.summary.selection == chosen.summary.selection
    model.save(str(tmp_path / "model"))
    assert LinearRankerModel.load(str(tmp_path / "model")).getRegParam() == model.getRegParam()


@pytest.mark.parametrize(
    "folds",
    [
        {"keyCol": "key", "numFolds": 3, "seed": 7},
        {"foldCol": "fold", "selectionRule": "oneStandardError"},
    ],
)
def test_folds_of_the_user_are_those_of_mba(rows, folds):
    """In rows that are kept, too: those of a query are."""
    place = F.floor(F.col("u") * 1000) % 41
    grouped = rows.withColumn("key", place).withColumn("fold", (place % 4).cast("string"))
    settings = {"standardization": False, "weightCol": "u", **folds}
    model = RankSVMClassifier(**settings).fit(grouped)
    chosen = MBAClassifier(**settings).fit(grouped).summary
    assert model.summary.selection == chosen.selection
    assert model.getRegParam() == chosen.reg_param
    assert len(chosen.selection["candidates"][0]["folds"]) == folds.get("numFolds", 4)


@pytest.mark.slow
def test_where_rows_lie_does_not_matter(rows, model):
    estimator = RankSVMClassifier(regParam=REG, tol=TOL, weightCol="u")
    others = {
        "by label": rows.repartitionByRange(2, "label").sortWithinPartitions("u"),
        "empty partitions": rows.repartition(6, "label"),
    }
    for name, other in others.items():
        w = estimator.fit(other).scorer.w
        np.testing.assert_allclose(w, model.scorer.w, rtol=1e-7, atol=1e-10, err_msg=name)


@pytest.mark.slow
def test_without_a_matrix(rows, model, monkeypatch):
    monkeypatch.setattr(ranksvm, "_MATRIX", D - 1)
    other = RankSVMClassifier(regParam=REG, tol=TOL, weightCol="u").fit(rows)
    np.testing.assert_allclose(other.scorer.w, model.scorer.w, rtol=1e-3, atol=1e-4)
    assert other.getThreshold() == pytest.approx(model.getThreshold(), rel=1e-3)
    assert other.summary.estimated_auc == pytest.approx(model.summary.estimated_auc, rel=1e-4)


@pytest.mark.slow
def test_a_weight_of_2_is_a_row_twice(rows):
    even = F.floor(F.col("u") * 1000) % 2 == 0
    whole = rows.withColumn("u", F.when(even, 2.0).otherwise(1.0))
    once = RankSVMClassifier(regParam=REG, tol=TOL, standardization=False, weightCol="u")
    twice = once.copy()
    twice.clear(twice.weightCol)
    a, b = once.fit(whole), twice.fit(whole.union(whole.filter("u = 2")))
    np.testing.assert_allclose(a.scorer.w, b.scorer.w, rtol=1e-6, atol=1e-9)


def test_certificate(model):
    summary, scale = model.summary, deviations(U)
    margins = np.subtract.outer(X[Y] @ model.scorer.w, X[~Y] @ model.scorer.w)
    assert 0.2 < (margins > 1).mean() < 0.9
    assert summary.estimator == "RankSVM"
    assert summary.reg_param == REG
    assert set(summary.seconds) == {"survey", "solve"}
    assert summary.rows == {"0.0": int((~Y).sum()), "1.0": int(Y.sum())}
    certificate = summary.certificate
    assert certificate["reason"] == "converged"
    assert certificate["objective"] == pytest.approx(objective(model.scorer.w, U, scale), rel=1e-10)
    rng = np.random.default_rng(0)
    for _ in range(20):
        near = model.scorer.w + rng.normal(size=D) * 1e-3 / scale
        assert objective(near, U, scale) >= certificate["objective"] - certificate["gap"]


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


def test_convergence_is_never_silent(rows, caplog):
    hard = {"regParam": 1e-6, "tol": 1e-14, "maxIter": 1}
    with pytest.raises(ConvergenceError, match="KKT residual"):
        RankSVMClassifier(**hard).fit(rows)
    fitted = RankSVMClassifier(**hard, whenNotConverged="warn").fit(rows)
    assert "KKT residual" in caplog.text
    assert fitted.summary.certificate["reason"] != "converged"


def test_labels(rows, model):
    estimator = RankSVMClassifier(regParam=REG, tol=TOL, weightCol="u")
    signed = rows.withColumn("label", 2 * F.col("label") - 1)
    fitted = estimator.fit(signed)
    np.testing.assert_allclose(fitted.scorer.w, model.scorer.w, rtol=1e-9)
    assert {r[0] for r in fitted.transform(signed).select("prediction").collect()} == {-1.0, 1.0}
    text = rows.withColumn("label", F.when(F.col("label") == 1, "no").otherwise("yes"))
    other = estimator.copy({estimator.positiveLabel: "yes"}).fit(text)
    np.testing.assert_allclose(other.scorer.w, -model.scorer.w, rtol=1e-6, atol=1e-9)


def test_what_is_refused(rows, monkeypatch):
    for label in (0, 1):
        with pytest.raises(DataError, match="one class only"):
            RankSVMClassifier().fit(rows.filter(F.col("label") == label))
    with pytest.raises(DataError, match="found no rows"):
        RankSVMClassifier().fit(rows.filter("u < 0"))
    for wrong in (
        {"regParam": 0.0},
        {"regParam": -1.0},
        {"regParam": np.inf},
        {"tol": 0.0},
        {"maxIter": 0},
    ):
        with pytest.raises(ConfigError, match=r"found .*expected .*; set"):
            RankSVMClassifier(**wrong).fit(rows)
    for unused in ({"keyCol": "u"}, {"seed": 1}, {"numFolds": 3}):
        with pytest.raises(ConfigError, match=r"with a single penalty, .* has no effect"):
            RankSVMClassifier(regParam=0.1, **unused).fit(rows)
    with pytest.raises(ConfigError, match="found foldCol 'u' and numFolds 3"):
        RankSVMClassifier(foldCol="u", numFolds=3, standardization=False).fit(rows)
    with pytest.raises(ConfigError, match="whenNotConverged"):
        RankSVMClassifier(whenNotConverged="ignore")


@pytest.mark.parametrize("matrix", [True, pytest.param(False, marks=pytest.mark.slow)])
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
