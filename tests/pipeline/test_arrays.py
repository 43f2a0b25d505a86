"""Arrays in memory and a table of the same rows train the same weights."""

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

from spark_auc import local
from spark_auc.pipeline.estimators import HingeEstimator, MBAEstimator
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.encoders import encode_vectors

N, D = 400, 5
RNG = np.random.default_rng(12)
Y = RNG.random(N) < 0.3
X = RNG.normal(size=(N, D)) * [1.0, 10.0, 0.1, 1.0, 1.0] + 0.6 * Y[:, None]
# No rows are equal: which copy of a row is drawn depends on the partitions.
X[:, 1:][RNG.random((N, D - 1)) < 0.4] = 0.0
U = RNG.uniform(0.3, 4, N)


def table():
    features = encode_vectors(sparse.csr_array(X))
    return pa.table({"features": features, "label": Y.astype(float), "u": U})


@pytest.fixture(scope="module")
def rows():
    return ArrowTable.of(table(), 150)


@pytest.mark.parametrize(
    "given",
    [
        {"regParam": 0.1},
        {"regParam": 0.05, "elasticNetParam": 0.7},
        {},
        {"selectionRule": "oneStandardError", "numFolds": 3, "seed": 4},
        {"regParam": 0.1, "estimator": "complete", "numPairs": 2000, "seed": 3},
        {"regParam": 0.1, "estimator": "paired", "numPairs": 2000, "seed": 3},
        {"estimator": "complete", "pairTol": 0.02, "standardization": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("weighted", [False, True])
def test_mba(rows, given, weighted):
    model = MBAEstimator(weightCol="u" if weighted else None, **given).fitted(rows)
    check_same(model, local.MBAClassifier(**given), weighted)


@pytest.mark.parametrize("weighted", [False, True])
def test_ranksvm(rows, weighted):
    model = HingeEstimator(weightCol="u" if weighted else None, regParam=0.01).fitted(rows)
    check_same(model, local.RankSVMClassifier(regParam=0.01), weighted)


def check_same(model, ranker, weighted):
    """The ranker of arrays, fitted to the rows, is the model of a table."""
    labels = np.where(Y, "yes", "no")
    for form in (X, sparse.csr_array(X)):
        ranker.fit(form, labels, U if weighted else None)
        w = model.scorer.w
        assert np.abs(ranker.coef_[0] - w).max() <= 1e-12 * np.abs(w).max()
        threshold = model.getThreshold()
        assert -ranker.intercept_[0] == pytest.approx(threshold, rel=1e-9, abs=1e-12)
        ours, theirs = ranker.summary_, model.summary
        for field in ("pairs", "elastic_net_param", "form", "nonzeros"):
            assert getattr(ours, field) == getattr(theirs, field)
        assert ours.reg_param == pytest.approx(theirs.reg_param, rel=1e-12)
        assert ranker.certificate_["reason"] == theirs.certificate["reason"] == "converged"
