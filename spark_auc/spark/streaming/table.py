"""Rows that any source of Structured Streaming gives: Kafka, a table, files in Spark's own reading.

Kafka and its like give a column ``value`` of text, in which each row is written as JSON or CSV.
There are no files to set aside, so a row that cannot be used fails its batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StructType

from spark_auc.errors import ConfigError
from spark_auc.spark.data.checks import checked
from spark_auc.spark.data.failures import SPARK_FAILURES, first_line
from spark_auc.spark.data.features import known_column, quoted
from spark_auc.spark.data.strict import whole_rows
from spark_auc.spark.streaming.stream import MicroBatch, schema_of

_VALUE = "value"
# Where Spark's parsers put a text of which they could not make all that was asked.
_UNPARSED = "_unparsed"
_KAFKA = "org.apache.spark:spark-sql-kafka-0-10_2.13"


@dataclass(frozen=True)
class TableStream:
    """Rows of a streaming DataFrame.

    Parameters
    ----------
    frame
        The DataFrame.
    """

    frame: DataFrame

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        *,
        table: str | None = None,
        form: str | None = None,
        path: str | None = None,
        options: Mapping[str, str],
        value: str | None = None,
        ddl: str | None = None,
    ) -> TableStream:
        """The stream of a table, or of a source.

        Parameters
        ----------
        spark
            A classic session.
        table
            A table of the session's catalog.
        form, path
            Name of the source as Spark knows it, and its path if it has one.
        options
            Of the source.
        value
            How the column ``value`` is written, "json" or "csv"; None where the source has
            columns itself.
        ddl
            Schema of what is in ``value``; without ``value`` that which the source is told.

        Raises
        ------
        ConfigError
            There is no such source, its package is missing, or the schema is none.
        """
        schema = None if ddl is None else schema_of(ddl)
        reader = spark.readStream.options(**whole_rows(form, options))
        if schema is not None and value is None:
            reader = reader.schema(schema)
        try:
            if table is not None:
                frame = reader.table(table)
            else:
                frame = reader.format(str(form)).load(path)
            return cls(frame if value is None or schema is None else parsed(frame, value, schema))
        except SPARK_FAILURES as failure:
            remedy = "repair opauc.stream.source, or have its package in spark.jars.packages"
            if "KAFKA_DATA_SOURCE_NOT_ENABLED" in str(failure):
                remedy = (
                    f"set spark.conf.spark.jars.packages to {_KAFKA}:{spark.version}, or give it "
                    "to spark-submit as --packages"
                )
            raise ConfigError(
                f"found no stream at {table or form!r} ({first_line(failure)}), expected a table "
                f"or a source that Spark can open; {remedy}"
            ) from None

    @property
    def spark(self) -> SparkSession:
        """The session."""
        return self.frame.sparkSession

    @property
    def schema(self) -> StructType:
        """The schema of the rows."""
        return self.frame.schema

    def arriving(self) -> DataFrame:
        """The rows."""
        return self.frame

    def batch(self, arrived: DataFrame) -> MicroBatch:
        """The rows themselves."""
        return MicroBatch((), lambda _: arrived)


def parsed(frame: DataFrame, how: str, schema: StructType) -> DataFrame:
    """The rows written in the column ``value``.

    Parameters
    ----------
    frame
        With a column ``value`` of text, or of text's bytes.
    how
        "json" for an object of named fields, "csv" for fields in order.
    schema
        The fields. One that JSON does not name, and an empty one of CSV, is null.

    Raises
    ------
    ConfigError
        There is no such column, or CSV cannot have these fields.
    DataError
        When an action meets a value that is not one row of the schema.
    """
    known_column(frame, _VALUE)
    text = F.col(_VALUE).cast("string")
    expected = ", ".join(f"{quoted(f.name)} {f.dataType.simpleString()}" for f in schema)
    asked = f"{expected}, {_UNPARSED} string"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _UNPARSED}
    if how == "json":
        found = F.from_json(text, asked, options)
        # The parser stops after a first object, though another one, or half of one, follows.
        one = F.json_array_length(F.concat(F.lit("["), text, F.lit("]"))).eqNullSafe(1)
    else:
        _check_flat(schema)
        found, one = F.from_csv(text, asked, options), F.lit(True)
    whole = text.isNotNull() & one & found[_UNPARSED].isNull()
    row = checked(found, F.when(~whole, _fault(text, f"{how.upper()} of {expected}")))
    fields = (F.col("row")[name].alias(name) for name in schema.names)
    return frame.select(row.alias("row")).select(*fields)


def _check_flat(schema: StructType) -> None:
    nested = [f.name for f in schema if isinstance(f.dataType, ArrayType | MapType | StructType)]
    if nested:
        raise ConfigError(
            f"found the columns {nested} of several values each in opauc.stream.source.schema, "
            "expected single values in CSV; name a column for each, or write the rows as JSON"
        )


def _fault(text: Column, expected: str) -> Column:
    # On one line, which is as far as an error is read out of Spark's.
    shown = F.substring(F.regexp_replace(text, r"\s+", " "), 1, 200)
    found = F.coalesce(F.concat(F.lit("'"), shown, F.lit("'")), F.lit("null"))
    remedy = "repair or remove it where it comes from, or set opauc.stream.source.schema"
    return F.concat(
        F.lit("found "),
        found,
        F.lit(f" in the column {_VALUE!r} of the stream, expected {expected}; {remedy}"),
    )
