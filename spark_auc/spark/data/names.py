"""Names of columns as Spark compares them: without regard to case, unless its setting says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from spark_auc.errors import ConfigError, unknown_column
from spark_auc.tables.names import by_name, check_names_free

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField

_CASE_SENSITIVE = "spark.sql.caseSensitive"


def known_column(df: DataFrame, name: str) -> StructField:
    """Field of the column that Spark finds by a name; it may be written in another case.

    Raises
    ------
    ConfigError
        No column has the name, or several: Spark cannot tell them apart.
    """
    found = fields_of(df, name)
    if len(found) == 1:
        return found[0]
    if not found:
        raise unknown_column(name, df.schema.names)
    names = [field.name for field in found]
    setting = f", or set {_CASE_SENSITIVE} to true" if len({*names}) == len(names) else ""
    raise ConfigError(
        f"found {len(names)} columns {', '.join(map(repr, names))} for the name {name!r}, expected "
        f"one, as Spark cannot tell them apart; rename or drop the others{setting}"
    )


def fields_of(df: DataFrame, name: str) -> list[StructField]:
    """Fields of all columns that Spark finds by a name."""
    alike = by_name(df.schema.fields, exact=False)(name)
    if any(field.name != name for field in alike) and is_case_sensitive(df):
        return [field for field in alike if field.name == name]
    return alike


def check_new(df: DataFrame, names: Mapping[str, str | None]) -> None:
    """Check that columns can be added to rows, where Spark would replace others of their names.

    See `spark_auc.tables.names.check_names_free`, also for the errors.
    """
    check_names_free(df.schema.names, names, exact=is_case_sensitive(df))


@contextmanager
def told_apart(spark: SparkSession) -> Iterator[None]:
    """Names that differ in case alone are those of different columns inside the block."""
    before = spark.conf.get(_CASE_SENSITIVE)
    spark.conf.set(_CASE_SENSITIVE, "true")
    try:
        yield
    finally:
        spark.conf.set(_CASE_SENSITIVE, str(before))


def is_case_sensitive(df: DataFrame) -> bool:
    """Whether the session of the rows tells names apart by their case."""
    return str(df.sparkSession.conf.get(_CASE_SENSITIVE)).lower() == "true"


def quoted(name: str) -> str:
    """The column name in backticks, so that Spark reads dots and spaces as part of it."""
    return "`" + name.replace("`", "``") + "`"
