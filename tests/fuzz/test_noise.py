"""Tables of labels without any relation to the columns: interactions are found in few of them.

Each best pair has a false discovery rate, and a table without interactions has one at or below .1
with a probability of .1.
"""

import numpy as np
import pytest
from scipy.stats import binom

from spark_auc.core.batch import Batch
from spark_auc.features.cross_gains import cross_gains, pair_residuals
from spark_auc.features.knots import knots_of
from spark_auc.features.pair_gains import best_pairs
from spark_auc.features.pair_histograms import PairHistograms
from spark_auc.features.splines import Splines
from spark_auc.features.value_counts import ValueCounts
from tests.fuzz.inputs import SHARE

pytestmark = pytest.mark.fuzz
RATE = 0.1


def labels(rng, rows):
    """Labels of 5 positives to a half of the rows."""
    positives = int(np.exp(rng.uniform(np.log(5), np.log(rows / 2))))
    return rng.permutation(rows) < positives


def numbers(rng, rows):
    """Correlated columns: normal, long-tailed and of few values."""
    d = int(rng.integers(2, 9))
    X = rng.normal(size=(rows, d)) + rng.uniform(0, 2) * rng.normal(size=(rows, 1))
    for j in range(d):
        kind = rng.integers(4)
        if kind == 1:
            X[:, j] = np.exp(2 * X[:, j])
        elif kind == 2:
            X[:, j] = np.round(X[:, j] * rng.integers(1, 4))
    return X


def has_pair(rng, rows):
    X, y = numbers(rng, rows), labels(rng, rows)
    knots = [knots_of(*ValueCounts.of(x).weighted(), int(rng.integers(2, 9))) for x in X.T]
    histograms = PairHistograms.of(Splines.of_knots(knots), Batch(X, y), np.zeros(rows))
    pairs = X.shape[1] * (X.shape[1] - 1) // 2
    return min(g.rate for g in best_pairs(histograms, pairs)) <= RATE


def has_cross(rng, rows):
    y, codes = labels(rng, rows), {}
    for k in range(int(rng.integers(2, 6))):
        values = int(np.exp(rng.uniform(np.log(2), np.log(400))))
        # Some values are much more frequent than others.
        shares = rng.dirichlet(np.full(values, rng.choice([0.2, 1.0, 100.0])))
        codes[f"c{k}"] = rng.choice(values, rows, p=shares)
    return min(g.rate for g in cross_gains(codes, pair_residuals(y, np.zeros(rows)))) <= RATE


@pytest.mark.parametrize("found", [has_pair, has_cross])
def test_interactions_are_found_in_few_tables_of_noise(request, found):
    rng = np.random.default_rng(int(request.config.getoption("hypothesis_seed") or 0))
    tables = max(20, round(SHARE * 1000))
    count = sum(
        found(rng, int(np.exp(rng.uniform(np.log(200), np.log(5000))))) for _ in range(tables)
    )
    assert count <= binom.ppf(0.9999, tables, RATE), (count, tables)
