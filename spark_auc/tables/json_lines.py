"""JSON Lines: one object on each line, whose fields are columns of the types of all rows.

A pass over the files merges the types of ranges: integers become doubles, times are text, and a
field that records lack is null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import islice

import pyarrow as pa
import pyarrow.json as pj
from pyarrow import types as kinds

from spark_auc.core.parallel import mapped
from spark_auc.errors import DataError
from spark_auc.storage.file_systems import is_local
from spark_auc.storage.listed_files import ListedFile, check_same
from spark_auc.tables.partitions import NO_PARTITIONS
from spark_auc.tables.quotes import Dialect
from spark_auc.tables.table import Batches
from spark_auc.tables.text_ranges import (
    BATCH_ROWS,
    REQUESTS,
    SHOWN,
    Range,
    TextFiles,
    contents,
    lines_before,
    listed,
    mark_of,
    ranges_of,
    reading,
)

_LINES = Dialect("\n", quotes=False)
_NO_FIELDS = pa.struct([])
_NUMBERS = {pa.int64(), pa.float64()}
# The types of values, of which Arrow has others for texts that are times, and their nouns.
_NOUNS = {
    pa.null(): "null",
    pa.bool_(): "true or false",
    pa.string(): "text",
    **dict.fromkeys(_NUMBERS, "a number"),
}


class _MixedError(ValueError):
    """A field has values of two types."""


class JsonFiles(TextFiles):
    """Files of JSON Lines; columns are in the order in which the files first have them."""

    @classmethod
    def of(cls, paths: Sequence[str], partitions: pa.Schema = NO_PARTITIONS) -> JsonFiles:
        """List the ranges of files, and find the types of the columns by a pass over them.

        Parameters
        ----------
        paths
            Paths or URIs.
        partitions
            Columns whose values are in the names of directories; see `partitions_of`.

        Raises
        ------
        DataError
            A file is unreadable, a line is no JSON object, a field has values of several types, or
            there are no fields.
        StorageError
            A store failed.
        """
        ranges, kind = _typed_ranges(*listed(paths))
        if not kind.num_fields:
            raise DataError(
                f"found no fields in {paths[0]!r}, expected a JSON object on each line; check the "
                "file"
            )
        # Values that are null in all records are text, as for Spark.
        kind = _typed(kind, lambda leaf: pa.string() if kinds.is_null(leaf) else leaf)
        return cls(pa.schema([*kind]), _LINES, ranges, partitions)

    def _batches(self, content: bytes, names: list[str]) -> Batches:
        rows = _parsed(content, pa.schema([self.schema.field(name) for name in names]))
        yield from rows.to_batches(BATCH_ROWS)

    def _fault(
        self, path: str, place: int, content: bytes, names: Sequence[str], error: Exception
    ) -> DataError:
        return _fault(path, place, content, pa.struct([*self.schema]))


@lru_cache(maxsize=8)
def _typed_ranges(
    files: tuple[ListedFile, ...], size: int
) -> tuple[tuple[Range, ...], pa.DataType]:
    """Ranges of about a size, and the types of all their records."""
    ranges = list[Range]()
    for file in files:
        with reading(file.path):
            ranges += ranges_of(file, mark_of(file.path), _LINES, size)

    def types_of(part: Range) -> list[pa.DataType]:
        with reading(part.file.path):
            found = [_type_of(content) for _, content in contents(part, _LINES)]
            check_same(part.file.path, part.file.is_unchanged())
        return found

    merged, threads = _NO_FIELDS, None if all(is_local(f.path) for f in files) else REQUESTS
    for part, found in zip(ranges, mapped(types_of, ranges, threads), strict=True):
        for number, kind in enumerate(found):
            try:
                merged = _merged(merged, kind)
            except _MixedError:
                place, content = next(islice(contents(part, _LINES), number, None))
                raise _fault(part.file.path, place, content, merged) from None
    return tuple(ranges), merged


def _type_of(content: bytes) -> pa.DataType:
    """The type of the records of whole lines; text, which no record is, if they have none."""
    try:
        return _checked_type(content)
    except ValueError:
        return pa.string()


def _checked_type(content: bytes) -> pa.DataType:
    """The type of the records of whole lines; `ValueError` if one of them is malformed."""
    content.decode()
    rows, lines = _parsed(content), content.count(b"\n") + (not content.endswith(b"\n"))
    if rows.num_rows != lines:
        lines = sum(bool(line.strip()) for line in content.split(b"\n"))
    if rows.num_rows != lines:
        raise ValueError(f"{rows.num_rows} objects")
    return _typed(pa.struct([*rows.schema]), lambda kind: kind if kind in _NOUNS else pa.string())


def _parsed(content: bytes, schema: pa.Schema | None = None) -> pa.Table:
    """Whole lines as rows; `ArrowInvalid` if one is malformed, or of other types than a schema."""
    read = pj.ReadOptions(use_threads=False, block_size=len(content) + 1)
    others = "infer" if schema is None else "ignore"
    parse = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=others)
    return pj.read_json(pa.BufferReader(content), read, parse)


def _typed(kind: pa.DataType, typed: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """A type with others of its values, in objects and lists of any depth."""
    if kinds.is_struct(kind):
        return pa.struct([field.with_type(_typed(field.type, typed)) for field in kind])
    return pa.list_(_typed(kind.value_type, typed)) if kinds.is_list(kind) else typed(kind)


def _merged(mine: pa.DataType, other: pa.DataType, path: tuple[str, ...] = ()) -> pa.DataType:
    """The type of the values of two types; `_MixedError` without one."""
    if mine == other or kinds.is_null(other):
        return mine
    if kinds.is_null(mine):
        return other
    if {mine, other} == _NUMBERS:
        return pa.float64()
    if kinds.is_list(mine) and kinds.is_list(other):
        return pa.list_(_merged(mine.value_type, other.value_type, path))
    if not (kinds.is_struct(mine) and kinds.is_struct(other)):
        raise _MixedError(".".join(path), _noun(mine), _noun(other))
    merged = {field.name: field.type for field in mine}
    for name, kind in ((field.name, field.type) for field in other):
        merged[name] = _merged(merged.get(name, pa.null()), kind, (*path, name))
    return pa.struct([*merged.items()])


def _noun(kind: pa.DataType) -> str:
    return _NOUNS.get(kind) or ("a list" if kinds.is_list(kind) else "an object")


def _fault(path: str, place: int, content: bytes, known: pa.DataType) -> DataError:
    """The error of the first line that is no object, or has other types than those before."""
    before = lines_before(path, place)
    for number, line in enumerate(content.split(b"\n"), before + 1):
        try:
            known = _merged(known, _checked_type(line)) if line.strip() else known
        except _MixedError as error:
            name, mine, other = error.args
            return DataError(
                f"found {other} in field {name!r} in line {number} of {path}, expected {mine} as "
                "in the lines before; write all its values as text, or let Spark read them as text "
                "(engine: spark, options.primitivesAsString: true)"
            )
        except ValueError as error:
            return DataError(
                f"found {line.decode(errors='replace')[:SHOWN]!r} in line {number} of {path} "
                f"({str(error).removesuffix(' in row 0')}), expected one JSON object in UTF-8; "
                "correct or remove it"
            )
    return DataError(f"found {path} of other types than before, expected one type; run again")
