"""Small raw files with one trap each: both engines, frames, rows and exports say the same."""

import gzip
import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spark_auc
from spark_auc.errors import ConfigError, DataError, SparkAUCError
from spark_auc.export.onnx_model import onnx_bytes
from spark_auc.export.sql import to_sql
from tests.app.test_raw_cases import job, text
from tests.export.test_onnx import run as in_onnx
from tests.export.test_sql import in_sqlite

FAST = [
    "train.features.numKnots=4",
    "train.features.crosses=null",
    "train.training.regParam=0.1",
]
ROWS = 120
RNG = np.random.default_rng(0)
AGE, CHANNEL = RNG.integers(18, 90, ROWS), RNG.integers(0, 3, ROWS)
Y = (AGE + 20 * CHANNEL + RNG.normal(0, 20, ROWS) > 75).astype(int)
DAYS = pd.date_range("2024-01-01", periods=ROWS, freq="67h")
LATER = DAYS + pd.to_timedelta(AGE, "h")
SENTENCE = re.compile(r"found .+[,;] (and )?expected .+; .+", re.DOTALL)


class Case(NamedTuple):
    """A file, and what is made of it.

    The format of each column that is read as another one than text, None for columns that are left
    out; or some words of the refusal. ``frame`` are arguments by which pandas reads the values that
    were written, ``refused`` words of the error for a frame as pandas reads it without them.
    ``hashed`` says that there are tokens, of integers, that no other system can make.
    """

    content: object
    formats: dict | str
    options: Mapping = MappingProxyType({})
    frame: Mapping = MappingProxyType({})
    refused: str = ""
    hashed: bool = False
    name: str = "rows.csv"


def table(x=None, name="x", y=Y):
    """Ages, channels, a column and labels as text; the column's values are repeated."""
    found = {"age": AGE, "channel": CHANNEL}
    if x is not None:
        found[name] = [x[k % len(x)] for k in range(ROWS)]
    return {key: [*map(str, column)] for key, column in (found | {"y": y}).items()}


def of(x, form, name="x", **others):
    """A case of one column more."""
    return Case(text(table(x, name)), {name: form}, **others)


def lines(change, **others):
    """A case of the lines of a plain file, some of them changed."""
    found = text(table()).splitlines()
    return Case(change(found), **{"formats": {"age": "integer"}} | others)


def nested():
    rows = pd.DataFrame({"c": CHANNEL, "y": Y}).to_dict("records")
    for k, row in enumerate(rows):
        row |= {"who": {"age": int(AGE[k])}, "half": [1, 2.5, None][k % 3]}
        if k % 11 == 0:
            del row["c"]
    return "".join(json.dumps(row) + "\n" for row in rows)


def lined(found):
    rows = zip(*([int(v) for v in column] for column in found.values()), strict=True)
    return "".join(json.dumps(dict(zip(found, row, strict=True))) + "\n" for row in rows)


def parquet():
    price = pa.array(AGE / 4).cast(pa.decimal128(8, 2))
    words = pa.array(["web", None, "shop"] * 40).dictionary_encode()
    return stored(price=price, word=words, small=pa.array(AGE, pa.uint8()))


def stored(**columns):
    found = pa.table({"age": AGE, "channel": CHANNEL, "y": Y} | columns)
    sink = pa.BufferOutputStream()
    pq.write_table(found, sink)
    return sink.getvalue().to_pybytes()


