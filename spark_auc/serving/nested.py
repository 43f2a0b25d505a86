"""Fields of structs as columns, as Spark's jobs read them: ``user.age`` names one of any depth.

A column of the name itself goes before a field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_auc.features.single_values import is_missing


def row_with_fields(row: Mapping[str, Any], paths: Sequence[str]) -> Mapping[str, Any]:
    """The row with a value for each path of a field that it has.

    Parameters
    ----------
    row
        Values by name; a struct is a mapping, or missing.
    paths
        Names of columns and paths of fields.
    """
    found = {path: value for path in paths if path not in row for value in _values(row, path)}
    return {**row, **found} if found else row


def _values(row: Mapping[str, Any], path: str) -> list[Any]:
    """The value at a path; none if the row does not have the field."""
    if path in row:
        return [row[path]]
    for name, inner in row.items():
        if not path.startswith(f"{name}."):
            continue
        if isinstance(inner, Mapping):
            if found := _values(inner, path.removeprefix(f"{name}.")):
                return found
        elif is_missing(inner):
            return [None]
    return []


def column_at(
    path: str, names: Sequence[str], column: Callable[[int], pa.ChunkedArray]
) -> pa.ChunkedArray | None:
    """The column of a name, or else the field of a path; None if there is neither.

    Parameters
    ----------
    path
        The name or path.
    names
        Names of the columns.
    column
        Gives the column of a place.
    """
    if path in names:
        return column(names.index(path))
    for place, name in enumerate(names):
        if path.startswith(f"{name}."):
            found = _field(column(place), path.removeprefix(f"{name}."))
            if found is not None:
                return found
    return None


def _field(array: pa.ChunkedArray, path: str) -> pa.ChunkedArray | None:
    kind = array.type
    if pa.types.is_null(kind):
        return array
    if not pa.types.is_struct(kind):
        return None
    inner = [kind.field(place).name for place in range(kind.num_fields)]
    return column_at(path, inner, lambda place: pc.struct_field(array, place))
