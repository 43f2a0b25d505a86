"""Blocks, pairs, stages and merging of DSGD."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import roc_auc_score

from spark_auc.core.batch import Batch
from spark_auc.core.noise import uniform
from spark_auc.learners.blocks import blocks
from spark_auc.learners.dsgd import DSGD
from spark_auc.learners.stages import adadsg, subset
from tests.learners import references
from tests.learners.test_learners import rows


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("sizes", [(1000,), (1, 2, 3), (249, 2, 500), (300, 300, 300), ()])
def test_blocks_do_not_depend_on_how_rows_arrive(form, sizes):
    X, y = rows()
    whole = Batch(form(X), y, np.arange(1.0, 1001.0), np.arange(1000, dtype=np.uint64))
    batches = [whole.take(p) for p in np.split(np.arange(1000), np.cumsum(sizes))]
    found = list(blocks(batches, 250))
    assert [b.y.size for b in found] == [250] * 4
    for k, block in enumerate(found):
        expected = whole.take(np.arange(250 * k, 250 * (k + 1)))
        assert (block.X != expected.X).sum() == 0
        for name in ("y", "weight", "key"):
            np.testing.assert_array_equal(getattr(block, name), getattr(expected, name))
    assert [b.y.size for b in blocks(batches, 300)] == [300, 300, 300, 100]
    assert not list(blocks([whole.take(np.arange(0))], 10))


def test_many_steps_reach_the_ridge_solution_of_all_pairs():
    X, y = rows(2000)
    learner = DSGD(11, 5.0, 1.0)
    learner.stage(2000)
    for _ in range(300):
        learner.learn(X, y)
    delta = X[y].mean(0) - X[~y].mean(0)
    Sigma = np.cov(X[y].T, bias=True) + np.cov(X[~y].T, bias=True) + np.outer(delta, delta)
    share = 2 * y.sum() * (~y).sum() / (2000 * 1999)
    lambda2 = 1 / np.sqrt(2000) / (2 * share)
    expected = np.linalg.solve(Sigma + lambda2 * np.eye(11), delta)
    assert np.abs(learner.w - expected).max() < 0.02 * np.abs(expected).max()


def test_draws_are_uniform_and_those_of_the_reference():
    draws = np.array([[uniform(5, s, n) for n in range(200)] for s in range(50)])
    assert abs(draws.mean() - 0.5) < 0.01
    assert np.histogram(draws, 10, (0, 1))[0].min() > 850
    assert draws[3, 7] == references.uniform(5, 3, 7)


def test_strong_penalties_erase_the_weights_and_no_more():
    X, y = rows(200)
    learner = DSGD(11, 1.0, np.sqrt(200))
    learner.learn(X, y)
    expected = references.dsgd(X, y, 1.0, np.sqrt(200), 0, 200)
    np.testing.assert_allclose(learner.w, expected, rtol=0, atol=1e-9)


def test_subsets_are_nested_and_of_the_rows_alone():
    X, y = rows(4000)
    batch = Batch(X, y)
    small, large = (set(subset(batch, share, 1).keys().tolist()) for share in (0.1, 0.4))
    assert small < large
    assert 300 < len(small) < 500
    turned = batch.take(np.arange(4000)[::-1])
    assert set(subset(turned, 0.1, 1).keys().tolist()) == small
    assert set(subset(batch, 0.1, 2).keys().tolist()) != small
    assert subset(batch, 1.0, 1) is batch


def test_stages_double_and_start_warm():
    X, y = rows(4000)
    learner = DSGD(11, 1.0, 1.0, 3)
    log = [(s.rows, s.steps, s.learner.w) for s in adadsg(Batch(X, y), learner, 250, 6)]
    sizes, steps, weights = zip(*log, strict=True)
    assert steps == tuple(np.cumsum(sizes))
    np.testing.assert_allclose(sizes, [250, 500, 1000, 2000, 4000, 4000], rtol=0.2)
    assert sizes[4:] == (4000, 4000)
    assert (learner.size, learner.steps, learner.drawn) == (4000, 4000, sum(sizes))
    best = roc_auc_score(y, X @ np.linalg.lstsq(X, y, rcond=None)[0])
    assert roc_auc_score(y, X @ weights[-1]) > best - 0.01
    again = DSGD(11, 1.0, 1.0, 3)
    *_, last = adadsg(Batch(sparse.csr_matrix(X), y), again, 250, 6)
    np.testing.assert_allclose(last.learner.w, learner.w, rtol=0, atol=1e-12)


def test_stages_of_repeated_rows_have_their_share_of_them():
    X, y = rows(4000)
    few = Batch(X[:20].repeat(200, axis=0), y[:20].repeat(200))
    sizes = [stage.rows for stage in adadsg(few, DSGD(11, 1.0, 1.0, 3), 250, 5)]
    np.testing.assert_allclose(sizes, [250, 500, 1000, 2000, 4000], rtol=0.2)


def test_a_stage_begins_with_the_average_of_the_one_before():
    X, y = rows(2000)
    learner, w = DSGD(11, 0.05, 1.0, 3, True), np.zeros(11)
    for size in (500, 2000):
        learner.stage(size)
        np.testing.assert_array_equal(learner.w, w)
        learner.learn(X[:size], y[:size])
        w = learner.w
    best = np.linalg.lstsq(X, y, rcond=None)[0]
    assert roc_auc_score(y, X @ w) > roc_auc_score(y, X @ best) - 0.005


@pytest.mark.parametrize("c", [1.0, 50.0])
def test_averages_merge_by_pairs(c):
    X, y = rows(3000)
    parts = [DSGD(11, 0.05, c, averaging=True) for _ in range(2)]
    parts[0].learn(X[:2000], y[:2000])
    parts[1].learn(X[2000:], y[2000:])
    merged = parts[0].merge(parts[1])
    np.testing.assert_allclose(merged.w, (2 * parts[0].w + parts[1].w) / 3, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        merged.iterate, (2 * parts[0].iterate + parts[1].iterate) / 3, rtol=0, atol=1e-12
    )


def test_merge_lies_between_and_counts_the_start_once():
    X, y = rows(4000)
    start = DSGD(11, 0.5)
    start.learn(X[:1000], y[:1000])
    parts = []
    for lot in (slice(1000, 3000), slice(3000, 4000)):
        parts.append(DSGD.from_bytes(start.to_bytes()))
        parts[-1].learn(X[lot], y[lot])
    merged = parts[0].merge(parts[1], start)
    np.testing.assert_allclose(merged.w, (2 * parts[0].w + parts[1].w) / 3, atol=1e-12)
    assert (merged.steps, merged.drawn) == (4000, 4000)
