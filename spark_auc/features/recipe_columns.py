"""A column of a recipe: its name, its type in the fit, and the types that it takes."""

from __future__ import annotations

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

    name: str
    type: str

    def __post_init__(self) -> None:
        # Lone surrogates have no bytes to hash.
        if not self.name or self.name.encode(errors="ignore").decode() != self.name:
            raise ConfigError(
                f"found a column with the name {self.name!r}, expected text that UTF-8 can hold; "
                "name the column"
            )
        if self.type not in self.TYPES:
            raise ConfigError(
                f"found column {self.name!r} of type {self.type} as {type(self).__name__.lower()}, "
                f"expected type {' or '.join(self.TYPES)}; convert the column, or use it otherwise"
            )

    def accepts(self, type: str) -> bool:
        """Whether values of a type give the same features as those of the fit."""
        return type == self.type or {type, self.type} <= set(self.SAME)

    def check(self, column: Column) -> str:
        """The type of a column; `DataError` if it differs from the type in the fit."""
        found = type_of(self.name, column)
        if not self.accepts(found):
            raise DataError(
                f"found column {self.name!r} of type {found}, expected type {self.type} as in the "
                "rows of the fit; convert the column"
            )
        return found
