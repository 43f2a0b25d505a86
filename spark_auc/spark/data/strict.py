"""Reader options and checks that reject files whose columns or types differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructType

from spark_auc.errors import DataError
from spark_auc.spark.data.failures import SPARK_FAILURES, first_line, translated

# By default Spark reads CSV columns by position, whatever the header, and casts ORC columns to the
# types of the first file, which truncates larger values.
_BY_NAME = {"csv": {"enforceSchema": "false"}, "orc": {"mergeSchema": "true"}}
# By default Spark reads a malformed line as nulls, or drops its last fields.
_WHOLE_ROWS = {"csv": {"mode": "FAILFAST"}, "json": {"mode": "FAILFAST"}}
# Types to which every value of a type converts exactly.
_WIDER = {
    "tinyint": ("smallint", "int", "bigint", "float", "double"),
    "smallint": ("int", "bigint", "float", "double"),
    "int": ("bigint", "double"),
    "float": ("double",),
}


def by_name(form: str | None, options: Mapping[str, str]) -> dict[str, str]:
    """Options of a Spark reader that rejects files with other columns.

    Parameters
    ----------
    form
        Format of the files.
    options
        The user's options, which take precedence.
    """
    return _BY_NAME.get(form or "", {}) | dict(options)


def whole_rows(form: str | None, options: Mapping[str, str]) -> dict[str, str]:
    """The options of `by_name`, with those that reject malformed lines."""
    return _WHOLE_ROWS.get(form or "", {}) | by_name(form, options)


def check_types(
    spark: SparkSession,
    form: str,
    options: Mapping[str, str],
    paths: Sequence[str],
    schema: StructType,
) -> None:
    """Check that files have the types of a schema, or types that convert exactly.

    Parameters
    ----------
    spark
        The session.
    form, options
        Format of the files, and options of the reader.
    paths
        The files.
    schema
        The schema with which they are read.

    Raises
    ------
    DataError
        The files have different schemas, or a column has a type whose values may not convert
        exactly.
    """
    if form != "orc":
        # For Parquet, CSV and JSON Spark itself raises an error.
        return
    try:
        with translated():
            rows = spark.read.format(form).options(**by_name(form, options)).load(list(paths))
            types = {field.name: field.dataType for field in rows.schema}
    except SPARK_FAILURES as failure:
        raise DataError(
            f"found different schemas in {len(paths)} files, such as {paths[0]} "
            f"({first_line(failure)}); expected columns {schema.simpleString()}; replace or "
            "remove the files"
        ) from failure
    for field in schema:
        kind = types.get(field.name, field.dataType)
        if not _fits(kind, field.dataType):
            raise DataError(
                f"found column {field.name!r} of {kind.simpleString()} in {paths[0]}, expected "
                f"{field.dataType.simpleString()}; write the file with columns "
                f"{schema.simpleString()}, or remove it"
            )


def _fits(stored: DataType, expected: DataType) -> bool:
    a, b = stored.simpleString(), expected.simpleString()
    return a == b or b in _WIDER.get(a, ())
