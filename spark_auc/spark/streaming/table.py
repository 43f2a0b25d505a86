"""Stream the rows of any source of Structured Streaming, such as Kafka or a table.

Kafka and similar sources have a text column ``value``, which contains each row as JSON or CSV. An
invalid row fails its batch, since there is no file to reject.
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
from spark_auc.spark.data.names import known_column, quoted
from spark_auc.spark.data.paths import stream_path
from spark_auc.spark.data.strict import whole_rows
from spark_auc.spark.streaming.stream import MicroBatch, schema_of

_VALUE = "value"
# Column for text that Spark's parsers cannot convert to the schema.
_UNPARSED = "_unparsed"
_KAFKA = "org.apache.spark:spark-sql-kafka-0-10_2.13"


@dataclass(frozen=True)
class TableStream:
    """Rows of a streaming DataFrame.

    Parameters
    ----------
    frame
        A streaming DataFrame.
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
        """Open a table or another source.

        Parameters
        ----------
        spark
            A classic session.
        table
            Name of a table in the session's catalog; None for a source.
        form, path
            Spark's name of the source, and its path if it needs one.
        options
            Options of the source.
        value
            Format of the column ``value``, "json" or "csv"; None if the source has a column for
            each field.
        ddl
            Schema of ``value`` in DDL form, or of the source if ``value`` is None.

        Raises
        ------
        ConfigError
            The source is unknown, its package is missing, or the schema is invalid.
        """
        schema = None if ddl is None else schema_of(ddl)
        reader = spark.readStream.options(**whole_rows(form, options))
        if schema is not None and value is None:
            reader = reader.schema(schema)
        try:
            if table is not None:
                frame = reader.table(table)
            else:
                place = stream_path(spark, path) if path else None
                frame = reader.format(str(form)).load(place)
            return cls(frame if value is None or schema is None else parsed(frame, value, schema))
        except SPARK_FAILURES as failure:
            remedy = "repair opauc.stream.source, or add its package to spark.jars.packages"
            if "KAFKA_DATA_SOURCE_NOT_ENABLED" in str(failure):
                remedy = (
                    f"set spark.conf.spark.jars.packages to {_KAFKA}:{spark.version}, or pass it "
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
        """The rows of the batch, which has no files."""
        return MicroBatch((), lambda _: arrived)


def parsed(frame: DataFrame, form: str, schema: StructType) -> DataFrame:
    """Parse the rows in the column ``value``.

    Parameters
    ----------
    frame
        A DataFrame with a column ``value`` of text, as string or binary.
    form
        "json" for an object with named fields, "csv" for fields in order.
    schema
        The fields. A field that is absent in JSON or empty in CSV is null.

    Raises
    ------
    ConfigError
        The column ``value`` is missing, or the schema has a nested field, which CSV does not
        support.
    DataError
        An action reads a value that is not exactly one row of the schema.
    """
    known_column(frame, _VALUE)
    text = F.col(_VALUE).cast("string")
    expected = ", ".join(f"{quoted(f.name)} {f.dataType.simpleString()}" for f in schema)
    parsed_schema = f"{expected}, {_UNPARSED} string"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _UNPARSED}
    if form == "json":
        fields = F.from_json(text, parsed_schema, options)
        # The parser ignores text after the first object, such as a second object.
        is_single = F.json_array_length(F.concat(F.lit("["), text, F.lit("]"))).eqNullSafe(1)
    else:
        _check_flat(schema)
        fields, is_single = F.from_csv(text, parsed_schema, options), F.lit(True)
    is_valid = text.isNotNull() & is_single & fields[_UNPARSED].isNull()
    row = checked(fields, F.when(~is_valid, _fault(text, f"{form.upper()} of {expected}")))
    columns = (F.col("row")[name].alias(name) for name in schema.names)
    return frame.select(row.alias("row")).select(*columns)


def _check_flat(schema: StructType) -> None:
    nested = [f.name for f in schema if isinstance(f.dataType, ArrayType | MapType | StructType)]
    if nested:
        raise ConfigError(
            f"found the nested columns {nested} in opauc.stream.source.schema, expected single "
            "values in CSV; declare a column for each value, or write the rows as JSON"
        )


def _fault(text: Column, expected: str) -> Column:
    # On one line: `translated` reads the first line of an error.
    excerpt = F.substring(F.regexp_replace(text, r"\s+", " "), 1, 200)
    quotation = F.coalesce(F.concat(F.lit("'"), excerpt, F.lit("'")), F.lit("null"))
    remedy = "repair or remove it in the source, or set opauc.stream.source.schema"
    return F.concat(
        F.lit("found "),
        quotation,
        F.lit(f" in the column {_VALUE!r} of the stream, expected {expected}; {remedy}"),
    )
