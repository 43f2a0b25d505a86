"""Rankers as SQL, against the scores of `ServedRanker`: in SQLite and in Spark."""

import re
import sqlite3

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from spark_auc.core.segments import SegmentWeights
from spark_auc.errors import ConfigError
from spark_auc.export.sql import to_sql
from spark_auc.export.sql_dialect import dialect_of, number
from spark_auc.features.crosses import Crosses
from spark_auc.features.fourier import FourierMap
from spark_auc.features.kinds.leaves import TreeLeaves
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.kinds.tokens import Tokens
from spark_auc.features.recipe import Recipe
from spark_auc.serving.linear_scorer import LinearScorer, SegmentScorer
from spark_auc.serving.ranker import ServedRanker
from spark_auc.serving.score_curves import Isotone, Sigmoid
from spark_auc.trees.forest import CATEGORICAL, Forest, Tree
from tests.export.rankers import (
    SETTINGS_OF_CODES,
    ranker,
    ranker_of_codes,
    ranker_of_words,
    rows,
    spread,
)

SETTINGS = [
    {"unit": False},
    {"unit": True},
    {"unit": True, "missing": "ignore"},
    {"unit": False, "missing": "ignore"},
]
PLATT = Sigmoid(1.3, -0.2)
ISOTONE = Isotone(np.array([-1.0, -0.25, 0.5, 2.0]), np.array([0.01, 0.2, 0.2, 0.97]))
LABELS = ("it's \\'a\\' \\n", 'no"')


def in_sqlite(sql, table):
    """The rows of the query of a ranker, as SQLite computes them."""
    connection = sqlite3.connect(":memory:")
    names = ['"' + name.replace('"', '""') + '"' for name in table.column_names]
    connection.execute(f"CREATE TABLE some ({', '.join(names)})")
    places = ", ".join("?" * len(names))
    lines = zip(*(column.to_pylist() for column in table.columns), strict=True)
    connection.executemany(f"INSERT INTO some VALUES ({places})", lines)
    connection.row_factory = sqlite3.Row
    return [dict(row) for row in connection.execute(sql.select("some"))]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_sqlite_scores_as_python_does(seed, settings):
    served, table = ranker(seed, PLATT, LABELS, **settings), rows(seed)
    expected = served.score(table)
    found = in_sqlite(to_sql(served, "ansi"), table)
    scores = np.array([row["score"] for row in found])
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-9 * spread(expected))
    chances = [row["probability"] for row in found]
    np.testing.assert_allclose(chances, served.probability(table), rtol=0, atol=1e-12)
    assert [row["prediction"] for row in found] == served.predict(table).tolist()
    assert {row["prediction"] for row in found} == set(LABELS)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_spark_scores_as_python_does(spark, settings):
    served, table = ranker(7, ISOTONE, LABELS, **settings), rows(7)
    # Missing numbers are null or NaN.
    plain = table["plain"].to_numpy(zero_copy_only=False)
    place = table.column_names.index("plain")
    table = table.set_column(place, "plain", pa.array(plain, pa.float64(), from_pandas=False))
    assert np.isnan(plain).any()
    assert table["plain"].null_count == 0
    expected = served.score(table)
    frame = spark.createDataFrame(table.append_column("k", pa.array(np.arange(len(table)))))
    sql = to_sql(served)
    scored = frame.withColumn("score", F.expr(sql.score))
    scored = scored.withColumn("probability", F.expr(sql.probability))
    found = scored.withColumn("prediction", F.expr(sql.prediction)).toArrow().sort_by("k")
    assert found.schema.field("score").type == pa.float64()
    np.testing.assert_allclose(found["score"], expected, rtol=0, atol=1e-9 * spread(expected))
    np.testing.assert_allclose(found["probability"], served.probability(table), rtol=0, atol=1e-9)
    assert found["prediction"].to_pylist() == served.predict(table).tolist()
    frame.createOrReplaceTempView("unscored_rows")
    query = spark.sql(sql.select("unscored_rows")).toArrow().sort_by("k")
    assert query["score"] == found["score"]
    assert query["prediction"] == found["prediction"]


def test_rows_without_features_score_0(spark):
    made = Recipe((Spline("a", "float", (0.0, 1.0)),), missing="ignore")
    served = ServedRanker(LinearScorer(np.array([1.0, 2.0]), 0.0, 1.0, 0.0), made)
    table = pa.table({"a": [None, 0.5], "k": [0, 1]})
    expected = served.score(table)
    assert expected[0] == 0.0
    found = [row["score"] for row in in_sqlite(to_sql(served, "ansi"), table)]
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    frame = spark.createDataFrame(table).select("k", F.expr(to_sql(served).score).alias("score"))
    np.testing.assert_allclose(frame.toArrow().sort_by("k")["score"], expected, rtol=1e-14)


