"""Small states of every kind that is stored, and what is done with one that was read.

Kinds are found by looking at all classes of the package: one without a sample here is noticed.
"""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil

import numpy as np
import pyarrow as pa
from scipy import sparse

import spark_auc
from experiments import comparators
from experiments.comparators.adaauc import AdaAUC
from experiments.comparators.ftrl import FTRL
from experiments.comparators.logistic import OLR
from experiments.comparators.minibatch import MiniBatch
from experiments.comparators.oam import OAM
from experiments.comparators.olp import OLP
from experiments.comparators.opauc_projected import opauc_of_columns, opauc_of_projection
from experiments.comparators.uniexp import UniExp
from spark_auc.app.jobs.adadsg_stage import StoredStage
from spark_auc.app.jobs.stream_state import Progress, StreamState
from spark_auc.core.batch import Batch
from spark_auc.core.evaluation.measures import RankingOptions
from spark_auc.core.evaluation.overview import Faults, Overview
from spark_auc.core.evaluation.ranking import Ranking
from spark_auc.core.evaluation.roc import auc
from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.hinge.range_margins import RangeMargins
from spark_auc.core.hinge.row_scores import RowScores
from spark_auc.core.hinge.score_ranges import ScoreRanges
from spark_auc.core.labels import LabelCounts
from spark_auc.core.moments.class_moments import ClassMoments
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.head_moments import HeadAccumulator, HeadMoments
from spark_auc.core.moments.low_rank_moments import LowRankAccumulator, LowRankMoments
from spark_auc.core.moments.moments_tile import MomentsTile
from spark_auc.core.moments.objective import ElasticNet
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.moments.pair_products import VectorSum
from spark_auc.core.sampling.draws import FirstArrivals
from spark_auc.core.sampling.folds import GroupCounts
from spark_auc.core.sampling.sample_size import GroupSums, LargestNorm
from spark_auc.features.auto_state import AutoState, ClassColumns
from spark_auc.features.column_summary import ColumnSummary
from spark_auc.features.composition import Composition
from spark_auc.features.crosses import CrossMap
from spark_auc.features.drift import Drift
from spark_auc.features.fourier import FourierMap
from spark_auc.features.kernels import Kernel
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.kinds.tokens import Tokens
from spark_auc.features.network import NetworkMap
from spark_auc.features.nystroem import NystroemMap
from spark_auc.features.pair_gains import best_pairs
from spark_auc.features.pair_histograms import PairHistograms
from spark_auc.features.raw_columns import Numbers
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_auto import AutoPlan
from spark_auc.features.recipe_fit import Planned, RecipePlan, RecipeState
from spark_auc.features.robust_scale import RobustScale
from spark_auc.features.seen import Seen
from spark_auc.features.splines import Splines
from spark_auc.features.thresholds import ThresholdMap
from spark_auc.features.token_names import TokenCounts
from spark_auc.features.value_counts import ValueCounts
from spark_auc.features.watched import Watched
from spark_auc.learners.dsgd import DSGD
from spark_auc.learners.held_out import HeldOut
from spark_auc.learners.nsauc import NSAUC
from spark_auc.learners.opauc import OPAUC
from spark_auc.learners.opauc_low_rank import OPAUCr
from spark_auc.learners.solam import SOLAM
from spark_auc.solvers.path import solve
from spark_auc.spark.estimators.online import Learned
from spark_auc.tables.gathered import RowsPart
from spark_auc.tables.stratified import ClassHashes
from spark_auc.tables.tally import Tally
from spark_auc.tables.text_formats import FORMATS
from spark_auc.tables.text_types import TextKinds
from spark_auc.training.learned_rows import LearnedRows
from spark_auc.training.stream_statistics import StreamStatistics

