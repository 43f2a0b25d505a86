from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.optimize import approx_fprime
from sklearn.metrics import roc_auc_score, roc_curve

from experiments import partial_auc
from experiments.comparators.two_way import Weight, fitted, objective
from experiments.experiment import Case, Limits, Record, Request, Results
from experiments.raw_sets import Rows
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.local import MBAClassifier

WEIGHTS = (
    Weight(),
    Weight("polynomial", 3.0),
    Weight("exponential", 8.0),
    Weight("exponential", 8.0, of_positives=False),
)


def _rows(count=60, seed=1):
    rng = np.random.default_rng(seed)
    y = rng.random(count) < 0.3
    X = rng.normal(size=(count, 4)) + 0.7 * np.outer(y, [1, 0.5, 0, -1])
    return sparse.csr_matrix(X), y


def test_partial_aucs_are_the_areas_under_the_curve_of_scikit_learn():
    rng = np.random.default_rng(0)
    y = rng.random(3000) < 0.2
    scores = np.round(y + rng.normal(size=y.size), 2)
    fpr, tpr, _ = roc_curve(y, scores, drop_intermediate=False)
    found = partial_auc.measures(scores, y)
    for limit in partial_auc.LIMITS:
        inside = fpr < limit
        x = np.append(fpr[inside], limit)
        area = np.trapezoid(np.append(tpr[inside], np.interp(limit, fpr, tpr)), x)
        assert found[str(limit)] == pytest.approx(100 * area / limit)
    assert found["auc"] == pytest.approx(100 * roc_auc_score(y, scores))


@pytest.mark.parametrize("share", [0.2, 0.5, 1.0])
def test_moments_of_the_second_step_are_those_of_reweighted_rows(share):
    X, y = _rows()
    w = np.array([1.0, 0.2, 0.0, -1.0])
    moments = PairMoments.of(X, y)
    found = partial_auc.reweighted(moments, X, y, X @ w, 0.1, share).quadratic(None)
    negative = np.sort((X @ w)[~y])
    hard = ~y & (X @ w >= negative[-round(0.1 * negative.size)])
    weight = np.ones(y.size)
    weight[~y] = (1 - share) / np.count_nonzero(~y)
    weight[hard] += share / np.count_nonzero(hard)
    # All pairs, formed.
    D = (X[y].toarray()[:, None] - X[~y].toarray()[None]).reshape(-1, 4)
    v = (weight[y][:, None] * weight[~y][None]).ravel()
    v /= v.sum()
    identity = np.eye(4)
    np.testing.assert_allclose(found.Sigma.matmat(identity), (D.T * v) @ D, atol=1e-12)
    np.testing.assert_allclose(found.mu, v @ D, atol=1e-12)


@pytest.mark.parametrize("weight", WEIGHTS)
def test_the_two_way_surrogate_is_that_of_all_pairs_with_its_gradient(weight):
    X, y = _rows()
    w, l2 = np.array([0.4, -0.3, 0.2, 0.1, -0.5]), 0.3
    value, gradient = objective(w, X, y, weight, l2)
    brute = []
    for x in X[y].toarray():
        for z in X[~y].toarray():
            s, t = (1 / (1 + np.exp(-(row @ w[:4] + w[4]))) for row in (x, z))
            errors = np.array([1 - s, t])
            if weight.form == "polynomial":
                v = errors**0.5
            elif weight.form == "exponential":
                v = 1 - np.exp(-8 * errors)
            else:
                v = np.ones(2)
            if not weight.of_positives:
                v[0] = 1
            brute.append(v.prod() * (1 - (s - t)) ** 2)
    assert value == pytest.approx(np.mean(brute) + l2 / 2 * w[:4] @ w[:4], rel=1e-5)
    numeric = approx_fprime(w, lambda v: objective(v, X, y, weight, l2)[0], 1e-6)
    np.testing.assert_allclose(gradient, numeric, atol=1e-6)


def test_more_steps_reach_lower_values_and_stay_after_convergence():
    X, y = _rows()
    weight = Weight("exponential", 8.0)
    path = fitted(X, y, np.zeros(5), weight, 0.1, (0, 2, 5, 500, 1000))
    values = [objective(w, X, y, weight, 0.1)[0] for w in path]
    assert values[0] > values[1] > values[2] > values[3] == values[4]
    assert np.abs(objective(path[3], X, y, weight, 0.1)[1]).max() < 1e-4


def test_the_second_step_without_a_choice_is_that_of_the_package():
    X, y = _rows(600)
    # A quarter of the negatives is a whole number.
    kept = np.append(np.flatnonzero(y), np.flatnonzero(~y)[:400])
    X, y = X[kept], y[kept]
    first = partial_auc.PENALTIES.index(0.01)
    w = partial_auc.fixed(X, y, 0.05, first)
    penalty = 0.01 * PairMoments.of(X, y).quadratic(None).diagonal.sum()
    ranker = MBAClassifier(regParam=penalty, standardization=False, maxFPR=0.05).fit(X, y)
    np.testing.assert_allclose(w, ranker.coef_[0], rtol=1e-3)


def test_candidates_are_chosen_by_folds_for_each_measure():
    held = [{"auc": [3.0, 2.0, 1.0], "0.01": [0.0, 1.0, 5.0], "0.1": [1.0, 2.0, 0.0]}] * 2
    means = partial_auc.chosen(held)
    assert means == {"auc": 0, "0.01": 2, "0.1": 1}


def test_every_method_is_measured_and_depends_on_the_training_rows_only(monkeypatch):
    rng = np.random.default_rng(5)
    x, z = rng.normal(size=(2, 1200))
    y = rng.random(1200) < 1 / (1 + np.exp(2 - x - np.abs(z)))
    table = Rows(pd.DataFrame({"x": x, "z": z}), y)
    monkeypatch.setitem(partial_auc.SETS, "magic04", lambda data: table)
    partial_auc._table.cache_clear()
    train, test = partial_auc.rows(Request(None, "magic04", 0, 0))
    case, flipped = (
        Case("magic04", 0, train, test._replace(y=labels), 0, Limits())
        for labels in (test.y, ~test.y)
    )
    results, others = partial_auc.measured(case), partial_auc.measured(flipped)
    assert tuple(results) == partial_auc.METHODS
    records = []
    for name, row in results.items():
        assert row["chosen"] == others[name]["chosen"]
        assert row["auc"] == pytest.approx(100 - others[name]["auc"], abs=1e-3)
        assert row["auc"] > 65
        assert 0 < row["0.01"] < row["0.1"] < row["auc"]
        for table_name, gain in (("magic04", 1.0), ("a9a", 2.0), ("ijcnn1", 0.0)):
            for repeat in range(3):
                more = gain * (name in partial_auc._STEPS)
                values = {"0.01": 5.0 + more, "0.1": 7.0 + more + repeat / 100}
                records.append(Record(table_name, repeat, name, values))
    holds, found = partial_auc.verdict(Results(records))
    assert holds
    assert "second step 2/0 and 2/0; second step, prior 0/0 and 0/0" in found
    worse = Record("criteo_80k", 0, "second step", {"0.01": 5.0, "0.1": 6.0})
    one = Record("criteo_80k", 0, "one step", {"0.01": 5.0, "0.1": 7.0})
    again = [replace(each, repeat=1) for each in (worse, one)]
    others = [Record("criteo_80k", k, m, one.values) for m in partial_auc.METHODS for k in (0, 1)]
    assert not partial_auc.verdict(Results([*records, *others, worse, one, *again])).holds
