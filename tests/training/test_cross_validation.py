"""Cross-validation on few groups of rows, in memory."""

import logging
from functools import partial, reduce

import numpy as np
import pytest

from spark_auc.core.batch import Batch
from spark_auc.core.evaluation.roc import auc
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.moments.operator import fold_quadratics, pair_moments
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import ArrayRows
from spark_auc.core.sampling.folds import Folds
from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.errors import DataError
from spark_auc.solvers.candidates import Candidate
from spark_auc.solvers.path import solve
from spark_auc.training.cross_validation import CrossValidation
from spark_auc.training.held_out import held_out_auc
from spark_auc.training.penalty import choose_penalty
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.survey import Sampling

CANDIDATES = [Candidate(r, 0.0) for r in (1e-3, 1e-1)]


def validation(folds, **others):
    settings = {
        "tol": 1e-8,
        "max_iter": 100,
        "one_standard_error": False,
        "at_once": 3,
    }
    return CrossValidation(folds, **(settings | others))


def measured(rows, folds):
    return partial(held_out_auc, rows=rows, held_out=folds, max_bins=1 << 16)


def selected(batch, folds):
    """The selection by moments and by rows, which must be one."""
    rows = ArrayRows(np_split(batch), batch.X.shape[1])
    settings, own, _ = validation(folds).by_moments(rows)
    others = [own[:k] + own[k + 1 :] for k in range(settings.folds)]
    training = [(reduce(PairMoments.merge, part).quadratic(), None) for part in others]
    found = settings.select(CANDIDATES, training, measured(rows, settings.held_out))
    by_rows, columns = validation(folds).by_columns(rows)
    np.testing.assert_array_equal(by_rows.held_out.of(batch), settings.held_out.of(batch))
    given = [(part, None) for part in columns]
    passes, quadratics = fold_quadratics(rows, by_rows.held_out.of, given)
    training = [(quadratic, None) for quadratic in quadratics]
    auc_of = measured(rows, by_rows.held_out)
    again = by_rows.select(CANDIDATES, training, auc_of, passes.map)
    np.testing.assert_allclose(found.auc, again.auc, atol=1e-6)
    return settings, found


def np_split(batch):
    return tuple(batch.take(part) for part in np.array_split(np.arange(batch.y.size), 4))


@pytest.mark.parametrize("seed", range(10))
def test_five_positives_among_a_thousand(seed):
    rng = np.random.default_rng(seed)
    y = rng.permutation(1000) < 5
    settings, found = selected(Batch(rng.normal(size=(1000, 3)) + y[:, None], y), Folds(5, seed))
    assert settings.folds == 5
    assert found.auc.shape == (2, 5)
    assert np.isfinite(found.auc).all()


def test_fewer_folds_than_asked_for_are_logged(caplog):
    y = np.array([False, True, False, True])
    rows = Batch(np.array([[1.0, 20.0], [3.0, 22.0], [2.0, 35.0], [4.0, 31.0]]), y)
    with caplog.at_level(logging.WARNING):
        settings, found = selected(rows, Folds(5))
    assert settings.folds == found.auc.shape[1] == 2
    assert "2 groups of positive rows and 2 groups of negative rows" in caplog.text
    assert "2 folds, instead of the 5 requested" in caplog.text


