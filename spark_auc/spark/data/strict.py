"""Files read by the names of their columns, or refused by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructType

from spark_auc.errors import DataError
from spark_auc.spark.data.failures import SPARK_FAILURES, first_line, translated

# By default Spark takes columns of CSV by their place, whatever the first line of a file says,
# and those of ORC in the type of the first file, cutting what does not fit.
_BY_NAME = {"csv": {"enforceSchema": "false"}, "orc": {"mergeSchema": "true"}}
# By default a damaged line of text is a row of nulls, or a row cut short.
_WHOLE_ROWS = {"csv": {"mode": "FAILFAST"}, "json": {"mode": "FAILFAST"}}
# What every value of a type stays the same in.
_WIDER = {
    "tinyint": ("smallint", "int", "bigint", "float", "double"),
    "smallint": ("int", "bigint", "float", "double"),
    "int": ("bigint", "double"),
    "float": ("double",),
}


def by_name(form: str | None, options: Mapping[str, str]) -> dict[str, str]:
    """The reader's options, with those by which files of other columns are refused."""
    return _BY_NAME.get(form or "", {}) | dict(options)


def whole_rows(form: str | None, options: Mapping[str, str]) -> dict[str, str]:
    """The options of `by_name`, with those by which damaged lines are refused."""
    return _WHOLE_ROWS.get(form or "", {}) | by_name(form, options)


def check_types(
    spark: SparkSession,
    form: str,
    options: Mapping[str, str],
    paths: Sequence[str],
    schema: StructType,
) -> None:
    """`DataError` where files of types of their own would be read with other values.

    Parameters
    ----------
    spark
        The session.
    form, options
        How the files are read.
    paths
        The files.
    schema
        As what they are to be read.
    """
    if form != "orc":
        # Spark refuses other types in Parquet, and values of other types in text.
        return
    try:
        with translated():
            found = spark.read.format(form).options(**by_name(form, options)).load(list(paths))
            types = {field.name: field.dataType for field in found.schema}
    except SPARK_FAILURES as failure:
        raise DataError(
            f"found {len(paths)} files that are not of one schema, such as {paths[0]} "
            f"({first_line(failure)}); expected columns {schema.simpleString()}; replace them or "
            "leave them out"
        ) from failure
    for field in schema:
        kind = types.get(field.name, field.dataType)
        if not _fits(kind, field.dataType):
            raise DataError(
                f"found column {field.name!r} of {kind.simpleString()} in {paths[0]}, expected "
                f"{field.dataType.simpleString()}; write the file with columns "
                f"{schema.simpleString()}, or leave it out"
            )


def _fits(found: DataType, expected: DataType) -> bool:
    a, b = found.simpleString(), expected.simpleString()
    return a == b or b in _WIDER.get(a, ())
