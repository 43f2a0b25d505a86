"""Read click logs (Criteo, Avazu) as DataFrames of ``label`` and ``features``.

Rows are read when an action runs. A malformed line then raises an error with file and text, which
is a `DataError` inside `failures.translated`. Rows keep the order of the files, so
`split.by_position` applies to the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import fspath

from pyspark.ml.feature import FeatureHasher, Normalizer
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_auc.core.types import AnyPath
from spark_auc.spark.data.checks import checked, line_fault
from spark_auc.spark.data.paths import reader_of
from spark_auc.tables.layouts import AVAZU_COLUMNS, CRITEO_INTEGERS, CRITEO_TOKENS

Rule = tuple[Callable[[Column], Column], str]
"""A condition for invalid text of a field, and the description of valid text."""


def criteo(spark: SparkSession, path: AnyPath, dimension: int) -> DataFrame:
    """Read Criteo's raw layout: label, I1-I13, C1-C26, tab-separated, without header.

    Every column is a categorical field. An integer v > 2 becomes the token floor(log(v)^2), which
    differs from the tokens of the integers v <= 2. A missing value (empty text) is a token of its
    field. Both choices increase the AUC with every hash function that was tried. Spark ML's
    FeatureHasher hashes the tokens and adds up those that collide.

    Parameters
    ----------
    spark
        The session.
    path
        A file, directory or glob of text, compressed or not.
    dimension
        Number of hashed columns.

    Returns
    -------
    DataFrame
        ``label`` (double, 0 or 1) and ``features`` (sparse vector of unit length).

    Raises
    ------
    DataError
        An action reads a line without 40 columns, a label other than 0 and 1, or an I column that
        is not an integer.
    """

    def not_integer(text: Column) -> Column:
        return (text != "") & text.try_cast("long").isNull()

    def binned(text: Column) -> Column:
        number = F.nullif(text, F.lit("")).cast("long")
        squared = F.floor(F.pow(F.log(number), 2))
        return F.when(number > 2, F.concat(F.lit("log^2 "), squared)).otherwise(text)

    names = [*CRITEO_INTEGERS, *CRITEO_TOKENS]
    rows = _fields(
        reader_of(spark, path).text(fspath(path)),
        "\t",
        ["label", *names],
        {"label": _LABEL} | dict.fromkeys(CRITEO_INTEGERS, (not_integer, "a whole number")),
    )
    # One expression over the array takes half the time of thirteen expressions.
    integers, tokens = F.transform(F.slice("fields", 2, 13), binned), F.slice("fields", 15, 26)
    label = F.col("fields")[0].cast("double").alias("label")
    rows = rows.select(label, F.concat(integers, tokens).alias("fields"))
    rows = _hashed(rows.select("label", *_named(names)), names, dimension)
    return rows.select("label", "features")


def avazu(spark: SparkSession, path: AnyPath, dimension: int) -> DataFrame:
    """Read Avazu's train layout: comma-separated, with header, 24 columns.

    All columns except id and click are categorical fields, including device_id and device_ip. The
    column hour (YYMMDDHH) becomes two fields, hour of day and day of week. Tokens are hashed as in
    `criteo`.

    Parameters
    ----------
    spark
        The session.
    path
        A file, directory or glob of text, compressed or not; every file has the header.
    dimension
        Number of hashed columns.

    Returns
    -------
    DataFrame
        ``id`` (string: it exceeds 63 bits), ``time`` (timestamp without time zone, UTC, whole
        hours), ``label`` (double, 0 or 1) and ``features`` (sparse vector of unit length).

    Raises
    ------
    DataError
        An action reads a line without 24 columns, a click other than 0 and 1, or an hour that is
        not YYMMDDHH.
    """

    def time(hour: Column) -> Column:
        iso = F.regexp_replace(hour, r"^(\d\d)(\d\d)(\d\d)(\d\d)$", "20$1-$2-$3 $4:00:00")
        # Without a time zone, the session's time zone does not change the hour.
        return F.when(hour.rlike(r"^\d{8}$"), iso.try_cast("timestamp_ntz"))

    lines = reader_of(spark, path).text(fspath(path))
    rows = _fields(
        lines.where(F.col("value") != ",".join(AVAZU_COLUMNS)),
        ",",
        AVAZU_COLUMNS,
        {"click": _LABEL, "hour": (lambda text: time(text).isNull(), "YYMMDDHH")},
    )
    rows = rows.select(*_named(AVAZU_COLUMNS)).withColumn("time", time(F.col("hour")))
    derived = {"hour_of_day": F.hour("time"), "day_of_week": F.dayofweek("time")}
    tokens = [name for name in AVAZU_COLUMNS if name not in {"id", "click", "hour"}]
    rows = _hashed(rows.withColumns(derived), [*derived, *tokens], dimension)
    return rows.select("id", "time", F.col("click").cast("double").alias("label"), "features")


_LABEL: Rule = (lambda text: ~text.isin("0", "1"), "0 or 1")


def _fields(
    lines: DataFrame, separator: str, names: Sequence[str], rules: dict[str, Rule]
) -> DataFrame:
    """Split text lines into arrays ``fields``; check their size and the rules by column name."""
    file = F.col("_metadata.file_path").alias("file")
    # As a separate column, so that Spark splits the line once and not for each rule.
    lines = lines.select("value", file, F.split("value", separator).alias("fields"))
    fields = F.col("fields")
    expected = F.when(F.size(fields) != len(names), f"{len(names)} columns")
    for name, (is_invalid, rule) in rules.items():
        expected = expected.when(is_invalid(fields[names.index(name)]), f"{rule} in column {name}")
    fault = line_fault(F.col("value"), F.col("file"), expected)
    return lines.select(checked(fields, fault).alias("fields"))


def _named(names: Sequence[str]) -> list[Column]:
    return [F.col("fields")[i].alias(name) for i, name in enumerate(names)]


def _hashed(df: DataFrame, tokens: list[str], dimension: int) -> DataFrame:
    """Add ``features``: the hashed token columns, scaled to unit length."""
    hasher = FeatureHasher(
        inputCols=tokens, categoricalCols=tokens, outputCol="hashed", numFeatures=dimension
    )
    unit = Normalizer(inputCol="hashed", outputCol="features", p=2.0)
    return unit.transform(hasher.transform(df))
