"""The laws of merging, over every state class."""

from functools import partial

import numpy as np
import pytest
from scipy import sparse

from spark_auc.core.batch import Batch
from spark_auc.core.evaluation.overview import Faults, Overview
from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.labels import LabelCounts
from spark_auc.core.moments import tiles
from spark_auc.core.moments.class_moments import ClassMoments
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.head_moments import HeadAccumulator
from spark_auc.core.moments.low_rank_moments import LowRankAccumulator
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.moments.pair_products import VectorSum
from spark_auc.core.sampling.draws import FirstArrivals
from spark_auc.core.sampling.folds import GroupCounts
from spark_auc.core.sampling.sample_size import GroupSums, LargestNorm
from tests.laws import Case, check_laws

N, D = 60, 7
RNG = np.random.default_rng(11)
X = RNG.normal(size=(N, D)) * (RNG.random((N, D)) < 0.6) + np.array([1e3, 5, 0, 0, 0, 0, 0])
Y = RNG.random(N) < 0.4
U = RNG.uniform(0.5, 2.0, N)
SPREAD = np.sqrt(np.average(X**2, axis=0))


# What begins approximate moments.
HEAD = partial(HeadAccumulator, D, np.array([0, 3, 4]))
SKETCH = partial(LowRankAccumulator, D, 3, 1)


def class_view(moments):
    if not moments.rows:
        return np.zeros(1 + D + D * D)
    w = np.eye(D) / SPREAD
    scatter = [moments.variance_along(w[i] + w[j]) for i in range(D) for j in range(D)]
    return np.concatenate([[moments.weight / U.sum()], moments.mean / SPREAD, scatter])


def pair_view(moments):
    return np.concatenate([class_view(moments.positive), class_view(moments.negative)])


def pair_of_head(moments):
    """The second moments of three columns, from their means."""
    spread = SPREAD[[0, 3, 4]]
    parts = [m.scatter() / np.outer(spread, spread) for m in (moments.positive, moments.negative)]
    return np.concatenate([part.ravel() for part in parts]) / U.sum()


def head_view(m):
    return np.concatenate([m.head, pair_of_head(m.moments), column_view(m.columns)[4:]])


def table_view(table):
    at = np.searchsorted(np.unique(X[:, 1]), table.score)
    view = np.zeros((7, N))
    view[:6, at] = table.sums.reshape(6, -1)
    view[6, at] = table.score
    return view.ravel()


def overview_view(overview):
    bins = overview.histogram.table
    sums = np.sort(bins.sums.reshape(6, -1), axis=1)
    view = np.zeros((6, 16))
    view[:, : sums.shape[1]] = sums
    facts = [*vars(overview.faults).values(), *overview.labels.rows.values(), bins.score.sum()]
    return np.concatenate([view.ravel(), np.resize(facts, 8)])


def column_view(columns):
    return np.concatenate(
        [
            np.concatenate([columns.rows, columns.entries / D, columns.weight]) / N,
            (columns.mean / SPREAD).ravel(),
            (columns.variance / SPREAD**2).ravel(),
        ]
    )


def head(i):
    made = HEAD()
    made.add(batch(i))
    return made.finish()


def low_rank(i):
    made = SKETCH()
    made.add(batch(i)._replace(key=np.asarray(i, np.uint64)))
    return made.finish()


def low_rank_view(m):
    return np.append((m.sketch / SPREAD[:, None]).ravel(), m.sums.ravel()) / N


def batch(i, form=np.asarray):
    return Batch(form(X[i]), Y[i], U[i])


def groups(i):
    """Sums of some rows in three groups that their numbers make, with scores of size 1."""
    numbered = batch(i)._replace(X=X[i] / SPREAD, key=(i % 3).astype(np.uint64))
    return GroupSums.fold([numbered], 3, np.full(D, 1 / D))


def group_counts(i):
    """Of some rows in ten groups, of which a class keeps six."""
    return GroupCounts.zero(6).update(batch(i)._replace(group=(i % 10).astype(np.uint64)))


def group_view(counts):
    view = np.zeros((2, 3, 6))
    for side in (0, 1):
        groups, rows = counts.groups[side], counts.rows[side]
        view[side, 0, : groups.size], view[side, 1, : rows.size] = groups, rows
        view[side, 2] = counts.complete[side]
    return view.ravel()


CASES = {
    "ColumnMoments dense": Case(
        ColumnMoments.zero(D), lambda i: ColumnMoments.of(batch(i)), column_view, N
    ),
    "ColumnMoments sparse": Case(
        ColumnMoments.zero(D),
        lambda i: ColumnMoments.fold([batch(i[:3], sparse.csr_matrix), batch(i[3:])], D),
        column_view,
        N,
    ),
    "HeadMoments": Case(head(np.arange(0)), head, head_view, N),
    # Rows of equal keys share a draw, so that half of a sketch twice is not the sketch.
    "LowRankMoments": Case(low_rank(np.arange(0)), low_rank, low_rank_view, N),
    "FirstArrivals": Case(
        FirstArrivals.zero(20),
        lambda i: FirstArrivals.zero(20).update(batch(i), seed=5),
        lambda first: np.resize(np.concatenate([first.positive, first.negative, [0]]), 41),
        N,
    ),
    "GroupCounts": Case(GroupCounts.zero(6), group_counts, group_view, N),
    "GroupSums": Case(
        groups(np.arange(0)),
        groups,
        lambda sums: np.concatenate([value.ravel() for value in vars(sums).values()]) / N,
        N,
    ),
    "LargestNorm": Case(
        LargestNorm(),
        lambda i: LargestNorm.of(X[i], SPREAD),
        lambda norm: np.array([norm.squared / 100]),
        N,
    ),
    "VectorSum": Case(
        VectorSum(np.zeros(D)),
        lambda i: VectorSum(X[i].sum(axis=0)),
        lambda sums: sums.total / SPREAD / N,
        N,
    ),
    "ClassMoments dense": Case(
        ClassMoments.zero(D), lambda i: ClassMoments.of(X[i], U[i]), class_view, N, inverse=True
    ),
    "ClassMoments sparse": Case(
        ClassMoments.zero(D),
        lambda i: ClassMoments.of(sparse.csr_matrix(X[i]), U[i]),
        class_view,
        N,
        inverse=True,
    ),
    "PairMoments": Case(
        PairMoments.zero(D), lambda i: PairMoments.of(X[i], Y[i], U[i]), pair_view, N, inverse=True
    ),
    "ScoreTable": Case(
        ScoreTable.zero(), lambda i: ScoreTable.of(X[i, 1], Y[i], U[i]), table_view, N
    ),
    "Overview": Case(
        Overview.zero(16),
        lambda i: Overview(
            Faults(len(i)), LabelCounts({1.0: len(i)}), ScoreHistogram.of(X[i, 1], Y[i], None, 16)
        ),
        overview_view,
        N,
    ),
    "MomentsTile": Case(
        ClassMoments.zero(D).tiles[0],
        lambda i: ClassMoments.of(X[i], U[i]).tiles[0],
        lambda tile: class_view(ClassMoments(D, (tile,))),
        N,
        inverse=True,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_laws(name):
    check_laws(CASES[name])


@pytest.mark.parametrize("name", ["ClassMoments dense", "ClassMoments sparse", "PairMoments"])
def test_laws_of_many_tiles(name, monkeypatch):
    monkeypatch.setattr(tiles, "LARGEST_TILE", 3)
    case = CASES[name]
    zero = type(case.zero).zero(D)
    check_laws(Case(zero, case.of, case.view, N, inverse=True))
