"""A column of a recipe: its name, its type in the fit, and the types that it takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from spark_auc.errors import ConfigError, DataError
from spark_auc.features.raw_columns import Column, type_of


@dataclass(frozen=True)
class Named:
    """A column of a name and a type.

    Parameters
    ----------
    name
        Name of the column.
    type
        Type of the column in the rows of the fit, one of `spark_auc.features.raw_columns.TYPES`.
    """

    TYPES: ClassVar[tuple[str, ...]]
    # Types that give the same features, if not all of the types.
    SAME: ClassVar[tuple[str, ...]] = ()
    # Whether a token stands for each value.
    OF_VALUES: ClassVar[bool] = False

    name: str
    type: str

    def __post_init__(self) -> None:
        # Lone surrogates have no bytes to hash.
        if not self.name or self.name.encode(errors="ignore").decode() != self.name:
            raise ConfigError(
                f"found a column with the name {self.name!r}, expected text of at least one "
                "character that UTF-8 can hold; name the column"
            )
        if self.type not in self.TYPES:
            raise ConfigError(
                f"found column {self.name!r} of type {self.type} as {self.kind}, "
                f"expected type {' or '.join(self.TYPES)}; convert the column, or use it otherwise"
            )

    @property
    def kind(self) -> str:
        """The name of its kind in recipes and plans."""
        return type(self).__name__.lower()

    def accepts(self, type: str) -> bool:
        """Whether values of a type give the same features as those of the fit."""
        return type == self.type or {type, self.type} <= set(self.SAME)

    @property
    def remedy(self) -> str:
        """What to do where a column has another type."""
        return "convert the column"

    def check(self, column: Column) -> str:
        """The type of a column; `DataError` if it differs from the type in the fit."""
        found = type_of(self.name, column)
        if not self.accepts(found):
            raise DataError(
                f"found column {self.name!r} of type {found}, expected type {self.type} as in the "
                f"rows of the fit; {self.remedy}"
            )
        return found


def check_entries(columns: Sequence[Named]) -> None:
    """`ConfigError` without columns, or for two entries of a column of one kind or two types."""
    entries = Counter((column.name, column.kind) for column in columns)
    repeated = sorted(entry for entry, count in entries.items() if count > 1)
    if not entries or repeated:
        raise ConfigError(
            f"found {len(columns)} columns (twice: {repeated}), expected one or more of "
            "different names or kinds; change the columns"
        )
    types = Counter(name for name, _ in {(c.name, c.type) for c in columns})
    if retyped := sorted(name for name, count in types.items() if count > 1):
        raise ConfigError(
            f"found columns {retyped} of several types, expected one type for all entries of a "
            "column; change the types"
        )