WIDE = {f"x{k}": [*map(str, np.random.default_rng(k).integers(0, 9, ROWS))] for k in range(300)}
SEMI = {"sep": ";"}
AS_TEXT = {"dtype": {"x": str}}
CASES = {
    "an empty column": of([""], None),
    "a column of words for missing values": of(["NA", "null", "", "n/a"], None),
    "one value": of(["x"], None),
    "every row thrice": Case(
        text({k: [v for v in column[:40] for _ in range(3)] for k, column in table().items()}),
        {"age": "integer"},
    ),
    "labels true and false": Case(text(table(y=np.where(Y, "true", "false"))), {"age": "integer"}),
    "labels in words": Case(
        text(table(y=np.where(Y, "yes ", " no"))), {"age": "integer"}, {"positive": "yes"}
    ),
    "mixed ends of lines": lines(
        lambda found: "".join(s + "\r\n"[k % 2 :] for k, s in enumerate(found))
    ),
    "ends of lines of old Macs": lines("\r".join, formats="line feeds"),
    "no end of the last line": lines("\n".join),
    "blank lines": lines(lambda found: "\n\n".join(found) + "\n\n\n"),
    "a mark of byte order": lines(lambda found: "\ufeff" + "\n".join(found)),
    "UTF-16": lines(lambda found: "\n".join(found).encode("utf-16"), formats="UTF-8"),
    "Latin 1": Case(text(table(["Köln", "Bonn"])).encode("latin-1"), "expected text in UTF-8"),
    "compressed": lines(lambda found: gzip.compress("\n".join(found).encode()), name="rows.csv.gz"),
    "quotes in quotes": of(['"a ""b"", c"', '"""d"""', 'e "f"', '""'], "text"),
    "ends of lines in quotes": of(['"a\nb"', '"c\r\nd"', "e"], "text"),
    "numbers in quotes": of(['"1"', '" 2"', '"3.5"'], "float"),
    "a quote that is not closed": lines(
        lambda found: "\n".join([*found[:5], '1,"web,1', *found[5:]]), formats="not closed"
    ),
    "a row too short": lines(
        lambda found: "\n".join([*found[:5], "1,2", *found[5:]]), formats="2 fields, expected 3"
    ),
    "very long cells": of(["a" * 100_000, "b" * 70_000 + " ö", "c"], "text"),
    "spaces between digits": of(
        ["1 234,5", "12", "3\xa0456,75", "-7 000"], "decimalComma", frame={"sep": ";"}
    )._replace(content=text(table(["1 234,5", "12", "3\xa0456,75", "-7 000"]), ";")),
    "blanks around fields": lines(
        lambda found: " \n".join(s.replace(",", " ,\t ") for s in found),
        frame={"sep": r"[ \t]*,[ \t]*", "engine": "python"},
        refused="found no column 'age'",
    ),
    "negative zero": of(["-0", "0", "7", "-0.0"], "float"),
    "numbers in all forms": of(["+5", "5.", ".5", "1e3", "-2E-3", "07.5"], "float"),
    "ten to the 400th": of(["1" + "0" * 400, "5", "7"], "code", frame=AS_TEXT),
    "numbers beyond doubles": of(["1e400", "-1e999", "5", "1e-400", "7.5"], "float"),
    "infinities": of(["inf", "-Infinity", "2", "NaN", "5"], "float"),
    "numbers of Python alone": of(["1_000", "2_0", "3_1"], "text"),
    "digits of Arabic": of(["\u0661", "\u0662", "\u0663"], "text"),
    "hexadecimal numbers": of(["0x1F", "0xA", "0xb"], "text"),
    "zip codes": of(["01234", "99999", "00501"], "code", frame=AS_TEXT, refused="read it as text"),
    "identifiers of 19 digits": of(
        [f"{10**18 + k}" for k in range(7)], "code", frame=AS_TEXT, refused="read it as text"
    ),
    "integers beyond doubles": of([f"{2**53 + k}" for k in range(9)], "integer", hashed=True),
    "true and false in any case": of(["TRUE", "false", "True", ""], "boolean"),
    "odd words": of([*map(str, range(100)), "unknown", "unknown"], "integer"),
    "amounts": of(["$5", "-$7.25", "€1200", "3%"], "amount"),
    "bands": of(["10/49", "50-99", "<10", "10000+", "7"], "band", frame=AS_TEXT),
    "bands beside a word": of([">7", ">8", "Norm", "None"], "text"),
    "durations": of(["2 months", "1 year", "3 weeks", "10+ years"], "duration"),
    "dates beyond 2262": of(["2500-01-01", "9999-12-31", "2024-02-29", "0001-01-01"], "date"),
    "no such days": of(["2023-02-29", "2023-02-28", "2023-03-01"], "date"),
    "an hour that clocks skip": of(
        ["2024-03-31 02:30:00", "2024-10-27 02:30:00", "2024-06-01 00:00"], "time"
    ),
    "times of several zones": of(
        ["2024-03-31 02:30:00+01:00", "2024-10-27 02:30:00-0530", "2024-06-01 00:00:00Z"], "zoned"
    ),
    "nanoseconds": of([f"2024-01-01 00:00:00.{k:09}" for k in (1, 999, 10**8)], "time"),
    "the month first": of(
        [*DAYS.strftime("%m/%d/%Y %I:%M %p").str.replace("/0", "/")], "monthFirst"
    ),
    "Unicode in names": of(["1", "2", "3"], "integer", name="Größe 年齢 🙂"),
    "Unicode in values": of(["Köln", "Ko\u0308ln", "🙂", "\u200bx", "x", "\u2003y"], "text"),
    "dots in names": of(["1", "2", "3"], "integer", name="a.b..c."),
    "quotes in names": Case(
        text(table(["1", "2", "4"], "a \"b\" `c` 'd'"), header='age,channel,"a ""b"" `c` \'d\'",y'),
        {"a \"b\" `c` 'd'": "integer"},
    ),
    "names of outputs": Case(
        text(table(["1", "2", "4"], "rawPrediction")), "found column 'rawPrediction' in the data"
    ),
    "names that differ in case": Case(
        text(table(["1", "2", "3"], "AGE")), {"age": "integer", "AGE": "integer"}
    ),
    "a name that differs in case left out": Case(
        text(table(["1", "2", "3"], "AGE")),
        {"age": "integer", "AGE": None},
        {"leave_out": ["AGE"]},
    ),
    "JSON of names that differ in case": Case(
        lined(table(["1", "2", "3"], "AGE")),
        {"age": "integer", "AGE": "integer"},
        name="rows.jsonl",
    ),
    "Parquet of two columns of times": Case(
        stored(sent=DAYS.as_unit("us"), due=LATER.as_unit("us").where(AGE % 7 != 0)),
        {"sent": "time", "due": "time", "due - sent": "float"},
        name="rows.parquet",
    ),
    "Parquet of names that differ in case": Case(
        stored(AGE=pa.array([1, None, 3] * 40)),
        {"age": "integer", "AGE": "integer"},
        name="rows.parquet",
    ),
    "a Parquet name that differs in case left out": Case(
        stored(AGE=pa.array([[*"abcdefg", None][k % 8] for k in range(ROWS)])),
        {"age": None, "AGE": "text"},
        {"leave_out": ["age"]},
        name="rows.parquet",
    ),
    "ends of lines in names": Case(
        text(table(["1", "2", "5"]), ";", 'age;channel;"a,\nb";y'), {"a,\nb": "integer"}, frame=SEMI
    ),
    "names twice": Case(
        text(table(["1", "2", "5"]), header="age,channel,age,y"), {"age.1": "integer"}
    ),
    "no name": Case(
        text(table(["1", "2", "5"]), header="age,channel,,y"),
        {"_c2": "integer"},
        frame={"header": 0, "names": ["age", "channel", "_c2", "y"]},
        refused="found no column '_c2'",
    ),
    "wide rows": Case(text(WIDE | {"y": [*map(str, Y)]}), {"x7": "integer"}),
    "a header alone": lines(lambda found: found[0], formats="expected"),
    "nothing": Case("", "found no text"),
    "labels alone": Case(text({"y": table()["y"]}), "expected"),
    "one class": Case(text(table(y=0 * Y)), "expected"),
    "three labels": Case(text(table(y=AGE % 3)), "expected"),
    "labels that are missing": Case(text(table(y=np.where(Y, "1", "NA"))), "without a label"),
    "no such label": lines(lambda found: "\n".join(["a,b,z", *found[1:]]), formats="'y'"),
    "a byte of zero": Case(text(table(["a\0b", "a", "b"])), "bytes of value 0"),
    "JSON Lines": Case(nested(), {}, name="rows.jsonl"),
    "Parquet": Case(parquet(), {}, name="rows.parquet"),
}

