"""Raw files as people have them: read alike in training and scoring, or refused in one sentence."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spark_auc
from spark_auc.app.running import run
from spark_auc.errors import DataError

FAST = [
    "train.features.numKnots=4",
    "train.training.regParam=0.1",
    "train.features.crosses=null",
]
ROWS = 200


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def columns(seed=0):
    """Ages, channels and labels that follow from them, as text."""
    rng = np.random.default_rng(seed)
    age, channel = rng.integers(18, 90, ROWS), rng.integers(0, 3, ROWS)
    y = (age + 20 * channel + rng.normal(0, 20, ROWS) > 75).astype(int)
    words = np.array(["web", "phone", "shop"])[channel]
    return {"age": [*map(str, age)], "channel": [*words], "y": [*map(str, y)]}


def text(found, separator=",", header=None):
    lines = [header or separator.join(found)]
    lines += map(separator.join, zip(*found.values(), strict=True))
    return "\n".join(lines) + "\n"


def job(capsys, name, *overrides, **options):
    code = run(name, options=options, overrides=overrides)
    return code, json.loads(capsys.readouterr().out.splitlines()[-1])


def trained(capsys, data, train_as=None, **options):
    """The result of a training, with a kind and name of a column that has it."""
    kinds = [] if train_as is None else ["train.features.{}=[{}]".format(*train_as)]
    options |= {"data": str(data), "label": "y", "output": "model"}
    return job(capsys, "train", "train.output.replace=true", *FAST, *kinds, **options)


def scored(capsys, data, **options):
    """Scores that the job writes."""
    options |= {"data": str(data), "output": f"scores of {data}"}
    code, result = job(capsys, "score", model="model", **options)
    assert code == 0, result
    places = sorted(Path(f"scores of {data}").rglob("part-*.parquet"))
    return pq.read_table(places)["rawPrediction"].to_numpy()


@pytest.mark.usefixtures("all_pictures")
def test_an_open_end_in_the_year_9999_is_drawn(capsys, caplog):
    ends = np.where(np.random.default_rng(1).random(ROWS) < 0.7, "9999-12-31", "2024-06-30")
    Path("rows.csv").write_text(text(columns() | {"end": [*ends]}))
    code, result = trained(capsys, "rows.csv")
    assert code == 0, result
    assert "empty" not in caplog.text


@pytest.mark.usefixtures("all_pictures")
def test_a_picture_that_fails_keeps_the_model(capsys, caplog, monkeypatch):
    def fail(*_):
        raise ValueError("no such tick")

    monkeypatch.setattr("spark_auc.app.report.shapes._curve", fail)
    monkeypatch.setattr("spark_auc.app.report.pictures._lay_out", fail)
    Path("rows.csv").write_text(text(columns()))
    code, result = trained(capsys, "rows.csv")
    assert code == 0, result
    assert "left picture 'curve1' empty: ValueError: no such tick" in caplog.text
    assert spark_auc.load("model").score(pd.read_csv("rows.csv")).shape == (ROWS,)


def cut(found, name, word, *, of):
    return found | {name: [word if value == of else value for value in found[name]]}


# Files by name: their text, options, and what the sentence of the refusal says.
REFUSED = {
    "a label blank for one class": (
        text(cut(columns(), "y", "", of="0")),
        {"positive": "1"},
        "without a label in column 'y'",
    ),
    "a title before the header": ("Customers 2024,,\n" + text(columns()), {}, "if it is a title"),
    "row names without a name": (
        text({"row": [*map(str, range(ROWS))]} | columns(), header="age,channel,y"),
        {},
        "add names to the header",
    ),
}
# Files beside plain ones with the same rows.
NOTES = columns() | {"note, first": ["a"] * ROWS, "note, last": ["b"] * ROWS}
TWICE = columns() | {"age.1": columns(1)["age"]}
READ = {
    "a line for the separator": ("sep=;\n" + text(columns(), ";"), columns()),
    "a header with as many commas": (text(NOTES, ";"), columns()),
    "names twice": (text(TWICE, header="age,channel,y,age"), TWICE),
}


@pytest.mark.parametrize("case", READ)
def test_read_as_the_plain_file(case, capsys):
    raw, plain = READ[case]
    Path("raw.csv").write_text(raw)
    Path("plain.csv").write_text(text(plain))
    code, result = trained(capsys, "raw.csv")
    assert code == 0, result
    np.testing.assert_array_equal(scored(capsys, "raw.csv"), scored(capsys, "plain.csv"))


def test_a_readme_beside_rows_is_no_row(capsys, caplog):
    Path("rows").mkdir()
    Path("rows/a.csv").write_text(text(columns()))
    Path("rows/README.txt").write_text("made by hand\n")
    assert trained(capsys, "rows")[0] == 0
    assert "README.txt" in caplog.text
    Path("plain.csv").write_text(text(columns()))
    np.testing.assert_array_equal(scored(capsys, "rows"), scored(capsys, "plain.csv"))


def test_names_do_not_depend_on_the_place_of_the_label(capsys):
    found = columns() | {"again": columns(1)["age"]}
    Path("rows.csv").write_text(text({"y": found.pop("y")} | found, header="y,age,channel,age"))
    assert trained(capsys, "rows.csv")[0] == 0
    Path("new.csv").write_text(text(found, header="age,channel,age"))
    expected = scored(capsys, "rows.csv")
    np.testing.assert_array_equal(scored(capsys, "new.csv"), expected)
    np.testing.assert_array_equal(spark_auc.load("model").score(pd.read_csv("new.csv")), expected)


@pytest.mark.parametrize("case", REFUSED)
def test_refused_by_one_sentence(case, capsys):
    content, options, words = REFUSED[case]
    Path("rows.csv").write_text(content)
    code, result = trained(capsys, "rows.csv", **options)
    assert code in (2, 3)
    assert words in result["message"]
    assert "; " in result["message"]


def test_words_and_blanks_of_text_are_those_of_frames_and_rows(capsys):
    """The oracle is the job on the same rows, written with no words and no blanks."""
    found = columns()
    odd = {"web": ["None", "n/a", "NULL", ""], "phone": ["phone ", "\tphone", "phone\xa0"]}
    plain = [{"web": "", "phone": "phone"}.get(word, word) for word in found["channel"]]
    words = [odd.get(word, [word]) for word in found["channel"]]
    raw = [forms[k % len(forms)] for k, forms in enumerate(words)]
    Path("plain.csv").write_text(text(found | {"channel": plain}))
    Path("raw.csv").write_text(text(found | {"channel": raw}))
    assert trained(capsys, "raw.csv")[0] == 0
    expected = scored(capsys, "plain.csv")
    np.testing.assert_array_equal(scored(capsys, "raw.csv"), expected)
    ranker = spark_auc.load("model")
    frame = pd.read_csv("raw.csv")
    for read in (frame, pd.read_csv("raw.csv", keep_default_na=False)):
        np.testing.assert_array_equal(ranker.score(read), expected)
    rows = [ranker.score(row) for row in frame.to_dict("records")]
    np.testing.assert_array_equal(rows, expected)


@pytest.mark.parametrize("kind", ["spline", "log", "tokens"])
def test_whole_floats_are_the_integers_of_the_training(kind, capsys):
    found = columns()
    Path("rows.csv").write_text(text(found))
    code, result = trained(capsys, "rows.csv", train_as=(kind, "age"))
    assert code == 0, result
    ages = ["", *(f"{age}.0" for age in found["age"][1:])]
    Path("floats.csv").write_text(text(found | {"age": ages}))
    frame = pd.read_csv("floats.csv")
    assert frame["age"].dtype == np.float64
    frame.to_parquet("floats.parquet")
    wanted = scored(capsys, "rows.csv")
    for other in ("floats.csv", "floats.parquet"):
        scores = scored(capsys, other)
        np.testing.assert_array_equal(scores[1:], wanted[1:])
        assert np.isfinite(scores[0])
    np.testing.assert_array_equal(spark_auc.load("model").score(frame), scores)


def test_a_fraction_in_a_column_of_whole_numbers(capsys):
    found = columns()
    Path("rows.csv").write_text(text(found))
    ages = ["36.5", *found["age"][1:]]
    Path("fractions.csv").write_text(text(found | {"age": ages}))
    trained(capsys, "rows.csv", train_as=("tokens", "age"))
    code, result = job(capsys, "score", model="model", data="fractions.csv", output="scores")
    assert code == 3
    assert "'age' of type float, expected type integer" in result["message"]


@pytest.mark.parametrize("word", ["n/a", "#N/A", "<NA>", r"\N", "-", ".", "inf", "NaN", "\u00a0"])
def test_a_few_odd_cells_keep_a_column_of_numbers(word, capsys):
    rng = np.random.default_rng(2)
    x = rng.normal(size=2 * ROWS)
    y = (x + rng.normal(0, 0.5, x.size) > 0.5).astype(int)
    cells = [f"{value:.4f}" for value in x]
    plain = {"x": ["", "", *cells[2:]], "y": [*map(str, y)]}
    Path("plain.csv").write_text(text(plain))
    Path("odd.csv").write_text(text(plain | {"x": [word, word, *cells[2:]]}))
    results = [trained(capsys, f"{name}.csv")[1] for name in ("plain", "odd")]
    if word == "inf":
        assert results[1]["auc"] > 0.8
    else:
        assert results[0]["auc"] == results[1]["auc"]


@pytest.mark.parametrize(
    "zone", ["Z", "+00", "+00:00", "+0000", " UTC", "UTC", " +00:00", " +00", "-00:00"]
)
def test_times_with_a_zone_are_times(zone, capsys):
    times = pd.date_range("2024-01-01", periods=ROWS, freq="7h").strftime("%Y-%m-%d %H:%M:%S")
    found = columns()
    Path("plain.csv").write_text(text(found | {"at": [f"{time}Z" for time in times]}))
    Path("zoned.csv").write_text(text(found | {"at": [f"{time}{zone}" for time in times]}))
    results = []
    for name in ("plain", "zoned"):
        code, result = trained(capsys, f"{name}.csv", time="at")
        assert code == 0, result
        results.append((result["auc"], result["features"]))
    assert results[0] == results[1]


def made_of(name, values, seed=3):
    """Rows whose label follows from a column of these values, in their order."""
    rng = np.random.default_rng(seed)
    ranks = np.argsort(np.argsort(values)) / len(values)
    y = ranks % 0.2 * 5 + rng.normal(0, 0.3, len(values)) > 0.6
    return {name: [*values], "z": rng.integers(0, 9, len(values)), "y": y}


DAYS = pd.date_range("2014-01-01", periods=2 * ROWS, freq="31h")
AMOUNTS = np.round(np.random.default_rng(6).lognormal(7, 2, 2 * ROWS), 2)
WRITTEN = {
    "month first": (DAYS, "%m/%d/%Y"),
    "month first with hours": (DAYS, "%m/%d/%Y %I:%M:%S %p"),
    "day first": (DAYS, "%d.%m.%Y"),
    "day first with hours": (DAYS, "%d/%m/%Y %H:%M:%S"),
    "named months": (DAYS, "%d-%b-%y"),
    "year first": (DAYS, "%Y/%m/%d"),
    "decimal commas": (AMOUNTS, lambda x: f"{x:.2f}".replace(".", ",")),
    "thousands": (AMOUNTS, lambda x: f"{x:,.2f}"),
    "currency": (AMOUNTS, lambda x: f"${x:,.2f}"),
    "percent": (AMOUNTS, lambda x: f"{x}%"),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_formats_of_numbers_and_times(case, capsys):
    """The oracle is the same table in ISO's and Python's own format."""
    values, form = WRITTEN[case]
    is_time = values is DAYS
    shown = [v.strftime(form) for v in values] if is_time else [*map(form, values)]
    if is_time:
        values = pd.to_datetime(shown, format=form)
        plain = [v.strftime("%Y-%m-%d %H:%M:%S") for v in values]
    else:
        plain = [*map(str, values)]
    frame = pd.DataFrame(made_of("x", values))
    frame["y"] = frame["y"].astype(int)
    frame.assign(x=plain).to_csv("plain.csv", sep=";", index=False)
    raw = frame.assign(x=shown)
    raw.to_csv("raw.csv", sep=";", index=False)
    results = []
    for name in ("plain", "raw"):
        code, result = trained(capsys, f"{name}.csv", **({"time": "x"} if is_time else {}))
        assert code == 0, result
        results.append((result["auc"], result["features"], result["certificate"]))
    assert results[0] == results[1]
    expected = scored(capsys, "raw.csv")
    assert np.unique(expected).size > 50
    ranker = spark_auc.load("model")
    np.testing.assert_array_equal(ranker.score(raw), expected)
    np.testing.assert_array_equal(ranker.score(pd.read_csv("raw.csv", sep=";")), expected)
    np.testing.assert_array_equal(ranker.score(ranker.read("raw.csv")), expected)
    rows = [ranker.score(row) for row in raw.to_dict("records")[:20]]
    np.testing.assert_array_equal(rows, expected[:20])
    # Rows that are typed already are read as they are.
    np.testing.assert_array_equal(ranker.score(frame), expected)


@pytest.mark.parametrize(
    ("form", "unit"), [("%Y%m%d", None), (None, 1), (None, 1000)], ids=["digits", "s", "ms"]
)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_integers_are_times_where_they_are_named(form, unit, suffix, capsys):
    days = DAYS.floor("D")
    shown = [int(v.strftime(form)) if form else int(v.timestamp()) * unit for v in days]
    frame = pd.DataFrame(made_of("x", days)).astype({"y": int})
    frame.assign(x=days.strftime("%Y-%m-%d")).to_csv("plain.csv", index=False)
    raw = frame.assign(x=shown)
    if suffix == "csv":
        raw.to_csv("raw.csv", index=False)
    else:
        raw.to_parquet("raw.parquet")
    found = []
    for name in ("plain.csv", f"raw.{suffix}"):
        code, result = trained(capsys, name, time="x")
        assert code == 0, result
        found.append((result["auc"], scored(capsys, name)))
    assert found[0][0] == found[1][0]
    np.testing.assert_array_equal(found[0][1], found[1][1])
    np.testing.assert_array_equal(spark_auc.load("model").score(raw), found[0][1])


def test_dates_that_could_be_either_are_left_to_the_user(capsys, caplog):
    days = [f"{1 + k % 12}/{1 + k // 12 % 12}/20{10 + k % 9}" for k in range(ROWS)]
    Path("rows.csv").write_text(text(columns() | {"day": days}))
    code, _ = trained(capsys, "rows.csv", time="day")
    assert code == 2
    assert "day or the month may be first" in caplog.text
    code, _ = job(
        capsys,
        "train",
        "train.output.replace=true",
        "train.data.types={day: dayFirst}",
        *FAST,
        data="rows.csv",
        label="y",
        output="model",
        time="day",
    )
    assert code == 0


def test_infinite_whole_numbers_are_told(capsys, caplog):
    Path("rows.csv").write_text(text(columns()))
    assert trained(capsys, "rows.csv")[0] == 0
    ranker, frame = spark_auc.load("model"), pd.read_csv("rows.csv").astype({"age": float})
    caplog.clear()
    frame.loc[3:5, "age"] = [np.inf, -np.inf, np.nan]
    found = ranker.score(frame)
    assert "column 'age': 2 of 200 values are infinite and count as missing" in caplog.text
    frame.loc[3:5, "age"] = np.nan
    np.testing.assert_array_equal(found, ranker.score(frame))
    frame.loc[0, "age"] = 36.5
    with pytest.raises(DataError, match="of type float, expected type integer"):
        ranker.score(frame)


def test_odd_cells_are_told_and_kept_as_words(capsys, caplog):
    found = columns()
    ages = ["unknown", "unknown", "unknown", *found["age"][3:]]
    Path("rows.csv").write_text(text(found | {"age": ages}))
    assert trained(capsys, "rows.csv")[0] == 0
    assert "column 'age': 197 of 200 values are whole numbers; others count as missing: " in (
        caplog.text
    )
    assert "'unknown' (3)" in caplog.text
    caplog.clear()
    expected = scored(capsys, "rows.csv")
    # Words of the training are known; others are told.
    assert "count as missing" not in caplog.text
    Path("new.csv").write_text(text(found | {"age": ["?", "-", "lost", *found["age"][3:]]}))
    np.testing.assert_array_equal(scored(capsys, "new.csv"), expected)
    assert "199 of 200" not in caplog.text
    assert "column 'age': 197 of 198 values are" in caplog.text
    assert "'lost' (1)" in caplog.text
    ranker = spark_auc.load("model")
    np.testing.assert_array_equal(ranker.score(pd.read_csv("new.csv")), expected)
    assert ranker.score({"age": "unknown", "channel": found["channel"][0]}) == expected[0]


def test_codes_are_no_numbers(capsys):
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 30, ROWS)
    y = [*map(str, (codes % 3 == 0).astype(int))]
    shown = [f"{code:03d}" for code in codes]
    Path("rows.csv").write_text(text({"code": shown, "y": y}))
    assert trained(capsys, "rows.csv")[0] == 0
    expected = scored(capsys, "rows.csv")
    ranker = spark_auc.load("model")
    for frame in (pd.read_csv("rows.csv"), pd.DataFrame({"code": codes / 1})):
        with pytest.raises(DataError, match="read it as text"):
            ranker.score(frame)
    with pytest.raises(DataError, match="found '7' of class int"):
        ranker.score({"code": 7})
    read = pd.read_csv("rows.csv", dtype={"code": str})
    np.testing.assert_array_equal(ranker.score(read), expected)
    np.testing.assert_array_equal(ranker.score(ranker.read("rows.csv")), expected)


def test_what_became_of_each_column_is_told(capsys, caplog):
    found = columns()
    notes = [f"user{k} of {k}street" for k in range(ROWS)]
    ages = ["unknown", "unknown", *found["age"][2:]]
    Path("rows.csv").write_text(text(found | {"age": ages, "note": notes, "same": ["x"] * ROWS}))
    caplog.set_level("INFO")
    code, result = trained(capsys, "rows.csv")
    assert code == 0, result
    (place,) = Path("model").glob("versions/*/columns.json")
    facts = {fact.pop("name"): fact for fact in json.loads(place.read_text())["columns"]}
    train = result["refit"]["measuredRows"]
    assert facts["age"] | {"missing": None} == {
        "type": "integer",
        "format": "integer",
        "kinds": ["spline", "tokens"],
        "missing": None,
        "words": {"unknown": 2},
        "note": "",
    }
    assert 0 <= facts["age"]["missing"] <= 2
    assert facts["channel"]["kinds"] == ["tokens"]
    assert facts["y"]["note"] == "label"
    assert facts["note"]["note"].startswith(f"left out 'note': {train:,} distinct values in")
    assert facts["same"]["note"] == f"left out 'same': all {train} rows have the same value"
    page = Path(result["report"].removeprefix("file://")).read_text()
    assert "<h2>Columns</h2>" in page
    assert f"{train:,} distinct values" in page
    assert "unknown (2)" in page


def test_free_text_is_read_as_words(capsys, caplog):
    rng = np.random.default_rng(7)
    words = np.array(["win", "free", "Cash", "call", "now", "meet", "later", "lunch", "home", "ok"])
    chosen = [rng.choice(words, 9) for _ in range(4 * ROWS)]
    notes = [f"{' - '.join(own)} #{k}" for k, own in enumerate(chosen)]
    y = [str(int("free" in own)) for own in chosen]
    Path("rows.csv").write_text(text({"note": notes, "y": y}))
    caplog.set_level("INFO")
    code, result = trained(capsys, "rows.csv")
    assert code == 0, result
    assert result["auc"] > 0.9
    assert "'note' is free text: its words are tokens" in caplog.text
    (place,) = Path("model").glob("versions/*/columns.json")
    (fact,) = (f for f in json.loads(place.read_text())["columns"] if f["name"] == "note")
    assert fact["kinds"] == ["words"]
    page = Path(result["report"].removeprefix("file://")).read_text()
    assert "note: word=free" in page
    expected = scored(capsys, "rows.csv")
    ranker = spark_auc.load("model")
    alone = [ranker.score({"note": note}) for note in notes]
    np.testing.assert_array_equal(alone, expected)
    changed = ranker.score({"note": notes[0].upper().replace("-", ", ")})
    assert changed == expected[0]


def nested():
    """Records with structs, one of them null and one absent, and the same without structs."""
    rng = np.random.default_rng(3)
    found, rows, flat = columns(), [], []
    for k, (age, channel, y) in enumerate(zip(*found.values(), strict=True)):
        income = None if k % 5 == 0 else int(age) + (0.5 if k % 3 else 0)
        day = f"2024-{1 + rng.integers(0, 12):02}-{1 + rng.integers(0, 28):02}"
        customer = {"age": int(age), "home": {"by": channel, "day": day}, "income": income}
        inner = {"customer.age": int(age), "customer.home.by": channel}
        inner |= {"customer.home.day": day, "customer.income": income}
        if k in (3, 7):
            customer, inner = None, dict.fromkeys(inner)
        common = {"visits": k % 4, "tags": [channel], "y": int(y)}
        rows.append(common if k == 7 else {"customer": customer} | common)
        flat.append(common | inner)
    return rows, flat


def write(rows, path):
    if path.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.endswith(".csv"):
        pd.DataFrame(rows).to_csv(path, index=False)
    else:
        Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize(
    ("suffix", "engine"),
    [
        ("jsonl", "local"),
        ("parquet", "local"),
        pytest.param("jsonl", "spark", marks=pytest.mark.slow),
        ("parquet", "spark"),
    ],
)
def test_fields_of_structs_are_columns(suffix, engine, capsys, caplog, request):
    """The oracle is a file without structs, whose columns have the names of the paths."""
    if engine == "spark":
        request.getfixturevalue("spark")
    for name, rows in zip(("nested", "flat"), nested(), strict=True):
        write(rows, f"{name}.{suffix}")
    results = {}
    for name in ("flat", "nested"):
        caplog.clear()
        code, results[name] = trained(capsys, f"{name}.{suffix}", engine=engine)
        assert code == 0, results
        left_out = [m for m in caplog.messages if "recipes do not take" in m]
        assert len(left_out) == 1
        assert "'tags'" in left_out[0]
    assert results["nested"]["auc"] == results["flat"]["auc"] > 0.8
    assert results["nested"]["drift"]["unknown"] == results["flat"]["drift"]["unknown"]
    assert results["nested"]["features"] == results["flat"]["features"]
    scores = [scored(capsys, f"{name}.{suffix}", engine=engine) for name in ("nested", "flat")]
    np.testing.assert_array_equal(*scores)
    read = spark_auc.load("model").read(f"nested.{suffix}")
    np.testing.assert_array_equal(spark_auc.load("model").score(read), scores[0])


def test_fields_of_structs_in_one_call_and_in_scores_of_this_process():
    rows, flat = nested()
    for row in [*filter(None, (row.get("customer") for row in rows))]:
        row["home"].pop("day")
    flat = [{k: v for k, v in row.items() if k != "customer.home.day"} for row in flat]
    write(rows, "rows.jsonl")
    table, frame = pa.Table.from_pylist(rows), pd.read_json("rows.jsonl", lines=True)
    settings = {"features": {"numKnots": 4}, "training": {"regParam": 0.1}}
    expected = spark_auc.train(pa.Table.from_pylist(flat), "y", **settings)
    scores = expected.score(pa.Table.from_pylist(flat))
    assert expected.evaluation.auc > 0.8
    for source in ("rows.jsonl", table, frame):
        made = spark_auc.train(source, "y", **settings)
        assert made.evaluation.auc == expected.evaluation.auc
        for read in (table, frame):
            np.testing.assert_array_equal(made.score(read), scores)
        np.testing.assert_array_equal([made.score(row) for row in table.to_pylist()], scores)


@pytest.mark.parametrize(
    ("left_out", "used"),
    [
        ("customer", []),
        ("customer.age", ["customer.home.by", "customer.home.day", "customer.income"]),
        ("Customer.Home", ["customer.age", "customer.income"]),
    ],
)
def test_fields_of_structs_are_left_out(left_out, used, capsys):
    write(nested()[0], "rows.jsonl")
    code, result = trained(capsys, "rows.jsonl", leave_out=[left_out])
    assert code == 0, result
    assert sorted(spark_auc.load("model").columns) == [*used, "visits"]


def test_a_column_goes_before_a_field_of_its_path(capsys):
    rows = [row | {"customer.age": row["y"]} for row in nested()[0][8:]]
    write(rows, "rows.parquet")
    code, result = trained(capsys, "rows.parquet", train_as=("spline", "customer.age"))
    assert code == 0, result
    assert result["auc"] == 1
    for row in rows:
        row["customer"]["age"] = 99
    write(rows, "others.parquet")
    expected = scored(capsys, "rows.parquet")
    np.testing.assert_array_equal(scored(capsys, "others.parquet"), expected)
    scores = spark_auc.load("model").score(pa.Table.from_pylist(rows))
    np.testing.assert_array_equal(scores, expected)


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_label_and_a_time_in_structs(suffix, capsys):
    rows = [{"customer": row["customer"], "of": {"y": row["y"]}} for row in nested()[0][8:]]
    day = {"time": "customer.home.day"} if suffix == "jsonl" else {}
    write(rows, f"rows.{suffix}")
    options = {"data": f"rows.{suffix}", "label": "of.y", "output": "model"} | day
    code, result = job(capsys, "train", *FAST, **options)
    assert code == 0, result
    assert result["auc"] > 0.8


def in_partitions(suffix):
    """Write rows in a directory for each day and site, and the same rows in one file."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(columns()).astype({"age": int, "y": int})
    frame["site"] = rng.integers(0, 3, ROWS)
    frame["day"] = rng.choice(["2024-01-01", "2024-01-02", "2024-02-01"], ROWS)
    frame.loc[(frame.site == 1) & (rng.random(ROWS) < 0.8), "y"] = 1
    frame = frame.sort_values(["day", "site"], kind="stable", ignore_index=True)
    for (day, site), rows in frame.groupby(["day", "site"]):
        place = Path(f"parts/day={day}/site={site}")
        place.mkdir(parents=True)
        write(rows.drop(columns=["day", "site"]).to_dict("records"), str(place / f"a.{suffix}"))
    frame = frame[["age", "channel", "y", "day", "site"]]
    if suffix == "parquet":
        frame["day"] = pd.to_datetime(frame.day).dt.date
    write(frame.to_dict("records"), f"whole.{suffix}")


