"""Numbers and times as text: those that Python writes are those that are read."""

import re
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spark_auc.features import readings
from spark_auc.tables.text_formats import FORMATS, WIDER

RNG = np.random.default_rng(5)
SECONDS = RNG.integers(-(10**9), 4 * 10**9, 300).tolist()
TIMES = [datetime(1970, 1, 1) + timedelta(seconds=s) for s in SECONDS]
AMOUNTS = [round(float(x), 2) for x in RNG.normal(size=300) * 10.0 ** RNG.integers(0, 7, 300)]


def read(form, texts):
    """The values of texts that all have the pattern of a format."""
    values = pa.array(texts, pa.string())
    assert pc.all(pc.match_substring_regex(values, FORMATS[form].pattern)).as_py(), texts
    made = FORMATS[form].convert(values)
    assert made.type == FORMATS[form].arrow
    return made.to_pylist()


@pytest.mark.parametrize(
    ("form", "written"),
    [
        ("time", "%Y-%m-%d %H:%M:%S"),
        ("yearFirst", "%Y/%m/%d %H:%M:%S"),
        ("yearFirst", "%Y.%m.%d %H:%M:%S"),
        ("monthFirst", "%m/%d/%Y %H:%M:%S"),
        ("monthFirst", "%m-%d-%Y %I:%M:%S %p"),
        ("dayFirst", "%d.%m.%Y, %H:%M:%S"),
        ("dayFirst", "%d/%m/%Y %I:%M:%S%p"),
        ("monthNamed", "%d-%b-%Y %H:%M:%S"),
        ("monthNamed", "%B %d, %Y %H:%M:%S"),
        ("monthNamed", "%d %B %Y %I:%M:%S %p"),
    ],
)
@pytest.mark.parametrize("zeros", [True, False])
def test_times(form, written, zeros):
    texts = [time.strftime(written) for time in TIMES]
    if not zeros and form != "time":
        # 03/08/2014 as 3/8/2014; hours are of one digit too.
        texts = [re.sub(r"(?<![:\d])0(\d)", r"\1", text) for text in texts]
    assert read(form, texts) == TIMES


@pytest.mark.parametrize(
    ("form", "written"),
    [
        ("date", "%Y-%m-%d"),
        ("digits", "%Y%m%d"),
        ("monthFirst", "%m/%d/%y"),
        ("dayFirst", "%d/%m/%y"),
        ("monthNamed", "%d-%b-%y"),
    ],
)
def test_days(form, written):
    days = [t.replace(hour=0, minute=0, second=0) for t in TIMES if 1969 <= t.year < 2069]
    found = read(form, [day.strftime(written) for day in days])
    assert found == ([day.date() for day in days] if form == "date" else days)


def test_instants():
    instants = [time.replace(tzinfo=UTC) for time in TIMES]
    for east in (-570, 0, 330):
        zone = timezone(timedelta(minutes=east))
        texts = [instant.astimezone(zone).isoformat(" ") for instant in instants]
        assert read("zoned", texts) == instants
        assert read("zoned", [t[:-6] + " " + t[-6:-3] + t[-2:] for t in texts]) == instants
    since = [instant for instant in instants if instant.year > 1980]
    assert read("seconds", [str(int(t.timestamp())) for t in since]) == since
    later = [t.replace(microsecond=250_000) for t in since]
    assert read("seconds", [f"{int(t.timestamp())}.25" for t in since]) == later
    assert read("milliseconds", [f"{int(t.timestamp())}250" for t in since]) == later


def test_there_is_no_such_day_or_hour():
    for form, texts in {
        "date": ["2023-02-29", "2024-13-01", "2024-00-10", "0000-00-00"],
        "time": ["2024-02-29 24:00", "2024-02-29 10:60"],
        "monthFirst": ["13/1/2014", "2/30/2014", "1/1/2014 13:00 PM", "1/1/2014 0:10 AM"],
        "dayFirst": ["1/13/2014", "31.4.2014"],
        "monthNamed": ["31-Apr-14"],
        "digits": ["20140230"],
    }.items():
        for text in texts:
            assert read(form, [text, None]) == [None, None], text


def test_noon_and_midnight():
    texts = ["1/2/2014 12:00 AM", "1/2/2014 12:00 PM", "1/2/2014 1:05 p.m."]
    hours = [(time.hour, time.minute) for time in read("monthFirst", texts)]
    assert hours == [(0, 0), (12, 0), (13, 5)]


def grouped(value, thousands, point):
    return f"{value:,.2f}".translate({ord(","): thousands, ord("."): point})


@pytest.mark.parametrize(
    ("form", "thousands", "point"),
    [
        ("amount", ",", "."),
        ("amount", "", "."),
        ("decimalComma", ".", ","),
        ("decimalComma", "", ","),
    ]
    + [("decimalComma", gap, ",") for gap in (" ", "'", "\u00a0", "\u202f", "\u2019")],
)
@pytest.mark.parametrize("around", ["{}", "${}", "{} %", "{}%", "{} \u20ac"])
def test_amounts(form, thousands, point, around):
    texts = [around.format(grouped(value, thousands, point)) for value in AMOUNTS]
    assert read(form, texts) == AMOUNTS


