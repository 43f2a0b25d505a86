from dataclasses import replace

import numpy as np
import pytest

from spark_auc.core.batch import Batch
from spark_auc.core.evaluation.roc import partial_area
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.memory import ProcessMemory
from spark_auc.core.moments.operator import column_moments
from spark_auc.core.row_source import ArrayRows
from spark_auc.errors import ConfigError, ResourceError
from spark_auc.training.second_step import reweighted
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.survey import Sampling
from spark_auc.training.train import train


class _NoMatrix(ProcessMemory):
    def check(self, state_bytes, what):
        if what.startswith("moments"):
            raise ResourceError("no matrix")


def _rows(count=200, memory=None, weighted=True):
    rng = np.random.default_rng(3)
    y = rng.random(count) < 0.3
    X = rng.normal(size=(count, 3)) + np.outer(y, [1, 0.5, 0])
    X[~y, 2] = rng.exponential(size=np.count_nonzero(~y)) ** 2
    weight = rng.uniform(0.5, 2, count) if weighted else None
    half = count // 2
    parts = [
        Batch(X[part], y[part], None if weight is None else weight[part])
        for part in (slice(half), slice(half, None))
    ]
    return ArrayRows(parts, 3, memory or ProcessMemory()), X, y, weight


def _weights_of_all_pairs(X, y, weight, penalty, standardize):
    """Ridge of the squared loss over pairs, formed."""
    scale = np.ones(3)
    if standardize:
        scale = _deviation(X, y, weight)
    D = ((X[y][:, None] - X[~y][None]) / scale).reshape(-1, 3)
    v = np.outer(weight[y], weight[~y]).ravel()
    v /= v.sum()
    return np.linalg.solve((D.T * v) @ D + penalty * np.eye(3), v @ D) / scale


def _deviation(X, y, weight):
    """Standard deviation within classes and between them, as of `ColumnMoments`."""
    return column_moments(ArrayRows((Batch(X, y, weight),), 3)).standard_deviation()


@pytest.mark.parametrize("memory", [ProcessMemory(), _NoMatrix()])
@pytest.mark.parametrize("standardize", [False, True])
def test_the_second_step_is_ridge_of_rows_that_count_more(memory, standardize):
    rows, X, y, weight = _rows(memory=memory)
    settings = TrainingSettings(reg_params=(0.1,), standardize=standardize, tol=1e-10)
    first = _weights_of_all_pairs(X, y, weight, 0.1, standardize)
    order = np.argsort(-(X @ first))
    order = order[~y[order]]
    share = np.cumsum(weight[order]) / weight[order].sum()
    # The row with which the share is reached counts more often too.
    top = order[: np.searchsorted(share, 5 * 0.04) + 1]
    changed = weight.copy()
    changed[top] *= 4
    result = train(rows, replace(settings, max_fpr=0.04))
    expected = _weights_of_all_pairs(X, y, changed, 0.1, standardize)
    np.testing.assert_allclose(result.w, expected, rtol=1e-6)
    plain = train(rows, settings)
    np.testing.assert_allclose(plain.w, first, rtol=1e-6)
    # What the result tells of the rows is that of the rows as they are.
    np.testing.assert_allclose(result.columns.mean, plain.columns.mean)
    assert result.labels == plain.labels
    scores = X @ result.w
    means = [np.average(scores[c], weights=weight[c]) for c in (y, ~y)]
    np.testing.assert_allclose(result.scores.mean[:, 0], means)
    assert result.penalty == plain.penalty
    assert result.seconds.keys() > {"second step"}


def test_the_penalty_is_that_which_folds_choose_for_the_first_step():
    rows, *_ = _rows()
    settings = TrainingSettings(reg_params=(0.001, 10.0))
    first, second = train(rows, settings), train(rows, replace(settings, max_fpr=0.1))
    assert first.penalty == second.penalty
    assert first.selection is not None
    np.testing.assert_array_equal(first.selection.mean, second.selection.mean)


def test_it_gains_at_low_rates_where_few_negatives_score_high():
    rng = np.random.default_rng(0)
    y = rng.random(20_000) < 0.05
    X = rng.normal(size=(y.size, 2)) + 2 * y[:, None]
    # Some of the negatives look like positives in the first column.
    alike = ~y & (rng.random(y.size) < 0.02)
    X[alike, 0] += 4
    train_rows, test = slice(10_000), slice(10_000, None)
    rows = ArrayRows((Batch(X[train_rows], y[train_rows]),), 2)
    areas = []
    for limit in (None, 0.02):
        w = train(rows, TrainingSettings(reg_params=(1e-3,), max_fpr=limit)).w
        areas.append(partial_area(ScoreTable.of(X[test] @ w, y[test]), 0.02))
    assert areas[1] > 1.05 * areas[0]


def test_rows_of_one_score_count_alike():
    rows, _, y, weight = _rows()
    changed = reweighted(rows, np.zeros(3), 0.01).joined()
    np.testing.assert_array_equal(changed.weight, np.where(y, weight, 4 * weight))


@pytest.mark.parametrize("value", [0.0, 0.2, float("nan")])
def test_a_rate_out_of_range_is_refused(value):
    with pytest.raises(ConfigError, match=f"maxFPR {value}, expected"):
        TrainingSettings(max_fpr=value)


def test_drawn_pairs_are_refused():
    with pytest.raises(ConfigError, match=r"maxFPR 0\.1 with the estimator 'complete'"):
        TrainingSettings(max_fpr=0.1, sampling=Sampling("complete", 10))
