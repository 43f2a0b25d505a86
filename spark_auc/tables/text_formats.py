"""Formats of numbers, booleans and times as text: their patterns, and their values."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_auc.core.types import Bool, Float, Int

_NUMBER = r"[+-]?(([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?|(?i:inf(inity)?))"
_SIGN = "[$€£¥₹]"
# Separators of thousands beside a decimal comma.
_GAP = r"[. '\x{a0}\x{2019}\x{202f}]"
_DAY = "(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
_SECONDS = "(:(?P<second>[0-9]{2})([.](?P<part>[0-9]{1,9}))?)?"
_TIME = f"[T ](?P<hour>[0-9]{{2}}):(?P<minute>[0-9]{{2}}){_SECONDS}"
_ZONE = "( ?(UTC|(?P<sign>[+-])(?P<east>[0-9]{2})(:?(?P<more>[0-9]{2}))?)|Z)"
_CLOCK = (
    f"(,?[T ] *(?P<hour>[0-9]{{1,2}}):(?P<minute>[0-9]{{2}}){_SECONDS}"
    "( ?(?P<half>[AaPp])[.]?[Mm][.]?)?)?"
)
_LESS, _MORE = "<=?|≤|under|below|less than|up to", ">=?|≥|over|above|more than"
_DASH = r"\x{2013}\x{2014}"
_COUNT = "[0-9]{1,9}(?:[.][0-9]+)?"
_SIZE = f"{_SIGN}?(?:[0-9]{{1,3}}(?:,[0-9]{{3}})+|[0-9]+)(?:[.][0-9]+)?%?"
_BAND = (
    f"(?i)^(?:(?P<low>{_SIZE}) ?(?:[-{_DASH}/]|to) ?(?P<high>{_SIZE})"
    rf"|[[(](?P<begin>[+-]?{_COUNT}) ?(?:[-{_DASH},]|to) ?(?P<end>[+-]?{_COUNT})[\])]"
    f"|(?:{_LESS}) ?(?P<below>{_SIZE})|(?:{_MORE}) ?(?P<above>{_SIZE})"
    f"|(?P<least>{_SIZE}) ?(?:[+]|(?:and|or) (?:over|above|more|older))|(?P<number>[+-]?{_SIZE}))$"
)
# Seconds of units of time, of a year of 365.25 days and a twelfth of it, and their words.
_UNITS = (
    (31_557_600, "yrs?|years?"),
    (2_629_800, "mons?|mths?|months?"),
    (604_800, "wks?|weeks?"),
    (86_400, "days?"),
    (3_600, "hrs?|hours?"),
    (60, "mins?|minutes?"),
    (1, "secs?|seconds?"),
)
_UNIT = "|".join(words for _, words in _UNITS)
_DURATION = f"(?i)^(?:(?:{_LESS}|{_MORE}) ?)?(?:{_COUNT} ?[+]? ?(?:{_UNIT})[., ]*)+$"
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_NAMES = f"(?i:{'|'.join(_MONTHS)})"
_YEAR = "(?P<year>[0-9]{4}|[0-9]{2})"
_TEXT = pa.string()
_MOMENT, _INSTANT = pa.timestamp("us"), pa.timestamp("us", "UTC")
# Years of two digits are those of 1969 to 2068, as for POSIX.
_PIVOT = 69
_SECOND = 1_000_000


class Format(NamedTuple):
    """A format of text.

    Parameters
    ----------
    pattern
        The pattern of its values.
    arrow
        The type of the values.
    convert
        Maps text of the pattern to values, missing where there is no such day, hour or band.
    refuses
        Whether there may be such text of the pattern.
    """

    pattern: str
    arrow: pa.DataType
    convert: Callable[[pa.Array], pa.Array]
    refuses: bool = False


def _integers(values: pa.Array) -> pa.Array:
    return _without_plus(values).cast(pa.int64())


def _doubles(values: pa.Array) -> pa.Array:
    return _without_plus(values).cast(pa.float64())


def _without_plus(values: pa.Array) -> pa.Array:
    """Numbers without a plus, which Arrow does not take."""
    if not pc.any(pc.starts_with(values, "+")).as_py():
        return values
    return pc.replace_substring_regex(values, r"^\+", "")


def _amounts(values: pa.Array) -> pa.Array:
    return _doubles(pc.replace_substring_regex(values, f"{_SIGN}|[,% ]", ""))


def _with_points(values: pa.Array) -> pa.Array:
    """Numbers with a decimal comma."""
    digits = pc.replace_substring_regex(values, f"{_SIGN}|{_GAP}|%", "")
    return _doubles(pc.replace_substring(digits, ",", "."))


def _bands(values: pa.Array) -> pa.Array:
    """Midpoints of bands of numbers, and numbers; a month of a year is no band.

    Of bands with one end, ``<v`` is half of v, and ``>v`` and ``v+`` are 1.25 times v.
    """
    groups = pc.extract_regex(values, _BAND)

    def numbers(name: str) -> Float:
        digits = pc.replace_substring_regex(groups.field(name), f"{_SIGN}|[,%+]", "")
        found = pc.if_else(pc.equal(digits, ""), None, digits).cast(pa.float64())
        return np.array(found.to_numpy(zero_copy_only=False), float)

    low, high = (np.fmax(numbers(a), numbers(b)) for a, b in (("low", "begin"), ("high", "end")))
    month = (low >= 1) & (low <= 12) & (high >= 1900) & (high <= 2100)
    inner = np.where((low < high) & ~month, (low + high) / 2, np.nan)
    below, above = numbers("below"), np.fmax(numbers("above"), numbers("least"))
    outer = np.fmax(_below(below), _above(above))
    found = np.fmax(np.fmax(inner, outer), numbers("number"))
    return pa.array(found, pa.float64(), mask=np.isnan(found))


def _below(number: Float) -> Float:
    return np.where(number > 0, number / 2, number - 0.5)


def _above(number: Float) -> Float:
    return number + np.maximum(np.abs(number) / 4, 0.5)


def _spans(values: pa.Array) -> pa.Array:
    """Durations in whole seconds, of one unit or several; integers, so that they may be codes."""
    matches = pc.match_substring_regex(values, _DURATION)
    own = pc.if_else(matches, values, None)
    seconds = np.zeros(len(own))
    for length, unit in _UNITS:
        found = pc.extract_regex(own, f"(?i)(?P<count>{_COUNT}) ?[+]? ?(?:{unit})(?:[^a-z]|$)")
        count = found.field("count").filter(found.is_valid()).cast(pa.float64())
        seconds[found.is_valid().to_numpy(zero_copy_only=False)] += length * count.to_numpy()

    def bounded(pattern: str) -> Bool:
        found = pc.fill_null(pc.match_substring_regex(own, f"(?i){pattern}"), False)
        return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)

    seconds = np.where(bounded(f"^(?:{_LESS})"), seconds / 2, seconds)
    seconds = np.where(bounded(f"^(?:{_MORE})|[+]"), seconds * 1.25, seconds)
    whole, absent = np.rint(seconds).astype(np.int64), own.is_null()
    return pa.array(whole, mask=absent.to_numpy(zero_copy_only=False))


def _booleans(values: pa.Array) -> pa.Array:
    return pc.utf8_lower(values).cast(pa.bool_())


def _moments(pattern: str, kind: pa.DataType, values: pa.Array) -> pa.Array:
    """Times by the groups of a pattern."""
    # Arrow reads most of them itself, and faster.
    with suppress(pa.ArrowInvalid):
        return values.cast(kind)
    groups = pc.extract_regex(values, f"^{pattern}$")
    known = {field.name for field in groups.type}

    def text(*names: str) -> pa.Array:
        # Of groups of one meaning, one has text.
        found = [pc.fill_null(groups.field(n).cast(_TEXT), "") for n in names if n in known]
        return pc.binary_join_element_wise(pa.repeat("", len(values)), *found, "")

    def whole(*names: str) -> Int:
        found = text(*names)
        digits = pc.if_else(pc.equal(found, ""), "0", found)
        return np.asarray(digits.cast(pa.int64()).to_numpy(zero_copy_only=False))

    year, month, day = whole("year", "long"), whole("month", "after"), whole("day", "late")
    is_short = pc.equal(pc.utf8_length(text("year", "long")), 2).to_numpy(zero_copy_only=False)
    year = year + np.where(year < _PIVOT, 2000, 1900) * is_short
    if "name" in known:
        found = pc.index_in(pc.utf8_lower(text("name", "first")), pa.array(_MONTHS))
        month = 1 + np.asarray(pc.fill_null(found, -1).to_numpy(zero_copy_only=False), np.int64)
    days, fits = _days(year, month, day)
    hour, half = whole("hour"), pc.utf8_lower(text("half"))
    is_half = pc.not_equal(half, "").to_numpy(zero_copy_only=False)
    fits &= np.where(is_half, (hour > 0) & (hour <= 12), hour < 24)
    afternoon = pc.equal(half, "p").to_numpy(zero_copy_only=False)
    hour = np.where(is_half, hour % 12 + 12 * afternoon, hour)
    minute, second = whole("minute"), whole("second")
    part = pc.utf8_slice_codeunits(pc.utf8_rpad(text("part"), 6, "0"), 0, 6)
    micros = np.asarray(part.cast(pa.int64()).to_numpy(zero_copy_only=False))
    fits &= (minute < 60) & (second < 60)
    offset = 60 * whole("east") + whole("more")
    behind = pc.equal(text("sign"), "-").to_numpy(zero_copy_only=False)
    minute = minute - np.where(behind, -offset, offset)
    micros = micros + _SECOND * (second + 60 * (minute + 60 * (hour + 24 * days)))
    missing = ~fits | values.is_null().to_numpy(zero_copy_only=False)
    return pa.array(micros, pa.int64(), mask=missing).cast(_MOMENT).cast(kind)


def _days(year: Int, month: Int, day: Int) -> tuple[Int, Bool]:
    """Days since 1970, and whether there are such days."""
    months = 12 * (year - 1970) + month - 1
    first, following = (m.view("M8[M]").astype("M8[D]").astype(int) for m in (months, months + 1))
    fits = (month > 0) & (month <= 12) & (day > 0) & (first + day <= following)
    return first + day - 1, fits


def _of_epoch(unit: int, values: pa.Array) -> pa.Array:
    """Instants of numbers of a unit, in microseconds, since 1970."""
    micros = pc.round(pc.multiply(_doubles(values), float(unit)))
    return micros.cast(pa.int64()).cast(_MOMENT).cast(_INSTANT)


def _times(pattern: str, kind: pa.DataType = _MOMENT) -> Format:
    # Arrow takes groups of names alone.
    pattern = re.sub(r"[(](?![?])", "(?:", pattern)
    return Format(f"^({pattern})$", kind, partial(_moments, pattern, kind), refuses=True)


# In this order the first that fits is taken.
INFERRED = {
    "integer": Format(r"^[+-]?[0-9]{1,18}$", pa.int64(), _integers),
    "float": Format(f"^{_NUMBER}$", pa.float64(), _doubles),
    "amount": Format(
        f"^({_NUMBER}|[+-]?{_SIGN}? ?[+-]?([0-9]{{1,3}}(,[0-9]{{3}})+|[0-9]+)([.][0-9]*)?"
        f"( ?({_SIGN}|%))?)$",
        pa.float64(),
        _amounts,
    ),
    "decimalComma": Format(
        f"^[+-]?{_SIGN}? ?[+-]?([0-9]{{1,3}}({_GAP}[0-9]{{3}})+|[0-9]+)(,[0-9]+)?( ?({_SIGN}|%))?$",
        pa.float64(),
        _with_points,
    ),
    "band": Format(_BAND, pa.float64(), _bands, refuses=True),
    "duration": Format(_DURATION, pa.int64(), _spans),
    "boolean": Format(r"^(?i)(true|false)$", pa.bool_(), _booleans),
    "date": _times(_DAY, pa.date32()),
    "time": _times(f"{_DAY}({_TIME})?"),
    "zoned": _times(f"{_DAY}{_TIME}{_ZONE}", _INSTANT),
    "yearFirst": _times(
        f"(?P<year>[0-9]{{4}})[-/.](?P<month>[0-9]{{1,2}})[-/.](?P<day>[0-9]{{1,2}}){_CLOCK}"
    ),
    "monthFirst": _times(
        f"(?P<month>[0-9]{{1,2}})(/(?P<day>[0-9]{{1,2}})/{_YEAR}|"
        f"-(?P<late>[0-9]{{1,2}})-(?P<long>[0-9]{{4}})){_CLOCK}"
    ),
    "dayFirst": _times(
        f"(?P<day>[0-9]{{1,2}})(/(?P<month>[0-9]{{1,2}})/{_YEAR}|"
        f"[-.](?P<after>[0-9]{{1,2}})[-.](?P<long>[0-9]{{4}})){_CLOCK}"
    ),
    "monthNamed": _times(
        f"((?P<day>[0-9]{{1,2}})[-/ ](?P<name>{_NAMES})[A-Za-z]*[.]?[-/, ] ?|"
        f"(?P<first>{_NAMES})[A-Za-z]*[.]? (?P<late>[0-9]{{1,2}})(, ?| )){_YEAR}{_CLOCK}"
    ),
}
# Formats that all values of another format fit.
WIDER = {
    "float": "integer",
    "amount": "float",
    "decimalComma": "integer",
    "band": "integer",
    "time": "date",
    "yearFirst": "time",
}
# Formats of digits alone, which are times where the user says so.
TIMES_OF_DIGITS = {
    "digits": _times("(?P<year>(19|20|21)[0-9]{2})(?P<month>[0-9]{2})(?P<day>[0-9]{2})"),
    "seconds": Format(r"^[0-9]{9,10}([.][0-9]*)?$", _INSTANT, partial(_of_epoch, _SECOND)),
    "milliseconds": Format(r"^[0-9]{12,13}([.][0-9]*)?$", _INSTANT, partial(_of_epoch, 1_000)),
}
_CODES = Format("", _TEXT, lambda values: values.cast(_TEXT))
FORMATS = INFERRED | TIMES_OF_DIGITS | {"code": _CODES}
