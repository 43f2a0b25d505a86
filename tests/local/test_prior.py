"""An earlier ranker as the centre of the penalty, of arrays."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import cross_val_score

from spark_auc.errors import ConfigError
from spark_auc.local import MBAClassifier, RankSVMClassifier

RNG = np.random.default_rng(3)
D = 4
TRUE = np.array([1.0, -0.5, 0.3, 0.0])


def rows(n):
    X = RNG.normal(size=(n, D))
    return X, RNG.random(n) < 1 / (1 + np.exp(1 - 2 * X @ TRUE))


(OLD, OLD_Y), (X, Y) = rows(2000), rows(90)
EARLIER = MBAClassifier(regParam=1e-3).fit(OLD, OLD_Y)


def by_pairs(X, y, w0, reg):
    apart = (X[y][:, None] - X[~y]).reshape(-1, D)
    Sigma, mu = apart.T @ apart / len(apart), apart.mean(axis=0)
    c = w0 @ mu / (w0 @ Sigma @ w0)
    return np.linalg.solve(Sigma + reg * np.eye(D), mu + reg * c * w0)


@pytest.mark.parametrize("reg", [0.1, 100.0])
def test_the_centre_is_that_of_every_pair(reg):
    expected = by_pairs(X, Y, EARLIER.coef_[0], reg)
    svm = RankSVMClassifier().fit(OLD, OLD_Y)
    for prior in (EARLIER, FrozenEstimator(EARLIER), EARLIER.coef_[0], list(EARLIER.coef_[0])):
        found = MBAClassifier(regParam=reg, standardization=False, prior=prior).fit(X, Y)
        np.testing.assert_allclose(found.coef_[0], expected, rtol=1e-9)
        assert found.summary_.prior["shared"] == D
    found = MBAClassifier(regParam=reg, standardization=False, prior=svm).fit(X, Y)
    np.testing.assert_allclose(found.coef_[0], by_pairs(X, Y, svm.coef_[0], reg), rtol=1e-9)


def test_weights_go_by_name():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(OLD, columns=list("abcd"))
    earlier = MBAClassifier(regParam=1e-3).fit(frame, OLD_Y)
    order = ["d", "b", "a", "c"]
    now = pandas.DataFrame(X, columns=list("abcd"))[order]
    made = MBAClassifier(regParam=5.0, standardization=False, prior=earlier)
    w0 = earlier.coef_[0][[3, 1, 0, 2]]
    np.testing.assert_allclose(
        made.fit(now, Y).coef_[0], by_pairs(now.to_numpy(), Y, w0, 5.0), rtol=1e-9
    )
    fewer = made.fit(now[["a", "b"]], Y)
    assert fewer.summary_.prior["largestAbsent"] == ["c", "d"]


def test_folds_choose_between_both_centres():
    found = MBAClassifier(prior=EARLIER).fit(X, Y).summary_
    candidates = found.selection["candidates"]
    assert [c["prior"] for c in candidates] == [False] * 25 + [True] * 25
    assert candidates[found.selection["chosen"]]["prior"]


def test_a_clone_needs_a_frozen_prior():
    made = MBAClassifier(regParam=1.0, prior=EARLIER)
    with pytest.raises(ConfigError, match="MBAClassifier as a prior that is not fitted"):
        clone(made).fit(X, Y)
    for prior in (FrozenEstimator(EARLIER), EARLIER.coef_[0]):
        made = MBAClassifier(regParam=1.0, prior=prior)
        assert cross_val_score(made, X, Y, scoring="roc_auc", error_score="raise").min() > 0.6


@pytest.mark.parametrize(
    ("prior", "said"),
    [
        (np.ones((1, D)), r"prior of shape \(1, 4\)"),
        ("path", r"prior of shape \(\)"),
        (np.ones(3), "a prior of 3 features"),
        ([1.0, np.nan, 0, 0], "weight nan"),
    ],
)
def test_priors_that_are_refused(prior, said):
    with pytest.raises(ConfigError, match=said):
        MBAClassifier(prior=prior).fit(X, Y)
    with pytest.raises(ConfigError, match="expected 'exact'"):
        MBAClassifier(prior=EARLIER, estimator="paired").fit(X, Y)
