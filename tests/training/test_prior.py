"""Training with an earlier ranker as the centre of the penalty, against dense systems."""

import json
import logging
from dataclasses import replace

import numpy as np
import pytest

from spark_auc.core.batch import Batch
from spark_auc.core.evaluation.roc import auc
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.labels import LabelCounts
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import ArrayRows
from spark_auc.core.sampling.folds import Folds
from spark_auc.errors import ConfigError
from spark_auc.training.prior import Prior
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.survey import Sampling
from spark_auc.training.train import train, train_on_moments

D, K = 6, 3
TRUE = np.linspace(1, -0.5, D)


def batch(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) * np.geomspace(0.1, 10, D)
    scores = (X / np.geomspace(0.1, 10, D)) @ TRUE
    group = rng.integers(K, size=n).astype(np.uint64)
    return Batch(X, rng.random(n) < 1 / (1 + np.exp(1 - scores)), group=group)


def rows_of(part):
    return ArrayRows((part.take(np.arange(0, 200)), part.take(np.arange(200, part.y.size))), D)


def dense(part, w0, reg, standardize):
    """Weights of raw columns by the pairs of the rows, and the factor of the prior."""
    X, y = part.X, part.y
    pairs = (X[y][:, None] - X[~y]).reshape(-1, D)
    Sigma, mu = pairs.T @ pairs / len(pairs), pairs.mean(axis=0)
    c = w0 @ mu / (w0 @ Sigma @ w0)
    weight = reg * np.diag(X.var(axis=0, ddof=1) if standardize else np.ones(D))
    return np.linalg.solve(Sigma + weight, mu + weight @ (c * w0)), c


def prior(w=None):
    return Prior(TRUE / np.geomspace(0.1, 10, D) * 5 if w is None else w, D)


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("reg", [1e-3, 0.5, 50.0])
def test_a_single_penalty_has_its_centre_at_the_prior(standardize, reg):
    part, earlier = batch(), prior()
    settings = TrainingSettings(reg_params=(reg,), prior=earlier, standardize=standardize)
    result = train(rows_of(part), settings)
    expected, c = dense(part, earlier.w, reg, standardize)
    np.testing.assert_allclose(result.w, expected, rtol=1e-8)
    assert result.penalty.prior
    told = json.loads(json.dumps(result.summary().as_dict()))["prior"]
    assert told.pop("scale") == pytest.approx(c, rel=1e-9)
    assert told == {"shared": D, "new": 0, "absent": 0, "largestAbsent": []}
    stored = train_on_moments(PairMoments.of(part.X, part.y), LabelCounts({0: 1, 1: 1}), settings)
    np.testing.assert_allclose(stored.w, result.w, rtol=1e-9)


@pytest.mark.parametrize("standardize", [True, False])
def test_folds_choose_among_both_centres_without_another_pass(standardize, monkeypatch):
    part, earlier = batch(200), prior()
    passes = []
    fold = ArrayRows.fold
    monkeypatch.setattr(ArrayRows, "fold", lambda *a, **k: passes.append(a) or fold(*a, **k))
    plain = TrainingSettings(
        reg_params=(1e-2, 1.0), folds=Folds.named(("a", "b", "c")), standardize=standardize
    )
    without = train(rows_of(part), plain)
    count = len(passes)
    result = train(rows_of(part), replace(plain, prior=earlier))
    assert len(passes) == 2 * count
    found = result.selection
    assert [(c.regParam, c.prior) for c in found.candidates] == [
        (1e-2, False),
        (1.0, False),
        (1e-2, True),
        (1.0, True),
    ]
    np.testing.assert_array_equal(found.auc[:2], without.selection.auc)
    for k in range(K):
        training, held_out = (part.take(np.flatnonzero((part.group == k) == own)) for own in (0, 1))
        for i, reg in ((2, 1e-2), (3, 1.0)):
            w, _ = dense(training, earlier.w, reg, standardize)
            expected = auc(ScoreTable.of(held_out.X @ w, held_out.y))
            assert found.auc[i, k] == pytest.approx(expected, abs=1e-9)
    # The prior is the truth: of 200 rows the strong penalty is best.
    assert found.chosen == 3
    np.testing.assert_allclose(result.w, dense(part, earlier.w, 1.0, standardize)[0], rtol=1e-8)
    assert [c["prior"] for c in found.as_dict()["candidates"]] == [False, False, True, True]
    assert "prior" not in without.selection.as_dict()["candidates"][0]
    assert "prior" not in without.summary().as_dict()