D = 3
# Rows are made for what was read, unless it is wider than that.
WIDEST = 256
_RNG = np.random.default_rng(3)
X = _RNG.normal(size=(9, D)).round(2) * (_RNG.random((9, D)) < 0.7)
Y = np.arange(9) % 3 == 0
U = np.arange(1.0, 10.0) / 4
_LEARNERS = [
    DSGD(D),
    NSAUC(D, averaging=True, askip=2),
    OPAUC(D),
    OPAUCr(D, tau=2),
    SOLAM(D, kappa=9.0),
    opauc_of_columns(D, 2, 0.1, 0.1),
    opauc_of_projection(D, 2, 0.1, 0.1),
    AdaAUC(D),
    FTRL(D, lambda1=0.1),
    FTRL(D, beta=0.0, lambda1=0.0),
    OLR(D, lambda2=0.1),
    UniExp(D),
    MiniBatch(D, batch=4),
    MiniBatch(D, hinge=False, batch=4),
    OAM(D, buffer=2),
    OAM(D, buffer=2, sequential=False),
    OLP(D, buffer=3),
    OLP(D, buffer=3, radius=0.1),
]


def kinds():
    """All classes that are stored and restored, but for those that others are made from."""
    classes = set()
    for package in (spark_auc, comparators):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            members = inspect.getmembers(importlib.import_module(module.name), inspect.isclass)
            for _, kind in members:
                is_ours = kind.__module__.startswith(("spark_auc.", "experiments."))
                is_stored = hasattr(kind, "from_bytes") and not getattr(kind, "_is_protocol", False)
                if is_ours and is_stored:
                    classes.add(kind)
    bases = {base for kind in classes for base in kind.__mro__[1:]}
    return sorted(classes - bases, key=lambda kind: kind.__name__)


def _learnt(learner):
    learner.learn(X[:5], Y[:5])
    learner.learn(sparse.csr_matrix(X[5:]), Y[5:])
    return learner


