"""What only the rows tell about a raw table that arguments of ``train`` or ``score`` name.

`resolved` completes the section: how text is read and the types of its columns, the rows to hold
out by time, the columns to keep with scores. It refuses labels that cannot be learned.
"""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from spark_auc.app.config.jobs import Train
from spark_auc.app.config.scoring import Score
from spark_auc.app.config.sections import text_of
from spark_auc.app.config.sources import Source
from spark_auc.app.config.split import Split
from spark_auc.app.jobs.published_model import check_model, read_recipe
from spark_auc.app.jobs.train import estimator_of
from spark_auc.errors import ConfigError, DataError
from spark_auc.publication.versions import resolve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger(__name__)

_TRAIN_SHARE = 0.8
_LIKELY = ("1", "1.0", "true", "yes", "y", "t", "positive", "pos", ">50k")
_MOST_LABELS = 5
# Linear effects, the default, and effects that take many rows to see.
_KNOTS = [2, 16, 48]


@contextmanager
def resolved(
    spark: SparkSession, section: Train | Score, options: Mapping[str, Any]
) -> Iterator[Train | Score]:
    """The section, completed from the rows.

    Inside the block, files that Spark must not divide are parsed once only.

    Parameters
    ----------
    spark
        The session.
    section
        The section, as the arguments alone make it.
    options
        Options of the command line by name.

    Raises
    ------
    ConfigError
        A column or table is unknown, the label needs ``--positive``, or the time is no time.
    DataError
        There are no rows, the label has not two values, or a value has another type than in the
        rows of the training.
    """
    data = _opened(spark, section.data if isinstance(section, Score) else section.rows)
    with data.read(spark):
        if isinstance(section, Score):
            yield _resolved_score(spark, section.model_copy(update={"data": data}))
        else:
            yield _resolved_train(spark, section.model_copy(update={"data": data}), options)


def _opened(spark: SparkSession, data: Source) -> Source:
    """The source with the options that follow from its files."""
    from spark_auc.spark.data.failures import translated
    from spark_auc.spark.data.quotes import multi_line
    from spark_auc.spark.data.text_columns import separator_of

    if data.table is not None and not spark.catalog.tableExists(data.table):
        raise ConfigError(
            f"found neither a file nor a table {data.table!r}, expected the path of a file, a "
            "directory or the name of a table; check --data"
        )
    if data.format != "csv" or not data.path:
        return data
    path = resolve(data.path)
    with translated():
        options = {"sep": separator_of(spark, path)} | data.options
        texts = {key: text_of(value) for key, value in options.items()}
        options |= multi_line(spark, path, texts)
    return data.model_copy(update={"options": options})


def _selecting(data: Source, columns: list[str], types: Mapping[str, str]) -> Source:
    """The source with columns of text as values of these types."""
    from spark_auc.spark.data.text_columns import expression

    if not types:
        return data
    _log.info("types of columns of text: %s", dict(types))
    select = [expression(name, types[name]) if name in types else name for name in columns]
    return data.model_copy(update={"select": select})


def _resolved_train(spark: SparkSession, train: Train, options: Mapping[str, Any]) -> Train:
    from pyspark.sql.types import BooleanType

    from spark_auc.spark.data.names import known_column
    from spark_auc.spark.data.text_columns import TIMES, inferred

    time = options.get("time")
    with train.rows.read(spark) as rows:
        label = known_column(rows, train.columns.label).name
        time = known_column(rows, time).name if time else None
        for name in options.get("leave_out", []):
            known_column(rows, name)
        columns = rows.columns
        types = inferred(rows) if train.rows.format in ("csv", "json") else {}
        if train.rows.format == "json":
            types = {name: kind for name, kind in types.items() if kind in TIMES}
    if types.get(label) in ("boolean", *TIMES):
        del types[label]
    data = _selecting(train.rows, columns, types) if train.rows.select is None else train.rows
    train = train.model_copy(update={"data": data})
    with data.read(spark) as rows:
        if not isinstance(known_column(rows, label).dataType, BooleanType):
            _check_label(rows, train, types.get(label))
        if time:
            before = _start_of_last(rows, time, types.get(time), data.where)
            holdout = Split.model_validate({"by": "time", "column": time, "before": before})
            train = train.model_copy(update={"holdout": holdout})
        if train.features and _free_of_knots(train):
            knots = {"numKnots": list(_KNOTS)}
            train = train.model_copy(update={"features": train.features.model_copy(update=knots)})
    return train


def _free_of_knots(train: Train) -> bool:
    """Whether the number of knots is not set, and folds are there to choose it alone."""
    section = train.features
    is_set = section is None or section.model_fields_set & {"numKnots", "recipe"}
    return not (is_set or train.method) and estimator_of(train).selects


