"""Types of the columns of a table that a recipe may use."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from spark_auc.errors import ConfigError
from spark_auc.tables.nested import names_with_fields, paths_of
from spark_auc.tables.table import Table, fields_named
from spark_auc.tables.types import raw_type, shown_type

_log = logging.getLogger(__name__)


def types_of(
    table: Table, names: Sequence[str], kept: Collection[str], left_out: Collection[str]
) -> dict[str, str]:
    """Types of columns by name.

    Parameters
    ----------
    table
        The rows.
    names
        Names of the columns. Those of a type that recipes do not take are left out, with a warning
        unless they are structs whose fields are columns.
    kept
        Names among them that the user chose for features.
    left_out
        Names of columns without features, unless they are kept; of a struct, with its fields.

    Raises
    ------
    ConfigError
        A column that is kept has a type that recipes do not take, or there are several of a name.
    """
    unused = names_with_fields(table, left_out)
    used = [name for name in names if name in kept or name not in unused]
    types, there = dict[str, str](), {*table.schema.names}
    for name, column in zip(used, fields_named(table, used), strict=True):
        if found := raw_type(column.type):
            types[name] = found
        elif name in kept:
            raise ConfigError(
                f"found column {name!r} of type {shown_type(column)}, expected numbers, text, "
                "booleans or times; cast it or leave it out"
            )
        elif not there.issuperset(inner := paths_of(column)) or not inner:
            _log.warning(
                "left out %r of type %s, which recipes do not take", name, shown_type(column)
            )
    return types
