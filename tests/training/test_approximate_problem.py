"""Training on approximate covariances: the choice of the penalty, and what is refused."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import roc_auc_score

from spark_auc.core.batch import Batch
from spark_auc.core.memory import ProcessMemory
from spark_auc.core.moments.head_moments import HeadAccumulator
from spark_auc.core.row_source import ArrayRows
from spark_auc.core.sampling.folds import Folds
from spark_auc.errors import ConfigError, ResourceError
from spark_auc.training.approximation import Approximation
from spark_auc.training.penalty import cross_validation_of
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.survey import Sampling
from spark_auc.training.train import train

N, D = 3000, 400
RNG = np.random.default_rng(4)
# Columns of falling frequency, as those of hashed words.
X = sparse.csr_matrix(RNG.random((N, D)) < 0.3 / np.arange(1, D + 1) ** 0.7, dtype=float)
TRUE = RNG.normal(size=D)
Y = X @ TRUE + 0.5 * RNG.normal(size=N) > 1.0
ROWS = ArrayRows((Batch(X[: N // 2], Y[: N // 2]),), D)
TEST_X, TEST_Y = X[N // 2 :], Y[N // 2 :]


def trained(rows=ROWS, **settings):
    kind = settings.pop("kind", "head")
    sizes = {name: settings.pop(name) for name in ("head_size", "rank") if name in settings}
    return train(rows, TrainingSettings(approximation=Approximation(kind, **sizes), **settings))


def auc(result):
    return roc_auc_score(TEST_Y, TEST_X @ result.w)


@pytest.mark.parametrize("standardize", [True, False])
def test_a_head_of_all_columns_is_exact_training(standardize):
    given = {"standardize": standardize, "reg_params": (0.1,)}
    exact = train(ROWS, TrainingSettings(**given, tol=1e-9))
    found = trained(**given, tol=1e-9, head_size=D)
    # Divisors of a head are at least their median.
    if not standardize:
        np.testing.assert_allclose(found.w, exact.w, atol=1e-6 * np.abs(exact.w).max())
    assert auc(found) == pytest.approx(auc(exact), abs=0.02)
    assert found.covariance["covariance"] == "head"
    assert found.covariance["exactTraceShare"] == pytest.approx(1.0)
    assert found.form == "approximation"


def test_a_fixed_penalty_is_solved_on_the_head():
    result = trained(reg_params=(0.05,), standardize=False, head_size=40, tol=1e-9)
    second = np.asarray(X[: N // 2].multiply(X[: N // 2]).sum(axis=0)).ravel()
    made = HeadAccumulator(D, np.sort(np.argsort(-second, kind="stable")[:40]))
    made.add(ROWS.batches[0])
    quadratic = made.finish().quadratic()
    dense = quadratic.Sigma.matmat(np.eye(D)) + 0.05 * np.eye(D)
    expected = np.linalg.solve(dense, quadratic.mu)
    np.testing.assert_allclose(result.w, expected, atol=1e-6 * np.abs(expected).max())
    assert result.certificate.reason == "converged"
    scores = X[: N // 2] @ result.w
    assert result.scores.mean[0, 0] == pytest.approx(scores[Y[: N // 2]].mean())
    summary = result.summary()
    assert summary.certificate["covariance"] == "head"
    assert summary.covariance["headSize"] == 40
    assert "covariance 'head' ({'headSize': 40}), of which" in result.sentence()
    assert type(summary).from_dict(summary.as_dict()) == summary


def test_penalties_are_chosen_by_scores_of_held_out_rows():
    regs = tuple(np.geomspace(1e-4, 10, 6))
    given = {"standardize": False, "head_size": 40}
    result = trained(reg_params=regs, folds=Folds(3), **given)
    (batch,) = ROWS.batches
    # Folds are dealt where a class has few groups of equal rows.
    settings = TrainingSettings(reg_params=regs, folds=Folds(3))
    folds = cross_validation_of(ROWS, settings).by_columns(ROWS)[0].held_out
    number = folds.of(batch._replace(group=batch.groups()))
    expected = np.empty((6, 3))
    for k in range(3):
        inside = number == k
        rows = ArrayRows((batch.take(np.flatnonzero(~inside)),), D)
        for i, reg in enumerate(regs):
            w = trained(rows, reg_params=(reg,), **given).w
            expected[i, k] = roc_auc_score(batch.y[inside], batch.X[inside] @ w)
    # Held-out rows have a part in the choice of the head, and in nothing else.
    np.testing.assert_allclose(result.selection.auc, expected, atol=0.01)
    best = int(np.argmax(result.selection.mean))
    assert result.penalty.regParam == regs[best]
    assert auc(result) > 0.7
    default = trained(kind="lowRank", rank=20, standardize=False)
    assert len(default.selection.candidates) == 25
    assert auc(default) > 0.6


def test_sketches_give_equal_rows_draws_of_their_own():
    twice = sparse.vstack([X[:50]] * 30).tocsr()
    rows = ArrayRows((Batch(twice, np.tile(Y[:50], 30)),), D)
    given = {"kind": "lowRank", "rank": 400, "reg_params": (0.1,), "standardize": False}
    exact = train(rows, TrainingSettings(reg_params=(0.1,), standardize=False))
    once = ArrayRows((Batch(X[:50], Y[:50]),), D)
    noise = [np.linalg.norm(trained(r, **given).w - exact.w) for r in (rows, once)]
    # With shared draws, both would have the noise of 50 rows.
    assert noise[0] < noise[1]


def test_what_does_not_go_with_it_is_refused():
    approximation = Approximation("head")
    for name, wrong in (
        ("estimator", {"sampling": Sampling("complete", 10)}),
        ("keepMoments", {"keep_moments": True}),
        ("maxFPR", {"max_fpr": 0.1}),
    ):
        with pytest.raises(ConfigError, match=f"found {name} with covariance 'head'"):
            TrainingSettings(approximation=approximation, **wrong)
    for wrong in ({"kind": "half"}, {"head_size": 0}, {"rank": 0}):
        with pytest.raises(ConfigError):
            Approximation(**{"kind": "lowRank", **wrong})


def test_what_does_not_fit_is_refused_before_anything_is_made():
    class Small(ProcessMemory):
        def check(self, state_bytes, what):
            raise ResourceError(f"found {what} of {state_bytes} bytes, expected less")

    huge = ArrayRows((), 1 << 40, memory=Small())
    with pytest.raises(ResourceError, match=r"rank 50 among 1099511627776 features"):
        trained(huge, kind="lowRank", reg_params=(0.1,))
