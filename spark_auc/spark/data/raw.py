"""Raw click logs (Criteo, Avazu) as DataFrames of ``label`` and ``features``.

No row is read before an action runs. A malformed line then fails it, naming file and text: run
actions inside `failures.translated` to meet that as DataError. Rows keep the order of the file,
so `split.by_position` applies to the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.ml.feature import FeatureHasher, Normalizer
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_auc.spark.data.checks import checked, line_fault

CRITEO_INTEGERS = [f"I{i}" for i in range(1, 14)]
CRITEO_TOKENS = [f"C{i}" for i in range(1, 27)]
AVAZU_COLUMNS = [
    *("id", "click", "hour", "C1", "banner_pos", "site_id", "site_domain", "site_category"),
    *("app_id", "app_domain", "app_category", "device_id", "device_ip", "device_model"),
    *("device_type", "device_conn_type", *(f"C{i}" for i in range(14, 22))),
]

Rule = tuple[Callable[[Column], Column], str]
"""What holds for the text of a field that is wrong, and what was expected in its place."""


def criteo(spark: SparkSession, path: str, dimension: int) -> DataFrame:
    """Read Criteo's raw layout: label, I1-I13, C1-C26, tab-separated, no header, empty = missing.

    Every column is a categorical field. An integer v above 2 is the token floor(log(v)^2), kept
    apart from the small integers, which are tokens as they are; a missing value is a token of
    its field (both raise the AUC, under every hashing tried). Tokens are hashed by Spark ML's
    FeatureHasher, where those that collide add up.

    Parameters
    ----------
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
        When an action meets a line without 40 columns, a label that is not 0 or 1, or an I
        column that is not a whole number.
    """

    def not_integer(text: Column) -> Column:
        return (text != "") & text.try_cast("long").isNull()

    def binned(text: Column) -> Column:
        number = F.nullif(text, F.lit("")).cast("long")
        squared = F.floor(F.pow(F.log(number), 2))
        return F.when(number > 2, F.concat(F.lit("log^2 "), squared)).otherwise(text)

    names = [*CRITEO_INTEGERS, *CRITEO_TOKENS]
    rows = _fields(
        spark.read.text(path),
        "\t",
        ["label", *names],
        {"label": _LABEL} | dict.fromkeys(CRITEO_INTEGERS, (not_integer, "a whole number")),
    )
    # Over the array, which takes half the time of thirteen expressions.
    integers, tokens = F.transform(F.slice("fields", 2, 13), binned), F.slice("fields", 15, 26)
    label = F.col("fields")[0].cast("double").alias("label")
    rows = rows.select(label, F.concat(integers, tokens).alias("fields"))
    rows = _hashed(rows.select("label", *_named(names)), names, dimension)
    return rows.select("label", "features")


def avazu(spark: SparkSession, path: str, dimension: int) -> DataFrame:
    """Read Avazu's train layout: comma-separated, a header, 24 columns.

    All columns but id and click are categorical fields, device_id and device_ip included; hour
    (YYMMDDHH) gives two, hour of day and day of week. Hashed as `criteo` is.

    Parameters
    ----------
    path
        A file, directory or glob of text, compressed or not; every file with the header.
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
        When an action meets a line without 24 columns, a click that is not 0 or 1, or an hour
        that is not YYMMDDHH.
    """

    def time(hour: Column) -> Column:
        iso = F.regexp_replace(hour, r"^(\d\d)(\d\d)(\d\d)(\d\d)$", "20$1-$2-$3 $4:00:00")
        # Without a zone, an hour means the same in every session's.
        return F.when(hour.rlike(r"^\d{8}$"), iso.try_cast("timestamp_ntz"))

    lines = spark.read.text(path)
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
    """Split text lines into arrays ``fields``, each checked for its width and the rules."""
    file = F.col("_metadata.file_path").alias("file")
    # A column of its own, lest Spark split the line once for each rule.
    lines = lines.select("value", file, F.split("value", separator).alias("fields"))
    fields = F.col("fields")
    broken = F.when(F.size(fields) != len(names), f"{len(names)} columns")
    for name, (wrong, rule) in rules.items():
        broken = broken.when(wrong(fields[names.index(name)]), f"{rule} in column {name}")
    # A null in concat makes the whole text null: no rule broken, no fault.
    fault = line_fault(F.col("value"), F.col("file"), broken)
    return lines.select(checked(fields, fault).alias("fields"))


def _named(names: Sequence[str]) -> list[Column]:
    return [F.col("fields")[i].alias(name) for i, name in enumerate(names)]


def _hashed(df: DataFrame, tokens: list[str], dimension: int) -> DataFrame:
    """Add ``features``: the token columns hashed, collisions added up, scaled to unit length."""
    hasher = FeatureHasher(
        inputCols=tokens, categoricalCols=tokens, outputCol="hashed", numFeatures=dimension
    )
    unit = Normalizer(inputCol="hashed", outputCol="features", p=2.0)
    return unit.transform(hasher.transform(df))
