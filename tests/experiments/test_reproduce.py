"""The papers' rows, and the rankers of the experiments."""

import os
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.model_selection import train_test_split

from experiments import datasets
from experiments.experiment import AbsentError, Request
from experiments.mba import TABLE2
from experiments.mixtures import MIXTURES
from experiments.training import exact, percent, sampled
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import ArrayRows
from spark_auc.core.sampling.draws import Draws
from spark_auc.errors import DataError


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
    paper = TABLE2.measures["auc"].paper[f"{components} component{'s' * (components > 1)}, 1%"]
    assert 100 * mixture.best_auc == pytest.approx(paper["Neyman-Pearson"][0], abs=0.05)
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


@pytest.mark.parametrize("size", [20, 21, 401, 1243])
def test_halves_are_those_of_scikit_learn(size):
    y = np.random.default_rng(size).random(size) < 0.3
    expected = train_test_split(np.arange(size), test_size=0.5, stratify=y, random_state=0)
    for ours, theirs in zip(datasets.halves(y), expected, strict=True):
        np.testing.assert_array_equal(ours, np.sort(theirs))


def test_data_are_read_as_they_were_written(data):
    directory, X, y = data
    train, test = datasets.load(directory, "svmguide3")
    first, second = datasets.halves(y)
    for rows, places in ((train, first), (test, second)):
        np.testing.assert_array_equal(rows.X.toarray()[:, :3], X[places])
        np.testing.assert_array_equal(rows.y, y[places])
        np.testing.assert_array_equal(rows.keys(), places)
    text = (directory / "svmguide3").read_text()
    for wrong, message in (
        (text + "0 1:2\n", r"labels \[-1.0, 0.0, 1.0\]"),
        (text + "+1 99:1\n", "inconsistent with|distributed file of 22 features"),
    ):
        (directory / "svmguide3").write_text(wrong)
        datasets.parts.cache_clear()
        with pytest.raises(DataError, match=message):
            datasets.load(directory, "svmguide3")


@pytest.mark.slow
@pytest.mark.skipif("SPARK_AUC_DATA" not in os.environ, reason="needs SPARK_AUC_DATA")
def test_a_fifth_of_a9a_has_no_negative_curvature():
    """Sums of equal products of these draws once lost the least eigenvalues to rounding."""
    train, test = datasets.load(Path(os.environ["SPARK_AUC_DATA"]), "a9a")
    for ranker in sampled(train, round(0.2 * train.y.size), 2).values():
        assert ranker.auc(test) > 89


def test_absent_sets_are_named(data):
    directory = data[0]
    for request in (Request(directory, "w1a", 0, 0), Request(None, "svmguide3", 0, 0)):
        with pytest.raises(AbsentError, match=f"{request.set}.*put its files there"):
            datasets.published(request)
    with pytest.raises(AbsentError, match="no amazon in"):
        datasets.published(Request(directory, "amazon", 0, 0))


def test_clicks_are_ones_at_hashes_of_columns_and_texts(tmp_path):
    lines = ["id,click,a,b", *(f"{k},{k % 2},{k % 3},x" for k in range(12))]
    (tmp_path / "avazu_9k.csv").write_text("\n".join(lines))
    rows, test = datasets.parts(tmp_path, "avazu")
    assert test is None
    np.testing.assert_array_equal(rows.y, np.arange(12) % 2 == 1)
    X = rows.X.toarray()
    # Rows of two texts in unit length; equal texts have equal rows, and b is shared.
    np.testing.assert_allclose(np.sort(X, axis=1)[:, -2:], np.sqrt(0.5))
    np.testing.assert_array_equal(X[:3], X[3:6])
    assert ((X > 0).all(axis=0)).sum() == 1
    assert np.linalg.matrix_rank(X) == 3
    train, held_out = datasets.positions(Request(tmp_path, "avazu", 0, 0))
    assert (train.y.size, held_out.y.size) == (9, 3)
