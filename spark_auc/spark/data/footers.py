"""Footers of Parquet files: row groups, and whether Arrow and Spark read the same values."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types as kinds

from spark_auc.core.parallel import mapped
from spark_auc.spark.data.local_paths import UnsupportedFilesError
from spark_auc.storage.listed_files import ListedFile, input_file

# Names of the columns to read, and their Arrow types according to Spark's schema.
Columns: TypeAlias = Sequence[tuple[str, pa.DataType]]

_MAGIC = b"PAR1"
_TAIL = 8
_LAST = 2**16
# On a network file system, threads overlap the latency of reading footers.
_THREADS = 16
# Types whose values Arrow and Spark read to the same bits.
_NUMBERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64())
_SAME = frozenset([pa.bool_(), pa.string(), *_NUMBERS])
_OTHERS = frozenset([pa.date32(), pa.binary()])
_LISTS = (".list.element", ".list.item")


@dataclass(frozen=True)
class RowGroup:
    """A row group.

    Parameters
    ----------
    file
        The file.
    number
        Index of the row group in the file.
    rows
        Number of rows.
    """

    file: ListedFile
    number: int
    rows: int


def footer(path: str, file: pa.NativeFile) -> tuple[ListedFile, pq.FileMetaData]:
    """Read the footer of a file.

    Parameters
    ----------
    path
        Path on the local file system, or URI.
    file
        The opened file.

    Returns
    -------
    ListedFile, pyarrow.parquet.FileMetaData
        The current state of the file, and its metadata.

    Raises
    ------
    OSError, pyarrow.ArrowException
        The file is no complete Parquet file.
    UnsupportedFilesError
        The file is encrypted.
    """
    state, size = ListedFile.of(path), file.size()
    # One request to a store reads most footers.
    file.seek(max(0, size - _LAST))
    last = file.read()
    tail = last[-_TAIL:]
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] == b"PARE":
        raise UnsupportedFilesError(f"{path} is encrypted")
    if tail[4:] != _MAGIC or length + 2 * len(_MAGIC) + 4 > size:
        raise OSError("no footer at the end")
    if length + _TAIL > len(last):
        file.seek(size - _TAIL - length)
        last = file.read()
    content = last[-_TAIL - length : -_TAIL]
    metadata = pq.read_metadata(pa.BufferReader(_MAGIC + content + tail))
    if metadata.serialized_size != length:
        # Encrypted columns add a signature to the footer; Arrow has no property for it.
        raise UnsupportedFilesError(f"{path} has encrypted columns")
    digest = hashlib.blake2b(content, digest_size=16).digest()
    return replace(state, footer=digest), metadata


def row_groups(
    paths: Sequence[str], columns: Columns, *, beside_spark: bool = True
) -> tuple[RowGroup, ...]:
    """List the row groups of files that all have the given columns.

    Parameters
    ----------
    paths
        The files.
    columns
        Names of the columns to read, and their Arrow types according to Spark's schema.
    beside_spark
        Whether Spark may read the same files, so that values must be equal to the bit: dates,
        times, decimals and bytes are then refused.

    Raises
    ------
    UnsupportedFilesError
        A file is unreadable or encrypted, or a column is missing or of another type.
    """

    def of(path: str) -> list[RowGroup]:
        file, metadata = _metadata(path)
        _check(path, metadata, columns, _SAME if beside_spark else _SAME | _OTHERS)
        rows = (metadata.row_group(k).num_rows for k in range(metadata.num_row_groups))
        return [RowGroup(file, k, count) for k, count in enumerate(rows) if count]

    groups_of = mapped(of, paths, min(_THREADS, len(paths)))
    return tuple(group for groups in groups_of for group in groups)


def _metadata(path: str) -> tuple[ListedFile, pq.FileMetaData]:
    try:
        with input_file(path) as file:
            return footer(path, file)
    except (OSError, pa.ArrowException) as error:
        raise UnsupportedFilesError(f"{path} is unreadable ({error})") from None


def _check(
    path: str, metadata: pq.FileMetaData, columns: Columns, known: frozenset[pa.DataType]
) -> None:
    try:
        schema = metadata.schema.to_arrow_schema()
    except pa.ArrowException as error:
        raise UnsupportedFilesError(
            f"{path} has a schema that Arrow cannot read ({error})"
        ) from None
    names, lower_names = set(schema.names), Counter(name.lower() for name in schema.names)
    leaves = (metadata.schema.column(k) for k in range(len(metadata.schema)))
    lists = {leaf.path for leaf in leaves if leaf.max_repetition_level}
    older = {path for path in lists if not path.endswith(_LISTS)}
    for name, expected in columns:
        if name not in names or lower_names[name.lower()] != 1:
            raise UnsupportedFilesError(f"{path} has no column {name!r}, or several with this name")
        kind = schema.field(name).type
        if not _same_values(kind, expected, known):
            raise UnsupportedFilesError(
                f"{path} has column {name!r} of type {kind}, whose values may differ from those "
                f"that Spark reads as {expected}"
            )
        if kinds.is_fixed_size_list(kind) and _has_nulls(metadata, name):
            raise UnsupportedFilesError(
                f"{path} has missing values in column {name!r} of lists of one size, which Arrow "
                "does not read"
            )
        if any(leaf == name or leaf.startswith(f"{name}.") for leaf in older):
            raise UnsupportedFilesError(f"{path} has lists in an old format in column {name!r}")


def _has_nulls(metadata: pq.FileMetaData, name: str) -> bool:
    """Whether a column of lists may have missing values, also within them."""
    columns = (
        metadata.row_group(group).column(k)
        for group in range(metadata.num_row_groups)
        for k in range(metadata.num_columns)
    )
    own = (column for column in columns if column.path_in_schema.split(".")[0] == name)
    return any(column.statistics is None or column.statistics.null_count != 0 for column in own)


def _same_values(stored: pa.DataType, expected: pa.DataType, known: frozenset[pa.DataType]) -> bool:
    """Whether Arrow and Spark read equal values; large lists and strings count as plain ones."""
    if kinds.is_dictionary(stored):
        return _same_values(stored.value_type, expected, known)
    if kinds.is_struct(expected):
        return (
            kinds.is_struct(stored)
            and [f.name for f in stored] == [f.name for f in expected]
            and all(
                _same_values(f.type, e.type, known) for f, e in zip(stored, expected, strict=True)
            )
        )
    if kinds.is_list(expected):
        is_list = kinds.is_list(stored) or kinds.is_large_list(stored)
        return (is_list or kinds.is_fixed_size_list(stored)) and _same_values(
            stored.value_type, expected.value_type, known
        )
    if kinds.is_timestamp(expected) or kinds.is_decimal(expected):
        return known >= _OTHERS and stored.id == expected.id
    return expected in known and (
        stored == expected or (kinds.is_string(expected) and kinds.is_large_string(stored))
    )