def test_other_numeric_types_in_spark(spark):
    served = ranker(11, unit=False)
    table = rows(11, 100)
    narrow = pa.array(table["scaled"].to_numpy(zero_copy_only=False).astype(np.float32))
    place = table.column_names.index("scaled")
    table = table.set_column(place, "scaled", narrow)
    frame = spark.createDataFrame(table.append_column("k", pa.array(np.arange(100))))
    frame = frame.withColumn("one", F.lit("2.75").cast("decimal(9, 2)"))
    typed = table.set_column(table.column_names.index("one"), "one", pa.array([2.75] * 100))
    found = frame.select("k", F.expr(to_sql(served).score).alias("score")).toArrow().sort_by("k")
    expected = served.score(typed)
    np.testing.assert_allclose(found["score"], expected, rtol=0, atol=1e-9 * spread(expected))


def test_features_without_a_recipe(spark):
    """Ten thousand of them: sums must not be as deep as they are long."""
    rng = np.random.default_rng(0)
    d = 10_000
    names = tuple(f"x{k}" for k in range(d))
    served = ServedRanker(LinearScorer(rng.normal(size=d), 0.0, 1.0, -1.0, names))
    sql = to_sql(served)
    row = rng.normal(size=d)
    few = ServedRanker(LinearScorer(served.scorer.w[:40], 0.0, 1.0, -1.0, names[:40]))
    table = pa.table({name: [value] for name, value in zip(names[:40], row[:40], strict=True)})
    (found,) = in_sqlite(to_sql(few, "ansi"), table)
    np.testing.assert_allclose(found["score"], few.score(row[:40]), rtol=1e-12)
    assert found["prediction"] == few.predict(row[:40])
    assert "probability" not in found
    inner = ", ".join(f"{number(v)} AS x{k}" for k, v in enumerate(row[:2000].tolist()))
    part = ServedRanker(LinearScorer(served.scorer.w[:2000], 0.0, 1.0, -1.0, names[:2000]))
    query = f"SELECT {to_sql(part).score} AS score FROM (SELECT {inner})"
    np.testing.assert_allclose(spark.sql(query).first().score, part.score(row[:2000]), rtol=1e-12)
    assert max_depth(sql.score) < 20


def max_depth(text):
    depths = np.cumsum([(c == "(") - (c == ")") for c in text])
    return depths.max()


@pytest.mark.parametrize("unit", [True, False])
def test_bare_parentheses_are_short_in_spark(unit):
    """Spark's parser takes time and memory for each token within them."""
    text, starts, lengths = to_sql(ranker(3, PLATT, unit=unit)).score, [], [0]
    outside = re.sub(r"`(?:[^`]|``)*`", lambda name: "n" * len(name[0]), text)
    for place, c in enumerate(outside):
        if c == "(":
            starts.append((place, outside[place - 1].isalpha()))
        elif c == ")":
            start, is_call = starts.pop()
            lengths.append(0 if is_call else place - start)
    assert not starts
    assert 10 < max(lengths) < 200


def test_sums_and_numbers():
    total = dialect_of("ansi").total
    assert total([]) == "0.0E0"
    for count in (1, 2, 3, 7, 100):
        assert eval(total([str(k) for k in range(count)])) == sum(range(count))
    for value in (0.1, -0.1, 1e300, 5e-324, 1 / 3, -0.0, 123456789.0, 1e16):
        text = number(value)
        assert float(text.strip("()")) == value
        assert "e" in text.lower()


def test_text_grows_with_the_knots_and_not_with_their_square():
    def length(count):
        made = Recipe((Spline("a", "float", tuple(range(count))),), unit=False)
        return len(to_sql(ServedRanker(LinearScorer(np.ones(made.size) / 3, 0, 1, 0), made)).score)

    assert length(64) < 2.2 * length(32)


@pytest.mark.parametrize("with_numbers", [True, False])
@pytest.mark.parametrize("categories", ["exact", "truncated", "float32"])
def test_trees_of_text(spark, categories, with_numbers):
    served, table = ranker_of_words(categories, with_numbers)
    towns = table["the town"].to_pylist()
    padded = [None if town is None else f" \t{town}\u00a0" for town in towns]
    again = {"the town": padded, "size": table["size"], "k": range(10, 20)}
    table = pa.concat_tables([table, pa.table(again)])
    expected = served.score(table)
    np.testing.assert_array_equal(expected[10:], expected[:10])
    found = in_sqlite(to_sql(served, "ansi"), table)
    atol = 1e-9 * spread(expected)
    np.testing.assert_allclose([row["score"] for row in found], expected, rtol=0, atol=atol)
    frame = spark.createDataFrame(table).select("k", F.expr(to_sql(served).score).alias("score"))
    scores = frame.toArrow().sort_by("k")["score"]
    np.testing.assert_allclose(scores, expected, rtol=0, atol=atol)


