"""One-shot recognition: held-out scores without refits, the network, and the experiment, small."""

import io
import zipfile

import numpy as np
import pytest
from PIL import Image
from scipy.spatial.distance import pdist
from sklearn.linear_model import Ridge
from sklearn.metrics import roc_auc_score

from experiments import few_rows, one_shot, siamese
from experiments.experiment import AbsentError, Limits, Request
from experiments.page import page, pictures
from experiments.reproduce import EXPERIMENTS
from spark_auc.errors import DataError

HALF, TESTS = 6, 5


def problem(seed, features=9):
    """Training rows, the positive half first, and test rows."""
    X = np.random.default_rng(seed).normal(size=(2 * HALF + TESTS, features))
    X[:HALF] += 0.7
    return X


def refitted(X, y, penalty):
    """Weights of the mean squared loss of all pairs, which scikit-learn fits to the differences."""
    pairs = (X[y][:, None] - X[~y]).reshape(-1, X.shape[1])
    ridge = Ridge(alpha=penalty * len(pairs), fit_intercept=False)
    return ridge.fit(pairs, np.ones(len(pairs))).coef_


@pytest.mark.parametrize("features", [4, 40])
def test_held_out_scores_are_those_of_refits_without_the_row(features):
    problems = np.stack([problem(seed, features)[: 2 * HALF] for seed in range(3)])
    penalties = np.array([[1e-3, 0.1, 10.0]] * 3) * [[1], [2], [3]]
    gram = problems @ problems.transpose(0, 2, 1)
    found = np.concatenate(few_rows.held_out_scores(gram, penalties), axis=1)
    y = np.arange(2 * HALF) < HALF
    for p, X in enumerate(problems):
        for place, penalty in enumerate(penalties[p]):
            for row in range(2 * HALF):
                kept = np.arange(2 * HALF) != row
                w = refitted(X[kept], y[kept], penalty)
                means = [X[kept & (y == label)].mean(axis=0) for label in (True, False)]
                expected = (X[row] - np.mean(means, axis=0)) @ w
                assert found[p, row, place] == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("features", [4, 40])
def test_scores_of_other_rows_are_those_of_a_fit_to_all_training_rows(features):
    X = problem(3, features)
    y = np.arange(2 * HALF) < HALF
    found = few_rows.new_scores((X @ X.T)[None], 2 * HALF, np.array([0.3]))
    expected = X[2 * HALF :] @ refitted(X[: 2 * HALF], y, 0.3)
    np.testing.assert_allclose(found, expected[None])


def test_the_penalty_has_the_least_loss_of_pairs_of_refits():
    chosen = []
    for seed in range(4):
        X = problem(seed)[: 2 * HALF]
        y = np.arange(2 * HALF) < HALF
        trace = sum(X[y == label].var(axis=0).sum() for label in (True, False))
        losses = []
        for penalty in trace * few_rows.RELATIVE:
            scores = np.empty(2 * HALF)
            for row in range(2 * HALF):
                kept = np.arange(2 * HALF) != row
                means = [X[kept & (y == label)].mean(axis=0) for label in (True, False)]
                middle = np.mean(means, axis=0)
                scores[row] = (X[row] - middle) @ refitted(X[kept], y[kept], penalty)
            losses.append(np.mean((1 - scores[y][:, None] + scores[~y]) ** 2))
        expected = trace * few_rows.RELATIVE[np.argmin(losses)]
        found = few_rows.chosen((X @ X.T)[None])
        np.testing.assert_allclose(found, [expected])
        chosen.append(int(np.argmin(losses)))
    assert len(set(chosen)) > 1


