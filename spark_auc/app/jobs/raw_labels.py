"""Labels and times of a raw table: what cannot be learned, and what is likely meant."""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from spark_auc.app.config.jobs import Train
from spark_auc.errors import ConfigError, DataError
from spark_auc.tables.missing import MISSING
from spark_auc.tables.split import time_at
from spark_auc.tables.table import Table

_log = logging.getLogger(__name__)

_LIKELY = ("1", "1.0", "true", "yes", "y", "t", "positive", "pos", ">50k")
MOST_LABELS = 5
# Share of the rows to train on, the share below which a warning is logged, and the largest.
_TRAIN_SHARE, _LEAST_SHARE, _MOST_SHARE = 0.8, 0.5, 0.95


def check_labels(found: Mapping[Any, int], train: Train, *, is_text: bool) -> Any:
    """The positive label; refuse a label without one, or of one class only.

    Parameters
    ----------
    found
        Number of rows of each label, the most frequent first; None stands for no label.
    train
        The section.
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
    shown = ", ".join(f"{v!r} ({_rows(n)})" for v, n in list(found.items())[:MOST_LABELS])
    if not found:
        where = f" without missing {data.dropMissing}" if data.dropMissing else ""
        raise DataError(
            f"found no rows{where} in {path!r}, expected rows of two classes; check the file"
        )
    missing = [v for v in found if v is None or str(v).strip(" ") in MISSING]
    is_one_class = None in found and len(found) == 2
    if is_one_class or (missing and len(found) - len(missing) == 2):
        remedy = "write its label into the rows of the other class, or " if is_one_class else ""
        raise DataError(
            f"found {_rows(sum(found[v] for v in missing))} without a label in column {label!r} "
            f"({shown}), expected a label in each row; {remedy}"
            f"{leaving_out(label, data.dropMissing)}"
        )
    if len(found) < 2 or (len(found) > 2 and positive is None):
        more = " and others" if len(found) > MOST_LABELS else ""
        number = "one label" if len(found) == 1 else "more than two labels"
        raise DataError(
            f"found {number} in column {label!r}: {shown}{more}; expected two; name a column of "
            "two classes, or one label against the rest by --positive"
        )
    if positive is None:
        if not is_text and set(found) in ({0, 1}, {-1, 1}):
            return None
        words = {str(value).lower(): value for value in found}
        if words.keys() == {"true", "false"}:
            return words["true"]
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
    if len(found) > 2:
        _log.warning("labels %s: --positive %s is ranked against the rest", shown, positive)
    return positive


def leaving_out(name: str, others: Sequence[str]) -> str:
    """The remedy for rows in which a column is missing, beside those of other columns."""
    names = json.dumps([*others, name], ensure_ascii=False)
    override = f"train.data.dropMissing={names}"
    return f"leave them out by {shlex.quote(override)} before the options"


def _same(value: Any, positive: Any) -> bool:
    if isinstance(value, str):
        return value == str(positive)
    try:
        return float(value) == float(positive)
    except ValueError:
        return False


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def start_of_last(table: Table, time: str, others: Sequence[str]) -> str:
    """The time from which on the last fifth of the rows is; errors are those of `time_at`.

    If these are more than half of the rows, because many rows have one time, the next time is
    taken where it is nearer to a fifth. ``others`` are the columns of which missing values are left
    out already. `ConfigError` without rows before that time.
    """
    try:
        cut = time_at(table, time, _TRAIN_SHARE)
        if cut.before < _LEAST_SHARE * cut.rows and cut.through < cut.rows:
            later = time_at(table, time, (cut.through + 0.5) / cut.rows)
            cuts = [cut] if later.before > _MOST_SHARE * later.rows else [cut, later]
            cut = min(cuts, key=lambda one: abs(one.before - _TRAIN_SHARE * one.rows))
    except DataError as error:
        raise DataError(f"{error}; {leaving_out(time, others)}, or leave --time out") from None
    if not cut.before:
        raise ConfigError(
            f"found the first time, {cut.time}, of column {time!r} in {cut.through / cut.rows:.0%} "
            "of the rows, expected earlier rows to train on; name another column with --time, or "
            "leave --time out"
        )
    if cut.before < _LEAST_SHARE * cut.rows:
        _log.warning(
            "%.0f%% of the rows are held out, because many have the time %s in column %r: the AUC "
            "is that of a model of the few earlier rows",
            100 * (1 - cut.before / cut.rows),
            cut.time,
            time,
        )
    return str(cut.time)
