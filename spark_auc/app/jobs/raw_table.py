"""What only the rows tell about a raw table that arguments of ``train`` or ``score`` name.

`resolved` completes the section: how text is read and the types of its columns, the rows to hold
out by time, the columns to keep with scores. It refuses labels that cannot be learned.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from spark_auc.app.config.jobs import Train
from spark_auc.app.config.scoring import Score
from spark_auc.app.config.sections import text_of
from spark_auc.app.config.sources import Source
from spark_auc.app.config.split import Split
from spark_auc.app.jobs.published_model import check_model, read_recipe
from spark_auc.app.jobs.raw_labels import MOST_LABELS, check_labels, start_of_last
from spark_auc.app.jobs.train import estimator_of
from spark_auc.errors import ConfigError
from spark_auc.pipeline.pipeline_fit import KNOTS
from spark_auc.publication.versions import resolve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger(__name__)

_TRAIN_SHARE = 0.8


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
    from spark_auc.spark.data.spark_table import SparkTable
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
            before = start_of_last(SparkTable(rows), time, types.get(time), data.where)
            holdout = Split.model_validate({"by": "time", "column": time, "before": before})
            train = train.model_copy(update={"holdout": holdout})
        if train.features and _free_of_knots(train):
            knots = {"numKnots": list(KNOTS)}
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
    """Errors of `check_labels`, by one pass over the labels."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType

    from spark_auc.spark.data.names import known_column, quoted

    label = train.columns.label
    counts = rows.groupBy(F.col(quoted(label)).alias("label")).agg(F.count("*").alias("rows"))
    ordered = counts.orderBy(F.desc("rows"), "label").limit(MOST_LABELS + 1)
    found = {row["label"]: row["rows"] for row in ordered.collect()}
    is_text = isinstance(known_column(rows, label).dataType, StringType)
    check_labels(found, train, parsed, is_text=is_text)
