"""Fields of structs as columns, so that ``user.age`` names one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from spark_auc.tables.names import by_name, folding
from spark_auc.tables.table import Table, fields_by_name
from spark_auc.tables.types import is_vector

T = TypeVar("T", bound=Table)


def with_fields(table: T, names: Collection[str] | None) -> T:
    """The rows with a column for each name that is the path of a field, of any depth.

    Parameters
    ----------
    table
        The rows. A column of the name itself goes before a field.
    names
        Names of columns, paths of fields, and others, which are ignored. None stands for the paths
        of all fields.
    """
    found = fields_at(table.schema, names, exact=table.exact_names)
    # One extension for all fields of a column: each is a function within the one before.
    for column, group in groupby(found.items(), lambda item: item[1][0][0]):
        inner = [*group]
        fields = [pa.field(path, kind) for path, (_, kind) in inner]
        ways = [way[1:] for _, (way, _) in inner]
        table = table.extended([column], partial(_taken, ways), fields)
    return table


def paths_of(column: pa.Field) -> list[str]:
    """Paths of all fields in a column of structs, of any depth; none in other columns."""
    inner = (path for field in _inner(column.type) for path in (field.name, *paths_of(field)))
    return [f"{column.name}.{path}" for path in inner]


def names_with_fields(table: Table, names: Iterable[str]) -> set[str]:
    """Those of some names that are columns of a table, and all fields of structs among them."""
    lookup = fields_by_name(table)
    fields = (field for name in names for field in lookup(name))
    return {path for field in fields for path in (field.name, *paths_of(field))}


def fields_at(
    schema: pa.Schema, names: Collection[str] | None, *, exact: bool
) -> dict[str, tuple[list[str], pa.DataType]]:
    """Names from a column to a field, and the field's type, by those names that are its path.

    Parameters
    ----------
    schema
        The columns.
    names
        See `with_fields`.
    exact
        Whether names of different case differ.
    """
    columns, fold = list(schema), folding(exact=exact)
    if names is None:
        names = [path for column in columns for path in paths_of(column)]
    paths = sorted({name for name in names if "." in name})
    known = by_name(columns, exact=exact)
    new = (path for path in paths if not known(path))
    return {path: found for path in new if (found := _field(path, columns, fold))}


def _taken(ways: Sequence[Sequence[str]], arrays: Sequence[pa.Array]) -> Sequence[pa.Array]:
    taken = []
    for way in ways:
        array = arrays[0]
        for name in way:
            array = pc.struct_field(array, name)
        taken.append(array)
    return taken


def _field(
    path: str, fields: Sequence[pa.Field], fold: Callable[[str], str]
) -> tuple[list[str], pa.DataType] | None:
    """Names from a column to the field of this path, and its type; None if there is none."""
    for field in fields:
        if fold(path) == fold(field.name):
            return [field.name], field.type
        if fold(path).startswith(f"{fold(field.name)}."):
            found = _field(path[len(field.name) + 1 :], _inner(field.type), fold)
            if found is not None:
                return [field.name, *found[0]], found[1]
    return None


def _inner(kind: pa.DataType) -> list[pa.Field]:
    """The fields of a struct; none of other types."""
    return [*kind] if pa.types.is_struct(kind) and not is_vector(kind) else []