def test_bands():
    bands = [sorted(pair) for pair in RNG.choice(5000, (200, 2), replace=False).tolist()]
    bands = [(a, b) for a, b in bands if not (1 <= a <= 12 and 1900 <= b <= 2100)]
    for around in ("{}-{}", "{}/{}", "{} to {}", "{} \u2013 {}", "${:,}-${:,}", "{}%-{}%"):
        assert read("band", [around.format(a, b) for a, b in bands]) == [
            (a + b) / 2 for a, b in bands
        ]
    for around in ("[{}-{})", "({}, {}]", "[{},{}]"):
        assert read("band", [around.format(-a, b) for a, b in bands]) == [
            (b - a) / 2 for a, b in bands
        ]
    assert read("band", ["(17.5, 25.0]", "0-0.5"]) == [21.25, 0.25]
    # Open bands lie beyond their ends, and between the values beside them.
    texts = ["<1", "1", "2", "19", "20", ">20", "<10", "10/49", "10000+", "65 and over", "<= 4"]
    assert read("band", texts) == [0.5, 1, 2, 19, 20, 25, 5, 29.5, 12500, 81.25, 2]
    assert read("band", [">0", "0", "<0", "-3"]) == [0.5, 0, -0.5, -3]
    # Neither a month of a year nor a band that ends before it begins.
    odd = ["2014-02", "05/2014", "3-2", "12-2014", "7-7"]
    assert read("band", odd) == [None] * len(odd)


def test_durations():
    day = 86_400
    for text, seconds in {
        "2 months": 60.875 * day,
        "1 year": 365.25 * day,
        "0 years": 0,
        "1 weeks": 7 * day,
        "3 days": 3 * day,
        "1yrs 11mon": (365.25 + 11 * 30.4375) * day,
        "2 yrs, 3 mths": (2 * 365.25 + 3 * 30.4375) * day,
        "1 Hour 30 mins": 5400,
        "10+ years": 12.5 * 365.25 * day,
        "> 2 years": 2.5 * 365.25 * day,
        "< 1 year": 365.25 * day / 2,
        "2.5 hrs": 9000,
        "30 secs": 30,
    }.items():
        assert read("duration", [text, None]) == [seconds, None]
    assert FORMATS["duration"].convert(pa.array(["2 months old", "in 3 days"])).null_count == 2


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("band", ["a-b", "1-2-3", "12-12-2014", "1.2.3", "<", "never", "1-", "[1-2", "1,23-4"]),
        ("duration", ["5", "year", "5 m", "3d", "5 yearsx", "2 months old", "1 / 2 years"]),
        ("integer", ["1.0", "1,2", "0x1", "1e3", "--1", "", "1234567890123456789"]),
        ("float", ["1,5", "1.2.3", "e5", "$1", "nan1", "1e"]),
        ("amount", ["1,23", "12,345,6", "1.234,50", "%", "$", "1 2", "12%%"]),
        ("decimalComma", ["1.5", "1,234.5", "12.34,5", ",", "1,"]),
        ("boolean", ["yes", "1", "truefalse"]),
        ("dayFirst", ["1/2", "1/2/3", "1.2.10", "2014/1/2", "1/2/2014 10"]),
        ("monthNamed", ["8 Mai", "Mar 2014", "8 Foo 2014"]),
        ("digits", ["2014030", "18990101", "20140308.0"]),
        ("seconds", ["12345", "99999999999"]),
    ],
)
def test_other_words(form, words):
    fits = pc.match_substring_regex(pa.array(words), FORMATS[form].pattern)
    assert fits.true_count == 0, fits


def test_recipes_and_tables_know_the_same_formats():
    assert readings.FORMATS.keys() == FORMATS.keys()


def test_values_of_a_format_fit_wider_ones():
    texts = {
        "integer": ["1", "-20", "+3", "007", "0"],
        "float": ["1", "2.5e-3", "-Inf", ".5", "5."],
        "date": ["2024-02-29", "1999-12-31"],
        "time": ["2024-02-29", "2024-02-29 10:11", "2024-02-29T10:11:12.123456789"],
    }
    for wide, narrow in WIDER.items():
        found, expected = read(wide, texts[narrow]), read(narrow, texts[narrow])
        if narrow == "date":
            expected = [datetime.combine(day, datetime.min.time()) for day in expected]
        assert found == expected


def test_years_of_four_digits_have_no_century_to_guess():
    assert read("yearFirst", ["0099/1/2", "2068/1/2"]) == [datetime(99, 1, 2), datetime(2068, 1, 2)]
    assert read("dayFirst", ["1/2/0068", "1/2/68"]) == [datetime(68, 2, 1), datetime(2068, 2, 1)]
