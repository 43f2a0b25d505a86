"""Fields of structs as columns, so that ``user.age`` names one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from spark_auc.tables.names import folded
from spark_auc.tables.table import Table, fields_by_name

T = TypeVar("T", bound=Table)


def with_fields(table: T, names: Collection[str]) -> T:
    """The rows with a column for each name that is the path of a field, of any depth.

    Parameters
    ----------
    table
        The rows. A column of the name itself goes before a field.
    names
        Names of columns, paths of fields, and others, which are ignored.
    """
    fold: Callable[[str], str] = str if table.exact_names else folded
    for path in sorted({name for name in names if "." in name}):
        found = None if fields_by_name(table)(path) else _field(path, list(table.schema), fold)
        if found is not None:
            (column, *inner), kind = found
            table = table.extended([column], _taken(inner), [pa.field(path, kind)])
    return table


def _taken(inner: Sequence[str]) -> Callable[[Sequence[pa.Array]], Sequence[pa.Array]]:
    def taken(arrays: Sequence[pa.Array]) -> Sequence[pa.Array]:
        array = arrays[0]
        for name in inner:
            array = pc.struct_field(array, name)
        return [array]

    return taken


def _field(
    path: str, fields: Sequence[pa.Field], fold: Callable[[str], str]
) -> tuple[list[str], pa.DataType] | None:
    """Names from a column to the field of this path, and its type; None if there is none."""
    for field in fields:
        if fold(path) == fold(field.name):
            return [field.name], field.type
        if pa.types.is_struct(field.type) and fold(path).startswith(f"{fold(field.name)}."):
            found = _field(path[len(field.name) + 1 :], list(field.type), fold)
            if found is not None:
                return [field.name, *found[0]], found[1]
    return None