def archives(directory, alphabets, side=12, seed=0):
    """Two archives of drawings, of which each alphabet is a pair (archive, name)."""
    (directory / "omniglot").mkdir()
    drawn = {}
    for number, names in enumerate(alphabets):
        with zipfile.ZipFile(directory / one_shot.FILES[number], "w") as archive:
            archive.writestr(f"small{number}/", "")
            for name in names:
                rng = np.random.default_rng((seed, *name.encode()))
                for character in range(5):
                    shape = rng.random((side, side)) < 0.3
                    for drawing in range(one_shot.DRAWINGS):
                        image = shape ^ (rng.random((side, side)) < 0.22)
                        content = io.BytesIO()
                        Image.fromarray(~image).save(content, "PNG")
                        path = f"{name}/character{character}/{drawing:02d}.png"
                        archive.writestr(f"small{number}/{path}", content.getvalue())
                        drawn[path] = image.ravel()
    return drawn


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Four alphabets of five characters, of which one is in both archives."""
    monkeypatch.setattr(one_shot, "SIDE", 12)
    monkeypatch.setattr(one_shot, "FEATURES", 30)
    monkeypatch.setattr(one_shot, "PAIRS", 36)
    monkeypatch.setattr(siamese, "STEPS", 300)
    yield tmp_path, archives(tmp_path, [["Greek", "Korean"], ["Greek", "Latin", "Tagalog"]])
    one_shot.drawings.cache_clear()


def test_alphabets_of_both_archives_count_once(small):
    directory, drawn = small
    found = one_shot.drawings(directory)
    expected = np.stack([drawn[path] for path in sorted(drawn)])
    np.testing.assert_array_equal(found.X.toarray(), expected)
    assert np.bincount(found.character).tolist() == [20] * 20
    assert np.bincount(found.alphabet).tolist() == [100] * 4


def test_archives_that_are_absent_or_others_are_refused(small, monkeypatch):
    directory, _ = small
    with pytest.raises(AbsentError, match="without a directory"):
        one_shot.drawings(None)
    monkeypatch.setattr(one_shot, "SIDE", 13)
    with pytest.raises(DataError, match=r"of \[144\] pixels, expected 20 of 169; put"):
        one_shot.drawings(directory)
    (directory / one_shot.FILES[0]).unlink()
    with pytest.raises(AbsentError, match=r"small1\.zip.*put the archives there"):
        one_shot.drawings(directory)


def test_alphabets_and_drawings_are_split(small):
    train, test = one_shot.split(Request(small[0], one_shot.NAME, 0, 4))
    assert not set(train.segment) & set(test.segment)
    assert np.unique(train.segment).size == np.unique(test.segment).size == 2
    for rows in (train, test):
        trains = rows.y.reshape(-1, 20)
        assert (trains == trains[0]).all()
        assert trains[0].sum() == 10


def test_aucs_are_those_of_a_ridge_for_each_pair():
    rng = np.random.default_rng(8)
    characters = np.repeat(rng.normal(size=(4, 30)), 20, axis=0)
    X = characters + 2 * rng.normal(size=(80, 30))
    trains = np.tile(rng.permutation(20) < 10, 4)
    pairs = np.array([[0, 3], [2, 1]])
    found = one_shot.aucs(X, trains, pairs)
    for auc, pair in zip(found, pairs, strict=True):
        train, test = (
            [X[c * 20 : c * 20 + 20][side[:20]] for c in pair] for side in (trains, ~trains)
        )
        rows = np.concatenate(train)
        penalty = few_rows.chosen((rows @ rows.T)[None])[0]
        w = refitted(rows, np.arange(20) < 10, penalty)
        scores = np.concatenate(test) @ w
        assert auc == pytest.approx(100 * roc_auc_score(np.arange(20) < 10, scores))
    assert found.min() < 100


def test_the_network_learns_what_differs_between_groups():
    """Groups differ in few of many features, which distances over all features hide."""
    pytest.importorskip("jax")
    rng = np.random.default_rng(9)
    groups = np.repeat(np.arange(60), 20)
    X = 3 * rng.normal(size=(groups.size, 30))
    X[:, :4] = rng.normal(size=(60, 4))[groups] + 0.3 * rng.normal(size=(groups.size, 4))
    features = siamese.trained(X[:800], groups[:800], 40, 0)
    mapped = features(X)
    assert mapped.shape == (1200, 40)
    np.testing.assert_array_equal(siamese.trained(X[:800], groups[:800], 40, 0)(X), mapped)

    def told_apart(rows):
        """AUC of distances between rows of new groups, by whether the groups differ."""
        distance = pdist(rows[800:], "cityblock")
        return roc_auc_score(pdist(groups[800:, None]) > 0, distance)

    assert told_apart(X) < 0.65
    assert told_apart(mapped) > 0.8


def test_the_experiment_has_a_grid_and_the_pairs_that_gain(small):
    pytest.importorskip("jax")
    experiment = EXPERIMENTS["mba_figure6"]
    results = experiment.run(small[0], Limits(repeats=2), 0)
    first, second = (
        next(r.values for r in results.records if r.method == method)
        for method in experiment.methods
    )
    assert len(first["aucs"]) == len(second["aucs"]) == 36
    gains = np.subtract(second["aucs"], first["aucs"])
    np.testing.assert_allclose(second["gains"], np.sort(gains)[::-1][:15])
    assert second["gain"] == gains.max()
    for values in (first, second):
        # Of the 36 pairs of ten characters, some are of one alphabet of five.
        share = (values["auc"] - values["different"]) / (values["same"] - values["different"])
        assert 36 * share == pytest.approx(round(36 * share))
        assert values["auc"] == pytest.approx(np.mean(values["aucs"]))
    stored = {image.tobytes() for image in np.packbits(list(small[1].values()), axis=1)}
    assert len(second["images"]) == 30
    assert {bytes.fromhex(image) for image in second["images"]} <= stored
    text = page(experiment, results, Limits(repeats=2), 1.0)
    network, linear = (
        results.mean(one_shot.NAME, method, "auc") for method in reversed(results.methods)
    )
    assert f"{network:.2f} against {linear:.2f} (the paper: 95.55 against 95.27)" in text
    grids, gained = pictures(experiment, results).values()
    assert gained.axes[0].texts[0].get_text() == f"{gains.max():+.1f}"
    shown = gained.axes[0].images[0].get_array()
    assert shown.shape == (3 * 12, 10 * 12)
    assert (shown[:12, :12] == 0).tobytes() in {each.tobytes() for each in small[1].values()}
    assert grids.axes[0].images[0].get_array().shape == (6, 6)
