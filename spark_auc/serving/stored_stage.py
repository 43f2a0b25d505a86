"""The format of a saved stage, and reading and writing it without Spark.

A saved stage is a directory ``metadata`` (Spark ML's JSON of the Params in text files) and, for
models, a directory ``data`` (a Parquet table); a stage of several stages has a directory for each.
The metadata has a hash of the table and a hash of itself.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import pyarrow as pa
import pyarrow.parquet as pq

from spark_auc.errors import ModelFormatError

VERSION = 2
# What reading damaged metadata raises.
DAMAGES = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


class Files(Protocol):
    """A directory of files."""

    @property
    def uri(self) -> str:
        """Its location."""

    def __truediv__(self, name: str) -> Self: ...

    def names(self) -> list[str]:
        """Names of the entries; empty if the directory does not exist."""

    def read(self, name: str) -> bytes:
        """The content of a file."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file, and create its directory if necessary."""


@dataclass(frozen=True, eq=False)
class StoredStage:
    """The content of a saved stage.

    Parameters
    ----------
    uri
        Its directory.
    metadata
        The metadata, as Spark ML's JSON.
    table
        The table; None of a stage without one.
    parts
        The stages that were saved with it, by the name of their directory.
    """

    uri: str
    metadata: Mapping[str, Any]
    table: pa.Table | None
    parts: Mapping[str, StoredStage]

    @property
    def kind(self) -> str:
        """Name of its class."""
        return kind_of(self.metadata["class"])

    @property
    def params(self) -> dict[str, Any]:
        """Values of its Params, defaults included."""
        params: dict[str, Any] = self.metadata["defaultParamMap"] | self.metadata["paramMap"]
        return params

    @property
    def facts(self) -> dict[str, Any]:
        """Further values of the metadata."""
        facts: dict[str, Any] = self.metadata["spark_auc"]
        return facts

    @classmethod
    def read(cls, files: Files) -> StoredStage:
        """Read a saved stage with its parts.

        Raises
        ------
        ModelFormatError
            The directory has no saved stage, or one of another version, truncated or changed.
        """
        uri, expected = files.uri, "a saved model"
        try:
            metadata = stored_metadata(files)
            if "spark_auc" not in metadata:
                raise ModelFormatError(
                    f"found a saved {kind_of(metadata['class'])[:60]!a} at {uri!r}, expected a "
                    "ranker of spark_auc; save the RankerPipelineModel or the LinearRankerModel"
                )
            facts = dict(metadata["spark_auc"])
            check_version(uri, metadata["class"], facts["version"], expected)
            check_seal(metadata)
            table = stored_table(files, facts["hash"]) if "hash" in facts else None
            parts = dict[str, StoredStage]()
            for name, uid in facts.get("parts", {}).items():
                if name in {"", ".", ".."} or "/" in name:
                    raise ValueError(f"a part with the name {name[:60]!a}")
                parts[name] = cls.read(files / name)
                if parts[name].metadata["uid"] != uid:
                    raise ValueError(f"its {name} was not saved with it")
        except (*DAMAGES, pa.ArrowException, OSError) as failure:
            raise damaged(uri, expected, failure) from None
        return cls(uri, metadata, table, parts)

    def write(self, files: Files) -> None:
        """Write the stage with its parts, as Spark would; `read` and Spark's ``load`` read it."""
        for name, part in self.parts.items():
            part.write(files / name)
        if self.table is not None:
            sink = pa.BufferOutputStream()
            pq.write_table(self.table, sink)
            (files / "data").write("part-00000.parquet", bytes(sink.getvalue()))
        (files / "metadata").write("part-00000", f"{self.text()}\n".encode())

    def text(self) -> str:
        """The metadata as one line of JSON."""
        return json.dumps(self.metadata, separators=(",", ":"))


def kind_of(name: str) -> str:
    """The name of a class without its module."""
    return name.rsplit(".", 1)[-1]


def check_version(
    uri: str, name: str, version: Any, expected: str, kind: str | None = None
) -> None:
    """`ModelFormatError` for a stage of another version, or of another class than ``kind``."""
    found = kind_of(name)
    if version != VERSION or kind not in (None, found):
        raise ModelFormatError(
            f"found a saved {found[:60]!a} of version {ascii(version)[:60]} at {uri!r}, "
            f"expected {expected} of version {VERSION}; save it again with this version of "
            "spark_auc"
        )


def check_seal(metadata: Mapping[str, Any]) -> None:
    """`ValueError` for metadata that were changed."""
    if metadata["spark_auc"]["metadata"] != seal(metadata):
        raise ValueError("its hash is another")


def seal(metadata: Mapping[str, Any]) -> str:
    """Hash of the metadata without the hash itself."""
    facts = {k: v for k, v in metadata["spark_auc"].items() if k != "metadata"}
    content = json.dumps({**metadata, "spark_auc": facts}, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def checked_table(uri: str, table: pa.Table, hashed: str) -> pa.Table:
    """The table of a stage in its order; `ModelFormatError` for another table."""
    table = table.sort_by(table.column_names[0])
    if hash_of(table) != hashed:
        raise ModelFormatError(
            f"found weights at {uri!r} that are not those saved with the metadata, "
            "expected an unchanged directory; restore the files or save it again"
        )
    return table


def hash_of(table: pa.Table) -> str:
    """Hash of the values; chunks and annotations of the schema do not count."""
    digest = hashlib.sha256()
    for name in table.column_names:
        digest.update(name.encode())
        column = table[name].combine_chunks()
        kind = column.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            digest.update("\0".join(map(str, column.to_pylist())).encode())
        elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            digest.update(b"".join(column.to_pylist()))
        else:
            digest.update(column.to_numpy(zero_copy_only=False).tobytes())
    return digest.hexdigest()


def damaged(uri: str, expected: str, failure: Exception) -> ModelFormatError:
    """The error for a stage whose metadata cannot be used."""
    return ModelFormatError(
        f"found damaged metadata at {uri!r} ({type(failure).__name__}: {str(failure)[:200]}), "
        f"expected {expected}; restore the files or save it again"
    )


def stored_metadata(files: Files) -> Any:
    """The metadata of a saved stage; `ValueError` if there are none."""
    return json.loads(b"".join(_parts(files / "metadata")))


def stored_table(files: Files, hashed: str) -> pa.Table:
    """The table of a saved stage; see `checked_table`."""
    data = files / "data"
    parts = [pq.read_table(io.BytesIO(part)) for part in _parts(data)]
    return checked_table(data.uri, pa.concat_tables(parts), hashed)


def _parts(files: Files) -> Sequence[bytes]:
    """The contents of the part files that Spark wrote, in their order."""
    names = sorted(name for name in files.names() if name.startswith("part-"))
    if not names:
        raise ValueError(f"no files at {files.uri!r}")
    return [files.read(name) for name in names]
