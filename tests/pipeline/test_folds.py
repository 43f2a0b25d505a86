"""Folds and draws of few and of repeated rows, against fits and AUCs by hand."""

import logging
import re

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import roc_auc_score

from spark_auc.core.moments.objective import ElasticNet
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.errors import ConfigError, DataError
from spark_auc.pipeline.estimators import MBAEstimator, MBASelectingEstimator
from spark_auc.solvers.path import solve
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.columns import FoldColumn
from spark_auc.training import problem

KINDS, N, D = 128, 20_000, 5
NAMES = [f"x{j}" for j in range(D)]
RNG = np.random.default_rng(5)
KIND_ROWS, KIND = RNG.normal(size=(KINDS, D)), RNG.integers(KINDS, size=N)
X = KIND_ROWS[KIND]
Y = RNG.random(N) < 1 / (1 + np.exp(1 - X @ np.linspace(-0.8, 0.8, D)))
GRID = {"featuresCol": NAMES, "regParams": [0.01, 1.0]}
DRAWN = {"featuresCol": NAMES, "regParam": 0.01, "numPairs": 4096, "standardization": False}


def repeated(**others):
    """Rows of 128 kinds with both labels each."""
    return pa.table(dict(zip(NAMES, X.T, strict=True)) | {"label": Y.astype(float)} | others)


def table(**others):
    return ArrowTable.of(repeated(**others), 3400)


def folds_of(estimator, rows):
    return [c["folds"] for c in estimator.fitted(rows).summary.selection["candidates"]]


def test_a_handful_of_rows_needs_no_penalty():
    rows = pa.table(
        {
            "clicked": [0.0, 1.0, 0.0, 1.0],
            "position": [1.0, 3.0, 2.0, 4.0],
            "age": [20.0, 22.0, 35.0, 31.0],
        }
    )
    estimator = MBAEstimator(featuresCol=["position", "age"], labelCol="clicked")
    assert len(folds_of(estimator, ArrowTable.of(rows))[0]) == 2
    with pytest.raises(DataError, match=r"found one positive row, expected .*set regParam"):
        estimator.fitted(ArrowTable.of(rows[:3]))
    with pytest.raises(DataError, match=r"all positive rows equal in features.*set regParam"):
        estimator.fitted(ArrowTable.of(rows.take([0, 1, 1, 2])))


def check_draws(model, caplog):
    """Drawn rows rank like all rows, cost what is stated, and a warning says that they repeat."""
    share = re.search(r"equal rows: ([0-9.]+) % .*; set keyCol", caplog.text).group(1)
    assert 80 < float(share) < 100
    quadratic, w = PairMoments.of(X, Y).quadratic(), model.scorer.w
    best = solve(quadratic, ElasticNet(0.0, 0.01), tol=1e-9, max_iter=99)
    right, found = (roc_auc_score(Y, X @ v) for v in (best.w, w))
    assert found == pytest.approx(right, abs=0.005)
    value = quadratic.value(w, quadratic.Sigma.matvec(w)) + 0.005 * (w @ w)
    paid = value - best.certificate.objective
    # What one sample costs varies as chi squared of 5 degrees of freedom does.
    assert 0.03 < paid / model.summary.sampling_suboptimality < 5


@pytest.mark.parametrize("estimator", ["complete", "paired"])
def test_draws_of_repeated_rows(estimator, caplog):
    with caplog.at_level(logging.WARNING):
        model = MBAEstimator(estimator=estimator, seed=3, **DRAWN).fitted(table())
    check_draws(model, caplog)


@pytest.mark.parametrize("text", [False, True])
def test_folds_of_the_users_own(text, monkeypatch):
    fold = KIND % 3 - 1
    rows = table(fold=[f"'day {k}" for k in fold] if text else fold)
    selector = MBASelectingEstimator(foldCol="fold", **GRID)
    found = folds_of(selector, rows)
    expected = []
    for k in np.unique(fold):
        mine = fold == k
        moments = PairMoments.of(X[~mine], Y[~mine])
        scale = moments.columns().standard_deviation()
        w = solve(moments.quadratic(scale), ElasticNet(0.0, 0.01), tol=1e-9, max_iter=99).w / scale
        expected.append(roc_auc_score(Y[mine], X[mine] @ w))
    # Folds are in the order of their values.
    order = np.argsort([f"'day {k}" for k in np.unique(fold)]) if text else slice(None)
    np.testing.assert_allclose(found[0], np.array(expected)[order], atol=1e-6)
    monkeypatch.setattr(problem, "fits_in_matrix", lambda _: False)
    np.testing.assert_allclose(folds_of(selector, rows), found, atol=1e-6)


def test_what_cannot_be_folds():
    with pytest.raises(ConfigError, match="foldCol 'label' and numFolds 5"):
        MBASelectingEstimator(featuresCol=NAMES, foldCol="label", numFolds=5).fitted(table())
    with pytest.raises(ConfigError, match="type double; expected whole numbers or strings"):
        FoldColumn.of(table(), "label")
    with pytest.raises(ConfigError, match="no column 'day'"):
        FoldColumn.of(table(), "day")
    for fold, text in (
        (np.ones(N, int), "found 1 values"),
        (np.arange(N), "found too many values.*keyCol and numFolds"),
        (pa.array(np.ones(N, int), mask=Y), "found nulls"),
    ):
        with pytest.raises(DataError, match=text):
            FoldColumn.of(table(fold=fold), "fold")
    with pytest.raises(DataError, match=r"one class only in fold '0'.*foldCol"):
        MBASelectingEstimator(foldCol="fold", **GRID).fitted(table(fold=Y.astype(int)))


def test_rows_of_one_key_are_of_one_fold():
    """Ten users: as many folds at most, and a user's rows help to train none of their own."""
    users = table(user=KIND % 10)
    found = folds_of(MBASelectingEstimator(numFolds=20, keyCol="user", seed=1, **GRID), users)
    other = folds_of(MBASelectingEstimator(foldCol="user", **GRID), users)
    np.testing.assert_allclose(np.sort(found), np.sort(other), atol=1e-9)