@pytest.mark.parametrize("seed", range(3))
def test_labels_of_equal_rows_do_not_tell_on_each_other(seed):
    """Of rows of 128 kinds with both labels each, held-out AUC is that of the whole."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(128, 8))[rng.integers(128, size=20_000)]
    y = rng.random(20_000) < 1 / (1 + np.exp(1 - X @ (rng.normal(size=8) * 0.6)))
    w = solve(PairMoments.of(X, y).quadratic(), CANDIDATES[0].penalty, tol=1e-8, max_iter=100).w
    settings, found = selected(Batch(X, y), Folds(5, seed))
    assert found.mean[0] == pytest.approx(auc(ScoreTable.of(X @ w, y)), abs=0.01)
    folds = settings.held_out.of(Batch(X, y))
    assert len(set(zip(X[:, 0], folds, strict=True))) == 128


def test_the_users_own_folds_are_left_as_they_are():
    rng = np.random.default_rng(0)
    y = rng.random(300) < 0.3
    group = rng.integers(0, 3, 300).astype(np.uint64)
    batch = Batch(rng.normal(size=(300, 2)), y, group=group)
    settings, found = selected(batch, Folds.named(("mon", "tue", "wed")))
    np.testing.assert_array_equal(settings.held_out.of(batch), group)
    for k in range(3):
        train, test = batch.take(np.flatnonzero(group != k)), batch.take(np.flatnonzero(group == k))
        quadratic = pair_moments(ArrayRows((train,), 2)).quadratic()
        w = solve(quadratic, CANDIDATES[1].penalty, tol=1e-8, max_iter=100).w
        assert found.auc[1, k] == pytest.approx(auc(ScoreTable.of(test.X @ w, test.y)), abs=1e-9)
    lacking = batch._replace(y=y & (group != 1))
    for way in ("by_moments", "by_columns"):
        with pytest.raises(DataError, match=r"one class only in fold 'tue'.*foldCol"):
            getattr(validation(Folds.named(("mon", "tue", "wed"))), way)(ArrayRows((lacking,), 2))


def ridge(X, y, penalty):
    """Minimiser of E[(1 - w'(x+ - x-))^2] / 2 + penalty |w|^2 / 2 over all pairs, from pairs."""
    D = (X[y][:, None] - X[~y][None]).reshape(-1, X.shape[1])
    return np.linalg.solve(D.T @ D / len(D) + penalty * np.eye(X.shape[1]), D.mean(axis=0))


@pytest.mark.parametrize("n", [60, 400])
def test_taught_rows_train_and_are_never_held_out(n):
    rng = np.random.default_rng(n)
    X = np.repeat(rng.normal(size=(n // 2, 3)), 2, axis=0)
    y = X[:, 0] + rng.normal(size=n) > 0.5
    group = np.repeat(rng.integers(0, 2**63, n // 2).astype(np.uint64), 2)
    batch, sample = Batch(X, y, group=group), KeySample(0.4, 3)
    rows = ArrayRows(np_split(batch), 3)
    settings, selection = selected(batch, Folds(4, 1, never_held_out=sample))
    taught = sample.of(group)
    assert 0.2 < taught.mean() < 0.6
    # The other rows have the folds that they have without the sample's rows.
    others = ArrayRows((batch.take(np.flatnonzero(~taught)),), 3)
    alone, _ = validation(Folds(4, 1)).by_columns(others)
    fold = np.where(taught, -1, alone.held_out.of(batch))
    for i, candidate in enumerate(CANDIDATES):
        for k in range(settings.folds):
            w = ridge(X[fold != k], y[fold != k], candidate.regParam)
            of_fold = fold == k
            by_hand = auc(ScoreTable.of(X[of_fold] @ w, y[of_fold]))
            assert abs(by_hand - selection.auc[i, k]) < 1e-6
    chosen = choose_penalty(
        rows,
        Sampling(),
        TrainingSettings(
            folds=Folds(4, 1, never_held_out=sample),
            reg_params=tuple(c.regParam for c in CANDIDATES),
            standardize=False,
        ),
    )
    np.testing.assert_allclose(chosen.selection.auc, selection.auc, atol=1e-9)
    assert chosen.problem.columns.rows.sum() == n


def test_taught_rows_may_be_of_one_class():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    batch = Batch(X, X[:, 0] > 0)
    sample = KeySample(0.3)
    some = batch.take(np.flatnonzero(sample.outside(batch) | batch.y))
    settings, selection = selected(some, Folds(3, never_held_out=sample))
    assert settings.folds == 3
    assert np.isfinite(selection.auc).all()
