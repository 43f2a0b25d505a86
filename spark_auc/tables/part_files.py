"""Rows as Parquet files: each part of a table writes files of its own names."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_auc.errors import DataError
from spark_auc.storage.file_systems import is_object_store, opened, reached

if TYPE_CHECKING:
    from spark_auc.publication.directory import Directory

WRITTEN = pa.schema({"name": pa.string(), "bytes": pa.int64(), "rows": pa.int64()})


@dataclass(frozen=True)
class PartWriter:
    """Writes the rows of a part to files whose names no other attempt has.

    Parameters
    ----------
    uri
        The directory.
    partition_by
        Columns whose values name directories.
    metadata
        Metadata of the schema of the files.
    """

    uri: str
    partition_by: tuple[str, ...] = ()
    metadata: Mapping[bytes, bytes] | None = None

    def write(self, number: int, batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch | None:
        """Write the batches of a part; returns `WRITTEN` of its files, None without rows.

        Parameters
        ----------
        number
            Number of the part.
        batches
            Its rows.

        Raises
        ------
        StorageError
            The file system failed.
        """
        import pyarrow.dataset as ds

        written = list[Any]()
        _, filesystem, path = opened(self.uri)
        filled = (batch for batch in batches if batch.num_rows)
        if (first := next(filled, None)) is None:
            return None
        schema = first.schema.with_metadata(self.metadata)
        reader = pa.RecordBatchReader.from_batches(
            schema, (batch.cast(schema) for batch in chain([first], filled))
        )
        columns = pa.schema([schema.field(name) for name in self.partition_by])
        with reached(self.uri, filesystem):
            ds.write_dataset(
                reader,
                path,
                filesystem=filesystem,
                format="parquet",
                basename_template=f"part-{number:05d}-{uuid.uuid4().hex}-{{i}}.parquet",
                partitioning=ds.partitioning(columns, flavor="hive") if columns else None,
                existing_data_behavior="overwrite_or_ignore",
                create_dir=not is_object_store(filesystem),
                use_threads=False,
                preserve_order=True,
                file_visitor=written.append,
            )
        names = [file.path[len(path) + 1 :] for file in written]
        rows = [file.metadata.num_rows for file in written]
        return pa.RecordBatch.from_pydict(
            {"name": names, "bytes": [file.size for file in written], "rows": rows}, WRITTEN
        )


def settle(directory: Directory, written: Sequence[Mapping[str, Any]], empty: pa.Schema) -> int:
    """Keep the files of the parts that succeeded, and return the number of their rows.

    Parameters
    ----------
    directory
        The directory.
    written
        What `PartWriter.write` returned for each part, as rows.
    empty
        Schema of the file that is written if there are no rows.

    Raises
    ------
    DataError
        The directory has other files than those that were written.
    StorageError
        The file system failed.
    """
    expected = {row["name"]: row["bytes"] for row in written}
    if not expected:
        sink = pa.BufferOutputStream()
        pq.write_table(empty.empty_table(), sink)
        content = sink.getvalue().to_pybytes()
        directory.write("part-00000.parquet", content)
        expected["part-00000.parquet"] = len(content)
    found = directory.files()
    directory.delete(*found.keys() - expected.keys())
    wrong = sorted(name for name, size in expected.items() if found.get(name) != size)
    if wrong:
        raise DataError(
            f"found {found.get(wrong[0], 'no')} bytes at {directory.uri}/{wrong[0]}, expected the "
            f"{expected[wrong[0]]} that a task wrote; check the store, and run again"
        )
    return sum(row["rows"] for row in written)
