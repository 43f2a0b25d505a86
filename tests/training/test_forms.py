"""The form of the quadratic follows from its cost; the results do not depend on it."""

import logging

import numpy as np
import pytest
from scipy import sparse

from spark_auc.core.batch import Batch
from spark_auc.core.row_source import ArrayRows
from spark_auc.errors import ConvergenceError
from spark_auc.training import penalty, problem
from spark_auc.training.costs import Work, steps_on_rows
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.train import train

# More features than are solved by a factor of the matrix, which rows without it form too.
N, D = 400, 2_100


def wide(n=N, d=D, entries=8, seed=0):
    """Sparse rows of many features, some of which depend on the label."""
    rng = np.random.default_rng(seed)
    columns = (d * rng.random((n, entries)) ** 3).astype(np.int32)
    places = np.repeat(np.arange(n), entries)
    X = sparse.csr_matrix((rng.normal(1, 0.5, n * entries), (places, columns.ravel())), (n, d))
    X.sum_duplicates()
    scores = X @ rng.normal(size=d)
    y = scores + 0.5 * rng.normal(size=n) > np.quantile(scores, 0.7)
    return ArrayRows((Batch(X[: n // 2], y[: n // 2]), Batch(X[n // 2 :], y[n // 2 :])), d)


ROWS = wide()
# For choices, whose matrices take long. Both forms of it are asked for.
FEWER = wide(d=300)


def exact(rows, l2):
    """The ridge over all pairs, by a system of as many equations as there are rows."""
    batch = rows.joined()
    X, y = batch.X.toarray(), batch.y
    means = [X[side].mean(axis=0) for side in (y, ~y)]
    parts = [(X[side] - m) / np.sqrt(side.sum()) for side, m in zip((y, ~y), means, strict=True)]
    A = np.vstack([*parts, means[0] - means[1]])
    last = np.eye(len(A))[-1]
    return A.T @ np.linalg.solve(A @ A.T + l2 * np.eye(len(A)), last)


def settings(l2=None, **others):
    values = None if l2 is None else (l2,)
    return TrainingSettings(reg_params=values, standardize=False, **others)


@pytest.mark.parametrize("l2", [1e-3, 0.1, 10.0])
def test_a_ridge_of_few_sparse_rows_needs_no_matrix(l2):
    found = train(ROWS, settings(l2, tol=1e-9))
    assert found.form == "rows"
    assert found.certificate.reason == "converged"
    w = exact(ROWS, l2)
    np.testing.assert_allclose(found.w, w, rtol=0, atol=1e-7 * np.abs(w).max())
    by_matrix = train(ROWS, settings(l2, tol=1e-9, keep_moments=True))
    assert by_matrix.form == "tiles"
    np.testing.assert_allclose(by_matrix.w, w, rtol=0, atol=1e-7 * np.abs(w).max())


def test_where_steps_do_not_suffice_the_matrix_follows(monkeypatch):
    monkeypatch.setattr(problem, "steps_on_rows", lambda *_: 3)
    found = train(ROWS, settings(1e-3, tol=1e-9))
    assert (found.form, found.certificate.reason) == ("tiles", "converged")
    w = exact(ROWS, 1e-3)
    np.testing.assert_allclose(found.w, w, rtol=0, atol=1e-7 * np.abs(w).max())


@pytest.mark.parametrize("standardize", [True, False])
def test_the_choice_of_the_penalty_is_that_of_the_matrix(standardize, monkeypatch):
    monkeypatch.setattr(problem, "steps_on_rows", lambda *_: 400)
    chosen = {}
    for keep in (False, True):
        made = TrainingSettings(standardize=standardize, keep_moments=keep)
        chosen[keep] = train(FEWER, made)
    found, expected = chosen[False], chosen[True]
    assert (found.form, expected.form) == ("rows", "tiles")
    solved = np.array([reason is None for reason in found.selection.left_out])
    assert solved.sum() >= solved.size - solved.size // 3
    gaps = found.selection.mean[solved] - expected.selection.mean[solved]
    assert np.abs(gaps).max() < 1e-3
    best = expected.selection.mean.max()
    assert expected.selection.mean[found.selection.chosen] > best - 1e-3


@pytest.mark.parametrize("spoiled", ["all", "weakest"])
def test_penalties_that_rows_leave_unsolved_are_solved_by_the_matrix(spoiled, monkeypatch, caplog):
    monkeypatch.setattr(problem, "steps_on_rows", lambda *_: 400)
    expected = train(FEWER, settings(keep_moments=True))
    worst = expected.selection.mean.min()

    def choice(rows, selected, *others):
        made, selection = whole(rows, selected, *others)
        if selected.has_matrix:
            return made, selection
        if spoiled == "all":
            raise ConvergenceError("found none")
        # The best of the penalties that were solved is the weakest of them.
        left_out = ["not solved" if k < 9 else None for k in range(25)]
        auc = np.where(np.arange(25)[:, None] < 9, np.nan, worst)
        auc[9] += 0.1
        chosen = type(selection)(
            selection.candidates, auc, 0.0, selection.nonzeros, tuple(left_out), 9
        )
        return made, chosen

    whole = penalty._choice
    monkeypatch.setattr(penalty, "_choice", choice)
    with caplog.at_level(logging.WARNING):
        found = train(FEWER, settings())
    assert found.form == "tiles"
    assert found.selection.chosen == expected.selection.chosen
    np.testing.assert_array_equal(found.selection.auc, expected.selection.auc)
    # Nothing is left out in the end, and a choice that is made again is no reason to warn.
    assert found.selection.left_out == expected.selection.left_out
    assert not caplog.records


def steps(n, d, entries, *work, **named):
    if entries == d:
        X = np.broadcast_to(0.0, (n, d))
    else:
        indices = np.tile(np.arange(entries), n)
        starts = np.arange(0, n * entries + 1, entries)
        X = sparse.csr_matrix((np.ones(n * entries), indices, starts), (n, d))
    return steps_on_rows([Batch(X, np.zeros(n, bool))], d, Work(*work, **named))


def test_which_form_costs_less():
    choice = 25, 5
    # Rows of few entries against a matrix of 20,000 features.
    assert steps(3_000, 20_000, 20) > 10_000
    assert steps(3_000, 5_000, 20, *choice)
    assert steps(3_000, 5_000, 20, *choice) < steps(300, 5_000, 20, *choice)
    # Many rows of few features, and dense rows of which each step reads more than the matrix.
    for work in ((), choice):
        assert steps(100_000, 200, 200, *work) is None
        assert steps(100_000, 1_000, 20, *work) is None
        assert steps(2_000, 50, 50, *work) is None
    # A factor is made of the matrix of up to 2,048 features, from rows too.
    assert steps(300, 2_048, 5) is None
    assert steps(300, 2_049, 5)
    # An elastic net takes the matrix if it fits.
    assert steps(3_000, 20_000, 20, has_l1=True) is None
