"""NSAUC over a DataFrame: rounds and blocks, embedded columns, and what is refused."""

import numpy as np
import pytest

from spark_auc import NSAUCClassifier, evaluate
from spark_auc.errors import ConfigError, ConvergenceError, DataError
from spark_auc.learners.nsauc import NSAUC

N, D = 1500, 8
RNG = np.random.default_rng(21)
X = RNG.normal(size=(N, D)) / np.sqrt(D)
Y = X @ RNG.normal(size=D) + RNG.normal(size=N) * 0.3 > 0.4


@pytest.fixture(scope="module")
def rows(spark):
    made = [(k, X[k].tolist(), int(Y[k])) for k in RNG.permutation(N).tolist()]
    rows = spark.createDataFrame(made, ["id", "features", "label"]).repartition(3).cache()
    rows.count()
    return rows


@pytest.mark.parametrize(("loss", "averaging"), [("hinge", True), ("squared_hinge", False)])
def test_rounds_in_blocks_are_the_loop(rows, loss, averaging):
    given = {"loss": loss, "averaging": averaging, "seed": 4, "regParam": 1e-4, "stepSize": 0.5}
    estimator = NSAUCClassifier(
        standardization=False, orderCol="id", rounds=3, blockSize=400, **given
    )
    learner = NSAUC(D, 0.5, 1e-4, loss, averaging, seed=4)
    for _ in range(3):
        for start in range(0, N, 400):
            learner.learn(X[start : start + 400], Y[start : start + 400])
    np.testing.assert_array_equal(estimator.fit(rows).scorer.w, learner.w)


@pytest.mark.slow
def test_tasks_apart_rank_as_well(rows):
    one, many = (
        evaluate(NSAUCClassifier(parallelism=p, rounds=3).fit(rows).transform(rows)).auc
        for p in ("sequential", "distributed")
    )
    assert abs(one - many) < 0.005


def test_blocks_need_both_classes(rows):
    with pytest.raises(DataError, match="no block of rows with both classes"):
        NSAUCClassifier(orderCol="label", blockSize=int((~Y).sum())).fit(rows)


def test_steps_that_diverge_are_refused(rows):
    with pytest.raises(ConvergenceError, match="stepSize"):
        NSAUCClassifier(loss="squared_hinge", stepSize=1e3, rounds=2).fit(rows)


@pytest.mark.parametrize(
    "wrong", [{"blockSize": 1}, {"rounds": 0}, {"regParam": -1.0}, {"stepSize": 0.0}]
)
def test_settings_out_of_range(rows, wrong):
    with pytest.raises(ConfigError, match=r"found .*expected"):
        NSAUCClassifier(**wrong).fit(rows)


def test_other_losses_are_refused():
    with pytest.raises(ConfigError, match="'hinge' or 'squared_hinge'"):
        NSAUCClassifier(loss="logistic")
