"""Ridges of many rows without a matrix are compared on a sample of the rows."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from spark_auc.app.report.penalties import penalties
from spark_auc.core.batch import Batch
from spark_auc.core.row_source import ArrayRows
from spark_auc.training import penalty_sample, problem
from spark_auc.training.penalty import choose_penalty
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.survey import Sampling
from spark_auc.training.train import train

D, ENTRIES = 400, 8
PLAIN = TrainingSettings(standardize=False, tol=1e-6)


def rows(n, positives, seed=0):
    """Sparse rows in which a share of the rows is positive."""
    rng = np.random.default_rng(seed)
    columns = (D * rng.random((n, ENTRIES)) ** 2).astype(np.int32)
    places = np.repeat(np.arange(n), ENTRIES)
    X = sparse.csr_matrix((np.ones(n * ENTRIES), (places, columns.ravel())), (n, D))
    X.sum_duplicates()
    scores = X @ np.random.default_rng(1).normal(size=D) + 3 * rng.normal(size=n)
    y = scores > np.quantile(scores, 1 - positives)
    return ArrayRows((Batch(X, y, key=np.arange(n, dtype=np.uint64)),), D)


@pytest.fixture
def without_matrix(monkeypatch):
    monkeypatch.setattr(problem, "fits_in_matrix", lambda rows: False)
    monkeypatch.setattr(problem, "_refusal", lambda rows: "too wide")


def sample_of(given, settings=PLAIN):
    selected = problem.select_rows(given, Sampling(), settings.work())
    return selected, penalty_sample.PenaltySample.of(selected, settings)


@pytest.mark.parametrize("positives", [0.5, 0.3, 0.01])
def test_the_rarer_class_is_thinned_out_last(positives, without_matrix, monkeypatch):
    given = rows(4_000, positives)
    entries = given.batches[0].X.nnz
    monkeypatch.setattr(penalty_sample, "ENTRIES", entries // 4)
    _, sample = sample_of(given)
    y = sample.rows.joined().y
    assert y.size == pytest.approx(1_000, abs=100)
    if positives == 0.01:
        assert y.sum() == 40
    else:
        assert y.sum() == pytest.approx(500, abs=80)
    before, after = given.batches[0].y, y
    inverse = [1 / side.sum() + 1 / (~side).sum() for side in (before, after)]
    assert sample.factor == pytest.approx(inverse[0] / inverse[1], rel=1e-12)


def test_few_rows_l1_factors_and_matrices_are_compared_on_all_rows(without_matrix, monkeypatch):
    given = rows(400, 0.3)
    assert sample_of(given)[1] is None
    monkeypatch.setattr(penalty_sample, "ENTRIES", 800)
    assert sample_of(given)[1] is not None
    assert sample_of(given, replace(PLAIN, elastic_net_params=(0.5,)))[1] is None
    monkeypatch.undo()
    monkeypatch.setattr(penalty_sample, "ENTRIES", 800)
    assert sample_of(given)[1] is None


def test_the_choice_is_that_of_the_drawn_rows_in_penalties_of_all_rows(without_matrix, monkeypatch):
    given = rows(4_000, 0.3)
    monkeypatch.setattr(penalty_sample, "ENTRIES", given.batches[0].X.nnz // 4)
    _, sample = sample_of(given)
    drawn = sample.rows
    grid = (1e-4, 1e-3, 1e-2, 0.1)
    there = choose_penalty(given, Sampling(), replace(PLAIN, reg_params=grid))
    alone = replace(PLAIN, reg_params=tuple(value / sample.factor for value in grid))
    monkeypatch.setattr(penalty_sample, "ENTRIES", 1 << 30)
    by_hand = choose_penalty(drawn, Sampling(), alone)
    np.testing.assert_array_equal(there.selection.auc, by_hand.selection.auc)
    assert [c.regParam for c in there.selection.candidates] == list(grid)
    assert there.selection.chosen == by_hand.selection.chosen
    told = there.selection.as_dict()
    assert told["sampleRows"] == drawn.joined().y.size < 4_000
    assert "sampleRows" not in by_hand.selection.as_dict()
    assert f"sample of {told['sampleRows']:,} rows" in penalties(told).axes[0].get_title()
    # The problem to solve is that of all rows.
    assert there.problem.survey.columns.rows.sum() == 4_000


def test_the_penalty_is_near_that_of_all_rows(without_matrix, monkeypatch):
    given = rows(16_000, 0.2)
    on_all = train(given, PLAIN)
    monkeypatch.setattr(penalty_sample, "ENTRIES", given.batches[0].X.nnz // 10)
    on_some = train(given, PLAIN)
    assert on_some.certificate.reason == "converged"
    # The classes are thinned out differently, and the factor is above 1 / 10.
    _, sample = sample_of(given)
    ratio = on_some.penalty.regParam / on_all.penalty.regParam
    assert abs(np.log(ratio)) < abs(np.log(ratio / sample.factor))
    test = rows(8_000, 0.2, seed=5).joined()

    def auc(w):
        scores = test.X @ w
        order = np.argsort(scores, kind="stable")
        ranks = np.empty(scores.size)
        ranks[order] = np.arange(1, scores.size + 1)
        n = test.y.sum()
        return (ranks[test.y].sum() - n * (n + 1) / 2) / (n * (test.y.size - n))

    assert auc(on_some.w) == pytest.approx(auc(on_all.w), abs=0.004)


def test_few_groups_and_few_distinct_rows(without_matrix, monkeypatch):
    given = rows(4_000, 0.3)
    batch = given.batches[0]
    monkeypatch.setattr(penalty_sample, "ENTRIES", batch.X.nnz // 4)
    grouped = replace(given, batches=(batch._replace(key=np.arange(4_000, dtype=np.uint64) % 10),))
    chosen = choose_penalty(grouped, Sampling(), PLAIN)
    assert chosen.selection.mean[chosen.selection.chosen] > 0.6
    # All rows of a class are equal: they are drawn together, or not at all.
    X = sparse.csr_matrix(np.repeat(np.where(batch.y, 1.0, 2.0)[:, None], ENTRIES, axis=1))
    same = replace(given, batches=(batch._replace(X=X),), dimension=ENTRIES)
    assert sample_of(same)[1] is None
