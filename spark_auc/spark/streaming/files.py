"""Stream the files that arrive in a directory.

The streaming DataFrame contains the paths of the files and not their rows. A batch can then list
its files although one of them is unreadable, and read their rows together or file by file.
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
from spark_auc.spark.data.paths import literal, stream_path
from spark_auc.spark.data.strict import check_types, whole_rows
from spark_auc.spark.streaming.stream import ArrivedFile, MicroBatch, schema_of

# Columns of Spark's "binaryFile" source; the query does not read the content.
_LISTED = "path string, modificationTime timestamp, length long, content binary"
_LISTING_OPTIONS = ("pathGlobFilter", "recursiveFileLookup")
# By default Spark silently ignores a file that is a week older than the newest one.
_OLDEST_FILE = "36500d"


@dataclass(frozen=True)
class FileStream:
    """Files of a directory, in batches, in the order of the time of their last change.

    Parameters
    ----------
    spark
        A classic session.
    path
        Directory or pattern.
    format, options, schema
        Format and schema of the files, and options of the reader.
    max_files
        Largest number of files in a batch.
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
        """Make a stream, and infer the schema from a file if it is not known.

        Parameters
        ----------
        spark, path, max_files
            See `FileStream`.
        form, options
            Format of the files, and options of the reader.
        ddl
            Schema in DDL form; None for ``known``.
        known
            Schema as JSON; None for the schema of the files in the directory.

        Raises
        ------
        ConfigError
            The schema is invalid.
        DataError
            The directory has no readable file to infer the schema from.
        """
        options = whole_rows(form, options)
        place = stream_path(spark, path)
        stream = cls(spark, place, form, options, StructType(), max_files)
        if ddl is not None:
            return replace(stream, schema=schema_of(ddl))
        schema = StructType.fromJson(json.loads(known)) if known else stream._inferred()
        return replace(stream, schema=schema)

    def _inferred(self) -> StructType:
        reader = self.spark.read.format(self.format).options(**self.options)
        try:
            return reader.load(self.path).schema
        except SPARK_FAILURES:
            # One unreadable file fails the inference for all; infer from the first readable one.
            for file in self._files():
                try:
                    return reader.load(literal(file.path)).schema
                except SPARK_FAILURES:
                    continue
        raise DataError(
            f"found no readable {self.format} file at {self.path!r}, expected one from which to "
            "infer the schema; add a file or set opauc.stream.schema"
        )

    def _files(self) -> list[ArrivedFile]:
        listed = self.spark.read.format("binaryFile").options(**self._listing()).load(self.path)
        return _arrived(listed)

    def _listing(self) -> dict[str, str]:
        return {key: self.options[key] for key in _LISTING_OPTIONS if key in self.options}

    def rows(self, files: Sequence[ArrivedFile]) -> DataFrame:
        """Read the rows of files; `DataError` if a column's type differs from the schema."""
        paths = [literal(file.path) for file in files]
        check_types(self.spark, self.format, self.options, paths, self.schema)
        reader = self.spark.read.format(self.format).options(**self.options).schema(self.schema)
        return reader.load(paths)

    def arriving(self) -> DataFrame:
        """The paths of the files, and the times of their last changes."""
        return (
            self.spark.readStream.format("binaryFile")
            .schema(_LISTED)
            .options(maxFilesPerTrigger=self.max_files, maxFileAge=_OLDEST_FILE, **self._listing())
            .load(self.path)
            .select("path", "modificationTime")
        )

    def batch(self, arrived: DataFrame) -> MicroBatch:
        """The files whose paths are in ``arrived``."""
        return MicroBatch(_arrived(arrived), self.rows)


def _arrived(listed: DataFrame) -> list[ArrivedFile]:
    with translated():
        rows = listed.select("path", F.unix_micros("modificationTime")).collect()
    return sorted(
        (ArrivedFile(path, micros / 3.6e9) for path, micros in rows), key=lambda f: f[::-1]
    )
