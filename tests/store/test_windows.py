"""Windows against all pairs of the rows they name, one by one."""

from datetime import date
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_auc.core.moments import tiles
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.errors import ConfigError, DataError
from spark_auc.store.moment_store import MomentStore
from spark_auc.store.windows import Window, ages
from tests.store.periods import (
    DAYS,
    FACTS,
    D,
    K,
    assert_pairs,
    bits,
    bits_of,
    filled,
    fold_rows,
    folds_of,
)

WINDOWS = [Window(1), Window(3), Window(), Window(5, 1.5), Window(None, 2.0), Window(3, 2.0)]


@pytest.fixture(params=[512, 2], ids=["one tile", "many tiles"])
def tile_side(request, monkeypatch):
    monkeypatch.setattr(tiles, "LARGEST_TILE", request.param)


def expected_rows(window, fold, newest=DAYS[-1], source="clicks", excluded=()):
    """The weighted rows of a fold in a window, by the calendar."""
    parts = []
    for day in DAYS:
        age = (date.fromisoformat(newest) - date.fromisoformat(day)).days
        if day in excluded or age < 0 or (window.periods and age >= window.periods):
            continue
        X, y, u = fold_rows(day + source)[fold]
        parts.append((X, y, u * (2 ** (-age / window.half_life) if window.half_life else 1)))
    return parts


@pytest.mark.usefixtures("tile_side")
def test_one_read_gives_every_window_and_half_life(tmp_path):
    filled(tmp_path)
    windows = MomentStore(str(tmp_path), FACTS).windows(WINDOWS)
    for window, merged in zip(WINDOWS, windows, strict=True):
        assert_pairs(merged.total(), [p for k in range(K) for p in expected_rows(window, k)])
        for k, complement in enumerate(merged.complements()):
            others = [p for j in range(K) if j != k for p in expected_rows(window, j)]
            assert_pairs(complement, others)
            assert_pairs(merged.fold(k), expected_rows(window, k))
            counts = sum(part[1].sum() for part in expected_rows(window, k))
            assert merged.rows(k)[0] == counts
        merged.close()
    assert windows[1].periods == ("2026-03-03", "2026-03-04")


def test_windows_of_one_read_have_the_bits_of_single_reads(tmp_path):
    store = filled(tmp_path)
    together = store.windows(WINDOWS)
    for window, merged in zip(WINDOWS, together, strict=True):
        assert bits_of(merged) == bits_of(store.windows([window])[0])


def test_a_half_life_is_the_recursion(tmp_path):
    days = [f"2026-03-{day:02}" for day in range(1, 21)]
    store = filled(tmp_path, days)
    [merged] = store.windows([Window(None, 3.0)])
    decay = 2.0 ** (-1 / 3.0)
    for k in range(K):
        state = reduce(
            lambda state, day: state.scale(decay).merge(folds_of(day + "clicks")[k]),
            days[1:],
            folds_of(days[0] + "clicks")[k],
        )
        a, b = merged.fold(k).quadratic(), state.quadratic()
        size = np.sqrt(np.outer(b.Sigma.diagonal(), b.Sigma.diagonal())) + 1e-300
        assert (np.abs(a.Sigma.toarray() - b.Sigma.toarray()) <= 1e-12 * size).all()
        np.testing.assert_allclose(a.mu, b.mu, rtol=1e-12, atol=1e-14)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_subset_of_periods_and_any_order_of_commits(tmp_path_factory, data):
    """Sums by brute force over rows: weight, first and second moments of each class."""
    days = data.draw(st.lists(st.sampled_from(DAYS), min_size=1, unique=True), "commits")
    order = data.draw(st.permutations(days), "other order")
    window = Window(
        data.draw(st.none() | st.integers(1, 9)), data.draw(st.none() | st.floats(0.5, 9))
    )
    newest = data.draw(st.sampled_from(days))
    excluded = [day for day in days if day != newest and data.draw(st.booleans())]
    paths = [tmp_path_factory.mktemp("store") for _ in range(2)]
    [one], [two] = (
        filled(path, commits).windows([window], newest=newest, excluded=excluded)
        for path, commits in zip(paths, (days, order), strict=True)
    )
    assert bits_of(one) == bits_of(two)
    left_out = [day for day in DAYS if day not in days or day in excluded]
    for k in range(K):
        parts = expected_rows(window, k, newest, excluded=left_out)
        for positive, of_class in ((True, one.fold(k).positive), (False, one.fold(k).negative)):
            X = np.concatenate([X[y == positive] for X, y, _ in parts])
            u = np.concatenate([u[y == positive] for _, y, u in parts])
            mean = u @ X / u.sum()
            np.testing.assert_allclose(of_class.weight, u.sum(), rtol=1e-12)
            np.testing.assert_allclose(of_class.mean, mean, rtol=1e-11, atol=1e-12)
            scatter = ((X - mean).T * u) @ (X - mean)
            np.testing.assert_allclose(of_class.scatter(), scatter, rtol=1e-9, atol=1e-9)


