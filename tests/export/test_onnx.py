"""Rankers as ONNX models, run by onnxruntime, against the scores of `ServedRanker`."""

import json
import subprocess
import sys

import numpy as np
import pytest

from spark_auc.core.segments import SegmentWeights
from spark_auc.errors import ConfigError
from spark_auc.export.onnx_model import onnx_bytes, to_onnx
from spark_auc.export.sql import to_sql
from spark_auc.features.composition import Composition
from spark_auc.features.crosses import CrossMap
from spark_auc.features.fourier import FourierMap
from spark_auc.features.kernels import Kernel
from spark_auc.features.kinds.leaves import TreeLeaves
from spark_auc.features.kinds.parts_of_times import Hour
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.network import NetworkMap
from spark_auc.features.nystroem import NystroemMap
from spark_auc.features.recipe import Recipe
from spark_auc.features.robust_scale import RobustScale
from spark_auc.features.splines import Splines
from spark_auc.features.thresholds import ThresholdMap
from spark_auc.serving.linear_scorer import LinearScorer, SegmentScorer
from spark_auc.serving.ranker import ServedRanker
from spark_auc.serving.score_curves import Isotone, Sigmoid
from spark_auc.trees.forest import CATEGORICAL, Forest, Tree
from tests.export.rankers import (
    SETTINGS_OF_CODES,
    ranker,
    ranker_of_codes,
    ranker_of_words,
    recipe,
    rows,
    spread,
)

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
RNG = np.random.default_rng(5)
PLATT = Sigmoid(1.3, -0.2)
ISOTONE = Isotone(np.array([-1.0, -0.25, 0.5, 2.0]), np.array([0.01, 0.2, 0.2, 0.97]))


