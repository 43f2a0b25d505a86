"""Bytes of states under a checksum that holds, but which nothing could have stored."""

from dataclasses import fields

import numpy as np
import pytest
from scipy import sparse

from experiments.comparators.minibatch import MiniBatch
from experiments.comparators.oam import OAM
from experiments.comparators.opauc_projected import opauc_of_columns
from spark_auc.core.batch import Batch
from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.hinge.row_scores import RowScores
from spark_auc.core.labels import LabelCounts
from spark_auc.core.moments.class_moments import ClassMoments
from spark_auc.core.moments.moments_tile import MomentsTile
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.sampling.draws import FirstArrivals
from spark_auc.core.state.codec import decode, encode, version_of
from spark_auc.core.state.schema import REAL, Schema
from spark_auc.errors import ModelFormatError
from spark_auc.features.crosses import CrossMap
from spark_auc.features.nystroem import Kernel, NystroemMap
from spark_auc.features.splines import Splines
from spark_auc.features.thresholds import ThresholdMap
from spark_auc.learners.dsgd import DSGD
from spark_auc.learners.nsauc import NSAUC
from spark_auc.learners.opauc import OPAUC

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(9, 3)), np.arange(9) % 3 == 0
BATCH = Batch(sparse.csr_matrix(X), Y, np.ones(9))
TABLE, HISTOGRAM = ScoreTable.of(X[:, 0], Y), ScoreHistogram.of(X[:, 0], Y, None, 4)
PAIR = PairMoments.of(X, Y)


def learnt(learner):
    learner.learn(X, Y)
    return learner


def whole(*numbers):
    return np.array(numbers, np.int64)


# Kind, what is changed, and what the message names; a change of None leaves the field out.
CASES = [
    (learnt(DSGD(3)), {"z": np.zeros(1)}, "z is"),
    (learnt(DSGD(3)), {"dimension": np.array(2**40)}, "dimension is"),
    (learnt(DSGD(3)), {"dimension": np.array(0)}, "dimension is"),
    (learnt(DSGD(3)), {"gamma": np.array(-1.0)}, "found gamma"),
    (learnt(DSGD(3)), {"gamma": np.array(1)}, "gamma is <i8"),
    (learnt(DSGD(3)), {"steps": np.array(-1)}, "steps is not"),
    (learnt(DSGD(3)), {"scale": np.array(0.0)}, "scale is not"),
    (learnt(DSGD(3)), {"steps": None}, "its field steps is missing"),
    (learnt(DSGD(3)), {"learn": np.zeros(1)}, "it has an unknown field 'learn'"),
    (learnt(DSGD(3)), {"z": b"SAUC" * 4}, "z is a state"),
    (learnt(NSAUC(3)), {"loss": np.array("squared")}, "found loss"),
    (learnt(OPAUC(3)), {"scatter": np.zeros((2, 1, 1))}, "scatter is"),
    (learnt(OPAUC(3)), {"rows": np.array([-1.0, 3.0])}, "rows is not"),
    (learnt(OAM(3, buffer=2)), {"lengths": np.full((2, 2), 9, np.uint32)}, "a row of 9 entries"),
    (
        learnt(OAM(3, buffer=2)),
        {"kept_indices": np.full((2, 2, 3), 2**31, np.uint32)},
        "column indices outside",
    ),
    (learnt(OAM(3, buffer=2)), {"buffer": np.array(7)}, "which is no buffer|is <f8|is <u4"),
    (learnt(MiniBatch(3, batch=4)), {"waiting_starts": np.array([0, 9], np.uint32)}, "ascend"),
    (opauc_of_columns(5, 2, 0.1, 0.1), {"indices": np.full(2, 2, np.int32)}, "column indices"),
    (opauc_of_columns(5, 2, 0.1, 0.1), {"indices": None}, "part of its map is missing"),
    (opauc_of_columns(5, 2, 0.1, 0.1), {"inner": OPAUC(9).to_bytes()}, "5 features to 9"),
    (opauc_of_columns(5, 2, 0.1, 0.1), {"inner": DSGD(2).to_bytes()}, "expected 'OPAUC'"),
    (BATCH, {"indices": np.full(27, 3, np.int32)}, "column indices outside 0 to 2"),
    (BATCH, {"indices": np.full(27, -1, np.int32)}, "column indices outside 0 to 2"),
    (BATCH, {"indptr": np.arange(10, dtype=np.int32)}, "row starts"),
    (BATCH, {"indptr": np.array([0, 27, 0, *[27] * 7], np.int32)}, "row starts"),
    (BATCH, {"shape": whole(9, 2**40)}, "its rows are not"),
    (BATCH, {"weight": np.array([0.0] * 9)}, "weight is not"),
    (BATCH, {"weight": np.array([np.nan] * 9)}, "weight is not"),
    (BATCH, {"y": Y[:8]}, "y is"),
    (BATCH, {"X": X}, "dense and sparse"),
    (BATCH, {"data": None}, "has no rows"),
    (PAIR.positive.tiles[0], {"rows": np.array(0)}, "0 rows weigh 3"),
    (PAIR.positive.tiles[0], {"weight": np.array(np.inf)}, "weigh inf"),
    (PAIR.positive.tiles[0], {"gram": np.zeros((3, 2))}, "gram is"),
    (PAIR.positive, {"dimension": np.array(2)}, "tiles are not those of 2"),
    (PAIR.positive, {"tiles/1": PAIR.positive.tiles[0].to_bytes()}, "tiles are not those"),
    (PAIR.positive, {"tiles/0": None}, "tiles are not those"),
    (PAIR, {"positive": ClassMoments.zero(2).to_bytes()}, r"\[2, 3\] features"),
    (TABLE, {"score": TABLE.score[::-1]}, "score is not"),
    (TABLE, {"sums": np.zeros((3, 2, 9))}, "no weight"),
    (HISTOGRAM, {"facts": whole(65, 4)}, "2\\^65"),
    (HISTOGRAM, {"facts": whole(3, 2)}, "of at most 2"),
    (HISTOGRAM, {"score": HISTOGRAM.table.score + 1e-9}, "not the starts of bins"),
    (
        RowScores(np.ones((2, 3)), np.ones((2, 4))),
        {"negative": np.ones((3, 4))},
        "negative is .* vectors = 1",
    ),
    (RowScores(np.ones((2, 3)), np.ones((2, 4))), {"negative": -np.ones((2, 4))}, "its weights"),
    (FirstArrivals.zero(9), {"positive": np.array([2.0, 1.0])}, "positive is not"),
    (FirstArrivals.zero(1), {"positive": np.array([1.0, 2.0])}, "2 draws of at most 1"),
    (LabelCounts({1.0: 3}), {"values": np.ones(2), "rows": whole(1, 2)}, "is repeated"),
    (LabelCounts({1.0: 3}), {"rows": whole(-1)}, "rows is not"),
    (CrossMap(3), {"bits": np.array(63)}, "found bits"),
    (
        ThresholdMap.random(np.zeros(3), np.ones(3), 2),
        {"columns": whole(0, 3)},
        "column indices outside",
    ),
    (Splines.of_knots([[1.0, 2.0]]), {"starts": whole(0, 5)}, "row starts"),
    (Splines.of_knots([[1.0, 2.0]]), {"knots": np.array([2.0, 1.0])}, "do not increase"),
    (NystroemMap.of_landmarks(X, Kernel()), {"scale": np.zeros(3)}, "scale is not"),
    (NystroemMap.of_landmarks(X, Kernel()), {"name": np.array("exec")}, "found kernel"),
]


