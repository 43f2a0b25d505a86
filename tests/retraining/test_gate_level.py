"""Wins of the gate without a difference: 5% of 1,000 gates of stored scores, single and pooled."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("pydantic")

from sklearn.metrics import roc_auc_score

from benchmarks.gate_level import Scores, digits, pooled_wins, wins


@pytest.fixture(scope="module")
def stored():
    scores = digits()
    a, b = (roc_auc_score(scores.y, s) for s in scores.scores.T)
    assert abs(a - b) < 1e-9
    assert 0.8 < a < 0.95
    return scores


def test_single_gates(stored):
    assert 0.03 <= wins(stored, 1000, 200, 1000, np.random.default_rng(1)) <= 0.07


def test_pooled_gates(stored):
    share, periods = pooled_wins(stored, 1000, 45, 200, np.random.default_rng(2))
    assert 0.03 <= share <= 0.07
    assert 4 < periods < 6


def test_a_better_ranker_wins_more_often(stored):
    scores = stored.scores + np.column_stack([0.3 * stored.y, np.zeros(stored.y.size)])
    assert wins(Scores(scores, stored.y), 50, 200, 1000, np.random.default_rng(3)) > 0.3
