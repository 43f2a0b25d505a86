"""Selection from one pass against refitting each fold by itself."""

from dataclasses import replace
from functools import reduce

import numpy as np
import pytest
from pyspark.ml import Pipeline
from pyspark.ml.linalg import Vectors
from pyspark.sql import functions as F
from sklearn.metrics import roc_auc_score

from spark_auc import MBAClassifier, MBASelector, local
from spark_auc.core.batch import stacked
from spark_auc.core.moments.objective import ElasticNet
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.sampling.folds import Folds, GroupCounts
from spark_auc.errors import ConfigError, DataError
from spark_auc.solvers.path import solve
from spark_auc.spark.data.libsvm import libsvm
from spark_auc.spark.data.resources import SessionMemory
from spark_auc.tables import rows as rows_module
from spark_auc.tables.rows import TableRows
from spark_auc.training import penalty, problem
from spark_auc.training.cross_validation import CrossValidation
from tests.data import path
from tests.spark.test_sampling import read

N, D, K = 500, 4, 3
RNG = np.random.default_rng(6)
Y = RNG.random(N) < 0.3
X = RNG.normal(size=(N, D)) + Y[:, None] * [1.0, 0.5, 0.0, 0.0]
U = RNG.uniform(0.5, 2, N)
GRID = [1e-3, 0.1, 1.0]


@pytest.fixture(scope="module")
def rows(spark):
    made = [(k, Vectors.dense(X[k]), float(Y[k]), float(U[k])) for k in range(N)]
    return spark.createDataFrame(made, ["id", "features", "label", "u"]).cache()


def fold_of(df, seed, count):
    """The fold of each row by its id, from what the tasks compute."""
    found = {}
    id_as_feature = F.array(F.col("id").cast("double")).alias("features")
    local = read(df.select("id", id_as_feature, "label", "u"), "id").gathered()
    counts = reduce(GroupCounts.update, local.batches, GroupCounts.zero(2048))
    dealt = Folds(count, seed).assigned(counts)
    for batch in local.batches:
        found |= dict(zip(batch.X[:, 0].astype(int), dealt.of(batch), strict=True))
    return found


@pytest.mark.parametrize("mixes", [[0.0], [0.0, 0.6]])
def test_the_same_as_refitting_each_fold(rows, mixes):
    selector = MBASelector(
        regParams=GRID, elasticNetParams=mixes, numFolds=K, weightCol="u", keyCol="id", seed=9
    )
    model = selector.fit(rows)
    table = model.summary.selection
    dealt = fold_of(rows, 9, K)
    fold = np.array([dealt[i] for i in range(N)])
    for candidate in table["candidates"]:
        for k in range(K):
            given = {name: candidate[name] for name in ("regParam", "elasticNetParam")}
            others, mine = fold != k, fold == k
            fitted = local.MBAClassifier(**given).fit(X[others], Y[others], U[others])
            scores = fitted.decision_function(X[mine])
            auc = roc_auc_score(Y[mine], scores, sample_weight=U[mine])
            assert candidate["folds"][k] == pytest.approx(auc, abs=1e-9)
    means = [c["auc"] for c in table["candidates"]]
    assert table["chosen"] == int(np.argmax(means))
    assert table["uncertainty"] == 0
    chosen = table["candidates"][table["chosen"]]
    whole = MBAClassifier(
        regParam=chosen["regParam"], elasticNetParam=chosen["elasticNetParam"], weightCol="u"
    ).fit(rows)
    np.testing.assert_allclose(model.scorer.w, whole.scorer.w, rtol=1e-7, atol=1e-9)
    assert model.getRegParam() == chosen["regParam"]


def test_one_standard_error(rows):
    table = MBASelector(numFolds=5, selectionRule="oneStandardError", keyCol="id").fit(rows)
    table = table.summary.selection
    candidates = table["candidates"]
    best = max(candidates, key=lambda c: c["auc"])
    near = [c for c in candidates if c["auc"] >= best["auc"] - best["standardError"]]
    assert candidates[table["chosen"]]["regParam"] == max(c["regParam"] for c in near)
    folds_of_best = np.array(best["folds"])
    assert best["standardError"] == pytest.approx(folds_of_best.std(ddof=1) / np.sqrt(5))