def test_a_default_grid_is_that_without_the_prior():
    part = batch(200)
    settings = TrainingSettings(elastic_net_params=(0.0, 0.5))
    plain, found = (
        train(rows_of(part), replace(settings, prior=p)).selection.candidates
        for p in (None, prior())
    )
    assert found[: len(plain)] == plain
    assert found[len(plain) :] == tuple(replace(c, prior=True) for c in plain)


@pytest.mark.parametrize("w", [np.zeros(D), -TRUE / np.geomspace(0.1, 10, D)])
def test_a_prior_of_no_use_changes_no_bit(w, caplog):
    """Of zeros, or backwards: with folds the centre 0 is chosen, as its AUC is equal."""
    part = batch()
    for settings in (
        TrainingSettings(reg_params=(0.1,)),
        TrainingSettings(reg_params=(0.1, 1.0)),
        TrainingSettings(reg_params=(0.1,), elastic_net_params=(0.5,)),
    ):
        plain = train(rows_of(part), settings)
        caplog.clear()
        found = train(rows_of(part), replace(settings, prior=prior(w)))
        np.testing.assert_array_equal(found.w, plain.w)
        assert found.certificate == plain.certificate
        if found.selection:
            assert not found.penalty.prior
            assert found.prior["scale"] is None
        else:
            assert found.prior["scale"] == 0.0
            assert "ranks these rows backwards" in caplog.text


def test_one_standard_error_keeps_the_centre():
    part = batch(200)
    settings = TrainingSettings(reg_params=(1e-3, 1e-2, 1.0, 1e6), one_standard_error=True)
    found = train(rows_of(part), replace(settings, prior=prior())).selection
    best = int(np.argmax(found.mean))
    assert found.candidate.prior == found.candidates[best].prior
    assert found.candidate.regParam >= found.candidates[best].regParam


def test_weights_go_by_name(caplog):
    caplog.set_level(logging.WARNING)
    w = np.array([1.0, 2.0, -3.0, 4.0])
    found = Prior.of(w, ("a", "b", "gone", "c"), 5, ("c", "new", "a", "newer", "b"))
    np.testing.assert_array_equal(found.w, [4.0, 0.0, 1.0, 0.0, 2.0])
    assert (found.shared, found.absent) == (3, ("gone",))
    assert found.report(0.5) == {
        "scale": 0.5,
        "shared": 3,
        "new": 2,
        "absent": 1,
        "largestAbsent": ["gone"],
    }
    assert "1 of 4 features of the prior are not in the rows" in caplog.text
    many = Prior.of(np.arange(100.0), [f"x{j}" for j in range(100)], 1, ["x0"])
    assert many.absent[:2] == ("x99", "x98")
    assert many.report(None)["absent"] == 99
    assert len(many.report(None)["largestAbsent"]) == 30
    # By position without names; equal names may be in there twice.
    for names in (None, ("a", "a", "b", "c")):
        assert Prior.of(w, names, 4, names).w is w


def test_priors_that_are_refused():
    w = np.ones(2)
    with pytest.raises(ConfigError, match="prior of 2 features without names for rows of 3"):
        Prior.of(w, None, 3, ("a", "b", "c"))
    with pytest.raises(ConfigError, match="no feature of the prior"):
        Prior.of(w, ("a", "b"), 2, ("c", "d"))
    with pytest.raises(ConfigError, match="two features named 'a' in the prior"):
        Prior.of(w, ("a", "a"), 2, ("a", "d"))
    with pytest.raises(ConfigError, match="two features named 'd' in the rows"):
        Prior.of(w, ("a", "d"), 2, ("d", "d"))
    with pytest.raises(ConfigError, match="weight nan"):
        Prior.of(np.array([1.0, np.nan]), None, 2, None)
    with pytest.raises(ConfigError, match="expected 'exact'"):
        TrainingSettings(prior=prior(), sampling=Sampling("paired", 10))
