"""Rows of tables of Delta Lake and Iceberg, read by Spark from the files that their logs name."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from spark_auc.lakes.delta import DeltaLake
from spark_auc.lakes.iceberg import IcebergTable
from spark_auc.publication.directory import Directory
from spark_auc.spark.data.failures import SPARK_FAILURES
from spark_auc.spark.data.paths import literal_reader


def lake(
    spark: SparkSession, form: str, place: str, options: Mapping[str, str]
) -> DataFrame | None:
    """The rows of a table; None if the session has a connector of the format.

    Rows do not pass through the driver, which reads the log alone.

    Parameters
    ----------
    spark
        The session.
    form
        "delta" or "iceberg".
    place
        The location of a Delta table, or the name of an Iceberg table.
    options
        Options of the object store, or properties of the catalog.

    Raises
    ------
    ConfigError
        The catalog cannot be opened, or partitions are not those of columns.
    DataError
        There is no table, or its files have other rows, names or types than it.
    MissingPackageError
        The package of the format is not installed.
    """
    if _has_connector(spark, form):
        return None
    if form == "delta":
        table = DeltaLake(place, options)
        files, root = table.files(), Directory.of(place).uri
        schema = StructType.fromJson(table.schema_json)
    else:
        iceberg = IcebergTable(place, options)
        files, root = iceberg.files(), None
        assert iceberg.schema is not None
        schema = from_arrow_schema(iceberg.schema, prefer_timestamp_ntz=True)
    if not files:
        return spark.createDataFrame([], schema)
    reader = literal_reader(spark, *files).schema(schema)
    if root is None:
        # The files have all columns; the names of their directories say nothing more.
        reader = reader.option("recursiveFileLookup", "true")
    else:
        reader = reader.option("basePath", root)
    return reader.parquet(*files).select(*schema.names)


def _has_connector(spark: SparkSession, form: str) -> bool:
    try:
        _ = spark.read.format(form).load("/").schema
    except SPARK_FAILURES as error:
        return "DATA_SOURCE_NOT_FOUND" not in str(error)
    return True