def test_without_a_penalty_one_is_chosen(rows):
    model = Pipeline(stages=[MBAClassifier(keyCol="id", seed=2)]).fit(rows).stages[0]
    selected = MBASelector(keyCol="id", seed=2).fit(rows)
    assert model.summary.selection == selected.summary.selection
    np.testing.assert_array_equal(model.scorer.w, selected.scorer.w)
    assert len(model.summary.selection["candidates"]) == 25


@pytest.fixture(scope="module")
def exact(rows):
    return MBASelector(regParams=GRID, numFolds=K, keyCol="id").fit(rows).summary.selection


@pytest.mark.parametrize("estimator", ["complete", "paired"])
def test_selection_on_draws(rows, exact, estimator):
    model = MBASelector(
        regParams=GRID, numFolds=K, keyCol="id", estimator=estimator, numPairs=2048
    ).fit(rows)
    assert model.summary.estimator == estimator
    for ours, theirs in zip(
        model.summary.selection["candidates"], exact["candidates"], strict=True
    ):
        assert ours["auc"] == pytest.approx(theirs["auc"], abs=0.02)


def test_a_penalty_has_one_unit_on_draws(rows, monkeypatch):
    """Half of the draws are positive, few of all rows: deviations of both differ."""
    scales = []

    plain = CrossValidation.select

    def recorded(self, candidates, training, *others):
        training = list(training)
        scales.extend(scale for _, scale in training)
        return plain(self, candidates, training, *others)

    monkeypatch.setattr(CrossValidation, "select", recorded)
    selector = MBASelector(
        regParams=GRID, numFolds=K, keyCol="id", estimator="complete", numPairs=2048
    )
    selector.fit(rows)
    features = np.array([row.features.toArray() for row in rows.select("features").collect()])
    assert len(scales) == K
    for scale in scales:
        np.testing.assert_allclose(scale, features.std(axis=0, ddof=1), rtol=1e-9)


def test_folds_in_turn_and_histograms_that_bound(rows, exact, monkeypatch):
    selector = MBASelector(regParams=GRID, numFolds=K, keyCol="id")
    exactly = penalty.cross_validation_of

    def little(*given):
        return replace(exactly(*given), at_once=1)

    monkeypatch.setattr(penalty, "cross_validation_of", little)
    monkeypatch.setattr(penalty, "histogram_bins", lambda *given: 64)
    bounded = selector.fit(rows).summary.selection
    assert 0 < bounded["uncertainty"] < 0.02
    for ours, theirs in zip(bounded["candidates"], exact["candidates"], strict=True):
        np.testing.assert_allclose(ours["folds"], theirs["folds"], atol=bounded["uncertainty"])


@pytest.mark.slow
def test_rows_in_memory_and_passes_give_the_same(rows, monkeypatch):
    selector = MBASelector(regParams=GRID, elasticNetParams=[0.0, 0.5], numFolds=K, keyCol="id")
    expected = selector.fit(rows).summary.selection
    monkeypatch.setattr(problem, "fits_in_matrix", lambda _: False)
    model = selector.fit(rows)
    assert model.summary.form == "rows"
    monkeypatch.setattr(SessionMemory, "rows_limit", 0.0)
    passes = selector.fit(rows)
    assert passes.summary.form == "passes"
    for form in (model, passes):
        found = form.summary.selection
        assert found["chosen"] == expected["chosen"]
        for ours, theirs in zip(found["candidates"], expected["candidates"], strict=True):
            np.testing.assert_allclose(ours["folds"], theirs["folds"], atol=1e-9)
    np.testing.assert_allclose(passes.scorer.w, model.scorer.w, rtol=1e-5)