@pytest.mark.parametrize(
    ("suffix", "engine"),
    [
        ("csv", "local"),
        ("jsonl", "local"),
        ("parquet", "local"),
        ("csv", "spark"),
        pytest.param("parquet", "spark", marks=pytest.mark.slow),
    ],
)
def test_directories_of_partitions_are_columns(suffix, engine, capsys, request):
    """The oracle is one file with the columns of the directories."""
    if engine == "spark":
        request.getfixturevalue("spark")
    in_partitions(suffix)
    results = {}
    for name in ("parts", f"whole.{suffix}"):
        code, result = trained(capsys, name, ("spline", "age"), engine=engine, time="day")
        assert code == 0, result
        names = spark_auc.load("model").columns
        assert {*names} == {"age", "channel", "day", "site"}
        results[name] = result["auc"], result["features"], scored(capsys, name, engine=engine)
    mine, whole = results.values()
    assert mine[:2] == whole[:2]
    assert mine[0] > 0.8
    # Spark reads files in the order of their sizes.
    np.testing.assert_allclose(np.sort(mine[2]), np.sort(whole[2]), rtol=1e-9)


def test_directories_of_partitions_in_one_call():
    in_partitions("csv")
    settings = {"features": {"numKnots": 4}, "training": {"regParam": 0.1}}
    made = spark_auc.train("parts", "y", **settings)
    assert made.evaluation.auc == spark_auc.train("whole.csv", "y", **settings).evaluation.auc
    assert "site" in made.ranker.columns