# New rows beside those of a plain file: their text, and text of the same values without traps; or
# words of the refusal.
PLAIN = table(["a", "b", "c"])
NEW = {
    "points in whole numbers": (
        text(PLAIN | {"age": [f"{age}.0" for age in PLAIN["age"]]}),
        text(PLAIN),
    ),
    "columns in another order": (text(dict(reversed(PLAIN.items()))), text(PLAIN)),
    "no label": (text({name: PLAIN[name] for name in ("age", "channel", "x")}), text(PLAIN)),
    "a column more": (text({"more": PLAIN["x"]} | PLAIN), text(PLAIN)),
    "another separator": (text(PLAIN, ";"), text(PLAIN)),
    "blank values": (
        text(PLAIN | {"age": ["", "NA", "?", *PLAIN["age"][3:]], "x": ["", "NA", "b"] * 40}),
        text(PLAIN | {"age": ["", "", "", *PLAIN["age"][3:]], "x": ["", "", "b"] * 40}),
    ),
    "infinities in whole numbers": (
        text(PLAIN | {"age": ["-0", "1e999", "7", "-inf"] * 30}),
        text(PLAIN | {"age": ["0", "", "7", ""] * 30}),
    ),
    "words for numbers": (text(PLAIN | {"age": ["lost"] * ROWS}), "120 of 120 values are no"),
    "a column less": (text({name: PLAIN[name] for name in ("age", "x")}), "no column 'channel'"),
    "a fraction in whole numbers": (
        text(PLAIN | {"age": ["36.5", *PLAIN["age"][1:]]}),
        "type float, expected type integer",
    ),
}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def trained(capsys, case, engine):
    """The result of the training of a file, and what became of its columns."""
    content = case.content.encode() if isinstance(case.content, str) else case.content
    Path(case.name).write_bytes(content)
    options = {"data": case.name, "label": "y", "output": engine, "engine": engine}
    code, result = job(capsys, "train", *FAST, **options | case.options)
    if code:
        return code, result, None
    (place,) = Path(engine).glob("versions/*/columns.json")
    return code, result, json.loads(place.read_text())["columns"]


