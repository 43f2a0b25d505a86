"""Scores of rows in this process: one row at a time, tables, and arrays of features."""

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse

from spark_auc.core.products import settled_scores
from spark_auc.core.segments import SegmentWeights
from spark_auc.errors import ConfigError, DataError, ModelFormatError
from spark_auc.features.fourier import FourierMap
from spark_auc.features.kinds.parts_of_times import Hour
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.kinds.tokens import Tokens
from spark_auc.features.recipe import Recipe
from spark_auc.serving.linear_scorer import LinearScorer, SegmentScorer
from spark_auc.serving.ranker import ServedRanker
from spark_auc.serving.score_curves import Isotone, Sigmoid
from spark_auc.serving.stored_stage import StoredStage
from spark_auc.tables.arrow_columns import raw_column

RECIPE = Recipe(
    (Spline("age", "integer", (0.0, 30.0, 90.0)),),
    (Tokens("city", "text"), Tokens("code", "integer"), Hour("time", "time")),
    dimension=64,
)
RNG = np.random.default_rng(0)
W = RNG.normal(size=RECIPE.size)
SCORER = LinearScorer(W, 0.1, "yes", "no")
N = 40
FRAME = pd.DataFrame(
    {
        "age": pd.array(RNG.integers(0, 99, N), "Int64"),
        "city": RNG.choice(["", "a", "ö", "long name"], N),
        "code": RNG.integers(0, 5, N),
        "time": pd.to_datetime(RNG.integers(0, 10**9, N), unit="s"),
        "other": RNG.normal(size=N),
    }
)
FRAME.loc[3, "age"] = pd.NA
FRAME.loc[4, "city"] = None
FRAME.loc[5, "time"] = pd.NaT


@pytest.mark.parametrize("name", ["age", "city", "code", "time"])
def test_a_column_of_nan_alone_has_no_value(name):
    ranker, row = ServedRanker(SCORER, RECIPE), FRAME.iloc[8].to_dict()
    frame = pd.DataFrame([row | {name: None}] * 2).assign(**{name: np.nan})
    assert frame[name].dtype == float
    assert ranker.score(frame).tolist() == [ranker.score(row | {name: None})] * 2


def test_rows_tables_and_frames_have_the_same_scores():
    ranker = ServedRanker(SCORER, RECIPE)
    table = pa.Table.from_pandas(FRAME, preserve_index=False)
    expected = ranker.score(table)
    assert expected.shape == (N,)
    assert len(set(expected.tolist())) > 10
    chunks = pa.concat_tables([table.slice(0, 7), table.slice(7)])
    for form in (FRAME, chunks, chunks.combine_chunks().to_batches()[0]):
        assert ranker.score(form).tobytes() == expected.tobytes()
    for row, score in zip(FRAME.to_dict("records"), expected.tolist(), strict=True):
        assert ranker.score(row) == score
    for row, score in zip(table.to_pylist(), expected.tolist(), strict=True):
        found = ranker.score(row)
        assert type(found) is float
        assert found == score
    assert ranker.columns == ("age", "city", "code", "time")
    labels = ranker.predict(FRAME)
    np.testing.assert_array_equal(labels, np.where(expected > 0.1, "yes", "no"))
    assert ranker.predict(table.to_pylist()[0]) == labels[0]
    assert ranker.score(table.slice(0, 0)).shape == (0,)


def test_whole_numbers_among_missing_ones_are_integers_in_pandas():
    frame = FRAME.assign(age=FRAME["age"].astype(float), code=FRAME["code"].astype(float))
    ranker = ServedRanker(SCORER, RECIPE)
    np.testing.assert_array_equal(ranker.score(frame), ranker.score(FRAME))
    frame.loc[7, "code"] = np.nan
    found = ranker.score(frame)
    assert found[7] == ranker.score(frame.to_dict("records")[7]) != ranker.score(FRAME)[7]
    frame.loc[7, "code"] = 1.5
    with pytest.raises(DataError, match="column 'code' of type float, expected type integer"):
        ranker.score(frame)


def test_whole_numbers_of_a_column_of_several_kinds():
    """A spline takes floats, and tokens of the same column do not."""
    recipe = Recipe((Spline("k", "integer", (0.0, 9.0)),), (Tokens("k", "integer"),), dimension=16)
    ranker = ServedRanker(LinearScorer(RNG.normal(size=recipe.size), 0.0, 1, 0), recipe)
    rows = [{"k": 3}, {"k": None}, {"k": 7}]
    frame = pd.DataFrame({"k": [3.0, np.nan, 7.0]})
    assert ranker.score(frame).tolist() == [ranker.score(row) for row in rows]