ODD = {
    "map": pa.array([[("a", 1)]] * ROWS, pa.map_(pa.string(), pa.int32())),
    "time of day": pa.array(range(ROWS), pa.time64("us")),
    "half": pa.array(np.arange(ROWS) % 7, pa.float16()),
    "Age": pa.array(range(ROWS)),
}


@pytest.mark.parametrize("engine", ["local", "spark"])
@pytest.mark.parametrize("name", ODD)
def test_odd_columns_of_parquet(name, engine, capsys, request):
    """They are read or left out, or refused by a sentence."""
    if engine == "spark":
        request.getfixturevalue("spark")
    table = pa.Table.from_pandas(pd.DataFrame(columns()).astype({"age": int, "y": int}))
    pq.write_table(table.append_column(name, ODD[name]), "rows.parquet")
    code, result = trained(capsys, "rows.parquet", engine=engine)
    if name in ("map", "Age") or engine == "local":
        assert code == 0, result
        assert result["auc"] > 0.8
    else:
        assert code == 2
        assert result["message"].startswith("found columns that Spark cannot")


def test_one_label_against_the_rest(capsys, caplog):
    """The oracle is the same table with two labels."""
    rng = np.random.default_rng(9)
    found = columns()
    kinds = ["gone" if y == "1" else rng.choice(["new", "old", "idle"]) for y in found["y"]]
    Path("many.csv").write_text(text(found | {"y": kinds}))
    two = ["gone" if kind == "gone" else "here" for kind in kinds]
    Path("two.csv").write_text(text(found | {"y": two}))
    code, refused = trained(capsys, "many.csv")
    assert code == 3
    assert "one label against the rest by --positive" in refused["message"]
    results = {name: trained(capsys, name, positive="gone")[1] for name in ("two.csv", "many.csv")}
    assert "--positive gone is ranked against the rest" in caplog.text
    assert results["many.csv"]["auc"] == results["two.csv"]["auc"]
    np.testing.assert_array_equal(scored(capsys, "many.csv"), scored(capsys, "two.csv"))
    ranker = spark_auc.load("model")
    assert {*ranker.predict(pd.read_csv("many.csv"))} == {"gone", "not gone"}