def scored(capsys, file, engine):
    """The scores that the job writes, or its message."""
    place = f"scores of {file} by {engine}"
    options = {"model": "local", "data": file, "output": place, "engine": engine}
    code, result = job(capsys, "score", **options)
    assert code in (0, 2, 3), result
    if code:
        return result["message"]
    written = pq.read_table([*sorted(Path(place).rglob("part-*.parquet"))])
    return written["rawPrediction"].to_numpy()


def frame_of(case, **arguments):
    suffix = Path(case.name).suffix
    if suffix == ".jsonl":
        return pd.read_json(case.name, lines=True)
    return (
        pd.read_parquet(case.name) if suffix == ".parquet" else pd.read_csv(case.name, **arguments)
    )


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_scores_are_one_wherever_a_file_is_read(case, capsys):
    code, result, facts = trained(capsys, case, "local")
    if isinstance(case.formats, str):
        assert code in (2, 3)
        assert case.formats in result["message"]
        assert SENTENCE.fullmatch(result["message"])
        return
    assert code == 0, result
    formats = {
        fact["name"]: (fact["format"] or fact["type"]) if fact["kinds"] else None for fact in facts
    }
    assert case.formats.items() <= formats.items()
    expected = scored(capsys, case.name, "local")
    assert np.unique(expected).size > 10
    ranker = spark_auc.load("local")
    np.testing.assert_array_equal(ranker.score(ranker.read(case.name)), expected)
    frame = frame_of(case, **case.frame)
    np.testing.assert_array_equal(ranker.score(frame), expected)
    rows = frame.to_dict("records")[:9]
    np.testing.assert_array_equal([*map(ranker.score, rows)], expected[:9])
    if case.refused:
        with pytest.raises(DataError, match=case.refused):
            ranker.score(frame_of(case))
    # SQL of many systems has one name in all cases.
    unsaid = [to_sql] * ({"age", "AGE"} <= {*ranker.columns})
    if case.hashed or {"text", "time"} & {column.type for column in ranker.recipe.columns}:
        unsaid = [to_sql, onnx_bytes]
    for export in unsaid:
        with pytest.raises(ConfigError, match=SENTENCE) as refusal:
            export(ranker)
        assert "'x', 'x'" not in str(refusal.value)
    if not unsaid:
        exported(ranker, ranker.read(case.name), expected)


