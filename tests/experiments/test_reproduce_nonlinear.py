"""The papers' nonlinear experiments, small."""

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from sklearn.linear_model import Ridge
from sklearn.metrics import roc_auc_score

from experiments import datasets, khalid_figure1, khalid_table2, khalid_table4, nonlinear
from experiments.experiment import Request
from experiments.paper import KHALID_TABLE2, KHALID_TABLE4
from experiments.superseded import Settings
from spark_auc.core.batch import Batch
from spark_auc.errors import ConvergenceError, DataError
from spark_auc.publication.directory import Directory

ROWS = 240


def rings(seed=5, rows=ROWS):
    """Rows whose class is how far from the middle they are: no line tells them apart."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(rows, 3)), 4)
    return X, (X**2).sum(axis=1) + 0.3 * rng.normal(size=rows) > 3.2


@pytest.fixture
def data(tmp_path):
    """Files named as sets of the papers."""
    X, y = rings()
    lines = [
        f"{int(label)} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(row))
        for label, row in zip(y, X, strict=True)
    ]
    for name in ("ijcnn1", "svmguide3"):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    cells = [
        ",".join(map(str, row)) + (",h" if label else ",g") for label, row in zip(y, X, strict=True)
    ]
    (tmp_path / "magic04.csv").write_text("\n".join(cells) + "\n")
    return Directory.of(str(tmp_path))


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(nonlinear, "EXPONENTS", range(-9, 4, 6))
    for module in (khalid_table2, khalid_table4):
        monkeypatch.setattr(module, "nystroem", lambda X, seed: nonlinear.nystroem(X, seed, 40))
    monkeypatch.setattr(khalid_table2, "LANDMARKS", 40)
    monkeypatch.setattr(khalid_figure1, "EPOCHS", (1, 2, 4))


def test_magic_is_a_fifth_of_test_rows_and_the_others(data):
    X, y = rings()
    train, test = datasets.shares(0.2)(Request(Path(data.path), "magic04.csv", 0, 0))
    assert (train.y.size, test.y.size) == (192, 48)
    keys = np.concatenate([train.keys(), test.keys()]).astype(int)
    np.testing.assert_array_equal(np.sort(keys), np.arange(ROWS))
    for part in (train, test):
        np.testing.assert_array_equal(part.X, X[part.keys().astype(int)])
        np.testing.assert_array_equal(part.y, y[part.keys().astype(int)])
    other, _ = datasets.shares(0.2)(Request(Path(data.path), "magic04.csv", 1, 1))
    assert set(other.keys()) != set(train.keys())


@pytest.mark.parametrize("line", ["1,2,3,x", "1,2,3", "a,2,3,g"])
def test_magic_as_it_was_not_distributed_is_refused(tmp_path, line):
    (tmp_path / "magic04.csv").write_text(f"1,2,3,g\n{line}\n")
    with pytest.raises(DataError, match="expected the distributed file"):
        datasets.load(tmp_path, "magic04.csv")


def test_halves_of_another_seed_are_others(data):
    train, test = datasets.load(Path(data.path), "ijcnn1", 3)
    y = rings()[1]
    for part, places in zip((train, test), datasets.halves(y, 3), strict=True):
        np.testing.assert_array_equal(part.keys(), places)


def test_columns_are_standardised_by_training_rows_alone(data):
    train, test = datasets.load(Path(data.path), "svmguide3")
    made, other = nonlinear.standardised(train, test)
    X = train.X.toarray()[:, :3]
    np.testing.assert_allclose(made.X[:, :3].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(made.X[:, :3].std(axis=0), 1)
    Z = (test.X.toarray()[:, :3] - X.mean(axis=0)) / X.std(axis=0)
    np.testing.assert_allclose(other.X[:, :3], Z)
    # A column without variance stays one.
    assert not made.X[:, 3:].any()


def test_a_third_of_each_class_is_held_out():
    X, y = rings()
    rows = Batch(X, y, None, np.arange(ROWS, dtype=np.uint64))
    fitting, held_out = nonlinear.parts(rows, 1)
    assert set(fitting.keys()) | set(held_out.keys()) == set(range(ROWS))
    assert held_out.y.size == pytest.approx(ROWS / 3, abs=1)
    assert held_out.y.sum() == pytest.approx(y.sum() / 3, abs=1)


def test_landmarks_are_centres_and_the_bandwidth_is_the_papers():
    X, _ = rings()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    made = nonlinear.nystroem(X, 0, 50)
    assert made.kernel.bandwidth == pytest.approx(3)
    assert made.landmarks.shape == (50, 3)
    sample = X[np.random.default_rng(0).choice(ROWS, 50, replace=False)]
    near, far = (cdist(X, each).min(axis=1).mean() for each in (made.landmarks, sample))
    assert near < far
    assert nonlinear.nystroem(X, 0, 1000).landmarks.shape[0] == ROWS


def brute_force(X, y, penalty, hinge):
    """The squared or the squared hinge loss over every pair, by a general solver."""
    D = (X[y][:, None] - X[~y]).reshape(-1, X.shape[1])
    if not hinge:
        return Ridge(alpha=penalty * len(D), fit_intercept=False).fit(D, np.ones(len(D))).coef_

    def loss(w):
        short = np.maximum(1 - D @ w, 0)
        return w @ w / 2 + penalty * (short @ short), w - 2 * penalty * (short @ D)

    found = minimize(loss, np.zeros(X.shape[1]), jac=True, options={"gtol": 1e-8})
    return found.x


def test_rankers_are_those_of_every_pair_and_chosen_by_rows_held_out(monkeypatch):
    monkeypatch.setattr(nonlinear, "EXPONENTS", (-9, -3, 3))
    monkeypatch.setattr(nonlinear, "_PATIENCE", 3)
    X, y = rings(6, 150)
    X[:, 0] += y
    rows = Batch(X, y)
    fitting, held_out = nonlinear.parts(rows, 2)
    embedded = nonlinear.Embedded.of(rows, 2)
    aucs = {
        c: roc_auc_score(held_out.y, held_out.X @ brute_force(fitting.X, fitting.y, 2.0**c, True))
        for c in (-9, -3, 3)
    }
    ranker = embedded.ranksvm()
    best = max(aucs, key=aucs.get)
    assert ranker.held_out == pytest.approx(100 * aucs[best])
    assert ranker.setting == f"C = 2^{best}"
    expected = brute_force(X, y, 2.0**best, True)
    np.testing.assert_allclose(ranker.w, expected, atol=1e-3 * np.abs(expected).max())
    ridge = embedded.mba()
    penalty = float(ridge.setting.removeprefix("penalty "))
    np.testing.assert_allclose(ridge.w, brute_force(X, y, penalty, False), rtol=1e-2)
    np.testing.assert_allclose(ridge.scores(X), X @ ridge.w)
    assert nonlinear.best([ranker, ridge]).held_out == max(ranker.held_out, ridge.held_out)


def test_every_row_a_landmark_is_the_kernel_itself():
    X, y = rings(7, 100)
    rows = Batch(X, y)
    kernel = nonlinear.Kernel(bandwidth=2.0)
    embedding = nonlinear.NystroemMap.of_landmarks(X, kernel)
    products = embedding.transform(X) @ embedding.transform(X).T
    np.testing.assert_allclose(products, np.exp(-cdist(X, X, "sqeuclidean") / 2), atol=1e-8)
    ranker = nonlinear.Embedded.of(rows, 0, embedding).mba()
    np.testing.assert_allclose(ranker.scores(X), embedding.transform(X) @ ranker.w)


def test_table2_has_the_papers_figures_beside(data, small):
    rows = khalid_table2.run(Settings(2, 0, data))
    methods = [*KHALID_TABLE2["ijcnn1"], "Nystroem + MBA", "Splines + MBA"]
    assert [(r["set"], r["method"]) for r in rows] == [
        (name, method) for name in ("magic04.csv", "ijcnn1") for method in methods
    ]
    for row in rows:
        assert set(khalid_table2.EXPERIMENT.columns) <= set(row)
        assert row["runs"] == 2
        if row["paper"]:
            assert row["difference"] == pytest.approx(row["auc"] - row["paper"])
    found = {(r["set"], r["method"]): r for r in rows}
    assert found["magic04.csv", methods[0]]["rows"] == 38
    for name in ("magic04.csv", "ijcnn1"):
        assert found[name, "Linear RankSVM"]["auc"] < 70
        for method in ("NBAUC", "RFAUC", "Nystroem + MBA", "Splines + MBA"):
            assert found[name, method]["auc"] > 85
    experiment = khalid_table2.EXPERIMENT
    assert "(paper 99.57)" in experiment.finding(rows)
    assert len(experiment.picture(rows).axes) == 2
    assert "| RFAUC |" in experiment.markdown("khalid_table2", rows)


def test_table4_learns_on_the_map(data, small):
    rows = khalid_table4.run(Settings(1, 0, data))
    assert [(r["set"], r["method"]) for r in rows] == [
        (name, method) for name in ("magic04.csv", "ijcnn1") for method in khalid_table4.ALGORITHMS
    ]
    for row in rows:
        assert set(khalid_table4.EXPERIMENT.columns) <= set(row)
        assert row["auc"] > 75
        assert row["paper"] == KHALID_TABLE4.get(row["set"], {}).get(row["method"], (None,))[0]
    experiment = khalid_table4.EXPERIMENT
    assert "ijcnn1: NSAUC" in experiment.finding(rows)
    assert len(experiment.picture(rows).axes) == 2


def test_figure1_goes_on_from_epoch_to_epoch(data, small):
    rows = khalid_figure1.run(Settings(1, 0, data))
    assert [(r["set"], r["method"], r["epochs"]) for r in rows] == [
        (name, method, epochs)
        for name in ("ijcnn1", "magic04.csv")
        for method in ("NSAUC", "NSVMSGD2", "NSOLAM")
        for epochs in (1, 2, 4)
    ]
    experiment = khalid_figure1.EXPERIMENT
    assert "NSVMSGD2" in experiment.finding(rows)
    assert len(experiment.picture(rows).axes) == 2


def test_settings_that_diverge_are_not_chosen():
    X, y = rings()
    fitting, held_out = nonlinear.parts(Batch(X, y), 0)

    class Learner:
        def __init__(self, sign):
            self.sign, self.rows = sign, 0

        def learn(self, X, y):
            self.rows += y.size

        def score(self, X):
            if self.sign == 2:
                raise ConvergenceError("lost")
            assert (self.rows, X.shape[0]) == (15 * fitting.y.size, held_out.y.size)
            return self.sign * (X**2).sum(axis=1)

    algorithm = khalid_table4.Algorithm(
        lambda rows, seed, setting: Learner(setting["sign"]),
        {"sign": (2, -1, 1)},
        lambda entries, _: 1,
        passes=15,
    )
    assert khalid_table4.best_setting(algorithm, Batch(X, y), 0) == {"sign": 1}
