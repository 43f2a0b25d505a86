"""Labels and times of a raw table: what cannot be learned, and what is likely meant."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Mapping
from typing import Any

from spark_auc.app.config.jobs import Train
from spark_auc.errors import ConfigError, DataError
from spark_auc.tables.split import time_at
from spark_auc.tables.table import Table
from spark_auc.tables.text_types import MISSING, TIMES

_LIKELY = ("1", "1.0", "true", "yes", "y", "t", "positive", "pos", ">50k")
MOST_LABELS = 5
_TRAIN_SHARE = 0.8
# Spark's types of values of text, in the remedy of rows to leave out.
_SQL = {
    "integer": "bigint",
    "float": "double",
    "date": "date",
    "time": "timestamp_ntz",
    "zoned": "timestamp",
}


def check_labels(
    found: Mapping[Any, int], train: Train, parsed: str | None, *, is_text: bool
) -> None:
    """Refuse a label that has not two values, or two without a positive one.

    Parameters
    ----------
    found
        Number of rows of each label, the most frequent first; None stands for no label.
    train
        The section.
    parsed
        The type to which the labels were converted, if they were text.
    is_text
        Whether the labels are text.

    Raises
    ------
    ConfigError
        The positive label is missing, or no label.
    DataError
        There are no rows, rows without a label, or not two labels.
    """
    label, positive, data = train.columns.label, train.columns.positiveLabel, train.rows
    path = data.path or data.table
    shown = ", ".join(f"{v!r} ({n} rows)" for v, n in list(found.items())[:MOST_LABELS])
    if not found:
        raise DataError(f"found no rows in {path!r}, expected rows of two classes; check the file")
    missing = [v for v in found if v is None or str(v).strip() in MISSING]
    if missing and len(found) - len(missing) == 2:
        remedy = leaving_out(label, parsed, missing, data.where)
        raise DataError(
            f"found {sum(found[v] for v in missing)} rows without a label in column {label!r} "
            f"({shown}), expected a label in each row; {remedy}"
        )
    if len(found) != 2:
        more = " and others" if len(found) > MOST_LABELS else ""
        number = "one label" if len(found) == 1 else "more than two labels"
        raise DataError(
            f"found {number} in column {label!r}: {shown}{more}; expected two; name a column "
            "of two classes, or keep the rows of two"
        )
    if positive is None:
        if not is_text and set(found) in ({0, 1}, {-1, 1}):
            return
        likely, other = sorted(found, key=lambda v: (str(v).strip().lower() not in _LIKELY, str(v)))
        raise ConfigError(
            f"found the labels {shown} in column {label!r} and no --positive, expected 0 and 1 or "
            f"the label of the positive class; add --positive {shlex.quote(str(likely))} or "
            f"--positive {shlex.quote(str(other))}"
        )
    if not any(_same(value, positive) for value in found):
        raise ConfigError(
            f"found --positive {positive}, expected one of the labels {shown} in column {label!r}; "
            "set it to one of them"
        )


def leaving_out(name: str, parsed: str | None, missing: Collection[Any], where: str | None) -> str:
    """The override that leaves out rows whose column has one of these missing values.

    ``parsed`` is the type to which the column was converted, if it was text; ``where`` is the
    condition of the rows so far.
    """
    column, texts = (
        "`" + name.replace("`", "``") + "`",
        sorted(v for v in missing if isinstance(v, str)),
    )
    # The condition is applied to the text.
    value = f"try_cast({column} AS {_SQL[parsed]})" if parsed else column
    if parsed == "float" or any(isinstance(v, float) for v in missing):
        value = f"nanvl({value}, NULL)"
    # Spark checks IS NOT NULL of an expression last, after the part of a null time has failed.
    condition = f"year({value}) > 0" if parsed in TIMES else f"{value} IS NOT NULL"
    if texts and not parsed:
        condition = f"{column} NOT IN ({', '.join(map(repr, texts))})"
    condition = f"({where}) AND {condition}" if where else condition
    override = f"train.data.where={json.dumps(condition)}"
    return f"leave them out by {shlex.quote(override)} before the options"


def _same(value: Any, positive: Any) -> bool:
    if isinstance(value, str):
        return value == str(positive)
    try:
        return float(value) == float(positive)
    except ValueError:
        return False


def start_of_last(table: Table, time: str, parsed: str | None, where: str | None) -> str:
    """The time from which on the last fifth of the rows is; arguments as of `leaving_out`.

    Errors are those of `time_at`.
    """
    try:
        return str(time_at(table, time, _TRAIN_SHARE))
    except DataError as error:
        remedy = leaving_out(time, parsed, [None], where)
        raise DataError(f"{error}; {remedy}, or leave --time out") from None
