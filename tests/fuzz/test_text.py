"""Random tables in random dialects of delimited text: the values that are read were written."""

import gzip
import itertools
import re
from datetime import UTC, date, datetime, timedelta, timezone
from typing import NamedTuple
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_auc.errors import DataError
from spark_auc.tables import text_ranges
from spark_auc.tables.files import open_file
from spark_auc.tables.text_types import inferred, typed
from tests.fuzz.inputs import inputs

pytestmark = pytest.mark.fuzz

SEPARATORS = ",;\t|"
MISSING = ["", "NA", "null", "NaN", "?", "-", ".", "\\N", " ", "\xa0NA", "NaT", "0000-00-00"]
LETTERS = "w0é ,;|\t\"'\n\r\\#年🙂\xa0.-"
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
FIRST, LAST = datetime(1, 1, 2), datetime(9999, 12, 30)


class Form(NamedTuple):
    """How values are drawn, and written as text."""

    values: st.SearchStrategy
    text: object


def decimals(x):
    return f"{x:.2f}".replace(".", ",")


def with_gaps(gap):
    return lambda x: f"{x:,.2f}".translate({ord(","): gap, ord("."): ","})


def zoned(east):
    zone = timezone(timedelta(minutes=east))
    return lambda t: t.astimezone(zone).isoformat(" ")


INTEGERS = st.integers(-(10**18) + 1, 10**18 - 1)
FLOATS = st.floats(allow_nan=False)
CENTS = st.integers(-(10**9), 10**9).map(lambda k: k / 100)
TIMES = st.datetimes(FIRST, LAST)
WHOLE = TIMES.map(lambda t: t.replace(microsecond=0))
MINUTES = WHOLE.map(lambda t: t.replace(second=0))
DAYS = st.dates(FIRST.date(), LAST.date())
NEAR = st.dates(date(1969, 1, 1), date(2068, 12, 31))
LATE = st.dates(date(1000, 1, 1), date(9999, 12, 30))
FORMS = {
    "integers": Form(INTEGERS, str),
    "small integers": Form(st.integers(-5, 5), "{:+}".format),
    "floats": Form(FLOATS, repr),
    "exponents": Form(CENTS, "{:.17E}".format),
    "points at the end": Form(st.integers(-99, 99).map(float), "{:.0f}.".format),
    "amounts": Form(CENTS, "{:,.2f}".format),
    "dollars": Form(CENTS, lambda x: f"{'-' * (x < 0)}${abs(x):,.2f}"),
    "euros at the end": Form(CENTS, "{:.2f} €".format),
    "percent": Form(CENTS, "{:.2f}%".format),
    "decimal commas": Form(CENTS, decimals),
    "points between thousands": Form(CENTS, with_gaps(".")),
    "spaces between thousands": Form(CENTS, with_gaps("\u202f")),
    "apostrophes between thousands": Form(CENTS, with_gaps("'")),
    "booleans": Form(st.booleans(), str),
    "dates": Form(DAYS, date.isoformat),
    "times": Form(TIMES, lambda t: t.isoformat(" ")),
    "times of minutes": Form(MINUTES, lambda t: t.isoformat("T", "minutes")),
    "zoned": Form(TIMES.map(lambda t: t.replace(tzinfo=UTC)), zoned(0)),
    "east": Form(TIMES.map(lambda t: t.replace(tzinfo=UTC)), zoned(330)),
    "west": Form(TIMES.map(lambda t: t.replace(tzinfo=UTC)), zoned(-570)),
    "year first": Form(DAYS, lambda t: t.isoformat().replace("-", "/")),
    "month first": Form(LATE, lambda t: f"{t.month}/{t.day}/{t.year}"),
    "month first of two digits": Form(NEAR, lambda t: t.strftime("%m/%d/%y")),
    "day first": Form(LATE, lambda t: f"{t.day}.{t.month}.{t.year}"),
    "day first with hours": Form(
        WHOLE.filter(lambda t: t.year > 999), lambda t: t.strftime("%d/%m/%Y %H:%M:%S")
    ),
    "halves of days": Form(
        MINUTES.filter(lambda t: t.year > 999), lambda t: t.strftime("%m/%d/%Y %I:%M %p")
    ),
    "named months": Form(LATE, lambda t: f"{t.day}-{MONTHS[t.month - 1]}-{t.year}"),
    "codes": Form(st.integers(0, 99).map("{:03}".format), str),
    "words": Form(st.text(LETTERS, max_size=6).map("w{}".format), str),
}
NAMES = st.text("aB1é \"'`.#\n年", max_size=4)