def test_what_cannot_be_chosen_from(rows):
    for wrong in ({"regParams": []}, {"regParams": [-1.0]}, {"elasticNetParams": [2.0]}):
        with pytest.raises(ConfigError, match="expected"):
            MBASelector(**wrong).fit(rows)


def test_a9a(spark, tmp_path):
    """The same choice and AUCs as refitting, at the size of real data."""
    df = libsvm(spark, str(path("a9a")), 123)
    df.write.parquet(str(tmp_path / "a9a"))
    df = spark.read.parquet(str(tmp_path / "a9a"))
    grid = np.logspace(-4, 1, 6).tolist()
    model = MBASelector(regParams=grid, numFolds=5, seed=1).fit(df)
    candidates = model.summary.selection["candidates"]
    batch = read(df.withColumn("u", F.lit(1.0)), weight=None).gathered().batches
    held = [Folds(5, 1).of(b) for b in batch]
    for k in (0, 3):
        parts = [b.take(np.flatnonzero(f != k)) for b, f in zip(batch, held, strict=True)]
        own = [b.take(np.flatnonzero(f == k)) for b, f in zip(batch, held, strict=True)]
        moments = PairMoments.fold(parts, 123)
        scale = moments.columns().standard_deviation()
        for i in (1, 4):
            w = solve(moments.quadratic(scale), ElasticNet(0.0, grid[i]), tol=1e-6, max_iter=9).w
            y = np.concatenate([b.y for b in own])
            scores = np.concatenate([b.X @ (w / scale) for b in own])
            assert candidates[i]["folds"][k] == pytest.approx(roc_auc_score(y, scores), abs=1e-9)


@pytest.fixture(scope="module")
def wide(spark):
    """Rows that take less memory than the moments of their features."""
    rng = np.random.default_rng(3)
    columns = np.sort(rng.permuted(np.tile(np.arange(1500), (200, 1)), axis=1)[:, :8], axis=1)
    made = [
        (k, Vectors.sparse(1500, c.tolist(), rng.normal(size=8).tolist()), "yes" if k % 3 else "no")
        for k, c in enumerate(columns)
    ]
    return spark.createDataFrame(made, ["id", "features", "label"]).repartition(5, "id").cache()


@pytest.mark.slow
def test_the_rows_are_gathered_if_they_are_smaller_than_the_moments(wide, monkeypatch, caplog):
    selector = MBASelector(regParams=GRID, numFolds=K, keyCol="id", positiveLabel="yes")
    with caplog.at_level("INFO", "spark_auc"):
        model = selector.fit(wide)
    assert "using the rows" in caplog.text
    assert "67 of label 'no', 133 of label 'yes'" in caplog.text
    monkeypatch.setattr(TableRows, "gathered_within", lambda *_: None)
    expected = selector.fit(wide)
    assert model.summary.form == expected.summary.form == "tiles"
    np.testing.assert_allclose(
        model.coefficients.toArray(), expected.coefficients.toArray(), rtol=1e-9, atol=1e-12
    )
    pairs = zip(
        model.summary.selection["candidates"], expected.summary.selection["candidates"], strict=True
    )
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours["folds"], theirs["folds"], atol=1e-12)


def test_rows_beyond_the_limit_are_not_gathered(wide, monkeypatch):
    yes = (F.col("label") == "yes").cast("double")
    labelled = wide.select("id", "features", yes.alias("label"))
    rows = read(labelled, "id", weight=None)
    assert rows.gathered_within(1e6) is None
    monkeypatch.setattr(rows_module, "_LEAST_SHARE", 0)
    assert rows.gathered_within(1e3) is None
    gathered = rows.gathered_within(1e6)
    assert gathered.labels.rows == {0.0: 67, 1.0: 133}
    ours, theirs = gathered.joined(), stacked(rows.gathered().batches)
    assert (ours.X != theirs.X).nnz == 0
    for name in ("y", "key"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    with pytest.raises(DataError, match="label"):
        read(labelled.filter("label = 1"), "id", weight=None).gathered_within(1e6)
