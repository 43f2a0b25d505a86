"""The job opauc on a stream of more columns than a matrix holds: a head, exactly once."""

import json
import logging
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_auc.app.jobs.published_model import read_model, read_recipe
from spark_auc.app.running import run
from spark_auc.core.batch import Batch
from spark_auc.core.moments.head_moments import HeadAccumulator, HeadMoments
from spark_auc.core.moments.low_rank_moments import LowRankAccumulator
from spark_auc.core.moments.objective import ElasticNet
from spark_auc.features.raw_columns import Numbers
from spark_auc.publication.versions import current
from spark_auc.solvers.path import solve
from spark_auc.spark.streaming import all_pairs
from tests.app import arriving
from tests.app.arriving import BASE, STREAM, aged, arrive, committed, dying, parts, status, table

pytestmark = pytest.mark.usefixtures("spark")
at, job = arriving.at, arriving.job
TRAINING = BASE["training"] | {"covariance": "head", "headSize": 2}
# The columns with the largest second moments.
HEAD = np.array([0, 1])


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(all_pairs, "_LEAST_ROWS", 100)


def expected(made):
    accumulated = HeadAccumulator(3, HEAD)
    for X, y, _ in made:
        accumulated.add(Batch(X, y))
    return accumulated.finish()


def assert_learned(made):
    found, wanted = committed().statistics.moments, expected(made)
    assert isinstance(found, HeadMoments)
    np.testing.assert_array_equal(found.head, HEAD)
    np.testing.assert_array_equal(found.columns.rows, wanted.columns.rows)
    scale = wanted.divisors()
    mine, theirs = (m.quadratic(scale) for m in (found, wanted))
    np.testing.assert_allclose(mine.Sigma.matmat(np.eye(3)), theirs.Sigma.matmat(np.eye(3)))
    w = solve(theirs, ElasticNet(0.0, 0.1), tol=1e-10, max_iter=1000).w / scale
    model = read_model("model").ranker
    np.testing.assert_allclose(model.scorer.w, w, rtol=1e-7)
    return model.summary


def test_a_head_chosen_by_the_first_batch_learns_the_stream(job, few):
    made = parts()
    arrive(made)
    code, result = job(STREAM, training=TRAINING)
    assert code == 0, result
    summary = assert_learned(made)
    # Moments without the covariances of the tail do not tell an AUC; the scores so far do.
    assert result["estimatedAUC"] is None
    assert summary.estimated_auc is None
    assert 0.5 < result["prequentialAUC"] < 1.0
    assert result["certificate"]["covariance"] == "head"
    assert summary.covariance["headSize"] == 2
    assert [s["batch"] for s in status()] == [0, 1, 2]
    # The state goes on, and its covariances do not change.
    arrive(parts(2, seed=9), first=20)
    code, result = job(STREAM, training=TRAINING | {"covariance": "full"})
    assert code == 2
    assert "covariance 'full' with a checkpoint of 'head'" in result["message"]
    code, result = job(STREAM)
    assert code == 0, result
    assert_learned(made + parts(2, seed=9))


@pytest.mark.parametrize("before", [True, False])
def test_each_row_counts_once_through_a_crash(job, few, monkeypatch, before):
    made = parts()
    arrive(made)
    with monkeypatch.context() as patch:
        dying(patch, "commit", before)
        code, _ = job(STREAM, training=TRAINING)
        assert code != 0
    code, result = job(STREAM, training=TRAINING)
    assert code == 0, result
    assert_learned(made)


def test_a_small_first_batch_is_refused(job):
    arrive(parts(2))
    code, result = job(STREAM, training=TRAINING)
    assert code == 2
    assert "found 121 rows in the first batch, expected 2000 at least" in result["message"]


RAW = {"spline": arriving.NAMES, "auto": False, "numKnots": 6, "unit": False}
RAW_TRAINING = {"regParam": 0.1, "tol": 1e-12, "standardization": False, "covariance": "head"}