@pytest.mark.parametrize(("state", "change", "message"), CASES)
def test_what_nothing_could_have_stored_is_refused(state, change, message):
    kind = type(state)
    version = version_of(state.to_bytes())
    stored = decode(kind.__name__, version, state.to_bytes())
    arrays = {k: bytes(a) if isinstance(a, memoryview) else a for k, a in stored.items()}
    assert kind.from_bytes(encode(kind.__name__, version, arrays)).to_bytes() == state.to_bytes()
    arrays = {k: a for k, a in (arrays | change).items() if a is not None}
    with pytest.raises(ModelFormatError, match=message):
        kind.from_bytes(encode(kind.__name__, version, arrays))


def test_methods_are_not_restored():
    restored = DSGD.from_bytes(DSGD(3).to_bytes())
    assert vars(restored).keys() == {field.name for field in fields(DSGD)}
    assert callable(restored.learn)


def test_a_field_without_a_line_is_noticed():
    schema = Schema("numbers", 1, {"a": REAL})
    assert schema.decode(schema.encode({"a": 1})) == {"a": 1.0}
    for values in ({}, {"a": 1.0, "b": 2.0}):
        with pytest.raises(TypeError, match="give its schema a line"):
            schema.encode(values)


def test_what_overflowed_is_kept():
    learner = learnt(DSGD(3))
    learner.z[:] = np.inf, -np.inf, np.nan
    np.testing.assert_array_equal(DSGD.from_bytes(learner.to_bytes()).z, learner.z)
    nothing = np.zeros((2, 1))
    tile = MomentsTile(1, 1.0, nothing, nothing, np.full((1, 1), np.inf), nothing[0])
    assert MomentsTile.from_bytes(tile.to_bytes()).gram == np.inf