def exported(ranker, rows, expected):
    """Check the scores of exports of typed rows."""
    found = [row["score"] for row in in_sqlite(to_sql(ranker, "ansi"), rows)]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    inputs = {name: np.array(rows[name].to_pylist(), float) for name in ranker.columns}
    found = in_onnx(onnx_bytes(ranker), inputs)["score"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NEW)
def test_new_rows_score_as_those_without_traps(name, capsys):
    content, plain = NEW[name]
    assert trained(capsys, Case(text(PLAIN), {}), "local")[0] == 0
    Path("new.csv").write_text(content)
    found, ranker = scored(capsys, "new.csv", "local"), spark_auc.load("local")
    if isinstance(found, str):
        assert plain in found
        assert SENTENCE.fullmatch(found)
        with pytest.raises(SparkAUCError, match=SENTENCE):
            ranker.score(ranker.read("new.csv"))
        return
    Path("plain.csv").write_text(plain)
    np.testing.assert_array_equal(found, scored(capsys, "plain.csv", "local"))
    frame = pd.read_csv("new.csv", sep=None, engine="python")
    np.testing.assert_array_equal(ranker.score(ranker.read("new.csv")), found)
    np.testing.assert_array_equal(ranker.score(frame), found)
    np.testing.assert_array_equal([*map(ranker.score, frame.to_dict("records"))], found)


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.slow)])
def test_cells_that_do_not_fit_are_refused_left_out_or_missing(engine, capsys, request):
    if engine == "spark":
        request.getfixturevalue("spark")
    # Odd cells in two rows of a column, in one of them beside one of another column.
    odd = {"age": {4: "lost", 90: "7 lots"}, "channel": {90: "odd", 91: ""}}
    content = PLAIN | {
        name: [cells.get(k, value) for k, value in enumerate(PLAIN[name])]
        for name, cells in odd.items()
    }
    blank = PLAIN | {
        name: ["" if k in cells else value for k, value in enumerate(PLAIN[name])]
        for name, cells in odd.items()
    }
    assert trained(capsys, Case(text(PLAIN), {}), "local")[0] == 0
    Path("new.csv").write_text(text(content))
    Path("blank.csv").write_text(text(blank))

    def told(invalid, data="new.csv"):
        place = f"scores {invalid} {data}"
        options = {"model": "local", "data": data, "engine": engine, "output": place}
        code, result = job(capsys, "score", f"score.handleInvalid={invalid}", **options)
        files = sorted(Path(place).rglob("part-*.parquet"))
        scores = pq.read_table(files)["rawPrediction"].to_numpy() if files else None
        return code, result, scores

    expected = scored(capsys, "blank.csv", "local")
    for invalid in ("null", "keep"):
        code, result, found = told(invalid)
        assert (code, result["skipped"]) == (0, 0)
        np.testing.assert_array_equal(found, expected)
    code, result, found = told("skip")
    assert (code, result["rows"], result["skipped"]) == (0, ROWS - 2, 2)
    np.testing.assert_array_equal(found, np.delete(expected, [4, 90]))
    code, result, found = told("error")
    assert (code, found) == (3, None)
    assert SENTENCE.fullmatch(result["message"])
    assert "found 'lost' in column 'age' of row 5, expected whole" in result["message"]
    for invalid in ("error", "skip"):
        code, result, found = told(invalid, "blank.csv")
        assert (code, result["skipped"]) == (0, 0)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", NEW)
def test_both_engines_score_new_rows_alike(name, capsys, spark):
    assert trained(capsys, Case(text(PLAIN), {}), "local")[0] == 0
    Path("new.csv").write_text(NEW[name][0])
    np.testing.assert_array_equal(*(scored(capsys, "new.csv", e) for e in ("local", "spark")))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_both_engines_decide_and_score_alike(case, capsys, spark):
    code, mine, my_columns = trained(capsys, case, "local")
    assert code in (0, 2, 3), mine
    found, theirs, their_columns = trained(capsys, case, "spark")
    assert (found, my_columns) == (code, their_columns)
    if code:
        assert mine["message"] == theirs["message"]
        return
    assert mine["features"] == theirs["features"]
    assert mine["auc"] == pytest.approx(theirs["auc"], abs=1e-9)
    np.testing.assert_array_equal(*(scored(capsys, case.name, e) for e in ("local", "spark")))
