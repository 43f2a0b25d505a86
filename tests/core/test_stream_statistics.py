"""The statistics of a stream: the laws of merging, forgetting, and which labels can serve."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from spark_auc.core.batch import Batch
from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.core.labels import LabelCounts
from spark_auc.core.moments.head_moments import HeadMoments
from spark_auc.core.moments.low_rank_moments import LowRankMoments
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.errors import DataError
from spark_auc.training.stream_statistics import StreamStatistics, check_labels
from tests.core.test_laws import (
    HEAD,
    SKETCH,
    D,
    N,
    U,
    X,
    Y,
    head,
    head_view,
    low_rank,
    low_rank_view,
    pair_view,
    table_view,
)
from tests.laws import Case, check_laws

ROWS = np.arange(N)


def statistics(i):
    counts = {float(y): int((Y[i] == y).sum()) for y in (0, 1) if (Y[i] == y).any()}
    return StreamStatistics(
        PairMoments.of(X[i], Y[i], U[i]),
        LabelCounts(counts),
        ScoreHistogram.of(X[i, 1], Y[i], U[i]),
    )


def of_head(i):
    return replace(statistics(i), moments=head(i))


def of_sketch(i):
    return replace(statistics(i), moments=low_rank(i))


def view(found):
    counts = [found.labels.rows.get(y, 0) for y in (0.0, 1.0)]
    views = {PairMoments: pair_view, HeadMoments: head_view, LowRankMoments: low_rank_view}
    moments = views[type(found.moments)](found.moments)
    return np.concatenate([moments, table_view(found.scores.table), counts])


@pytest.mark.parametrize(
    ("made", "begun"),
    [(statistics, None), (of_head, HEAD), (of_sketch, SKETCH)],
    ids=["full", "head", "lowRank"],
)
def test_laws(made, begun):
    check_laws(Case(StreamStatistics.zero(D, begun), made, view, N))


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


@pytest.mark.parametrize(
    ("of", "begun", "seen"),
    [(of_head, HEAD, head_view), (of_sketch, SKETCH, low_rank_view)],
    ids=["head", "lowRank"],
)
def test_fading_of_approximate_moments_is_the_weight_of_rows(of, begun, seen):
    made = begun()
    made.add(Batch(X, Y, U / 2, key=np.asarray(ROWS, np.uint64)))
    half = of(ROWS).faded(0.5)
    np.testing.assert_allclose(seen(half.moments), seen(made.finish()), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("factor", [0.0, 1e-200])
@pytest.mark.parametrize("made", [statistics, of_head, of_sketch])
def test_a_class_that_faded_away_is_forgotten(factor, made):
    gone = made(ROWS).faded(factor)
    assert not gone.has_both_classes
    merged = gone.merge(made(ROWS))
    assert merged.has_both_classes
    assert gone.rows == N
    fresh = made(ROWS)
    np.testing.assert_allclose(
        merged.moments.quadratic().mu, fresh.moments.quadratic().mu, rtol=1e-12
    )


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
