"""The windows that a challenger can be trained on, without Spark."""

import numpy as np
import pytest

from spark_auc.core.moments.pair_moments import PairMoments

pytest.importorskip("deltalake")

from spark_auc.app.config.retraining import Retrain
from spark_auc.app.jobs import challenger
from spark_auc.app.jobs.retrain_history import History
from spark_auc.store.facts import Facts
from spark_auc.store.files import SourceFile
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
    store = store_of({DAYS[0]: [4, 4], DAYS[7]: [9, 0], DAYS[8]: [3, 0]})
    newest = challenger._newest(store, store.periods())
    assert newest == challenger.Window(9)
    (merged,) = store.windows([newest])
    assert [merged.fold(k).positive.rows for k in range(2)] == [16, 4]
    assert challenger._newest(store, DAYS[7:]) is None
    assert challenger._newest(store, []) is None
    store = store_of({DAYS[8]: [3, 1]})
    assert challenger._newest(store, store.periods()) == challenger.Window(1)


def test_the_store_is_read_once(tmp_path, monkeypatch):
    """However many of the newest periods it takes until each fold has both classes."""
    monkeypatch.chdir(tmp_path)
    store = store_of({day: [3 + (day < DAYS[2]), 4 * (day < DAYS[2])] for day in DAYS})
    read, stopped = [], RuntimeError()

    def noted(windows, **others):
        read.append((windows, others))
        raise stopped

    monkeypatch.setattr(store, "windows", noted)
    monkeypatch.setattr(SourceFile, "tiles", None)
    section = {"data": {"path": "{period}"}, "store": "s", "history": "h"}
    config = Retrain.model_validate(section | {"windows": [2], "output": {"path": "o"}})
    with pytest.raises(RuntimeError):
        challenger.challenger(store, DAYS, History("history"), config, None, (1.0, 0.0), None)
    expected = [challenger.Window(2), challenger.Window(8)]
    assert read == [(expected, {"newest": DAYS[8], "excluded": []})]


def test_rows_of_decayed_periods(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = store_of({DAYS[6]: [4, 4], DAYS[8]: [3, 1]})
    windows = store.windows([challenger.Window(None, 2.0), challenger.Window(None)])
    assert [challenger._parts(store, w) for w in windows] == [[(0.5, 8, 10), (1.0, 4, 10)], []]


def test_windows_without_a_class_outside_of_a_fold_are_left_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = store_of({DAYS[7]: [4, 4], DAYS[8]: [3, 0]})
    windows = store.windows([challenger.Window(1), challenger.Window(2)])
    assert [challenger._has_both_classes(window) for window in windows] == [False, True]
