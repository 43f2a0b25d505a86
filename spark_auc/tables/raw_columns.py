"""Raw columns of a table: the arrays that tasks make of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from spark_auc.features.absent_text import ABSENT
from spark_auc.features.derived import Derived, with_derived
from spark_auc.features.raw_columns import Columns, whole
from spark_auc.features.time_zones import DEFAULT
from spark_auc.tables.arrow_columns import raw_column
from spark_auc.tables.table import Table, fields_named

# The types of raw columns without a value, by the types of recipes.
TYPES_WITHOUT_VALUES = {
    "text": pa.string(),
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "float": pa.float64(),
    "time": pa.timestamp("us"),
}


@dataclass(frozen=True)
class RawColumns:
    """Raw columns of a table.

    Parameters
    ----------
    names
        Their names, as a recipe has them.
    found
        Their names in the table, which may be written in another case.
    zone
        The zone on whose clocks times are read.
    absent
        The words for missing text; see `spark_auc.features.recipe.Recipe`.
    derived
        Columns derived of those of times.
    whole
        Those of the names whose floats are integers if they are whole.
    untyped
        Columns without a type, because they have no value: pairs of the name and the type in the
        fit.
    """

    names: tuple[str, ...]
    found: tuple[str, ...]
    zone: str = DEFAULT
    absent: tuple[str, ...] = ABSENT
    whole: frozenset[str] = frozenset()
    derived: tuple[Derived, ...] = ()
    untyped: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls,
        table: Table,
        names: Sequence[str],
        zone: str = DEFAULT,
        absent: tuple[str, ...] = ABSENT,
        derived: Sequence[Derived] = (),
    ) -> RawColumns:
        """The columns of a table; ``names`` may be of derived columns.

        Raises
        ------
        ConfigError
            A column is unknown, or there are several of its name.
        """
        of_names = {each.name: each for each in derived}
        used = tuple(of_names[name] for name in names if name in of_names)
        times = (time.name for each in used for time in each.inputs)
        own = dict.fromkeys([*(name for name in names if name not in of_names), *times])
        found = tuple(field.name for field in fields_named(table, list(own)))
        return cls(tuple(own), found, zone, absent, derived=used)

    def decode(self, arrays: Sequence[pa.Array]) -> Columns:
        """The columns of some rows; `DataError` for a column of another type."""
        typed = dict(zip(self.names, arrays, strict=True))
        typed |= {name: typed[name].cast(TYPES_WITHOUT_VALUES[kind]) for name, kind in self.untyped}
        found = {name: raw_column(name, typed[name], self.zone, self.absent) for name in typed}
        found |= {name: whole(name, found[name]) for name in self.whole}
        return with_derived(found, self.derived)
