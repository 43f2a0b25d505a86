"""Saving and loading through Spark, on any file system that it reaches, classic and Connect.

A saved instance is ``metadata`` (Spark ML's JSON of the Params) and, where the instance has one,
``data`` (a Parquet table). Spark ML's own writer clears the target through the JVM, which
Connect has not; here each of the two replaces its predecessor instead, and a hash of the table
in the metadata makes a half-replaced pair unreadable rather than wrong.
"""

from __future__ import annotations

import hashlib
from typing import Any, Generic, TypeVar

import pyarrow as pa
from pyspark.ml.param import Params
from pyspark.ml.util import (
    DefaultParamsReader,
    DefaultParamsWriter,
    MLReadable,
    MLReader,
    MLWritable,
    MLWriter,
)

from spark_auc.errors import ConfigError, ModelFormatError
from spark_auc.spark.failures import SPARK_FAILURES, first_line

VERSION = 1
T = TypeVar("T", bound=Params)
S = TypeVar("S", bound="Stage")


class Stage(Params, MLWritable, MLReadable[Any]):
    """What Spark ML asks of a stage besides its Params: setting them, saving and loading."""

    def setParams(self: S, **params: Any) -> S:
        """Set any Params by name; None leaves one as it is."""
        self._set(**{name: value for name, value in params.items() if value is not None})
        return self

    def write(self) -> Writer:
        """A writer; ``write().overwrite().save(path)`` replaces."""
        return Writer(self)

    @classmethod
    def read(cls) -> Reader[Any]:
        """A reader."""
        return Reader(cls)

    def _saved(self) -> tuple[pa.Table | None, dict[str, Any]]:
        """What is saved besides the Params: a table, and facts that JSON takes."""
        return None, {}


class Writer(MLWriter):
    """Writes an instance's Params, and the table and facts that ``_saved()`` gives."""

    def __init__(self, instance: Any) -> None:
        super().__init__()
        self.instance = instance

    def _handleOverwrite(self, path: str) -> None:
        pass

    def saveImpl(self, path: str) -> None:
        """Write to ``path``."""
        spark = self.sparkSession
        mode = "overwrite" if self.shouldOverwrite else "error"
        table, facts = self.instance._saved()
        if table is not None:
            facts = facts | {"hash": _hash(table)}
            frame = spark.createDataFrame(table).coalesce(1)
            frame.write.mode(mode).parquet(f"{path}/data")
        noted = DefaultParamsWriter._get_metadata_to_save(
            self.instance, spark, {"spark_auc": {"version": VERSION, **facts}}
        )
        frame = spark.createDataFrame([(noted,)], "value string").coalesce(1)
        frame.write.mode(mode).text(f"{path}/metadata")


class Reader(MLReader[Any], Generic[T]):
    """Reads what `Writer` wrote, and hands table and facts to ``_loaded()``."""

    def __init__(self, kind: type[T]) -> None:
        super().__init__()
        self.kind = kind

    def load(self, path: str) -> T:
        """Read from ``path``.

        Raises
        ------
        ConfigError
            There is nothing to read.
        ModelFormatError
            What is there is of another kind or version, truncated, or changed.
        """
        spark = self.sparkSession
        expected = f"a saved {self.kind.__name__}"
        try:
            metadata = DefaultParamsReader.loadMetadata(path, spark)
        except SPARK_FAILURES as failure:
            raise ConfigError(
                f"found nothing that can be read at {path!r} ({first_line(failure)}), expected "
                f"{expected}; check the path"
            ) from None
        except (ValueError, KeyError, TypeError) as failure:
            raise ModelFormatError(
                f"found damaged metadata at {path!r} ({failure}), expected {expected}; "
                "save it again"
            ) from None
        facts = metadata.get("spark_auc", {})
        found = metadata["class"].rsplit(".", 1)[-1]
        if found != self.kind.__name__ or facts.get("version") != VERSION:
            raise ModelFormatError(
                f"found a saved {found} of version {facts.get('version')} at {path!r}, expected "
                f"{expected} of version {VERSION}; save it again with this version of spark_auc"
            )
        instance: Any = self.kind()
        instance._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(instance, metadata)
        if "hash" in facts:
            try:
                table = spark.read.parquet(f"{path}/data").toArrow()
            except SPARK_FAILURES as failure:
                raise ModelFormatError(
                    f"found no readable weights at {path!r}/data ({first_line(failure)}), "
                    "expected those saved with the metadata; restore the files or save it again"
                ) from None
            table = table.sort_by(table.column_names[0])
            if _hash(table) != facts["hash"]:
                raise ModelFormatError(
                    f"found weights at {path!r}/data that are not those saved with the metadata, "
                    "expected an unchanged directory; restore the files or save it again"
                )
            instance._loaded(table, facts)
        return instance  # type: ignore[no-any-return]


def _hash(table: pa.Table) -> str:
    """Hash of the values, whatever the chunks and the schema's annotations."""
    digest = hashlib.sha256()
    for name in table.column_names:
        digest.update(name.encode())
        column = table[name].combine_chunks()
        if pa.types.is_string(column.type):
            digest.update("\0".join(map(str, column.to_pylist())).encode())
        elif pa.types.is_binary(column.type):
            digest.update(b"".join(column.to_pylist()))
        else:
            digest.update(column.to_numpy(zero_copy_only=False).tobytes())
    return digest.hexdigest()
