"""The choice of window and penalty from moments, beside training and scoring of the rows."""

from functools import reduce

import numpy as np
import pytest
from scipy.stats import norm

from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.errors import ConfigError, DataError
from spark_auc.retraining.choice import choose
from spark_auc.training.settings import TrainingSettings

FOLDS, D = 4, 5
REGS = (1e-3, 1e-1, 10.0)


def days(count, turn, seed=0, n=600):
    """Rows of days; from day ``turn`` on other columns matter."""
    rng = np.random.default_rng(seed)
    for day in range(count):
        y = rng.random(n) < 0.3
        effect = np.array([1.0, 0.5, 0, 0, 0] if day < turn else [0, 0, 0, 0.5, 1.0])
        yield rng.normal(size=(n, D)) + y[:, None] * effect, y, rng.integers(0, FOLDS, n)


def stored(rows):
    return [
        [PairMoments.of(X[fold == k], y[fold == k]) for k in range(FOLDS)] for X, y, fold in rows
    ]


def complement(table):
    def training(window, k):
        chosen = table[-int(window) :]
        parts = [part for day in chosen for j, part in enumerate(day) if j != k]
        return reduce(PairMoments.merge, parts)

    return training


def by_rows(rows, window, reg, standardize):
    """Ridge by numpy on the rows, and the Gaussian AUC of the scores of the newest rows."""
    chosen, found = rows[-window:], []
    for k in range(FOLDS):
        X = np.vstack([X[fold != k] for X, _, fold in chosen])
        y = np.concatenate([y[fold != k] for _, y, fold in chosen])
        scale = X.std(axis=0, ddof=1) if standardize else np.ones(D)
        P, N = X[y] / scale, X[~y] / scale
        mu = P.mean(0) - N.mean(0)
        Sigma = np.cov(P.T, bias=True) + np.cov(N.T, bias=True) + np.outer(mu, mu)
        w = np.linalg.solve(Sigma + reg * np.eye(D), mu) / scale
        newest, labels, folds = rows[-1]
        scores, labels = newest[folds == k] @ w, labels[folds == k]
        a, b = scores[labels], scores[~labels]
        found.append(norm.cdf((a.mean() - b.mean()) / np.sqrt(a.var() + b.var())))
    return np.mean(found)


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("turn", [0, 8])
def test_equals_the_choice_by_rows(turn, standardize):
    rows = list(days(12, turn))
    table = stored(rows)
    settings = TrainingSettings(reg_params=REGS, standardize=standardize, tol=1e-10)
    choice = choose(["3", "12"], complement(table), table[-1], settings)
    expected = {
        (w, reg): by_rows(rows, int(w), reg, standardize) for w in ("3", "12") for reg in REGS
    }
    for window, selection in choice.selections.items():
        for candidate, mean in zip(selection.candidates, selection.mean, strict=True):
            assert mean == pytest.approx(expected[window, candidate.regParam], abs=1e-7)
    best = max(expected, key=expected.get)
    assert (choice.window, choice.candidate.regParam) == best
    if turn:
        assert choice.window == "3"


def test_default_penalties_are_those_of_one_grid():
    table = stored(days(3, 0))
    choice = choose(["1", "3"], complement(table), table[-1], TrainingSettings())
    grids = {tuple(c.regParam for c in s.candidates) for s in choice.selections.values()}
    assert len(grids) == 1
    assert len(grids.pop()) == 25


def test_equal_windows_go_to_the_first():
    table = stored(days(2, 0))
    same = complement(table)
    for names in (["a", "b"], ["b", "a"]):
        choice = choose(names, lambda _, k: same("2", k), table[-1], TrainingSettings())
        assert choice.window == names[0]


def test_refuses_no_windows_one_fold_and_one_class():
    table = stored(days(2, 0))
    with pytest.raises(ConfigError, match="0 windows"):
        choose([], complement(table), table[-1], TrainingSettings())
    with pytest.raises(ConfigError, match="1 folds"):
        choose(["1"], complement(table), table[-1][:1], TrainingSettings())
    one_class = [*table[-1][:-1], PairMoments.of(np.ones((3, D)), np.ones(3, bool))]
    with pytest.raises(DataError, match="fold 4"):
        choose(["1"], complement(table), one_class, TrainingSettings())
