"""The windows that a challenger can be trained on, without Spark."""

import numpy as np
import pytest

from spark_auc.core.moments.pair_moments import PairMoments

pytest.importorskip("deltalake")

from spark_auc.app.jobs import challenger
from spark_auc.store.facts import Facts
from spark_auc.store.moment_store import MomentStore

DAYS = [f"2026-03-{k:02}" for k in range(1, 10)]


def folds(rng, positives):
    """Moments by fold with numbers of positive rows."""
    return [PairMoments.of(rng.normal(size=(n + 5, 2)), np.arange(n + 5) < n) for n in positives]


def store_of(by_period):
    rng = np.random.default_rng(0)
    store = MomentStore("moments", Facts(2, 2))
    for period, positives in by_period.items():
        store.put(period, "rows", folds(rng, positives))
    return store


def test_the_newest_periods_of_both_classes_may_be_days_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = store_of({DAYS[0]: [4, 4], DAYS[8]: [3, 0]})
    newest = challenger._newest(store, store.periods(), [])
    assert [m.positive.rows for m in newest] == [7, 4]
    assert challenger._newest(store, store.periods(), [DAYS[0]]) is None


def test_windows_without_a_class_outside_of_a_fold_are_left_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = store_of({DAYS[7]: [4, 4], DAYS[8]: [3, 0]})
    windows = store.windows([challenger.Window(1), challenger.Window(2)])
    assert [challenger._has_both_classes(window) for window in windows] == [False, True]
