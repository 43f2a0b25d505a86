"""Columns that are constant, in all rows or outside one fold, through the estimators."""

import numpy as np
import pytest
from pyspark.ml.linalg import Vectors
from sklearn.metrics import roc_auc_score

from spark_auc import MBAClassifier, MBASelector, SOLAMClassifier
from spark_auc.core import memory
from spark_auc.errors import ResourceError
from spark_auc.training.cross_validation import CrossValidation

N, D = 1500, 3
RNG = np.random.default_rng(14)
Y = RNG.random(N) < 0.4
X = RNG.normal(size=(N, D)) + Y[:, None] * [1.0, 0.5, 0.0]
STORE = RNG.integers(0, 12, N)
U = RNG.choice([0.1, 1 / 3, 0.7], N)


@pytest.fixture(scope="module")
def rows(spark):
    values = np.column_stack([X, np.full(N, 0.1), np.where(STORE == 4, RNG.normal(size=N), 0.1)])
    made = [
        (Vectors.sparse(D + 2, range(D + 2), values[k]), float(Y[k]), float(U[k]), int(STORE[k]))
        for k in range(N)
    ]
    return spark.createDataFrame(made, ["features", "label", "u", "store"]).coalesce(3).cache()


def test_a_constant_column_and_fractional_weights(rows):
    w = SOLAMClassifier(weightCol="u", stepSize=0.1).fit(rows).scorer.w
    assert roc_auc_score(Y, X @ w[:D], sample_weight=U) > 0.75
    assert np.abs(w[D]) < 10
    free = MBAClassifier(regParam=0.0, weightCol="u").fit(rows)
    assert free.scorer.w[D] == 0.0


def test_a_column_that_varies_in_one_store_only(rows, monkeypatch):
    """The store is in one fold: to the other folds its column is a constant."""
    found = []
    plain = CrossValidation.select

    def recorded(self, candidates, training, *others):
        training = list(training)
        found.extend(training)
        return plain(self, candidates, training, *others)

    monkeypatch.setattr(CrossValidation, "select", recorded)
    MBASelector(numFolds=4, keyCol="store", weightCol="u", regParams=[1e-3, 0.1]).fit(rows)
    scales = np.array([scale[D:] for _, scale in found])
    assert (scales[:, 0] == 1.0).all()
    assert sorted(scales[:, 1] == 1.0) == [False, False, False, True]
    for quadratic, scale in found:
        Sigma = quadratic.Sigma.toarray()
        assert np.linalg.eigvalsh(Sigma)[0] > -1e-12
        assert Sigma[D + 1].any() == (scale[D + 1] != 1.0)


def test_moments_of_all_folds_need_their_memory(rows, monkeypatch):
    size = 8 * (D + 2) ** 2 * 2
    monkeypatch.setattr(memory, "available_memory", lambda: 40 * size)
    with pytest.raises(ResourceError, match=r"in 60 folds .* fewer folds or a larger machine"):
        MBASelector(numFolds=60, regParams=[1.0, 0.1]).fit(rows)
