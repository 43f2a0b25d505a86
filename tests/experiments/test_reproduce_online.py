"""The experiments of the papers on online learning, small."""

import numpy as np
import pytest

from experiments import datasets, one_pass
from experiments.experiment import Case, Limits
from spark_auc.errors import ConvergenceError


@pytest.fixture
def data(tmp_path):
    """Files named as sets of the papers, whose two features tell."""
    rng = np.random.default_rng(5)
    for name, rows in (("fourclass_scale", 200), ("ijcnn1", 600), ("mushrooms", 40)):
        y = np.arange(rows) % 3 == 0
        X = np.round(rng.normal(size=(rows, 2)) + y[:, None], 3)
        lines = [f"{int(label)} 1:{a} 2:{b}" for label, (a, b) in zip(y, X, strict=True)]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    return tmp_path


def test_folds_share_rows_and_classes(data):
    rows = datasets.whole(data, "fourclass_scale")
    numbered = rows._replace(key=np.arange(200, dtype=np.uint64))
    folds = list(datasets.folds(numbered, np.random.default_rng(1)))
    tested = np.concatenate([test.keys() for _, test in folds])
    np.testing.assert_array_equal(np.sort(tested), np.arange(200))
    for train, test in folds:
        assert not set(train.keys()) & set(test.keys())
        assert test.y.sum() in (13, 14)
        assert (np.diff(train.keys().astype(int)) < 0).any()


def test_columns_are_scaled_by_training_rows_alone(data):
    rows = datasets.whole(data, "fourclass_scale")
    train, test = rows.take(np.arange(100)), rows.take(np.arange(100, 200))
    (boxed, other), (unit, _) = one_pass.scalings(train, test)
    largest = np.maximum(abs(train.X.toarray()).max(axis=0), 1)
    np.testing.assert_allclose(boxed.X.toarray(), train.X.toarray() / largest)
    np.testing.assert_allclose(other.X.toarray(), test.X.toarray() / largest)
    np.testing.assert_allclose(one_pass.lengths(unit), 1)


class Recorder:
    """Ranks by the first feature, with the sign of its setting; 2 diverges."""

    taken: list

    def __init__(self, sign):
        self.sign, self.rows = sign, 0

    def learn(self, X, y):
        self.rows += y.size

    def score(self, X):
        if self.sign == 2:
            raise ConvergenceError("lost")
        self.taken.append((self.sign, self.rows, X.shape[0]))
        return X.toarray()[:, 0] * self.sign


def case_of(train, test, most=None):
    return Case("fourclass_scale", 0, train, test, 0, Limits(work=most))


@pytest.mark.parametrize(("most", "count"), [(None, 20), (5 * 5 * 200, 20), (5 * 200, 4), (1, 4)])
def test_settings_are_chosen_by_training_rows_and_lost_ones_left_out(data, most, count):
    Recorder.taken = []
    rows = datasets.whole(data, "fourclass_scale")
    train, test = rows.take(np.arange(100)), rows.take(np.arange(100, 200))
    algorithm = one_pass.Algorithm(
        lambda rows, _, setting: Recorder(setting["sign"]),
        {"sign": (2, 0, -1, 0, 1)},
        lambda entries, _: 1,
        passes=2,
    )
    (point,) = algorithm(case_of(train, test, most))
    assert point.values["auc"] == one_pass.percent(test.X.toarray()[:, 0], test.y)
    scored = [each for each in Recorder.taken if each[2]]
    # Held-out rows choose; the test rows are ranked once, after both passes.
    assert scored[-1] == (1, 200, 100)
    assert {each[1:] for each in scored[:-1]} == {(160, 20)}
    assert len(scored[:-1]) == count


def test_grids_are_as_fine_as_the_work_allows_and_then_rows_fewer(data, monkeypatch):
    monkeypatch.setattr(one_pass, "_FEWEST_ROWS", 30)
    rows = datasets.whole(data, "fourclass_scale")
    algorithm = one_pass.Algorithm(
        lambda rows, _, setting: Recorder(1),
        {"a": range(12), "b": range(7), "c": (0, 1)},
        lambda entries, _: 1,
    )
    for most, settings, size in (
        (None, 168, 40),
        (200 * 60, 48, 40),
        (100 * 24, 24, 20),
        (9, 24, 6),
    ):
        Recorder.taken = []
        found = algorithm.chosen(rows, 0, Limits(work=most))
        assert len(found) == settings
        assert {each["c"] for each in found} == {0, 1}
        assert {held_out for _, _, held_out in Recorder.taken if held_out} == {size}


def test_all_candidates_lost_rank_by_chance(data):
    rows = datasets.whole(data, "fourclass_scale")
    algorithm = one_pass.Algorithm(
        lambda rows, _, setting: Recorder(2), {"sign": (2, 2)}, lambda entries, _: 1
    )
    (point,) = algorithm(case_of(rows, rows))
    assert point.values == {"auc": 50, "seconds": 0}
