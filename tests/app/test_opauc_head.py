"""The job opauc on a stream of more columns than a matrix holds: a head, exactly once."""

import logging

import numpy as np
import pytest

from spark_auc.app.jobs import stream_learner
from spark_auc.app.jobs.published_model import read_model
from spark_auc.core.batch import Batch
from spark_auc.core.moments.head_moments import HeadAccumulator, HeadMoments
from spark_auc.core.moments.objective import ElasticNet
from spark_auc.solvers.path import solve
from tests.app import arriving
from tests.app.arriving import BASE, STREAM, arrive, committed, dying, parts, status

pytestmark = pytest.mark.usefixtures("spark")
at, job = arriving.at, arriving.job
TRAINING = BASE["training"] | {"covariance": "head", "headSize": 2}
# The columns with the largest second moments.
HEAD = np.array([0, 1])


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(stream_learner, "_LEAST_ROWS", 100)


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


def test_a_head_is_the_default_where_a_matrix_does_not_fit(job, few, monkeypatch, caplog):
    class Huge(stream_learner.PairMoments):
        @staticmethod
        def nbytes(dimension):
            return dimension << 60

    arrive(parts(6))
    monkeypatch.setattr(stream_learner, "PairMoments", Huge)
    with caplog.at_level(logging.INFO, "spark_auc"):
        code, result = job(STREAM, training=BASE["training"] | {"headSize": 2})
    assert code == 0, result
    assert "covariances are exact for a head of the columns only" in caplog.text
    np.testing.assert_array_equal(committed().statistics.moments.head, HEAD)
    code, result = job(STREAM, training=BASE["training"] | {"covariance": "full"})
    assert code == 2


def test_what_a_stream_does_not_take(job):
    for training, stream in (
        ({"covariance": "lowRank"}, STREAM),
        ({"covariance": "head"}, STREAM | {"store": {"path": "store", "by": "day", "column": "t"}}),
    ):
        code, result = job(stream, training=BASE["training"] | training)
        assert code == 2, result
        assert "another covariance than" in result["message"] or "store" in result["message"]
