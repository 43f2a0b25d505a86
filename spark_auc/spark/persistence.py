"""Saving and loading through Spark, on any file system that it reaches, classic and Connect.

A saved instance is ``metadata`` (Spark ML's JSON of the Params) and, where the instance has one,
``data`` (a Parquet table). Spark ML's own writer clears the target through the JVM, which
Connect has not; here each of the two replaces its predecessor instead, and a hash of the table
in the metadata makes a half-replaced pair unreadable rather than wrong. A hash of the metadata
itself tells when it was changed. The class that is made is the one asked to load: no name in the
metadata is imported, and only Params that the class has are set.
"""

from __future__ import annotations

import hashlib
import json
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
from spark_auc.spark.data.failures import SPARK_FAILURES, first_line

VERSION = 2
T = TypeVar("T", bound=Params)
S = TypeVar("S", bound="Stage")


class Stage(Params, MLWritable, MLReadable[Any]):
    """What Spark ML asks of a stage besides its Params: setting them, saving and loading."""

    def setParams(self: S, **params: Any) -> S:
        """Set any Params by name; None leaves one as it is."""
        self._set(**{name: value for name, value in params.items() if value is not None})
        return self

    def write(self) -> StageWriter:
        """A writer; ``write().overwrite().save(path)`` replaces."""
        return StageWriter(self)

    @classmethod
    def read(cls) -> StageReader[Any]:
        """A reader."""
        return StageReader(cls)

    def _saved(self) -> tuple[pa.Table | None, dict[str, Any]]:
        """What is saved besides the Params: a table, and facts that JSON takes."""
        return None, {}


class StageWriter(MLWriter):
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
        content = json.loads(noted)
        content["spark_auc"]["metadata"] = _seal(content)
        text = json.dumps(content, separators=(",", ":"))
        frame = spark.createDataFrame([(text,)], "value string").coalesce(1)
        frame.write.mode(mode).text(f"{path}/metadata")


class StageReader(MLReader[Any], Generic[T]):
    """Reads what `StageWriter` wrote, and hands table and facts to ``_loaded()``."""

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
            metadata: dict[str, Any] = DefaultParamsReader.loadMetadata(path, spark)
            facts: dict[str, Any] = metadata["spark_auc"]
            found, version = metadata["class"].rsplit(".", 1)[-1], facts["version"]
        except SPARK_FAILURES as failure:
            raise ConfigError(
                f"found nothing that can be read at {path!r} ({first_line(failure)}), expected "
                f"{expected}; check the path"
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as failure:
            raise _damaged(path, expected, failure) from None
        if found != self.kind.__name__ or version != VERSION:
            raise ModelFormatError(
                f"found a saved {found[:60]!a} of version {ascii(version)[:60]} at {path!r}, "
                f"expected {expected} of version {VERSION}; save it again with this version of "
                "spark_auc"
            )
        instance: Any = self.kind()
        try:
            if facts.pop("metadata") != _seal(metadata):
                raise ValueError("its hash is another")
            instance._resetUid(metadata["uid"])
            unknown = {*metadata["paramMap"], *metadata["defaultParamMap"]} - {
                param.name for param in instance.params
            }
            if unknown:
                raise ValueError(f"there is no Param {min(unknown)[:60]!a}")
            DefaultParamsReader.getAndSetParams(instance, metadata)
        except (ValueError, KeyError, TypeError, AttributeError, AssertionError) as failure:
            raise _damaged(path, expected, failure) from None
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
            try:
                instance._loaded(table, facts)
            except (ValueError, KeyError, TypeError, AttributeError, pa.ArrowException) as failure:
                raise _damaged(path, expected, failure) from None
        return instance  # type: ignore[no-any-return]


def _damaged(path: str, expected: str, failure: Exception) -> ModelFormatError:
    return ModelFormatError(
        f"found damaged metadata at {path!r} ({type(failure).__name__}: {str(failure)[:200]}), "
        f"expected {expected}; restore the files or save it again"
    )


def _seal(metadata: dict[str, Any]) -> str:
    """Hash of all metadata but for itself."""
    facts = {k: v for k, v in metadata["spark_auc"].items() if k != "metadata"}
    content = json.dumps(metadata | {"spark_auc": facts}, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


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
