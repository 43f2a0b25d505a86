"""The statistics of a stream: the laws of merging, forgetting, and which labels can serve."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.core.labels import LabelCounts
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.errors import DataError
from spark_auc.training.stream_statistics import StreamStatistics, check_labels
from tests.core.test_laws import D, N, U, X, Y, pair_view, table_view
from tests.laws import Case, check_laws

ROWS = np.arange(N)


def statistics(i):
    counts = {float(y): int((Y[i] == y).sum()) for y in (0, 1) if (Y[i] == y).any()}
    return StreamStatistics(
        PairMoments.of(X[i], Y[i], U[i]),
        LabelCounts(counts),
        ScoreHistogram.of(X[i, 1], Y[i], U[i]),
    )


def view(found):
    counts = [found.labels.rows.get(y, 0) for y in (0.0, 1.0)]
    return np.concatenate([pair_view(found.moments), table_view(found.scores.table), counts])


def test_laws():
    check_laws(Case(StreamStatistics.zero(D), statistics, view, N))


def test_auc_of_the_scores_so_far():
    found = statistics(ROWS)
    expected = roc_auc_score(Y, X[:, 1], sample_weight=U)
    assert found.auc() == pytest.approx(expected, abs=1e-12)
    assert found.auc_bounds() == pytest.approx((expected, expected), abs=1e-12)
    assert statistics(ROWS[Y]).auc() is None
    assert StreamStatistics.zero(D).auc_bounds() is None


def test_fading_is_the_weight_of_rows():
    half = statistics(ROWS).faded(0.5)
    expected = PairMoments.of(X, Y, U / 2)
    np.testing.assert_allclose(pair_view(half.moments), pair_view(expected), rtol=1e-12, atol=1e-12)
    assert half.rows == N
    assert half.auc() == statistics(ROWS).auc()


@pytest.mark.parametrize("factor", [0.0, 1e-200])
def test_a_class_that_faded_away_is_forgotten(factor):
    gone = statistics(ROWS).faded(factor)
    assert not gone.has_both_classes
    assert gone.merge(statistics(ROWS)).has_both_classes
    assert gone.rows == N


@pytest.mark.parametrize(
    ("values", "positive"),
    [([], None), ([0.0], None), ([-1.0], None), ([-1.0, 1.0], None), ([7.0], 7.0), (["a"], "b")],
)
def test_labels_that_can_serve(values, positive):
    check_labels(LabelCounts(dict.fromkeys(values, 1)), positive)


@pytest.mark.parametrize(
    ("values", "positive"),
    [([2.0], None), ([0.0, -1.0], None), ([0.0, 1.0, 2.0], None), ([0.0, 1.0], 2.0)],
)
def test_labels_that_cannot_serve(values, positive):
    with pytest.raises(DataError, match="found"):
        check_labels(LabelCounts(dict.fromkeys(values, 1)), positive)