@pytest.mark.parametrize("kind", ["text", "boolean", "integer", "float", "time"])
def test_a_column_without_any_value(kind):
    """Such a column of pandas or JSON has no type of its own."""
    numeric = (Spline("s", kind, (0.0, 30.0)),) if kind in ("integer", "float", "time") else ()
    hashed = (Tokens("t", kind),) if kind in ("text", "integer", "boolean") else ()
    recipe = Recipe(numeric, hashed, dimension=16)
    ranker = ServedRanker(LinearScorer(RNG.normal(size=recipe.size), 0.0, 1, 0), recipe)
    row = dict.fromkeys(ranker.columns)
    expected = ranker.score(row)
    assert expected != 0.0
    assert ranker.score(pd.DataFrame([row, row])).tolist() == [expected, expected]
    assert ranker.score(pa.Table.from_pylist([row])).tolist() == [expected]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("city", ["a", "ö", None, "elsewhere"]),
        ("code", [1, 2, None, 9]),
        ("flag", [True, False, None, True]),
        ("day", [datetime.date(2024, 2, 29), datetime.date(1, 1, 1), None, datetime.date.max]),
    ],
)
def test_rankers_of_segments(column, values):
    known = tuple(sorted(str(pa.array([v]).cast(pa.string())[0]) for v in values[:2]))
    weights = SegmentWeights(known, RNG.normal(size=(3, RECIPE.size)), RNG.normal(size=3))
    ranker = ServedRanker(
        LinearScorer(W, 0.0, 1, 0, segments=SegmentScorer(column, weights)), RECIPE
    )
    rows = FRAME.iloc[:4].drop(columns=[column], errors="ignore")
    table = pa.Table.from_pandas(rows, preserve_index=False)
    if column == "code":
        table = table.append_column("code", pa.array(values, pa.int64()))
    else:
        table = table.append_column(column, pa.array(values))
    X = RECIPE.transform({c.name: v for c in RECIPE.columns for v in [_column(c.name, table)]})
    texts = [None if v is None else str(pa.array([v]).cast(pa.string())[0]) for v in values]
    number = [known.index(text) if text in known else 2 for text in texts]
    expected = [
        settled_scores(X[i], weights.W[s])[0] + weights.intercept[s] for i, s in enumerate(number)
    ]
    assert number[2:] == [2, 2] or column == "flag"
    assert ranker.score(table).tolist() == expected
    assert [ranker.score(row) for row in table.to_pylist()] == expected
    assert column in ranker.columns
    with pytest.raises(DataError, match=f"no segment column '{column}'|no column '{column}'"):
        ranker.score(table.drop_columns([column]))


@pytest.mark.parametrize(
    ("values", "known"),
    [
        (["x", None, "y", "other"], ("x", "y")),
        ([1, None, 2, 7], ("1", "2")),
        ([True, None, False, True], ("false", "true")),
    ],
    ids=["text", "integers", "booleans"],
)
def test_segments_of_features_in_every_form(values, known):
    """pandas makes floats of integers among which some are missing."""
    weights = SegmentWeights(known, RNG.normal(size=(3, 2)), RNG.normal(size=3))
    segments = SegmentScorer("kind", weights)
    ranker = ServedRanker(LinearScorer(np.ones(2), 0.0, 1, 0, ("b", "a"), segments))
    table = pa.table({"a": RNG.normal(size=4), "kind": pa.array(values), "b": RNG.normal(size=4)})
    expected = ranker.score(table).tolist()
    assert len(set(expected)) == 4
    frame = table.to_pandas()
    for form in (frame, frame.convert_dtypes(), table.to_batches()[0]):
        assert ranker.score(form).tolist() == expected
    for rows in (table.to_pylist(), frame.to_dict("records")):
        assert [ranker.score(row) for row in rows] == expected
    row = {"a": table["a"][1].as_py(), "b": table["b"][1].as_py()}
    for missing in (None, np.nan, pd.NA, pd.NaT, np.float32("nan")):
        assert ranker.score(row | {"kind": missing}) == expected[1]
    for wrong in (1.5, b"x", ["x"], object(), 2**70, datetime.datetime(2024, 1, 1)):
        with pytest.raises(DataError, match="found segment column 'kind' of"):
            ranker.score(row | {"kind": wrong})
    with pytest.raises(ConfigError, match="class list for rankers of the segments of column 'kin"):
        ranker.score([1.0, 2.0])