def run(content, inputs):
    """The outputs of a model by name."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"])
    assert {i.type for i in session.get_inputs()} <= {"tensor(double)", "tensor(string)"}
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True))


def inputs_of(table):
    """Doubles of each column, NaN for missing values."""
    return {name: np.array(table[name].to_pylist(), float) for name in table.column_names}


@pytest.mark.parametrize("curve", [PLATT, ISOTONE], ids=["platt", "isotonic"])
@pytest.mark.parametrize("unit", [True, False], ids=["unit", "plain"])
@pytest.mark.parametrize("missing", ["indicator", "ignore"])
def test_recipes_score_as_in_python(curve, unit, missing):
    served, table = ranker(21, curve, unit=unit, missing=missing), rows(21)
    found = run(onnx_bytes(served), inputs_of(table))
    expected = served.score(table)
    assert found["score"].shape == expected.shape
    np.testing.assert_allclose(found["score"], expected, rtol=0, atol=1e-9 * spread(expected))
    np.testing.assert_allclose(found["probability"], served.probability(table), rtol=0, atol=1e-9)
    assert set(found) == {"score", "probability"}


@pytest.mark.parametrize("boundaries", [[0.3], [0.3, 0.4]])
def test_curves_of_few_boundaries(boundaries):
    heights = np.linspace(0.2, 0.9, len(boundaries))
    curve = Isotone(np.array(boundaries), heights)
    served = ServedRanker(LinearScorer(np.ones(1), 0, 1, 0), None, (), curve)
    x = np.array([[-5.0], [0.3], [0.35], [0.4], [1e308]])
    found = run(onnx_bytes(served), {"features": x})["probability"]
    np.testing.assert_allclose(found, served.probability(x), rtol=1e-14)


def test_rows_without_features_and_no_rows():
    made = Recipe(
        (Spline("a", "float", (0.0, 1.0)), Spline("b", "float", (0.0, 2.0))), missing="ignore"
    )
    served = ServedRanker(LinearScorer(np.arange(1.0, 5.0), 0.0, 1, 0), made)
    content = onnx_bytes(served)
    nan = np.array([np.nan, 0.5])
    np.testing.assert_allclose(
        run(content, {"a": nan, "b": nan})["score"],
        [0.0, served.score({"a": 0.5, "b": 0.5})],
        rtol=1e-14,
    )
    empty = np.empty(0)
    assert run(content, {"a": empty, "b": empty})["score"].shape == (0,)
    one = np.array([0.25])
    assert run(content, {"a": one, "b": one})["score"].shape == (1,)


def test_times_are_days():
    made = Recipe((Spline("when", "time", (0.0, 1.5, 10.0)),), unit=False)
    served = ServedRanker(LinearScorer(RNG.normal(size=made.size), 0.0, 1, 0), made)
    hours = np.arange(0, 400, 7)
    times = [np.datetime64(int(h), "h").astype("M8[us]") for h in hours]
    expected = np.array([served.score({"when": time}) for time in [*times, None]])
    found = run(onnx_bytes(served), {"when": np.append(hours / 24, np.nan)})
    np.testing.assert_allclose(
        found["score"], expected, rtol=0, atol=1e-9 * spread(np.array(expected))
    )


DISTANCES, FAR = ("gaussian", "laplacian"), 1e6


def embeddings(d):
    """Embeddings of dense rows of ``d`` columns."""
    near, far = RNG.normal(size=(9, d)), FAR * (np.arange(d) == 1)
    scale = RNG.uniform(0.5, 2, d)
    kernels = [
        Kernel("gaussian", 3.0 * d),
        Kernel("laplacian", 2.0 * d),
        Kernel("polynomial", 10.0, 3, 0.7),
        Kernel("linear", 1.7),
    ]
    # Distances do not change where a column is far from 0; products lose their digits.
    nystroem = [
        NystroemMap.of_landmarks(near + far * (k.name in DISTANCES), k, rank=6, scale=scale)
        for k in kernels
    ]
    fourier = FourierMap.random(d, 2.0 * d, 12, 3)
    network = NetworkMap.random(d, 11, 0.7, 4)
    stumps = ThresholdMap.random(np.zeros(d), np.ones(d), 20, 5)
    return [*nystroem, fourier, network, stumps, Composition((network, FourierMap.random(11, 9.0)))]


@pytest.mark.parametrize("number", range(8))
def test_embeddings_of_features(number):
    d = 5
    embedding = embeddings(d)[number]
    scorer = LinearScorer(RNG.normal(size=embedding.dimension), 0.1, 1, 0)
    served = ServedRanker(scorer, None, (embedding,), PLATT)
    X = RNG.normal(size=(200, d))
    if isinstance(embedding, NystroemMap):
        # Beside the landmarks.
        far = FAR * (np.arange(d) == 1) * (embedding.kernel.name in DISTANCES)
        X = (X + far) * embedding.scale
    expected = served.score(X)
    found = run(onnx_bytes(served), {"features": X})
    np.testing.assert_allclose(found["score"], expected, rtol=0, atol=1e-6 * spread(expected))
    np.testing.assert_allclose(found["probability"], served.probability(X), rtol=0, atol=1e-6)


def raw_values(splines):
    """Finite values at and beside knots, and far beyond."""
    knots = splines.knots
    values = np.concatenate([knots, np.nextafter(knots, 9e9), RNG.normal(size=50), [1e308, -1e308]])
    return RNG.choice(values, (300, splines.input_dimension))


def test_embeddings_of_raw_columns():
    splines = Splines.of_knots([[0.0, 0.5, 2.0], [1.0], [], [-1e308, 1.0, 1.7e308]])
    scale = RobustScale.of(
        [
            (np.array([0.0, 0.5, 2.0]), np.array([3.0, 2.0, 4.0])),
            (np.array([1.0]), np.array([9.0])),
            (np.empty(0), np.empty(0)),
            (np.append(np.arange(80.0) ** 2, 1e9), np.ones(81)),
        ]
    )
    X = raw_values(splines)
    for maps in ((splines,), (scale, NetworkMap.random(4, 6)), (Composition((scale, splines)),)):
        w = RNG.normal(size=maps[-1].dimension)
        served = ServedRanker(LinearScorer(w, 0.0, 1, 0), None, maps)
        expected = served.score(X)
        content = onnx_bytes(served)
        found = run(content, {"features": X})["score"]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * spread(expected))
        # `score` refuses missing values of features; the maps of columns take them.
        X_missing = X.copy()
        X_missing[::3, 0], X_missing[::5, 3], X_missing[1::3, 0] = np.nan, np.nan, np.inf
        Y = X_missing
        for part in maps:
            Y = part.transform(Y)
        found = run(content, {"features": X_missing})["score"]
        np.testing.assert_allclose(found, Y @ w, rtol=0, atol=1e-9 * spread(expected))


def test_an_embedding_of_a_recipe():
    made = recipe(31)
    fourier = FourierMap.random(made.size, 1.5, 16, 2)
    served = ServedRanker(LinearScorer(RNG.normal(size=16), 0.1, 1, 0), made, (fourier,), ISOTONE)
    table = rows(31)
    expected = served.score(table)
    found = run(onnx_bytes(served), inputs_of(table))
    np.testing.assert_allclose(found["score"], expected, rtol=0, atol=1e-6 * spread(expected))
    np.testing.assert_allclose(found["probability"], served.probability(table), rtol=0, atol=1e-6)


def test_trees_alone_even_of_one_leaf():
    none = np.empty(0, np.int64)
    leaf = Tree(none, np.empty(0), none, none, none, [], np.zeros(1, np.int64), np.zeros(1))
    one, two = np.zeros(1, np.int64), np.arange(2)
    # Thresholds that float32 would round, beside the values that it would round to them.
    split = Tree(one, np.array([0.1]), one, one - 1, one - 2, [np.empty(0, np.uint32)], two, two)
    for trees in ([leaf, leaf], [leaf, split], [split, leaf, split]):
        made = Recipe((), trees=TreeLeaves.of(Forest.of(1, "exact", trees), {"a": "float"}))
        served = ServedRanker(LinearScorer(RNG.normal(size=made.size), 0.0, 1, 0), made)
        a = np.array([0.1, np.nextafter(0.1, 1), float(np.float32(0.1)), np.nan, -np.inf, np.inf])
        expected = [served.score({"a": value}) for value in a]
        np.testing.assert_allclose(run(onnx_bytes(served), {"a": a})["score"], expected, rtol=1e-14)


def test_columns_that_no_tree_splits_are_no_inputs():
    one, two = np.zeros(1, np.int64), np.arange(2)
    split = Tree(one + 2, np.ones(1), one, one - 1, one - 2, [np.empty(0, np.uint32)], two, two)
    types = {"town": "text", "when": "time", "b": "float"}
    trees = TreeLeaves.of(Forest.of(3, "exact", [split]), types, values={"town": ["x"]})
    served = ServedRanker(LinearScorer(np.array([2.0, 3.0]), 0, 1, 0), Recipe((), trees=trees))
    b = np.array([0.5, 1.5, np.nan])
    assert run(onnx_bytes(served), {"b": b})["score"].tolist() == [2.0, 3.0, 3.0]
    none = {"town": None, "when": None}
    assert [served.score(none | {"b": value}) for value in b] == [2.0, 3.0, 3.0]
    assert "town" not in to_sql(served).score


@pytest.mark.parametrize("with_numbers", [True, False])
@pytest.mark.parametrize("categories", ["exact", "truncated", "float32"])
def test_trees_of_text(categories, with_numbers):
    served, table = ranker_of_words(categories, with_numbers)
    expected = served.score(table)
    inputs = {"the town": np.array([w or "" for w in table["the town"].to_pylist()], object)}
    if with_numbers:
        inputs["size"] = np.array(table["size"].to_pylist(), float)
    found = run(onnx_bytes(served), inputs)["score"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * spread(expected))


@pytest.mark.parametrize("embedded", [False, True])
@pytest.mark.parametrize("settings", SETTINGS_OF_CODES, ids=str)
def test_tokens_of_known_values(settings, embedded):
    served, table = ranker_of_codes(5, curve=PLATT, **settings)
    if embedded:
        fourier = FourierMap.random(served.recipe.size, 1.5, 16, 2)
        scorer = LinearScorer(RNG.normal(size=16), 0.1, 1, 0)
        served = ServedRanker(scorer, served.recipe, (fourier,), PLATT)
    expected = served.score(table)
    names = served.columns
    found = run(onnx_bytes(served), inputs_of(table.select(names)))
    atol = (1e-6 if embedded else 1e-9) * spread(expected)
    np.testing.assert_allclose(found["score"], expected, rtol=0, atol=atol)
    np.testing.assert_allclose(found["probability"], served.probability(table), rtol=0, atol=1e-6)
    empty = inputs_of(table.select(names).slice(0, 0))
    assert run(onnx_bytes(served), empty)["score"].shape == (0,)


def test_trees_of_text_without_splits_or_words():
    none = np.empty(0, np.int64)
    leaf = Tree(none, np.empty(0), none, none, none, [], np.zeros(1, np.int64), np.zeros(1))
    for words in ((), ("x",)):
        trees = TreeLeaves.of(
            Forest.of(1, "exact", [leaf, leaf]), {"a": "text"}, values={"a": words}
        )
        served = ServedRanker(LinearScorer(np.array([2.0, 3.0]), 0, 1, 0), Recipe((), trees=trees))
        texts = np.array(["x", "", "y"], object)
        expected = [served.score({"a": text}) for text in texts]
        np.testing.assert_allclose(run(onnx_bytes(served), {"a": texts})["score"], expected)


def test_the_model_says_what_it_is(tmp_path):
    served = ranker(1, PLATT, ("yes", "no"))
    to_onnx(served, str(tmp_path / "made" / "ranker.onnx"))
    model = onnx.load(tmp_path / "made" / "ranker.onnx")
    assert (model.producer_name, model.producer_version) == ("spark_auc", "0.1.0")
    facts = {p.key: json.loads(p.value) for p in model.metadata_props}
    assert facts == {
        "positive": "yes",
        "negative": "no",
        "threshold": served.threshold,
        "columns": list(served.columns),
    }
    said = {i.name: i.doc_string for i in model.graph.input}
    assert list(said) == list(served.columns)
    assert said["flag"] == "0 or 1; NaN if missing"
    with pytest.raises(ConfigError, match="already"):
        to_onnx(served, str(tmp_path / "made" / "ranker.onnx"))
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["ranker.onnx"]


def refusals():
    numeric = (Spline("a", "float", (0.0, 1.0)),)
    segments = SegmentScorer("city", SegmentWeights(("x",), np.ones((2, 3)), np.zeros(2)))
    hashed = Recipe(numeric, (Hour("when", "time"),))
    crossed = CrossMap(3, 4, 0)
    split = Tree(
        *(np.zeros(1, np.int64), np.zeros(1), np.array([CATEGORICAL]), np.array([-1])),
        *(np.array([-2]), [np.ones(1, np.uint32)], np.arange(2), np.zeros(2)),
    )
    codes = TreeLeaves.of(Forest.of(1, "exact", [split]), {"code": "integer"})
    return [
        (
            ServedRanker(LinearScorer(np.ones(codes.size), 0, 1, 0), Recipe((), trees=codes)),
            "categories of column 'code'",
        ),
        (ServedRanker(LinearScorer(np.ones(hashed.size), 0, 1, 0), hashed), "column 'when'"),
        (
            ServedRanker(LinearScorer(np.ones(3), 0, 1, 0, segments=segments), Recipe(numeric)),
            "city",
        ),
        (
            ServedRanker(LinearScorer(np.ones(crossed.dimension), 0, 1, 0), None, (crossed,)),
            "embedding CrossMap",
        ),
        (
            ServedRanker(
                LinearScorer(np.ones(3), 0, 1, 0),
                Recipe(numeric),
                curve=Isotone(np.array([1.0, 1.0]), np.array([0.1, 0.2])),
            ),
            "increasing",
        ),
    ]


@pytest.mark.parametrize(("served", "said"), refusals())
def test_what_cannot_be_said_is_refused_by_name(served, said, tmp_path):
    with pytest.raises(ConfigError, match=said):
        to_onnx(served, str(tmp_path / "model.onnx"))
    assert not list(tmp_path.iterdir())


def test_without_onnx_the_extra_is_named():
    code = (
        "import sys; sys.modules['onnx'] = None\n"
        "import numpy as np\n"
        "from spark_auc import ServedRanker, to_onnx, to_sql\n"
        "from spark_auc.serving.linear_scorer import LinearScorer\n"
        "to_onnx(ServedRanker(LinearScorer(np.ones(2), 0.0, 1, 0)), 'x.onnx')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert ended.returncode
    assert "run pip install 'spark-auc[onnx]'" in ended.stderr.splitlines()[-1]