@st.composite
def columns(draw):
    """Columns as names, forms, values and text; None for missing values and for odd words."""
    count = draw(st.integers(0, 25))
    made = []
    for _ in range(draw(st.integers(2, 4))):
        form = draw(st.sampled_from([*FORMS]))
        values = draw(st.lists(FORMS[form].values, min_size=count, max_size=count))
        texts = [*map(FORMS[form].text, values)]
        is_text = form in ("words", "codes")
        for k in draw(st.sets(st.integers(0, max(0, count - 1)), max_size=count // 2)):
            texts[k] = "" if is_text else draw(st.sampled_from(MISSING))
            values[k] = None
        if draw(st.integers(0, 5)) == 0 and count > 4 and not is_text and form != "booleans":
            known = [k for k in range(count) if values[k] is not None]
            for k in known[: len(known) // 4]:
                texts[k], values[k] = "unknown", None
        made.append((draw(NAMES), form, values, texts))
    return made


class Dialect(NamedTuple):
    """How a table is written."""

    separator: str
    ends: tuple
    quoted: bool
    before: str
    after: str
    mark: bool
    stated: bool
    last: bool
    blank: bool
    suffix: str
    size: int


BLANKS = st.sampled_from(["", "", "", " ", "\t ", "   "])
DIALECTS = st.builds(
    Dialect,
    st.sampled_from(SEPARATORS),
    st.sampled_from([("\n",), ("\n",), ("\r\n",), ("\n", "\r\n")]),
    st.booleans(),
    BLANKS,
    BLANKS,
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["csv", "tsv", "csv.gz"]),
    st.sampled_from([7, 60, 10**6]),
)


def written(rows, dialect):
    """The bytes of a file."""
    separator = dialect.separator
    # Tabulators at as many places as the separator would be one, if no line tells it.
    is_clear = dialect.stated and separator != "\t"
    blanks = (dialect.before, dialect.after)
    before, after = blanks if is_clear else (b.replace("\t", " ") for b in blanks)

    def field(text):
        starts = text.lstrip(" \t").startswith('"')
        needed = starts or {separator, "\n", "\r"} & {*text}
        if needed or dialect.quoted:
            text = '"' + text.replace('"', '""') + '"'
        return before + text + after

    lines = [separator.join(field(text) for text in row) for row in rows]
    lines = [f"sep={separator}"] * dialect.stated + lines
    if dialect.blank:
        lines += ["", ""]
    ends = itertools.cycle(dialect.ends)
    content = "".join(line + next(ends) for line in lines)
    if not dialect.last:
        content = content.removesuffix("\n").removesuffix("\r")
    found = b"\xef\xbb\xbf" * dialect.mark + content.encode()
    return gzip.compress(found) if dialect.suffix.endswith("gz") else found


def is_ambiguous(form, values):
    """Whether the day and the month of all dates could be exchanged."""
    either = ("month first", "month first of two digits", "day first with hours", "halves of days")
    return form in either and all(t is None or t.day <= 12 for t in values)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    root = tmp_path_factory.mktemp("files")
    return (root / str(k) for k in itertools.count())


@inputs(5000)
@given(made=columns(), dialect=DIALECTS)
def test_what_is_read_was_written(places, made, dialect):
    names, forms, values, texts = zip(*made, strict=True)
    header = [*names]
    # A line that names few columns reads as a title.
    header[1:] = [name.strip(" ") or "x" for name in names[1:]]
    place = next(places).with_suffix(f".{dialect.suffix}")
    place.write_bytes(written([header, *zip(*texts, strict=True)], dialect))
    with mock.patch.object(text_ranges, "_RANGE_BYTES", dialect.size):
        table = open_file(place, trimmed=True)
        assert len(table.schema) == len(header)
        found = inferred(table)
        rows = typed(table, [one.reading for one in found.values()]).gathered()
    place.unlink()
    rows = pa.table(table.schema.empty_table()) if rows is None else rows
    assert len({*rows.column_names}) == len(header)
    for k, (form, expected, written_as) in enumerate(zip(forms, values, texts, strict=True)):
        read = rows.column(k).to_pylist()
        is_empty = not any(value is not None for value in expected)
        if form in ("words", "codes") or is_ambiguous(form, expected) or is_empty:
            blanks = " \t".replace(dialect.separator, "")
            assert [v or "" for v in read] == [t.strip(blanks) for t in written_as]
        else:
            assert [*map(plain, read)] == [*map(plain, expected)], form


@inputs(5000)
@given(made=columns(), dialect=DIALECTS, data=st.data())
def test_damaged_files_are_read_or_refused(places, made, dialect, data):
    names, _, _, texts = zip(*made, strict=True)
    content = bytearray(written([names, *zip(*texts, strict=True)], dialect))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content)))
        more = data.draw(st.binary(max_size=2) | st.sampled_from([b'"', b"\r", b"\n", b",", b";"]))
        content[at : at + data.draw(st.sampled_from([0, 1, 1000]))] = more
    place = next(places).with_suffix(f".{dialect.suffix}")
    place.write_bytes(content)
    with mock.patch.object(text_ranges, "_RANGE_BYTES", dialect.size):
        try:
            table = open_file(place, trimmed=True)
            typed(table, [one.reading for one in inferred(table).values()]).gathered()
        except DataError as error:
            said = str(error)
            assert re.fullmatch("found .+, expected .+; .+", said, re.DOTALL)
    place.unlink()


def plain(value):
    """A value whose days are times at midnight."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    return value