def test_columns_that_the_ranker_does_not_know_may_be_anything():
    ranker = ServedRanker(SCORER, RECIPE)
    others = FRAME.assign(mixed=[1, "x"] * 20, things=[object()] * N, **{"": 1})
    twice = pd.concat([others, others[["mixed"]]], axis=1)
    np.testing.assert_array_equal(ranker.score(twice), ranker.score(FRAME))
    table = pa.Table.from_pandas(FRAME)
    table = table.append_column("other", table["age"])
    np.testing.assert_array_equal(ranker.score(table), ranker.score(FRAME))


def test_columns_that_are_there_twice_or_of_several_classes():
    ranker = ServedRanker(SCORER, RECIPE)
    table = pa.Table.from_pandas(FRAME)
    for form in (
        pd.concat([FRAME, FRAME[["age"]]], axis=1),
        table.append_column("age", table["age"]),
        table.append_column("age", table["age"]).combine_chunks().to_batches()[0],
    ):
        with pytest.raises(DataError, match="found 2 columns 'age', expected one"):
            ranker.score(form)
    for column, wrong in (("city", 3), ("age", "x"), ("code", 2**70)):
        mixed = FRAME.assign(**{column: [*FRAME[column].astype(object)[:-1], wrong]})
        with pytest.raises(DataError, match=f"values in column '{column}' that have no ty"):
            ranker.score(mixed)


def test_fields_of_structs():
    """A column of the name itself goes before a field; a missing struct has missing fields."""
    recipe = Recipe(
        (Spline("user.age", "float", (0.0, 30.0, 90.0)),),
        (Tokens("user.at.city", "text"), Tokens("user.kind", "text")),
        dimension=64,
    )
    ranker = ServedRanker(LinearScorer(RNG.normal(size=recipe.size), 0.0, 1, 0), recipe)
    rows = [
        {"user": {"age": 3.0, "at": {"city": "ö"}, "kind": "no"}, "user.kind": "x"},
        {"user": {"age": None, "at": {"city": None}, "kind": "no"}, "user.kind": None},
        {"user": {"age": 50.0, "at": None, "kind": "no"}, "user.kind": "y"},
        {"user": None, "user.kind": "x"},
    ]
    flat = [
        {"user.age": 3.0, "user.at.city": "ö", "user.kind": "x"},
        {"user.age": None, "user.at.city": None, "user.kind": None},
        {"user.age": 50.0, "user.at.city": None, "user.kind": "y"},
        {"user.age": None, "user.at.city": None, "user.kind": "x"},
    ]
    expected = [ranker.score(row) for row in flat]
    assert len(set(expected)) == 4
    assert [ranker.score(row) for row in rows] == expected
    table = pa.Table.from_pylist(rows)
    assert ranker.score(pa.concat_tables([table.slice(1), table.slice(0, 1)])).tolist() == [
        *expected[1:],
        expected[0],
    ]
    assert ranker.score(pd.DataFrame(rows)).tolist() == expected
    assert ranker.score(pa.Table.from_pylist(rows[3:])).tolist() == expected[3:]
    dotted = [{"user.at": {"city": "ö"}, "user": {"age": 3.0}, "user.kind": "x"}]
    assert ranker.score(dotted[0]) == ranker.score(pa.Table.from_pylist(dotted))[0] == expected[0]
    without = [{"user": {"age": 3.0, "at": {"town": "ö"}}, "user.kind": "x"}]
    for form in (without[0], pa.Table.from_pylist(without), pd.DataFrame(without)):
        with pytest.raises(DataError, match=r"no column 'user\.at\.city' among"):
            ranker.score(form)
    features = ServedRanker(LinearScorer(np.array([1.0, -2.0]), 0.0, 1, 0, ("u.a", "b")))
    row = {"u": {"a": 3.0}, "b": 1.0}
    assert features.score(row) == features.score(pa.Table.from_pylist([row]))[0] == 1.0


def _column(name, table):
    return raw_column(name, table[name].combine_chunks())