@pytest.fixture
def published(at, capsys):
    """Trains a model, and returns the recipe that is published with it."""

    def trained(made, path="past", learner="MBAClassifier", **training):
        Path(path).mkdir(exist_ok=True)
        arrive(made, path)
        section = {
            "data": {"path": path},
            "features": RAW | {"leaveOut": ["u"]},
            "learner": learner,
            "training": {"regParam": 0.1, **training},
            "output": {"path": f"{path}_model", "replace": True},
        }
        Path("train.yaml").write_text(yaml.safe_dump({"train": section}))
        code = run("train", "train.yaml")
        assert code == 0, capsys.readouterr().out
        return read_recipe(f"{path}_model")

    return trained


def mapped(recipe, made):
    X, y = (np.concatenate([part[k] for part in made]) for k in (0, 1))
    columns = {n: Numbers(x) for n, x in zip(arriving.NAMES, X.T, strict=True)}
    return recipe.transform(columns).toarray(), y


def largest(recipe, made, size):
    second = (mapped(recipe, made)[0] ** 2).sum(axis=0)
    return tuple(np.sort(np.argsort(-second, kind="stable")[:size]).tolist())


def weights_at(recipe, made, reg=0.1):
    """The solution of the definition: covariances within the head, variances alone of others."""
    X, y = mapped(recipe, made)
    mu = X[y].mean(axis=0) - X[~y].mean(axis=0)
    C = np.cov(X[y].T, bias=True) + np.cov(X[~y].T, bias=True)
    inside = np.isin(np.arange(mu.size), recipe.head)
    C[~(np.outer(inside, inside) | np.eye(mu.size, dtype=bool))] = 0.0
    return np.linalg.solve(C + np.outer(mu, mu) + reg * np.eye(mu.size), mu)


def moved(made):
    """Rows whose own largest features are others."""
    return [(X + np.array([-1.5, 15, 0.15]), y, u) for X, y, u in made]


@pytest.mark.parametrize("before", [True, False])
def test_a_published_head_serves_a_first_batch_of_any_size(job, published, monkeypatch, before):
    past, made = parts(10), moved(parts(6, seed=5, rows=100))
    training = {"covariance": "head", "headSize": 5, "standardization": False}
    recipe = published(past, **training)
    assert recipe.head == largest(recipe, past, 5)
    assert recipe.head != largest(recipe, made, 5)
    summary = json.loads(current("past_model", "model").read("summary.json"))
    assert summary["head"] == list(recipe.head)
    arrive(made)
    given = {"features": {"recipe": "past_model"}, "columns": {}, "training": RAW_TRAINING}
    stream = STREAM | {"maxFilesPerTrigger": 1}
    with monkeypatch.context() as patch:
        dying(patch, "commit", before)
        assert "died" in job(stream, **given)[1]["message"]
    code, result = job(stream, **given)
    assert code == 0, result
    assert (result["batches"], result["rejected"]) == (6, 0)
    assert tuple(committed().statistics.moments.head) == recipe.head
    expected = weights_at(recipe, made)
    np.testing.assert_allclose(read_model("model").ranker.scorer.w, expected, rtol=1e-6)
    # The model of a stream names the head again.
    assert read_recipe("model") == recipe
    assert job(**given, output={"path": "batch"})[0] == 0
    np.testing.assert_allclose(read_model("batch").ranker.scorer.w, expected, rtol=1e-6)
    # The state goes on with its head, also by a recipe that names none, and with no other.
    without = published(past)
    assert without.head is None
    arrive(moved(parts(1, seed=9)), first=20)
    assert job(stream, **given)[0] == 0
    assert read_recipe("model").head == recipe.head
    published(past, **training | {"headSize": 4})
    arrive(moved(parts(1, seed=10)), first=21)
    code, result = job(stream, **given)
    assert code == 2
    assert "names another head of columns than the checkpoint has" in result["message"]


