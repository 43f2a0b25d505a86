"""The AUC of a chosen model, corrected for the choice, on tables whose truth is known."""

import numpy as np
import pytest

from spark_auc.core.evaluation.chosen_auc import Redrawn, corrected, deviations
from spark_auc.core.evaluation.paired_auc import PairedAUC


@pytest.mark.parametrize("weighted", [False, True])
def test_deviations_have_the_covariance_of_delong(weighted):
    rng = np.random.default_rng(3)
    scores, y = np.round(rng.normal(size=(300, 3)), 1), rng.random(300) < 0.2
    weight = rng.uniform(0.2, 2.0, 300) if weighted else None
    groups = rng.permutation(300).astype(np.uint64)
    auc, added = deviations(scores, y, weight, groups)
    paired = PairedAUC.of(scores, y, weight)
    np.testing.assert_allclose(auc, paired.auc)
    assert added.shape == (300, 3)
    np.testing.assert_allclose(added.T @ added, paired.covariance)
    np.testing.assert_allclose(added.sum(axis=0), 0, atol=1e-14)
    # A group adds the sum of its rows.
    _, pairs = deviations(scores, y, weight, groups // np.uint64(2))
    np.testing.assert_allclose(pairs, added.reshape(150, 2, 3).sum(axis=1), atol=1e-15)
    # The order of rows does not matter.
    order = rng.permutation(300)
    moved = None if weight is None else weight[order]
    _, again = deviations(scores[order], y[order], moved, groups[order])
    np.testing.assert_allclose(again, added, atol=1e-15)


def test_rows_without_weight_add_nothing():
    """Also those of the highest score, which is not in the table of scores."""
    rng = np.random.default_rng(8)
    scores, y = rng.normal(size=(60, 2)), np.arange(60) % 3 == 0
    scores[:4] += 9.0
    weight = np.where(np.arange(60) < 8, 0.0, 1.0)
    groups = np.arange(60, dtype=np.uint64)
    auc, added = deviations(scores, y, weight, groups)
    expected = deviations(scores[8:], y[8:], weight[8:], groups[8:])
    np.testing.assert_allclose(auc, expected[0], rtol=1e-14)
    np.testing.assert_allclose(added[8:], expected[1], atol=1e-15)
    assert (added[:8] == 0).all()


def test_many_groups_are_drawn_in_lots():
    rng = np.random.default_rng(4)
    scores, y = rng.normal(size=(20_000, 1)), rng.random(20_000) < 0.3
    groups = rng.integers(0, 2**63, 20_000).astype(np.uint64)
    _, added = deviations(scores, y, None, groups)
    assert added.shape[0] <= 1024
    variance = PairedAUC.of(scores, y).covariance[0, 0]
    assert (added**2).sum() == pytest.approx(variance, rel=0.2)


def test_a_class_of_one_row_has_no_deviations():
    y = np.arange(9) < 1
    auc, found = deviations(np.arange(9.0)[:, None], y, None, np.arange(9, dtype=np.uint64))
    assert auc == [0.0]
    assert found == "a class has fewer than two held-out rows in a fold"


def best(auc):
    return auc.mean(axis=-1).argmax(axis=-1)


def table(rng, signal):
    """AUCs and deviations of 12 models of 5 folds; ``signal`` shifts the scores of each model."""
    y = [np.arange(40) < 12] * 5
    scores = [rng.normal(size=(40, 12)) + signal * y[k][:, None] for k in range(5)]
    won = [s[:12, None] > s[None, 12:] for s in scores]
    auc = np.stack([beaten.mean(axis=(0, 1)) for beaten in won], axis=1)
    groups = np.arange(40, dtype=np.uint64)
    return auc, [deviations(s, t, None, groups)[1] for s, t in zip(scores, y, strict=True)]


def test_intervals_of_noise_are_rarely_above_one_half():
    """Models that rank at random, of which the best is chosen; the truth is one half."""
    rng = np.random.default_rng(5)
    found = []
    for seed in range(120):
        auc, added = table(rng, 0.0)
        told = corrected(auc, Redrawn.of(added, seed), best)
        found.append((auc.mean(axis=1).max(), told.auc, told.lower > 0.5, told.upper < 0.5))
    own, after, above, below = np.mean(found, axis=0)
    assert own > 0.56
    assert after == pytest.approx(0.5, abs=0.01)
    assert above <= 0.03
    assert below <= 0.03


def test_a_model_that_is_better_by_far_is_hardly_corrected():
    rng = np.random.default_rng(6)
    auc, added = table(rng, np.where(np.arange(12) == 7, 2.0, 0.0))
    told = corrected(auc, Redrawn.of(added, 1), best)
    assert best(auc) == 7
    assert told.auc == pytest.approx(auc[7].mean(), abs=0.005)
    assert told.lower < auc[7].mean() < told.upper
    assert told == corrected(auc, Redrawn.of(added, 1), best)
    assert told != corrected(auc, Redrawn.of(added, 2), best)