def test_embeddings_and_calibrations():
    fourier = FourierMap.random(RECIPE.size, 0.5, 8, 1)
    ranker = ServedRanker(
        LinearScorer(RNG.normal(size=fourier.dimension), 0.0, 1, 0),
        RECIPE,
        (fourier,),
        Sigmoid(2.0, -1.0),
    )
    scores = ranker.score(FRAME)
    rows = FRAME.to_dict("records")
    assert [ranker.score(row) for row in rows] == scores.tolist()
    np.testing.assert_allclose(ranker.probability(FRAME), 1 / (1 + np.exp(1 - 2 * scores)))
    assert [ranker.probability(row) for row in rows] == ranker.probability(FRAME).tolist()
    curve = Isotone(np.array([-1.0, 1.0]), np.array([0.0, 1.0]))
    isotone = ServedRanker(ranker.scorer, RECIPE, (fourier,), curve)
    np.testing.assert_allclose(isotone.probability(FRAME), np.clip((scores + 1) / 2, 0, 1))


def test_features_without_a_recipe():
    ranker = ServedRanker(LinearScorer(np.array([1.0, -2.0]), 0.0, 1, 0))
    X = RNG.normal(size=(5, 2))
    expected = settled_scores(X, ranker.scorer.w)
    np.testing.assert_array_equal(ranker.score(X), expected)
    twice = sparse.csr_matrix((np.array([1.0, 2.0, 3.0]), [1, 0, 1], [0, 3]), (1, 2))
    assert ranker.score(twice).tolist() == [2.0 - 8.0]
    assert ranker.score([3.0, 1.0]) == 1.0
    assert ranker.columns is None
    for wrong, said in (
        (X[:, :1], r"shape \(5, 1\), expected \(n, 2\)"),
        ([1.0, np.nan], "features that are missing, NaN or infinite"),
        ([[np.inf, 1.0]], "features that are missing, NaN or infinite"),
    ):
        with pytest.raises(DataError, match=said):
            ranker.score(wrong)
    for named in ({"a": 1.0}, pd.DataFrame(X)):
        with pytest.raises(ConfigError, match="for features without names, expected an array"):
            ranker.score(named)
    with pytest.raises(ConfigError, match="class list for a ranker of features"):
        ranker.score(["a", "b"])


def test_features_are_taken_by_their_names():
    """The order of the columns of a table does not count."""
    ranker = ServedRanker(LinearScorer(np.array([1.0, -2.0]), 0.0, 1, 0, names=("b", "a")))
    frame = pd.DataFrame({"a": [1, 2], "other": ["x", "y"], "b": [5.0, 7.5]})
    expected = [3.0, 3.5]
    assert ranker.columns == ("b", "a")
    assert ranker.score(frame).tolist() == expected
    assert ranker.score(pa.Table.from_pandas(frame)).tolist() == expected
    assert [ranker.score(row) for row in frame.to_dict("records")] == expected
    assert ranker.score([5.0, 1.0]) == 3.0
    with pytest.raises(DataError, match=r"no column 'a' among \['b', 'other'\]"):
        ranker.score(frame[["b", "other"]])
    with pytest.raises(DataError, match="column 'a' of type string, expected numbers"):
        ranker.score(frame.assign(a="1"))
    with pytest.raises(DataError, match="class str in column 'a', expected a number"):
        ranker.score({"a": "1", "b": 1.0})
    for missing in ({"a": None, "b": 1.0}, frame.assign(a=[1.0, None])):
        with pytest.raises(DataError, match="features that are missing"):
            ranker.score(missing)


def test_what_cannot_be_scored():
    ranker = ServedRanker(SCORER, RECIPE)
    with pytest.raises(DataError, match=r"no column 'age', 'code' among \['city', 'time'\]"):
        ranker.score(FRAME[["city", "time"]])
    with pytest.raises(ConfigError, match="found rows of class list, expected a mapping"):
        ranker.score([1.0])
    with pytest.raises(ConfigError, match="found a ranker without a calibration"):
        ranker.probability(FRAME)
    with pytest.raises(DataError, match="column 'city' of type boolean"):
        ranker.score(FRAME.assign(city=True))
    stage = StoredStage("here", {"class": "FeatureRecipeModel"}, None, {})
    with pytest.raises(ModelFormatError, match="found a saved 'FeatureRecipeModel' at 'here'"):
        ServedRanker.of(stage)
