"""The job opauc by gradient steps: rows in order, once, as the papers' learners take them."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from spark_auc.app.jobs.published_model import read_model
from spark_auc.learners.opauc import OPAUC
from spark_auc.learners.opauc_low_rank import OPAUCr
from spark_auc.learners.solam import SOLAM
from tests.app import arriving
from tests.app.arriving import NAMES, STREAM, arrive, committed, dying, parts, status

pytestmark = pytest.mark.usefixtures("spark")
at, job = arriving.at, arriving.job
RAW = {"standardization": False}
CASES = {
    "OPAUC": (
        "OPAUCClassifier",
        RAW | {"stepSize": 1e-4, "regParam": 0.1},
        lambda: OPAUC(3, 1e-4, 0.1),
    ),
    "OPAUCr": (
        "OPAUCClassifier",
        RAW
        | {"stepSize": 1e-4, "regParam": 0.1, "covariance": "lowRank"}
        | {"covarianceRank": 2, "seed": 7},
        lambda: OPAUCr(3, 1e-4, 0.1, 2, 7),
    ),
    "SOLAM": (
        "SOLAMClassifier",
        RAW | {"stepSize": 1e-3, "centering": False, "radius": 10.0},
        # The rows' own bound is smaller, and a, b and alpha stay far below both.
        lambda: SOLAM(3, 1e-3, 10.0, 100.0),
    ),
}


# Two streams go through the same code but for the learner: CI runs the others.
ONE = [pytest.param(name, marks=[] if name == "SOLAM" else pytest.mark.slow) for name in CASES]
TWO = [pytest.param(name, marks=pytest.mark.slow if name == "OPAUCr" else []) for name in CASES]


def learned(learner, made):
    """What the learner is after the rows in order."""
    for X, y, _ in made:
        learner.learn(X, y)
    return learner


def weights(path="model"):
    return read_model(path).ranker.scorer.w


@pytest.mark.parametrize("name", TWO)
def test_rows_in_order_are_the_published_steps(job, monkeypatch, name):
    kind, training, begun = CASES[name]
    made = parts(7)
    arrive(made)
    with monkeypatch.context() as patch:
        dying(patch, "commit", True)
        assert "died" in job(STREAM, learner=kind, training=training)[1]["message"]
    code, result = job(STREAM, learner=kind, training=training)
    assert code == 0, result
    np.testing.assert_allclose(weights(), learned(begun(), made).w, rtol=1e-9)
    # Each row was scored by the model of the batches before it.
    scores, labels, model = [], [], None
    for k in range(0, len(made), 5):
        batch = made[k : k + 5]
        if model is not None:
            scores += [X @ model for X, _, _ in batch]
            labels += [y for _, y, _ in batch]
        model = learned(begun(), made[: k + 5]).w
    expected = roc_auc_score(np.concatenate(labels), np.concatenate(scores))
    assert result["prequentialAUC"] == pytest.approx(expected, abs=1e-9)
    assert [s["rows"] for s in status()] == [310, 131]
    model = read_model("model").ranker
    assert model.summary.estimator == name
    assert model.summary.estimated_auc is None
    assert sum(model.summary.rows.values()) == 441
    if name == "SOLAM":
        assert model.summary.saddle.keys() == {"a", "b", "alpha"}


def test_a_stream_goes_on_as_it_began(job):
    kind, training, begun = CASES["OPAUC"]
    made, later = parts(2), parts(2, seed=8)
    arrive(made)
    assert job(STREAM, learner=kind, training=training)[0] == 0
    arrive(later, first=20)
    for learner, given, message in (
        (kind, training | {"stepSize": 1e-3}, "found a checkpoint of learner"),
        ("SOLAMClassifier", {}, "found a checkpoint of learner"),
        ("MBAClassifier", {"regParam": 0.1}, "found a checkpoint of LearnedRows"),
    ):
        code, result = job(STREAM, learner=learner, training=given)
        assert code == 2
        assert message in result["message"]
    code, result = job(STREAM, learner=kind, training=training)
    assert code == 0, result
    np.testing.assert_allclose(weights(), learned(begun(), [*made, *later]).w, rtol=1e-9)


def test_invalid_files_are_left_out_of_the_order(job):
    kind, training, begun = CASES["OPAUC"]
    made = parts(5)
    made[3] = (made[3][0] * np.nan, *made[3][1:])
    arrive(made)
    code, result = job(STREAM, learner=kind, training=training)
    assert code == 0, result
    assert result["rejected"] == 1
    valid = [part for k, part in enumerate(made) if k != 3]
    np.testing.assert_allclose(weights(), learned(begun(), valid).w, rtol=1e-9)


@pytest.mark.parametrize(
    "kind", ["SOLAMClassifier", pytest.param("OPAUCClassifier", marks=pytest.mark.slow)]
)
def test_the_first_batch_chooses_scales_and_steps(job, kind):
    made = parts(7)
    arrive(made)
    code, result = job(STREAM, learner=kind, training={})
    assert code == 0, result
    first = np.concatenate([X for X, _, _ in made[:5]])
    state = committed().statistics.moments
    np.testing.assert_allclose(state.scale, first.std(axis=0, ddof=1), rtol=1e-9)
    X, y = (np.concatenate([part[i] for part in made]) for i in (0, 1))
    # Half a thousand rows are few for one pass, but must rank.
    assert roc_auc_score(y, X @ weights()) > 0.8


def test_a_first_batch_of_one_class_is_refused(job):
    made = [(X, np.zeros(len(y), bool), u) for X, y, u in parts(2)]
    arrive(made)
    code, result = job(STREAM, learner="SOLAMClassifier", training={})
    assert code == 2
    assert "found 0 positive and 121 negative rows in the first batch" in result["message"]


@pytest.mark.parametrize("name", ONE)
def test_a_published_model_is_a_warm_start(job, name):
    kind, training, begun = CASES[name]
    made, later = parts(2), parts(2, seed=8)
    arrive(made)
    code, result = job(training={"regParam": 0.1}, output={"path": "first"})
    assert code == 0, result
    Path("rows").rename("learned")
    Path("rows").mkdir()
    arrive(later)
    code, result = job(STREAM, learner=kind, training=training, prior="first")
    assert code == 0, result
    learner = begun()
    learner.start(weights("first"))
    np.testing.assert_allclose(weights(), learned(learner, later).w, rtol=1e-9)
    names = read_model("model").ranker.scorer.names
    assert names == tuple(NAMES)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"training": {"rounds": 2}}, "training.rounds"),
        ({"training": {"parallelism": "distributed"}}, "training.parallelism: distributed"),
        ({"stream": STREAM | {"halfLife": {"rows": 9}}}, "stream.halfLife"),
        ({"columns": {"features": NAMES, "key": "id"}}, "columns.key"),
        ({"prior": "nowhere"}, "nowhere"),
        (
            {"learner": "OPAUCClassifier", "columns": {"features": NAMES, "weight": "u"}},
            "columns.weight",
        ),
    ],
)
def test_what_steps_do_not_take(job, changes, named):
    section = {"training": {}, "stream": STREAM, "learner": "SOLAMClassifier"} | changes
    code, result = job(section.pop("stream"), **section)
    assert code == 2
    assert named in result["message"]