def test_a_small_first_batch_needs_a_recipe_that_names_a_head(job, published):
    published(parts(10))
    arrive(parts(2, rows=100))
    given = {"features": {"recipe": "past_model"}, "columns": {}, "training": RAW_TRAINING}
    code, result = job(STREAM, **given)
    assert code == 2
    assert "found 201 rows in the first batch, expected 2000 at least" in result["message"]
    assert "opauc.features.recipe to a model that was published with cov" in result["message"]
    published(parts(10), learner="OPAUCClassifier", covariance="head", headSize=5)
    code, result = job(STREAM, **given | {"training": RAW_TRAINING | {"headSize": 4}})
    assert code == 2
    assert "found headSize 4 with a recipe that names a head of 5 columns" in result["message"]
    code, result = job(STREAM, **given)
    assert code == 0, result


def test_a_head_is_the_default_where_a_matrix_does_not_fit(job, few, monkeypatch, caplog):
    class Huge(all_pairs.PairMoments):
        @staticmethod
        def nbytes(dimension):
            return dimension << 60

    arrive(parts(6))
    monkeypatch.setattr(all_pairs, "PairMoments", Huge)
    with caplog.at_level(logging.INFO, "spark_auc"):
        code, result = job(STREAM, training=BASE["training"] | {"headSize": 2})
    assert code == 0, result
    assert "covariances are exact for a head of the columns only" in caplog.text
    np.testing.assert_array_equal(committed().statistics.moments.head, HEAD)
    code, result = job(STREAM, training=BASE["training"] | {"covariance": "full"})
    assert code == 2


def test_a_store_takes_exact_moments_alone(job):
    store = {"path": "store", "period": "t"}
    for kind in ("head", "lowRank"):
        code, result = job(
            STREAM | {"store": store}, training=BASE["training"] | {"covariance": kind}
        )
        assert code == 2, result
        assert f"another covariance than {kind!r} for a stream with a store" in result["message"]


@pytest.mark.parametrize("key", [None, "id"])
def test_a_stream_of_sketches_draws_each_row_once(job, monkeypatch, key):
    made = parts()
    # Two files of equal rows, in different batches.
    made[7] = made[1]
    training = BASE["training"] | {"covariance": "lowRank", "covarianceRank": 2, "seed": 4}
    columns = BASE["columns"] | ({"key": key} if key else {})
    schema = STREAM["schema"] + (", id long" if key else "")
    first = 0
    for k, (X, y, u) in enumerate(made):
        rows = table(X, y, u)
        if key:
            rows = rows.append_column("id", pa.array(range(first, first + len(y))))
            first += len(y)
        pq.write_table(rows, f"rows/{k:03d}.parquet")
        aged(f"rows/{k:03d}.parquet", k)
    stream = STREAM | {"schema": schema}
    with monkeypatch.context() as patch:
        dying(patch, "commit", True)
        died = job(stream, training=training, columns=columns)[1]
        assert "died" in died["message"]
    code, result = job(stream, training=training, columns=columns)
    assert code == 0, result
    assert result["certificate"]["covariance"] == "lowRank"
    assert result["estimatedAUC"] is None
    assert 0.5 < result["prequentialAUC"] < 1.0
    found = committed().statistics.moments
    X, y = (np.concatenate([part[i] for part in made]) for i in (0, 1))
    np.testing.assert_array_equal(found.columns.rows, [y.sum(), (~y).sum()])
    np.testing.assert_allclose(found.columns.mean[0], X[y].mean(axis=0))
    if key:
        whole = LowRankAccumulator(3, 2, 4)
        ids = SparkSession.active().range(first).orderBy("id").select(F.xxhash64("id"))
        keys = np.array([row[0] for row in ids.collect()], np.int64).view(np.uint64)
        whole.add(Batch(X, y, key=keys))
        np.testing.assert_allclose(found.sketch, whole.sketch, rtol=1e-9, atol=1e-9)
    # Draws that files share would square their sum: s s' is near n I / rank if none are.
    lengths = (found.sums**2).sum(axis=1) / found.columns.rows
    assert (lengths < 12.0).all()
    if not key:
        code, result = job(stream, training=BASE["training"] | {"covariance": "head"})
        assert code == 2
        assert "with a checkpoint of 'lowRank'" in result["message"]
