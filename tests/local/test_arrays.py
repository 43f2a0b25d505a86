"""Arrays of any form, weights and groups, against every pair by brute force."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import roc_auc_score

from spark_auc.core.batch import Batch
from spark_auc.core.row_source import ArrayRows
from spark_auc.core.sampling import pair_batches as pairs
from spark_auc.core.sampling.draws import Draws
from spark_auc.errors import ConfigError, DataError
from spark_auc.local import MBAClassifier, RankSVMClassifier
from tests import data

N, D = 60, 3
RNG = np.random.default_rng(7)
Y = RNG.random(N) < 0.4
X = RNG.normal(size=(N, D)) + Y[:, None]
U = RNG.integers(1, 4, N).astype(float)


def ridge(X, y, reg):
    """Of every pair."""
    apart = (X[y][:, None] - X[~y]).reshape(-1, X.shape[1])
    return np.linalg.solve(apart.T @ apart / len(apart) + reg * np.eye(D), apart.mean(axis=0))


def test_every_pair():
    found = MBAClassifier(regParam=0.3, standardization=False).fit(X, Y)
    np.testing.assert_allclose(found.coef_[0], ridge(X, Y, 0.3), rtol=1e-12)
    assert found.intercept_.shape == (1,)
    assert found.certificate_["reason"] == "converged"
    np.testing.assert_allclose(
        found.decision_function(X), X @ found.coef_[0] + found.intercept_[0], rtol=1e-12
    )


@pytest.mark.parametrize("made", [MBAClassifier(regParam=0.1), RankSVMClassifier(regParam=0.1)])
def test_a_weight_of_2_is_a_row_twice_and_of_0_none(made):
    u = U - 1
    times = u.astype(int)
    weighted = made.fit(X, Y, u).coef_
    repeated = made.fit(X.repeat(times, axis=0), Y.repeat(times)).coef_
    np.testing.assert_allclose(weighted, repeated, rtol=1e-9)


def test_a_default_penalty_of_columns_of_any_unit():
    """The folds of MBAClassifier choose it, of columns as they are and of unit variance."""
    for unit, scaled in ((1.0, False), (1e-3, False), (1e-3, True)):
        chosen = MBAClassifier(standardization=scaled).fit(unit * X, Y).summary_
        found = RankSVMClassifier(standardization=scaled).fit(unit * X, Y)
        assert found.summary_.reg_param == chosen.reg_param
        assert found.summary_.selection == chosen.selection
        fixed = RankSVMClassifier(standardization=scaled, regParam=chosen.reg_param)
        np.testing.assert_array_equal(found.coef_, fixed.fit(unit * X, Y).coef_)
    assert fixed.fit(X, Y).summary_.selection is None


def test_a_default_penalty_where_no_fold_can_be_held_out(caplog):
    groups = np.array(["one"] * N)
    chosen = MBAClassifier().fit(X, Y, groups=groups).summary_.reg_param
    found = RankSVMClassifier().fit(X, Y, groups=groups)
    assert found.summary_.reg_param == chosen
    assert caplog.text.count("the middle of the grid") == 2


def test_rows_of_a_group_are_held_out_together():
    groups = np.where(np.arange(N) % 2, "a", "b")
    selection = MBAClassifier().fit(X, Y, groups=groups).summary_.selection
    assert len(selection["candidates"][0]["folds"]) == 2
    with pytest.raises(DataError, match="59 groups for 60 rows"):
        MBAClassifier().fit(X, Y, groups=groups[1:])


def test_sparse_rows_in_any_order_of_columns():
    expected = MBAClassifier(regParam=0.1).fit(X, Y)
    columns = np.tile([2, 0, 1], N)
    unsorted = sparse.csr_array(
        (X[:, [2, 0, 1]].ravel(), columns, np.arange(0, 3 * N + 1, 3)), shape=X.shape
    )
    found = MBAClassifier(regParam=0.1).fit(unsorted, Y)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-12)
    np.testing.assert_array_equal(found.predict(unsorted), expected.predict(X))


def test_what_is_refused():
    for wrong in (
        {"regParam": -1.0},
        {"estimator": "half"},
        {"numPairs": 0},
        {"numFolds": 1},
        {"numFolds": 2.5},
        {"selectionRule": "worst"},
        {"whenNotConverged": "ignore"},
    ):
        with pytest.raises(ConfigError, match=r"found .*expected"):
            MBAClassifier(**wrong).fit(X, Y)
    for weight in (-1.0, 1e-200):
        with pytest.raises(DataError, match="negative or extreme"):
            MBAClassifier().fit(X, Y, np.where(np.arange(N), 1.0, weight))
    with pytest.raises(DataError, match="one class only"):
        MBAClassifier().fit(X, np.ones(N))


def test_integers_of_numpy_are_whole_numbers():
    for name, value in (("numFolds", 3), ("numPairs", 64)):
        given = {"estimator": "paired"} if name == "numPairs" else {}
        found = MBAClassifier(**given, **{name: np.int64(value)}).fit(X, Y)
        np.testing.assert_array_equal(
            found.coef_, MBAClassifier(**given, **{name: value}).fit(X, Y).coef_
        )


def test_constant_columns_have_no_weight():
    for ranker in (MBAClassifier(), RankSVMClassifier()):
        assert not ranker.fit(np.ones((20, 3)), np.arange(20) % 2).coef_.any()


def test_a_single_positive_row(caplog):
    y = np.arange(N) == 3
    found = MBAClassifier().fit(X, y)
    assert "without a choice" in caplog.text
    assert found.decision_function(X).argmax() in np.argsort(-(X @ found.coef_[0]))[:1]


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_pairs_are_made_when_they_are_read(form, monkeypatch):
    monkeypatch.setattr(pairs, "_ENTRIES", 4 * D)
    rows = ArrayRows((Batch(form(X[:25]), Y[:25]), Batch(form(X[25:]), Y[25:])), D)
    draws, none = Draws(1, 1.0, 1.0), np.empty(0)
    made = rows.paired(draws, (none, none)).batches
    every = Batch(X, Y)
    chosen, moments = draws.arrivals(every)
    chosen = chosen[np.argsort(moments)]
    plus, minus = chosen[Y[chosen]], chosen[~Y[chosen]]
    count = min(plus.size, minus.size)
    difference = X[plus[:count]] - X[minus[:count]]
    assert len(made) == -(-count // 4) + 1
    for k, batch in enumerate(made):
        dense = batch.X if isinstance(batch.X, np.ndarray) else batch.X.toarray()
        expected = difference[4 * k : 4 * k + 4] if k < len(made) - 1 else np.zeros((1, D))
        np.testing.assert_array_equal(dense, expected)
        assert (batch.y == (k < len(made) - 1)).all()


@pytest.mark.parametrize(
    ("name", "dimension", "reg", "reference"), [("a9a", 123, 1e-4, 89.98), ("w1a", 300, 10, 92.50)]
)
def test_reference_auc(name, dimension, reg, reference):
    fitted = MBAClassifier(regParam=reg).fit(*data.libsvm(name, dimension))
    X, y = data.libsvm(f"{name}.t", dimension)
    found = roc_auc_score(y, fitted.decision_function(X))
    assert 100 * found == pytest.approx(reference, abs=0.05)
