"""Reader options and checks that reject files whose columns or types differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from spark_auc.errors import DataError
from spark_auc.spark.data.failures import SPARK_FAILURES, first_line, translated

# By default Spark reads CSV columns by position, whatever the header, casts ORC columns to the
# types of the first file, which truncates larger values, and reads a malformed line as nulls, or
# drops its last fields.
_STRICT = {
    "csv": {"enforceSchema": "false", "mode": "FAILFAST"},
    "json": {"mode": "FAILFAST"},
    "orc": {"mergeSchema": "true"},
}
# Types to which every value of a type converts exactly.
_WIDER = {
    "tinyint": ("smallint", "int", "bigint", "float", "double"),
    "smallint": ("int", "bigint", "float", "double"),
    "int": ("bigint", "double"),
    "float": ("double",),
}


def whole_rows(form: str | None, options: Mapping[str, str]) -> dict[str, str]:
    """Options of a Spark reader that rejects files with other columns, and malformed lines.

    Parameters
    ----------
    form
        Format of the files.
    options
        The user's options, which take precedence.
    """
    return _STRICT.get(form or "", {}) | dict(options)


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
        Format of the files, and options of the reader, those of `whole_rows` among them.
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
            rows = spark.read.format(form).options(**options).load(list(paths))
            types = {field.name: field.dataType.simpleString() for field in rows.schema}
    except SPARK_FAILURES as failure:
        raise DataError(
            f"found different schemas in {len(paths)} files, such as {paths[0]} "
            f"({first_line(failure)}); expected columns {schema.simpleString()}; replace or "
            "remove the files"
        ) from failure
    for field in schema:
        expected = field.dataType.simpleString()
        found = types.get(field.name, expected)
        if expected not in (found, *_WIDER.get(found, ())):
            raise DataError(
                f"found column {field.name!r} of {found} in {paths[0]}, expected {expected}; write "
                f"the file with columns {schema.simpleString()}, or remove it"
            )
