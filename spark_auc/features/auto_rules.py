"""The rules by which kinds of columns are chosen, and columns left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from spark_auc.features.codes import are_codes
from spark_auc.features.column_auc import ColumnCounts
from spark_auc.features.kinds.registry import HASHED_KINDS
from spark_auc.features.recipe_fit import Planned

AUTO = "auto"
# The kinds of a column of each type.
KINDS_OF: dict[str, tuple[str, ...]] = {
    "integer": ("spline", "tokens"),
    "float": ("spline",),
    "text": ("tokens",),
    "boolean": ("tokens",),
    "time": ("hour", "weekday", "spline"),
}
# The kind of an identifier that many rows have and many lack.
PRESENCE = ("presence",)
# Text is no identifier if values of so many rows and more have so large a share of the rows.
_REPEATED, _FREQUENT = 3, 0.2
# Integers are identifiers if almost every row has another one, and they number the rows, or many
# rows show no relation to the label.
_OTHERS, _MANY, _ERRORS = 0.95, 1000, 4.0
# Integers of at most so many distinct values have tokens too, whether they are codes or not.
FEW = 256
_EXACT = 2.0**53
# Bounds of the number of features of tokens. A token has at least `_EACH` of them, and up to
# `_ENOUGH` in all `_APART` where those that do not occur are left out.
FEWEST, MOST = 2**8, 2**18
_EACH, _APART, _ENOUGH = 1.5, 48.0, 2**16
# Most tokens of a column of each kind: bins of logarithms are floor(log(v)^2).
_MOST_TOKENS = {"hour": 24, "weekday": 7, "log": 1908, "presence": 1}
# Least share of rows with a value, and without, of identifiers whose presence is a feature.
_SOME = 0.01
# A column whose AUC is above this, or that of its reversed order, may contain the label.
LEAKAGE = 0.99


class Decision(NamedTuple):
    """What was decided or noticed about a column.

    Parameters
    ----------
    column
        Name of the column.
    sentence
        A sentence for the log.
    warning
        Whether the user should check it.
    """

    column: str
    sentence: str
    warning: bool


def decided(
    column: Planned, counts: ColumnCounts, is_free: bool
) -> tuple[Sequence[str], list[Decision]]:
    """The kinds of a column by its type, none to leave it out, and the reasons.

    Parameters
    ----------
    column
        Name, type and kind of the column.
    counts
        Values of the column in the rows.
    is_free
        Whether the column may be left out.
    """
    kinds = KINDS_OF[column.type]
    if is_free and (reason := _useless(column, counts, kinds[0])):
        return PRESENCE if _tells_by_presence(counts) else (), [reason]
    if column.type == "time" and _at_midnight(counts):
        kinds = kinds[1:]
    if column.type == "integer" and counts.both.distinct > FEW and not are_codes(counts):
        kinds = kinds[:1]
    return kinds, _leakage(column.name, counts)


def _tells_by_presence(counts: ColumnCounts) -> bool:
    """Whether many rows have a value and many have none."""
    rows = counts.both.rows
    return min(rows, counts.rows - rows) >= _SOME * counts.rows


def known_values(column: Planned, counts: ColumnCounts) -> tuple[str, ...] | None:
    """The digits of the integers of a column of tokens; None if they are many, or not integers."""
    values = counts.both.values
    is_listed = column.type == "integer" and column.kind == "tokens" and values.size <= FEW
    # The counts are of doubles, which hold no larger integers.
    if not is_listed or counts.both.tallies is not None or (np.abs(values) >= _EXACT).any():
        return None
    return tuple(str(int(value)) for value in values)


def dimension_of(
    columns: Sequence[Planned], counts: Mapping[str, ColumnCounts], *, apart: bool = False
) -> int:
    """Number of features for tokens: a power of 2 above 1.5 times the number of distinct tokens.

    Without ``apart``, up to half of the tokens share a feature, and its weight, with another.

    Parameters
    ----------
    columns
        The columns of a plan.
    counts
        Values of each column in the rows.
    apart
        Whether features that do not occur are left out of the moments: up to 65,536 then keep
        tokens apart, and enlarge the saved model by half a megabyte at most.
    """
    tokens = sum(
        min(counts[c.name].both.distinct, _MOST_TOKENS.get(c.kind, np.inf))
        for c in columns
        if c.kind in HASHED_KINDS
    )
    least, wished = (2 ** np.ceil(np.log2(each * tokens + 1)) for each in (_EACH, _APART))
    return int(np.clip(max(least, min(wished, _ENOUGH)) if apart else least, FEWEST, MOST))


def _useless(column: Planned, counts: ColumnCounts, kind: str) -> Decision | None:
    """Why to leave out a column that is constant or an identifier."""
    name, distinct, rows = column.name, round(counts.both.distinct), counts.both.rows
    if distinct + (rows < counts.rows) <= 1:
        value = "the same value" if rows else "no value"
        if rows and column.type == "integer" and abs(counts.both.values.max()) >= _EXACT:
            value += " in double precision; if its integers differ, convert it to text"
        sentence = f"left out {name!r}: all {counts.rows:,} rows have {value}"
        return Decision(name, sentence, warning=False)
    if _is_identifier(column, counts, distinct):
        about = "" if counts.both.tallies is None else "about "
        what = "the values of " if _tells_by_presence(counts) else ""
        sentence = (
            f"left out {what}{name!r}: {about}{distinct:,} distinct values in {rows:,} rows; name "
            f"it under {kind} to use {'them' if what else 'it'}"
        )
        return Decision(name, sentence, warning=True)
    return None


def _is_identifier(column: Planned, counts: ColumnCounts, distinct: int) -> bool:
    rows, values = counts.both.rows, counts.both.values
    if column.type == "text":
        return mostly_differ(counts) and counts.both.share_of_repeated(_REPEATED) < _FREQUENT
    if column.type != "integer" or distinct < _OTHERS * rows:
        return False
    if values.max() - values.min() < 2 * rows:
        return True
    # The standard error of the AUC of a column without relation to the label.
    positive, negative = counts.positive.counts.rows, counts.negative.counts.rows
    error = np.sqrt((rows + 1) / (12.0 * max(positive * negative, 1)))
    is_monotone = bool(abs(counts.auc() - 0.5) >= _ERRORS * error)
    return rows >= _MANY and not (is_monotone or counts.rates_differ(_ERRORS))


def mostly_differ(counts: ColumnCounts) -> bool:
    """Whether there are more distinct values than half of the rows that have one."""
    return 2 * round(counts.both.distinct) > counts.both.rows


def _at_midnight(counts: ColumnCounts) -> bool:
    days = counts.both.values
    return bool((days == np.floor(days)).all())


def _leakage(name: str, counts: ColumnCounts) -> list[Decision]:
    auc = counts.auc()
    # The rates of tokens are oriented: a low AUC of them is no leakage.
    if auc <= LEAKAGE and not (counts.is_number and auc < 1.0 - LEAKAGE):
        return []
    sentence = (
        f"{name!r} alone has AUC {auc:.4f}, which may be leakage of the label; leave it out unless "
        "its values are known before the label"
    )
    return [Decision(name, sentence, warning=True)]
