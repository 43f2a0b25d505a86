"""The papers' experiments, small, and the job around them."""

import json
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.model_selection import train_test_split

from experiments import datasets, figure2, figure3, table2, table3
from experiments.experiment import Settings
from experiments.mixtures import MIXTURES
from experiments.paper import TABLE2
from experiments.reproduce import EXPERIMENTS, run
from experiments.training import exact, percent, sampled
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import ArrayRows
from spark_auc.core.sampling.draws import Draws
from spark_auc.errors import DataError
from spark_auc.publication.directory import Directory


@pytest.fixture
def job(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def started(*arguments):
        code = run([*arguments, "--output", "out"])
        return code, json.loads(capsys.readouterr().out.splitlines()[-1])

    return started


@pytest.fixture
def data(tmp_path):
    """A file named as one of the papers' sets, with three features that tell."""
    rng = np.random.default_rng(5)
    directory = tmp_path / "sets"
    directory.mkdir()
    y = rng.random(400) < 0.3
    X = np.round(rng.normal(size=(400, 3)) + 0.8 * y[:, None], 3)
    lines = [
        f"{'+1' if label else '-1'} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(row))
        for label, row in zip(y, X, strict=True)
    ]
    (directory / "svmguide3").write_text("\n".join(lines) + "\n")
    return directory, X, y


@pytest.mark.parametrize("components", MIXTURES)
def test_no_ranker_beats_the_likelihood_ratio(components):
    mixture = MIXTURES[components]
    if components == 1:
        assert mixture.best_auc == pytest.approx(norm.cdf(2 / np.sqrt(2)))
    rows = mixture.sample(np.random.default_rng(1), 40_000, 10_000)
    assert rows.y.sum() == 10_000
    found = percent(mixture.log_ratio(rows.X), rows.y)
    assert found == pytest.approx(100 * mixture.best_auc, abs=0.6)
    assert 100 * mixture.best_auc == pytest.approx(TABLE2[components][0], abs=0.05)
    # The score of the densities themselves.
    some = rows.X[:3]
    densities = [
        sum(s * norm.pdf(some, m).prod(axis=1) for s, m in zip(shares, mixture.means, strict=True))
        for shares in (mixture.positive, mixture.negative)
    ]
    np.testing.assert_allclose(mixture.log_ratio(some), np.log(densities[0] / densities[1]))


def test_pairs_are_those_of_the_draws_in_order():
    rows = MIXTURES[1].sample(np.random.default_rng(2), 60, 20)

    class All(Draws):
        def arrivals(self, batch):
            return np.arange(80), np.linspace(1, 0, 80)

    none = np.empty(0)
    made = ArrayRows((rows,), rows.X.shape[1]).paired(All(0, 1.0, 1.0), (none, none)).joined()
    difference = rows.X[:59:-1] - rows.X[59:39:-1]
    quadratic = PairMoments.of(made.X.toarray(), made.y).quadratic()
    np.testing.assert_allclose(quadratic.mu, difference.mean(axis=0), atol=1e-12)
    Sigma = difference.T @ difference / 20
    np.testing.assert_allclose(quadratic.Sigma.toarray(), Sigma, atol=1e-12)


def test_many_draws_rank_as_all_pairs_do():
    mixture, rng = MIXTURES[2], np.random.default_rng(3)
    train, test = mixture.sample(rng, 400, 400), mixture.sample(rng, 2000, 2000)
    everything = exact(train, 0).auc(test)
    for ranker in sampled(train, 20_000, 0).values():
        assert ranker.auc(test) == pytest.approx(everything, abs=0.5)


def test_table2_has_a_row_per_cell():
    rows = table2.run(Settings(repeats=2, seed=0), train=5000, test=1000)
    assert [(r["components"], r["pairs"]) for r in rows] == [
        (k, s) for k in (1, 2, 3) for s in (50, 500, 5000)
    ]
    for row in rows:
        assert set(table2.EXPERIMENT.columns) <= set(row)
        assert row["pairedError"] > 0
        assert row["completeWithin"] == (
            row["completeGap"] <= row["paperGap"] + 2 * row["completeError"]
        )
    assert rows[0]["paperGap"] == pytest.approx(4.70)
    assert rows[2]["completeGap"] < rows[0]["completeGap"]


def test_figure2_has_its_guides_and_sizes():
    rows = figure2.run(Settings(repeats=1, seed=0), pairs=(200, 5000), train=400, test=1000)
    assert [(r["ranker"], r["pairs"]) for r in rows] == [
        *((name, None) for name in ("Neyman-Pearson", "exact", "exact, pair by pair")),
        *((name, count) for count in (200, 5000) for name in ("complete", "paired")),
    ]
    assert all(row["error"] is None for row in rows)
    assert "5,000 pairs are" in figure2.EXPERIMENT.finding(rows)


@pytest.mark.parametrize("size", [20, 21, 401, 1243])
def test_halves_are_those_of_scikit_learn(size):
    y = np.random.default_rng(size).random(size) < 0.3
    expected = train_test_split(np.arange(size), test_size=0.5, stratify=y, random_state=0)
    for ours, theirs in zip(datasets.halves(y), expected, strict=True):
        np.testing.assert_array_equal(ours, np.sort(theirs))


def test_data_are_read_as_they_were_written(data):
    directory, X, y = data
    train, test = datasets.load(Directory.of(str(directory)), "svmguide3")
    first, second = datasets.halves(y)
    for rows, places in ((train, first), (test, second)):
        np.testing.assert_array_equal(rows.X.toarray()[:, :3], X[places])
        np.testing.assert_array_equal(rows.y, y[places])
        np.testing.assert_array_equal(rows.keys(), places)
    text = (directory / "svmguide3").read_text()
    for wrong, message in (
        (text + "0 1:2\n", r"labels \[-1.0, 0.0, 1.0\]"),
        (text + "+1 99:1\n", "22 features"),
    ):
        (directory / "svmguide3").write_text(wrong)
        with pytest.raises(DataError, match=message):
            datasets.load(Directory.of(str(directory)), "svmguide3")


def test_figure3_draws_from_real_rows(data):
    rows = figure3.run(Settings(1, 0, Directory.of(str(data[0]))))
    assert [(r["ranker"], r["pairs"]) for r in rows] == [
        *((name, count) for count in (100, 200) for name in ("complete", "paired")),
        ("exact", None),
    ]


@pytest.mark.slow
def test_table3_is_trained_by_spark(data, spark):
    directory = Directory.of(str(data[0]))
    (row,) = table3.run(Settings(1, 0, directory, spark))
    assert row["rows"] == 200
    assert row["lower"] < row["auc"] < row["upper"]
    assert row["difference"] == pytest.approx(row["auc"] - 81.16)
    # All pairs, in the tasks and in memory; the penalty hardly matters to three features.
    train, test = datasets.load(directory, "svmguide3")
    assert exact(train, 0).auc(test) == pytest.approx(row["auc"], abs=1)


def test_the_job_publishes_figures_page_and_picture(job, tmp_path, monkeypatch):
    small = partial(table2.run, train=5000, test=1000)
    monkeypatch.setitem(EXPERIMENTS, "table2", replace(table2.EXPERIMENT, run=small))
    code, result = job("table2", "table3", "--repeats", "1")
    assert (code, result["status"]) == (0, "ok")
    assert list(result["experiments"]) == ["table2"]
    assert "without --data" in result["leftOut"]["table3"]
    version = (
        tmp_path / "out" / json.loads((tmp_path / "out/manifest.json").read_text())["directory"]
    )
    assert {p.name for p in version.iterdir()} == {"reproduce.json", "reproduce.md", "table2.png"}
    stored = json.loads((version / "reproduce.json").read_text())
    assert len(stored["experiments"]["table2"]["rows"]) == 9
    page = (version / "reproduce.md").read_text()
    assert result["experiments"]["table2"]["finding"] in page
    assert "| 4.70 |" in page
    assert "Left out: table3" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tabel2"], "'tabel2', expected one of table2, table3.*mean 'table2'"),
        (["figure3"], "no experiment that can run.*--data"),
        (["--data", "nowhere"], "found nothing at 'nowhere'"),
        (["--repeats", "0"], "expected repeats of at least 1"),
    ],
)
def test_mistakes_are_named_before_anything_runs(job, arguments, message):
    code, result = job(*arguments)
    assert code == 2
    assert re.search(message, result["message"])
