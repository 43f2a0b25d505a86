"""Choosing a penalty where some cannot be solved."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from spark_auc.core.batch import Batch
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import ArrayRows
from spark_auc.core.sampling.folds import Folds
from spark_auc.errors import ConvergenceError
from spark_auc.solvers.candidates import Candidate, Selection, choice
from spark_auc.solvers.path import path
from spark_auc.training import cross_validation as selection_module
from spark_auc.training.held_out import held_out_auc

N, D, K = 600, 6, 3


def rows():
    rng = np.random.default_rng(0)
    y = rng.random(N) < 0.4
    X = rng.normal(size=(N, D)) + y[:, None] * np.linspace(0.5, 0, D)
    return ArrayRows([Batch(X, y, key=np.arange(N, dtype=np.uint64))], D)


def validation(one_standard_error=False):
    return selection_module.CrossValidation(
        Folds(K, seed=1),
        tol=1e-6,
        max_iter=100,
        one_standard_error=one_standard_error,
        at_once=K,
    )


GRID = [Candidate(r, 0.0) for r in (1e-3, 1e-2, 0.1, 1.0)]


def select(unsolved, monkeypatch, **how):
    """The selection where ``unsolved(fold, candidate)`` says what is not solved."""
    calls = []

    def failing(quadratic, penalties, **given):
        fold = len(calls)
        calls.append([p.l2 for p in penalties])
        for penalty, solution in zip(penalties, path(quadratic, penalties, **given), strict=True):
            if unsolved(fold, penalty.l2):
                certificate = replace(solution.certificate, reason="stalled", kkt=1.0)
                yield replace(solution, certificate=certificate)
            else:
                yield solution

    monkeypatch.setattr(selection_module, "path", failing)
    given = rows()
    way, own, _ = validation(**how).by_moments(given)
    training = ((part.quadratic(), None) for part in PairMoments.complements(own))
    held_out = partial(held_out_auc, rows=given, held_out=way.held_out, max_bins=1024)
    return way.select(GRID, training, held_out), calls


def test_a_penalty_that_is_not_solved_is_left_out(monkeypatch, caplog):
    whole, _ = select(lambda fold, l2: False, monkeypatch)
    found, calls = select(lambda fold, l2: fold == 1 and l2 == 1e-2, monkeypatch)
    assert [r is None for r in found.left_out] == [True, False, True, True]
    assert "fold 2: found a KKT residual of 1" in found.left_out[1]
    assert "left out" in caplog.text
    # It is not solved again in the third fold.
    assert [len(c) for c in calls] == [4, 4, 3]
    kept = [0, 2, 3]
    np.testing.assert_array_equal(found.auc[kept], whole.auc[kept])
    np.testing.assert_array_equal(found.nonzeros[kept], whole.nonzeros[kept])
    assert np.isnan(found.auc[1]).all()
    assert found.chosen == kept[int(whole.mean[kept].argmax())]
    table = json.loads(json.dumps(found.as_dict(), allow_nan=False))["candidates"]
    assert table[1]["auc"] is table[1]["nonzeros"] is table[1]["standardError"] is None
    assert table[1]["folds"] == [None] * K
    assert table[1]["leftOut"] == found.left_out[1]
    assert table[0]["leftOut"] is None


def test_one_standard_error_passes_over_what_is_left_out(monkeypatch):
    whole, _ = select(lambda fold, l2: False, monkeypatch, one_standard_error=True)
    strongest = GRID[whole.chosen].regParam
    found, _ = select(lambda fold, l2: l2 == strongest, monkeypatch, one_standard_error=True)
    assert found.left_out[whole.chosen] is not None
    assert found.candidate.regParam < strongest


def test_only_where_none_is_solved_does_it_fail(monkeypatch):
    with pytest.raises(ConvergenceError, match="none of 4 penalties"):
        select(lambda fold, l2: fold == 1, monkeypatch)
    with pytest.raises(ConvergenceError, match="none of 4 penalties"):
        select(lambda fold, l2: l2 < 0.05 if fold == 0 else l2 > 0.05, monkeypatch)


def test_the_next_is_chosen_where_all_rows_cannot_be_solved():
    auc = np.array([[0.7, 0.8], [0.8, 0.9], [0.75, 0.8]])
    table = Selection(tuple(GRID[:3]), auc, 0.0, np.ones(3), (None,) * 3, 1)
    second = table.without("all rows: stalled", one_standard_error=False)
    assert (second.chosen, second.left_out[1]) == (2, "all rows: stalled")
    third = second.without("too", one_standard_error=True)
    assert third.chosen == 0
    assert third.without("none", one_standard_error=False) is None


def test_the_picture_of_a_selection_without_some(monkeypatch):
    pytest.importorskip("matplotlib")
    from spark_auc.app.report.penalties import penalties

    found, _ = select(lambda fold, l2: l2 == 1e-3, monkeypatch)
    (above, _) = penalties(found.as_dict()).axes
    drawn = above.lines[0].get_xdata()
    np.testing.assert_array_equal(drawn, [1e-2, 0.1, 1.0])


def test_the_picture_of_one_part_of_held_out_rows(monkeypatch):
    """It has no standard error."""
    pytest.importorskip("matplotlib")
    from spark_auc.app.report.penalties import penalties
    from spark_auc.app.report.pictures import png

    found, _ = select(lambda fold, l2: False, monkeypatch)
    figure = penalties(replace(found, auc=found.auc[:, :1]).as_dict())
    (above, _) = figure.axes
    assert "±" not in above.get_title() + above.get_ylabel()
    np.testing.assert_array_equal(np.sort(above.lines[0].get_ydata()), np.sort(found.auc[:, 0]))
    assert png(figure)


def test_aucs_that_rounding_tells_apart_are_ties():
    """Another processor or engine would choose another penalty."""
    candidates = [Candidate(reg, 0.0) for reg in (1e-4, 1e-2, 1e-1, 1.0)]
    auc = np.array([0.8, 0.8 - 4e-10, 0.8 - 9e-10, 0.8 - 2e-9])[:, None] * np.ones(3)
    for order in (slice(None), slice(None, None, -1)):
        chosen = choice(candidates[order], auc[order], one_standard_error=False)
        assert candidates[order][chosen].regParam == 1e-1
    with_prior = [*candidates, Candidate(10.0, 0.0, prior=True)]
    both = np.vstack([auc, auc[:1]])
    assert choice(with_prior, both, one_standard_error=False) == 2
    auc[:2] = np.nan
    assert choice(candidates, auc, one_standard_error=False) == 2