def _resolved_score(spark: SparkSession, score: Score) -> Score:
    from spark_auc.spark.data.spark_table import SparkTable
    from spark_auc.spark.data.text_columns import typed
    from spark_auc.tables.table import own_names

    check_model(score.model)
    recipe = None
    with suppress(ConfigError):
        # A model of prepared features has no recipe.
        recipe = read_recipe(score.model)
    with score.data.read(spark) as rows:
        columns = rows.columns
        types: dict[str, str] = {}
        if recipe and score.data.format in ("csv", "json") and score.data.select is None:
            table = SparkTable(rows)
            named = {own_names(table, column.name): column.type for column in recipe.columns}
            types = typed(rows, named)
    keep = score.keep or columns
    data = _selecting(score.data, columns, types)
    return score.model_copy(update={"data": data, "keep": keep})


def _check_label(rows: DataFrame, train: Train, parsed: str | None) -> None:
    """Refuse a label that has not two values, or two without a positive one."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType

    from spark_auc.spark.data.names import known_column, quoted
    from spark_auc.spark.data.text_columns import MISSING

    label, positive, data = train.columns.label, train.columns.positiveLabel, train.rows
    path = data.path or data.table
    counts = rows.groupBy(F.col(quoted(label)).alias("label")).agg(F.count("*").alias("rows"))
    ordered = counts.orderBy(F.desc("rows"), "label").limit(_MOST_LABELS + 1)
    found = {row["label"]: row["rows"] for row in ordered.collect()}
    shown = ", ".join(f"{v!r} ({n} rows)" for v, n in list(found.items())[:_MOST_LABELS])
    if not found:
        raise DataError(f"found no rows in {path!r}, expected rows of two classes; check the file")
    missing = [v for v in found if v is None or str(v).strip() in MISSING]
    if missing and len(found) - len(missing) == 2:
        remedy = _leaving_out(label, parsed, missing, data.where)
        raise DataError(
            f"found {sum(found[v] for v in missing)} rows without a label in column {label!r} "
            f"({shown}), expected a label in each row; {remedy}"
        )
    if len(found) != 2:
        more = " and others" if len(found) > _MOST_LABELS else ""
        number = "one label" if len(found) == 1 else "more than two labels"
        raise DataError(
            f"found {number} in column {label!r}: {shown}{more}; expected two; name a column "
            "of two classes, or keep the rows of two"
        )
    is_text = isinstance(known_column(rows, label).dataType, StringType)
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


def _leaving_out(name: str, parsed: str | None, missing: Collection[Any], where: str | None) -> str:
    """The override that leaves out rows whose column has one of these missing values.

    ``parsed`` is the type to which the column was converted, if it was text; ``where`` is the
    condition of the rows so far.
    """
    from spark_auc.spark.data.names import quoted
    from spark_auc.spark.data.text_columns import TIMES

    column, texts = quoted(name), sorted(v for v in missing if isinstance(v, str))
    # The condition is applied to the text.
    value = f"try_cast({column} AS {parsed})" if parsed else column
    if parsed == "double" or any(isinstance(v, float) for v in missing):
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


def _start_of_last(rows: DataFrame, time: str, parsed: str | None, where: str | None) -> str:
    """The time from which on the last fifth of the rows is; see `_leaving_out`."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import DateType, TimestampNTZType, TimestampType

    from spark_auc.spark.data.names import known_column, quoted

    kind = known_column(rows, time).dataType
    if not isinstance(kind, DateType | TimestampType | TimestampNTZType):
        raise ConfigError(
            f"found {kind.simpleString()} in column {time!r}, expected times such as "
            "2026-03-01 12:30:00; name another column with --time, or leave --time out"
        )
    # Of a timestamp, the text is a time of the session's zone, as `by_time` reads it.
    moment = F.col(quoted(time)).cast("timestamp_ntz").cast("timestamp")
    micros = F.percentile_approx(F.unix_micros(moment), _TRAIN_SHARE, 10_000)
    start = F.timestamp_micros(micros).cast("string").alias("start")
    facts = rows.agg(start, F.count_if(moment.isNull()).alias("missing")).collect()[0]
    if facts["start"] is None:
        raise DataError(f"found no time in column {time!r}, expected times; leave --time out")
    if facts["missing"]:
        raise DataError(
            f"found {facts['missing']} rows without a time in column {time!r}, expected a time in "
            f"each row; {_leaving_out(time, parsed, [None], where)}, or leave --time out"
        )
    return str(facts["start"])