@pytest.mark.parametrize("settings", SETTINGS_OF_CODES, ids=str)
def test_tokens_of_known_values(spark, settings):
    """A default recipe of a raw table, with values that its fit did not see, and missing ones."""
    for seed in range(3):
        served, table = ranker_of_codes(seed, curve=PLATT, labels=LABELS, **settings)
        expected = served.score(table)
        atol = 1e-9 * spread(expected)
        found = in_sqlite(to_sql(served, "ansi"), table)
        np.testing.assert_allclose([row["score"] for row in found], expected, rtol=0, atol=atol)
        assert [row["prediction"] for row in found] == served.predict(table).tolist()
    frame = spark.createDataFrame(table.append_column("k", pa.array(np.arange(len(table)))))
    scored = frame.select("k", F.expr(to_sql(served).score).alias("score")).toArrow().sort_by("k")
    np.testing.assert_allclose(scored["score"], expected, rtol=0, atol=atol)


def refusals():
    numeric = (Spline("a", "float", (0.0, 1.0)),)
    w = np.ones(3)

    def of(made, **others):
        return ServedRanker(LinearScorer(np.ones(made.size), 0.0, 1.0, 0.0, **others), made)

    none = [np.zeros(1, np.uint32)]
    zero = np.zeros(1, np.int64)
    split = Tree(
        *(zero, np.zeros(1), np.array([CATEGORICAL]), np.array([-1]), np.array([-2]), none),
        *(np.arange(2), np.zeros(2)),
    )
    cats = TreeLeaves.of(Forest.of(1, "exact", [split]), {"code": "integer"})
    segments = SegmentScorer("city", SegmentWeights(("x",), np.ones((2, 3)), np.zeros(2)))
    return [
        (
            of(
                Recipe(
                    numeric,
                    (
                        *(Tokens("city", "text"), Tokens("flag", "boolean")),
                        *(Tokens("few", "integer", ("1", "2")), Tokens("code", "integer")),
                    ),
                )
            ),
            "hashed tokens of column 'city', 'code', expected numbers, booleans, and integers",
        ),
        (of(Recipe(numeric, trees=cats)), "categories of column 'code'"),
        (of(Recipe((Spline("when", "time", (0.0, 1.0)),))), "times in column 'when'"),
        (of(Recipe((Spline("Score", "float", (0.0, 1.0)),))), "column 'Score'"),
        (of(Recipe(numeric), segments=segments), "segments of column 'city'"),
        (ServedRanker(LinearScorer(w, 0.0, 1, 0)), "features without names"),
        (
            ServedRanker(
                LinearScorer(w, 0.0, 1, 0), Recipe(numeric), (FourierMap.random(3, 1.0, 3),)
            ),
            "FourierMap",
        ),
        (
            ServedRanker(
                LinearScorer(w, 0.0, 1, 0),
                Recipe(numeric),
                curve=Isotone(np.array([1.0, 1.0]), np.array([0.1, 0.2])),
            ),
            "increasing",
        ),
    ]


@pytest.mark.parametrize(("served", "said"), refusals())
def test_what_cannot_be_said_is_refused_by_name(served, said):
    with pytest.raises(ConfigError, match=said):
        to_sql(served)


def test_crosses_and_dialects_are_refused_by_name():
    both = (Spline("a", "float", (0.0, 1.0)), Spline("b", "float", (0.0, 1.0)))
    made = Recipe(both, crosses=Crosses(None, 4))
    served = ServedRanker(LinearScorer(np.ones(made.size), 0.0, 1, 0), made)
    with pytest.raises(ConfigError, match="hashed crosses of column 'a', 'b'"):
        to_sql(served)
    some = Recipe((*both, Spline("c", "float", (0.0, 1.0))), crosses=Crosses((("c", "a"),), 4))
    served = ServedRanker(LinearScorer(np.ones(some.size), 0.0, 1, 0), some)
    with pytest.raises(ConfigError, match="hashed crosses of column 'c', 'a', expected no crosses"):
        to_sql(served)
    with pytest.raises(ConfigError, match="dialect 'oracle', expected spark or ansi"):
        to_sql(ranker(0), "oracle")