def samples():
    """States of each kind."""
    csr = sparse.csr_matrix(X)
    batch, pair = Batch(X, Y, U), PairMoments.of(csr, Y, U)
    labels, table = LabelCounts({0.0: 6, 1.0: 3}), ScoreTable.of(X[:, 0], Y, U)
    histogram = ScoreHistogram.of(X[:, 0], Y, None, 4)
    statistics = StreamStatistics(pair, labels, histogram)
    accumulated, low_rank = HeadAccumulator(D, np.array([0, 2])), LowRankAccumulator(D, 2, 0)
    for some in (accumulated, low_rank):
        some.add(batch)
    head = accumulated.finish()
    columns = ColumnMoments.of(batch)
    streamed = LearnedRows(SOLAM(D).to_bytes(), np.zeros(D), np.ones(D), columns, columns)
    wide = np.zeros((64, 64))
    wide[3, 5:9] = 1.0
    counts = _RNG.poisson(3.0, (64, 64)).astype(float)
    few, ones = np.zeros(5000), np.ones((2, 64))
    few[::7] = _RNG.normal(size=715)
    learners = [_learnt(learner) for learner in _LEARNERS]
    stage = {"rows": 9, "steps": 9, "auc": 0.5, "interval": (0.1, 0.9), "objective": 1.0}
    stage["objectiveError"] = None
    kernels = (Kernel(), Kernel("laplacian", 2.0), Kernel("polynomial", degree=3))
    measured = HeldOut(9, 0.7, 0.6, "ridge", 0.8, 0.1, 0.05)
    states = [
        batch,
        Batch(csr, Y, None, np.arange(9, dtype=np.uint64)),
        batch._replace(group=batch.groups(), place=np.arange(9)),
        ClassMoments.of(X, U),
        ClassMoments.zero(D),
        ColumnMoments.of(batch),
        FirstArrivals.zero(6).update(batch, 1),
        GroupCounts.zero(3).update(batch),
        GroupCounts.zero(100).update(batch),
        measured,
        LabelCounts(),
        labels,
        LabelCounts({"no": 1, "yes": 7}),
        Tally.of(pa.array(["a", None, "b", "a"]), 5),
        ClassHashes.of([(np.array([True, False]), np.array([0.5, 0.1]))]),
        TextKinds.zero(np.ones((2, len(FORMATS)), np.bool_)).update(
            pa.record_batch([["1", "2"], ["007", ""]], ["a", "b"]), [(), ()]
        ),
        pair,
        *pair.positive.tiles[:2],
        MomentsTile(1, 1.0, ones, ones, wide, ones[0]),
        MomentsTile(9, 9.0, ones, ones, counts, ones[0]),
        VectorSum(np.arange(3.0)),
        VectorSum(few),
        VectorSum(X),
        Overview(Faults(9), labels, histogram),
        Ranking.of(table, 0.5, RankingOptions(points=8, bins=2)),
        RowScores.of(batch, X[:2]),
        ScoreRanges.of((X[:, 0], X[:, 1], U, Y), 64),
        ScoreRanges.of((X[:, 0], X[:, 1], U, Y), 4),
        ScoreRanges.zero(4),
        GroupSums.fold([batch._replace(key=np.arange(9, dtype=np.uint64) % 2)], 2, X[0]),
        LargestNorm(3.0),
        table,
        ScoreTable.of(X[:, 0], Y),
        histogram,
        statistics,
        head,
        low_rank.finish(),
        StreamStatistics(head, labels, histogram),
        StreamStatistics(low_rank.finish(), labels, histogram),
        streamed,
        StreamStatistics(streamed, labels, histogram),
        *learners,
        CrossMap(D, 3),
        FourierMap.random(D, 1.0, 4),
        NetworkMap.random(D, 4),
        *(NystroemMap.of_landmarks(X[:4], kernel) for kernel in kernels),
        Splines.of_knots([[0.0, 1.0, 2.0], [], [-1.0]]),
        PairHistograms.of(Splines.of_knots([[0.0, 1.0], [], [-1.0]]), batch, X[:, 0]),
        PairHistograms.zero(0),
        ThresholdMap.random(np.zeros(D), np.ones(D), 4),
        Learned((learners[0].to_bytes(),) * 2),
        RowsPart(np.arange(9, dtype=np.uint8)),
        StreamState(),
        StreamState(Progress(3, 1, 1, 2.5, {"a": "b"}, {"auc": 0.5}, {"path": "c"}), statistics),
        StoredStage("{}", [1.0] * 10, [stage | {"seconds": 0.5}], learners[0]),
        StoredStage("{}", [1.0] * 10, [], learners[0], measured, np.ones(D)),
    ]
    # A state of few values is valid with tallies too.
    few = ValueCounts.of(X[:, 0])
    tallied = ValueCounts(few.values, few.counts, few._tallied())
    summary = ColumnSummary.of(np.append(X[:, 0], [np.nan, np.inf]))
    states += [few, tallied, summary, RecipeState((summary,) * 2)]
    classes = [
        ClassColumns(10, (ColumnSummary.of(np.append(x, np.nan)),), (few,))
        for x in (X[:, 0], X[:, 1])
    ]
    states += [classes[0], AutoState(*classes), AutoState.zero(0, 1)]
    states += _recipe_states()
    heavy = ValueCounts.of(np.exp2(np.arange(64)))
    scale = RobustScale.of([few.weighted(), heavy.weighted(), ValueCounts.zero().weighted()])
    states += [scale, Composition((scale, FourierMap.random(D, 1.0, 4)))]
    found = {}
    for state in states:
        found.setdefault(type(state), []).append(state.to_bytes())
    return found


def _recipe_states():
    recipe = Recipe((Spline("a", "float", (0.0, 1.0)),), (Tokens("b", "integer"),), 20)
    columns = {"a": Numbers(X[:, 0]), "b": Numbers(np.arange(9) % 4), "c": Numbers(U)}
    seen = Seen.of(recipe, recipe.transform(columns)[:2])
    counts = TokenCounts.of(recipe, np.arange(3, recipe.size), columns)
    many = TokenCounts(counts.features, {key: 9 * rows for key, rows in counts.counts.items()})
    return [Watched(recipe, seen).transform(columns)[1], seen, counts, many]


def rows(columns):
    """Rows of so many columns, dense and CSR; none where memory for them is the caller's care."""
    if columns > WIDEST:
        return []
    dense = np.resize(X, (3, columns))
    return [dense, sparse.csr_matrix(dense)]


def exercise(state):
    """Merge what was read, add rows to it, and use it, as far as its kind is made for that."""
    if hasattr(state, "learn"):
        for some in rows(state.dimension):
            state.learn(some, Y[1:4])
            state.score(some)
    if hasattr(state, "transform"):
        for some in rows(state.input_dimension):
            state.transform(some)
        if state.input_dimension <= WIDEST:
            state.names([str(j) for j in range(state.input_dimension)])
    if hasattr(state, "merge"):
        merged = state.merge(state)
        type(state).from_bytes(merged.to_bytes())
    if use := _USES.get(type(state)):
        use(state)
    state.to_bytes()