def test_a_column_that_varied_in_a_dropped_day_is_constant(tmp_path):
    """A subtraction of the dropped day would leave a variance of rounding errors."""
    store = MomentStore(str(tmp_path), FACTS)
    for day in DAYS[:4]:
        folds = []
        for X, y, u in fold_rows(day):
            X[:, 2] = 1 / 3 if day != DAYS[0] else X[:, 0] * 1e3
            folds.append(PairMoments.of(X, y, u))
        store.put(day, "clicks", folds)
    [week, dropped] = store.windows([Window(), Window(3)])
    assert week.total().columns().varies()[2]
    assert not dropped.total().columns().varies()[2]
    assert dropped.total().quadratic().Sigma.toarray()[2, 2] == 0.0


def test_ages():
    assert ages(DAYS) == dict(zip(DAYS, [6, 5, 4, 3, 1, 0], strict=True))
    assert ages(["r1", "r2", "r9"]) == {"r1": 2, "r2": 1, "r9": 0}
    assert ages(["2026-03-01T00", "2026-03-01T09"]) == {"2026-03-01T00": 1, "2026-03-01T09": 0}
    with pytest.raises(DataError, match="'2026-03-01' and 'r1', expected either"):
        ages(["2026-03-01", "r1"])


def test_only_the_files_of_the_window_are_read(tmp_path):
    store = filled(tmp_path)
    for old in tmp_path.glob("*/period=2026-02-*/*/*.parquet"):
        old.unlink()
    merged = MomentStore(str(tmp_path), FACTS).windows([Window(4)])[0]
    assert merged.periods == tuple(DAYS[3:])
    assert bits(store.folds(DAYS[3], "clicks")[0])


def test_windows_that_cannot_be_made(tmp_path):
    with pytest.raises(DataError, match=r"found no periods .*expected at least one; store a per"):
        MomentStore(str(tmp_path / "none"), FACTS).windows([Window(7)])
    assert not (tmp_path / "none").exists()
    store = filled(tmp_path / "store", DAYS[:2])
    with pytest.raises(DataError, match=r"no period '2026-03-09'.*2 from 2026-02-26 to 2026-02-2"):
        store.windows([Window(7)], newest="2026-03-09")
    with pytest.raises(DataError, match="no period 'x'"):
        store.windows([Window(7)], excluded=["x"])
    with pytest.raises(DataError, match="no periods"):
        store.windows([Window(7)], excluded=DAYS[:2])
    with pytest.raises(ConfigError, match="expected at most 256 half-lives"):
        store.windows([Window(7, 1e-3)])
    for periods, half_life in ((0, None), (3, 0.0), (3, float("inf")), (3, float("nan"))):
        with pytest.raises(ConfigError, match="found a window"):
            Window(periods, half_life)


def test_a_window_of_one_class_names_the_classes(tmp_path):
    store = filled(tmp_path, DAYS[:1])
    X = np.ones((4, D))
    one_class = PairMoments.of(X, np.ones(4, bool))
    assert store.put(DAYS[1], "clicks", [one_class] * K)
    [day, both] = store.windows([Window(1), Window(2)])
    assert day.rows(0) == (4, 0)
    with pytest.raises(DataError, match="found 12 positive and 0 negative rows"):
        day.total().quadratic()
    assert both.total().negative.rows == sum(m.negative.rows for m in folds_of(DAYS[0] + "clicks"))
    assert both.total().quadratic().mu.shape == (D,)