@pytest.mark.parametrize("words", [("True", "False"), ("true", "false"), ("TRUE", "FALSE")])
def test_labels_of_true_and_false_need_no_positive_one(words, capsys):
    found = columns()
    Path("plain.csv").write_text(text(found))
    Path("words.csv").write_text(text(found | {"y": [words[y == "0"] for y in found["y"]]}))
    aucs = [trained(capsys, name)[1]["auc"] for name in ("plain.csv", "words.csv")]
    assert aucs[0] == aucs[1]


def test_values_that_never_occurred_are_told(capsys, caplog):
    found = columns()
    Path("rows.csv").write_text(text(found))
    assert trained(capsys, "rows.csv")[0] == 0
    scored(capsys, "rows.csv")
    assert "occurred in the training" not in caplog.text
    Path("new.csv").write_text(text(found | {"channel": [w.upper() for w in found["channel"]]}))
    scored(capsys, "new.csv")
    assert "no value of column 'channel' in the first 200 rows occurred in the training" in (
        caplog.text
    )
    assert "column 'age'" not in caplog.text


def test_a_word_among_keys_is_a_key(capsys):
    found = columns()
    users = ["guest" if k % 3 == 0 else str(k // 4) for k in range(ROWS)]
    Path("rows.csv").write_text(text(found | {"user": users}))
    code, result = job(
        capsys,
        "train",
        "train.columns.key=user",
        "train.features.numKnots=4",
        data="rows.csv",
        label="y",
        output="model",
    )
    assert code == 0, result
    (place,) = Path("model").glob("versions/*/columns.json")
    (user,) = [f for f in json.loads(place.read_text())["columns"] if f["name"] == "user"]
    assert (user["type"], user["note"]) == ("text", "key")