def _use_batch(batch):
    batch.keys()
    batch.take(np.arange(batch.y.size)[::2])
    if batch.X.shape[1] <= WIDEST:
        PairMoments.of(batch.X, batch.y, batch.weight)
        ColumnMoments.of(batch)
        RowScores.of(batch, np.ones((1, batch.X.shape[1])))


def _use_class(moments):
    moments.scatter()
    moments.update(rows(moments.dimension)[0])
    moments.scale(0.5).subtract(moments.scale(0.25))
    moments.variance_along(moments.mean)


def _use_pair(moments):
    moments.columns().standard_deviation()
    quadratic = moments.quadratic()
    solve(quadratic, ElasticNet(0.0, 0.1), tol=1e-6, max_iter=50)


def _use_arrivals(first):
    least = min(first.positive.size, first.negative.size)
    if least:
        first.draws(0, least)
        first.cuts(least, 3)
    if first.limit <= WIDEST:
        first.update(Batch(X, Y, U), 1)


def _use_table(table):
    auc(table)
    Ranking.of(table, 0.5, RankingOptions(points=8, bins=2))


def _use_histogram(histogram):
    histogram.auc_bounds()
    histogram.ranges(2)


def _use_ranges(ranges):
    margins = RangeMargins(ranges)
    margins.loss()
    margins.slope(1)
    if ranges.anchor.size:
        margins.gradient_factors()(X[:, 0], U, Y)


def _use_stage(stage):
    exercise(stage.learner)
    assert all(math.isfinite(noted["auc"]) for noted in stage.log)


def _use_recipe(state):
    columns = (Planned(str(k), "float", "spline") for k in range(len(state.columns)))
    RecipePlan(tuple(columns)).fitted(state)


def _use_auto(state):
    numbers, tokens = state.positive.columns
    types = ["float", *["integer", "time"] * numbers][:numbers] + ["text", "boolean"] * tokens
    types = types[: numbers + tokens]
    AutoPlan.of_schema({f"{k}": name for k, name in enumerate(types)}).resolved(state)


_USES = {
    AutoState: _use_auto,
    Batch: _use_batch,
    ClassMoments: _use_class,
    PairMoments: _use_pair,
    ColumnSummary: lambda summary: (summary.scale(), summary.knots(5)),
    ColumnMoments: lambda columns: columns.standard_deviation(),
    HeldOut: lambda found: (found.as_dict(), HeldOut.mean([found, found])),
    Drift: lambda drift: (drift.as_dict(), list(map(str, drift.excesses(drift)))),
    FirstArrivals: _use_arrivals,
    GroupSums: lambda sums: sums.gradients(),
    LabelCounts: lambda counts: counts.classes(None),
    Learned: lambda learned: [DSGD.from_bytes(part) for part in learned.parts],
    MomentsTile: lambda tile: tile.scatter(),
    Overview: lambda overview: (overview.faults.check("x"), _use_histogram(overview.histogram)),
    PairHistograms: lambda histograms: best_pairs(histograms, 3),
    Ranking: lambda ranking: (ranking.auc, ranking.products(0.5), ranking.sweep(np.ones((3, 2)))),
    RecipeState: _use_recipe,
    RowScores: lambda scores: scores.combined(np.ones((1, len(scores.positive) - 1))),
    ScoreHistogram: _use_histogram,
    ScoreRanges: _use_ranges,
    ScoreTable: _use_table,
    Seen: lambda seen: seen.bits.sum(),
    StoredStage: _use_stage,
    StreamState: lambda state: exercise(state.statistics) if state.statistics else None,
    TokenCounts: lambda counts: counts.names(),
    ValueCounts: lambda counts: (counts.distinct, counts.weighted()),
    StreamStatistics: lambda s: (s.auc(), s.auc_bounds(), s.class_rows),
    HeadMoments: lambda m: (_use_pair(m.moments), m.scale(0.5), m.divisors()),
    LowRankMoments: lambda m: (m.scale(0.5), m.divisors()),
}
