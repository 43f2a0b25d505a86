"""The experiments of the papers on online learning, small."""

from dataclasses import replace

import numpy as np
import pytest

from experiments import adadsg_figure1, one_pass, online_tables
from experiments.experiment import Settings
from experiments.opauc_table2 import ALGORITHMS
from experiments.paper import OPAUC_TABLE2, SOLAM_TABLE3
from experiments.reproduce import EXPERIMENTS
from experiments.solam_table3 import ALGORITHMS as SOLAMS
from spark_auc.core.batch import Batch
from spark_auc.errors import ConvergenceError
from spark_auc.publication.directory import Directory


@pytest.fixture
def data(tmp_path):
    """Files named as sets of the papers, whose two features tell."""
    rng = np.random.default_rng(5)
    for name, rows in (("fourclass_scale", 200), ("ijcnn1", 600), ("mushrooms", 40)):
        y = np.arange(rows) % 3 == 0
        X = np.round(rng.normal(size=(rows, 2)) + y[:, None], 3)
        lines = [f"{int(label)} 1:{a} 2:{b}" for label, (a, b) in zip(y, X, strict=True)]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    return Directory.of(str(tmp_path))


def small(algorithms):
    """The algorithms with the ends of their grids."""
    return {
        label: replace(each, grid={k: v[:: len(v) - 1] for k, v in each.grid.items()})
        for label, each in algorithms.items()
    }


def test_folds_share_rows_and_classes(data):
    rows = online_tables.all_rows(data, "fourclass_scale")
    numbered = rows._replace(key=np.arange(200, dtype=np.uint64))
    folds = list(online_tables.folds(numbered, np.random.default_rng(1)))
    tested = np.concatenate([test.keys() for _, test in folds])
    np.testing.assert_array_equal(np.sort(tested), np.arange(200))
    for train, test in folds:
        assert not set(train.keys()) & set(test.keys())
        assert test.y.sum() in (13, 14)
        assert (np.diff(train.keys().astype(int)) < 0).any()


def test_columns_are_scaled_by_training_rows_alone(data):
    rows = online_tables.all_rows(data, "fourclass_scale")
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


@pytest.mark.parametrize("work", [1, 1e9])
def test_settings_are_chosen_by_training_rows_and_lost_ones_left_out(data, work):
    Recorder.taken = []
    rows = online_tables.all_rows(data, "fourclass_scale")
    train, test = rows.take(np.arange(100)), rows.take(np.arange(100, 200))
    algorithm = one_pass.Algorithm(
        lambda rows, _, setting: Recorder(setting["sign"]),
        {"sign": (2, 0, -1, 0, 1)},
        lambda entries, _: work,
        passes=2,
    )
    auc = one_pass.tested(train, test, algorithm, 0)
    assert auc == one_pass.percent(test.X.toarray()[:, 0], test.y)
    scored = [each for each in Recorder.taken if each[2]]
    # Held-out rows choose; the test rows are ranked once, after both passes.
    assert scored[-1] == (1, 200, 100)
    assert {each[1:] for each in scored[:-1]} == {(160, 20)}
    assert len(scored[:-1]) == (20 if work == 1 else 2)


def test_all_candidates_lost_rank_by_chance(data):
    rows = online_tables.all_rows(data, "fourclass_scale")
    algorithm = one_pass.Algorithm(
        lambda rows, _, setting: Recorder(2), {"sign": (2, 2)}, lambda entries, _: 1
    )
    assert one_pass.tested(rows, rows, algorithm, 0) == 50


@pytest.mark.parametrize("name", ["opauc_table2", "solam_table3"])
def test_tables_have_the_papers_figures_beside(data, name):
    own, algorithms = {
        "opauc_table2": ("OPAUC", ALGORITHMS),
        "solam_table3": ("SOLAM", SOLAMS),
    }[name]
    paper = {each: dict.fromkeys(algorithms, (70.0, 5.0)) for each in OPAUC_TABLE2}
    made = online_tables.experiment("title", "about", paper, small(algorithms))
    settings = Settings(1, 0, data)
    rows = made.run(settings)
    assert [(r["set"], r["algorithm"]) for r in rows] == [
        (each, label) for each in ("fourclass_scale", "ijcnn1") for label in algorithms
    ]
    for row in rows:
        assert set(EXPERIMENTS[name].columns) <= set(row)
        assert (row["rows"], row["runs"]) in ((200, 5), (600, 5))
        assert row["within"] == (row["auc"] >= 65)
        assert row["difference"] == pytest.approx(row["auc"] - 70)
    assert next(r["auc"] for r in rows if r["algorithm"] == own) > 70
    assert rows == made.run(settings)
    assert f"for {own} on 2 of 2" in made.finding(rows)
    assert len(made.picture(rows).axes) == len(algorithms)


def test_figures_of_the_papers_are_complete():
    for figures in OPAUC_TABLE2.values():
        assert set(figures) == set(ALGORITHMS)
    assert set(SOLAM_TABLE3) <= set(OPAUC_TABLE2)


def test_adadsg_and_dsgd_make_the_same_iterations(data):
    rows = adadsg_figure1.run(Settings(2, 0, data))
    assert [(row["set"], row["stage"]) for row in rows] == [("ijcnn1", k + 1) for k in range(20)]
    steps = [row["iterations"] for row in rows]
    assert np.diff(steps)[2:] == pytest.approx(450)
    assert [row["trials"] for row in rows] == [None] * 19 + [2]
    experiment = EXPERIMENTS["adadsg_figure1"]
    assert "on ijcnn1 AdaDSG" in experiment.finding(rows).replace("On", "on")
    assert len(experiment.picture(rows).axes) == 1


def test_the_ratio_is_of_the_first_iterations_with_the_last_auc():
    plain = [(10, 60.0), (20, 81.0), (30, 79.0), (40, 80.0)]
    assert adadsg_figure1._ratios([(5, 70.0), (10, 80.5)], plain) == (0.5, 0.25)
    rows = adadsg_figure1._rows("a9a", [([(40, 79.0)], plain)], [(1.0, 0.1)])
    assert rows[-1]["ratio"] is None
    assert rows[-1]["gammas"] == "1 / 0.1"
    assert "does not reach" in adadsg_figure1.EXPERIMENT.finding(rows)


def test_a_diverged_learner_ranks_by_chance():
    class Lost:
        def score(self, X):
            raise ConvergenceError("lost")

    assert adadsg_figure1._auc(Lost(), Batch(np.ones((2, 1)), np.array([True, False]))) == 50
