"""Files that arrive in a directory.

What streams are the names of the files, not their rows: inside `foreachBatch` a DataFrame is only
what its tasks return, so that one unreadable file would hide which files the batch has. The rows
are read by name instead, all together or one file at a time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_auc.errors import DataError
from spark_auc.spark.data.failures import SPARK_FAILURES, translated
from spark_auc.spark.data.parquet import literal
from spark_auc.spark.data.strict import check_types, whole_rows
from spark_auc.spark.streaming.stream import ArrivedFile, MicroBatch, schema_of

# What Spark's "binaryFile" source tells of a file; the content is never asked for.
_LISTED = "path string, modificationTime timestamp, length long, content binary"
_LISTING_OPTIONS = ("pathGlobFilter", "recursiveFileLookup")
# By default Spark ignores, without a word, a file that is a week older than the newest one read.
_OLDEST_FILE = "36500d"


@dataclass(frozen=True)
class FileStream:
    """Files of a directory in order of their time of change, in batches.

    Parameters
    ----------
    spark
        A classic session.
    path
        Directory or pattern.
    format, options, schema
        How rows are read from the files.
    max_files
        Most files of a batch.
    """

    spark: SparkSession
    path: str
    format: str
    options: Mapping[str, str]
    schema: StructType
    max_files: int = 100

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        path: str,
        form: str,
        options: Mapping[str, str],
        ddl: str | None = None,
        known: str | None = None,
        max_files: int = 100,
    ) -> FileStream:
        """The stream with the schema given as DDL, or known as JSON, or that of the files there.

        Raises
        ------
        ConfigError
            The schema is none.
        DataError
            No file tells a schema.
        """
        options = whole_rows(form, options)
        stream = cls(spark, path, form, options, StructType(), max_files)
        if ddl is not None:
            return replace(stream, schema=schema_of(ddl))
        schema = StructType.fromJson(json.loads(known)) if known else stream._inferred()
        return replace(stream, schema=schema)

    def _inferred(self) -> StructType:
        reader = self.spark.read.format(self.format).options(**self.options)
        try:
            return reader.load(self.path).schema
        except SPARK_FAILURES:
            # One unreadable file is enough to fail; any readable one will do.
            for file in self._present():
                try:
                    return reader.load(literal(file.path)).schema
                except SPARK_FAILURES:
                    continue
        raise DataError(
            f"found no readable {self.format} file at {self.path!r}, expected one to take the "
            "schema from; add one or set opauc.stream.schema"
        )

    def _present(self) -> list[ArrivedFile]:
        listed = self.spark.read.format("binaryFile").options(**self._listing()).load(self.path)
        return _arrived(listed)

    def _listing(self) -> dict[str, str]:
        return {key: self.options[key] for key in _LISTING_OPTIONS if key in self.options}

    def rows(self, files: Sequence[ArrivedFile]) -> DataFrame:
        """The rows of some files; `DataError` where the files' types are not the schema's."""
        paths = [literal(file.path) for file in files]
        check_types(self.spark, self.format, self.options, paths, self.schema)
        reader = self.spark.read.format(self.format).options(**self.options).schema(self.schema)
        return reader.load(paths)

    def arriving(self) -> DataFrame:
        """The names of the files."""
        return (
            self.spark.readStream.format("binaryFile")
            .schema(_LISTED)
            .options(maxFilesPerTrigger=self.max_files, maxFileAge=_OLDEST_FILE, **self._listing())
            .load(self.path)
            .select("path", "modificationTime")
        )

    def batch(self, arrived: DataFrame) -> MicroBatch:
        """The rows of the files of these names."""
        return MicroBatch(_arrived(arrived), self.rows)


def _arrived(listed: DataFrame) -> list[ArrivedFile]:
    with translated():
        found = listed.select("path", F.unix_micros("modificationTime")).collect()
    return sorted(
        (ArrivedFile(path, micros / 3.6e9) for path, micros in found), key=lambda f: f[::-1]
    )
