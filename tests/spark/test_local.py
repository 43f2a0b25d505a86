"""Arrays in memory and a DataFrame of the same rows train the same weights."""

import numpy as np
import pytest
from pyspark.ml.linalg import Vectors
from scipy import sparse

import spark_auc
from spark_auc import local

N, D = 400, 5
RNG = np.random.default_rng(12)
Y = RNG.random(N) < 0.3
X = RNG.normal(size=(N, D)) * [1.0, 10.0, 0.1, 1.0, 1.0] + 0.6 * Y[:, None]
# No rows are equal: which copy of a row is drawn depends on the partitions.
X[:, 1:][RNG.random((N, D - 1)) < 0.4] = 0.0
U = RNG.uniform(0.3, 4, N)


@pytest.fixture(scope="module")
def rows(spark):
    made = [
        (Vectors.sparse(D, np.flatnonzero(x).tolist(), x[x != 0].tolist()), float(c), float(u))
        for x, c, u in zip(X, Y, U, strict=True)
    ]
    return spark.createDataFrame(made, ["features", "label", "u"]).repartition(3).cache()


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
    same(rows, "MBAClassifier", given, weighted)


@pytest.mark.parametrize("weighted", [False, True])
def test_ranksvm(rows, weighted):
    same(rows, "RankSVMClassifier", {"regParam": 0.01}, weighted)


def same(rows, name, given, weighted):
    distributed = getattr(spark_auc, name)(weightCol="u" if weighted else None, **given).fit(rows)
    labels = np.where(Y, "yes", "no")
    for form in (X, sparse.csr_array(X)):
        ranker = getattr(local, name)(**given).fit(form, labels, U if weighted else None)
        w = distributed.scorer.w
        assert np.abs(ranker.coef_[0] - w).max() <= 1e-12 * np.abs(w).max()
        threshold = distributed.getThreshold()
        assert -ranker.intercept_[0] == pytest.approx(threshold, rel=1e-9, abs=1e-12)
        ours, theirs = ranker.summary_, distributed.summary
        for field in ("pairs", "elastic_net_param", "form", "nonzeros"):
            assert getattr(ours, field) == getattr(theirs, field)
        assert ours.reg_param == pytest.approx(theirs.reg_param, rel=1e-12)
        assert ranker.certificate_["reason"] == theirs.certificate["reason"] == "converged"
    predicted = distributed.transform(rows).select("features", "prediction").collect()
    scored = ranker.predict(np.array([row.features.toArray() for row in predicted]))
    np.testing.assert_array_equal(scored == "yes", [row.prediction == 1.0 for row in predicted])
