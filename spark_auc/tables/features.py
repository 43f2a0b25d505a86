"""Feature columns of a table: what a task decodes to rows.

`Features` is what training and scoring need. `PreparedFeatures` are columns of numbers in one of
the supported forms; `spark_auc.tables.raw_features` maps raw columns.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.core.types import Bool, Keys, Rows
from spark_auc.errors import ConfigError, DataError
from spark_auc.tables.decoders import decode, usable
from spark_auc.tables.table import Table, fields_named
from spark_auc.tables.types import METADATA, is_list, is_number, is_vector, shown_type


class Features(Protocol):
    """Columns of a table that tasks decode to rows of features."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that `decode` takes, in its order."""

    @property
    def dimension(self) -> int:
        """Number of features ``d``."""

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the features that belong to the model; None if a map of the model has them."""

    @property
    def taught(self) -> tuple[KeySample, ...]:
        """Samples of rows whose labels a map of the features learnt; training leaves them out."""

    @property
    def never_held_out(self) -> KeySample | None:
        """The rows that chose some of the features; see `Folds`."""

    def labels(self) -> Sequence[str] | None:
        """Names of the features for a summary; None if they have no names."""

    def usable(self, arrays: Sequence[pa.Array], *, missing: bool = False) -> Bool:
        """Whether each row ``(n,)`` of Arrow columns has valid values; arguments as of `decode`."""

    def decode(self, arrays: Sequence[pa.Array], *, missing: bool = False) -> Rows:
        """Decode Arrow columns to rows ``(n, d)``.

        Parameters
        ----------
        arrays
            Values of `columns`.
        missing
            Whether null and NaN are valid features.

        Raises
        ------
        DataError
            A value is invalid.
        """

    def groups(self, arrays: Sequence[pa.Array]) -> Keys | None:
        """Groups ``(n,)`` of the rows of Arrow columns; None for groups of equal features.

        Parameters
        ----------
        arrays
            Values of `columns`.
        """


@dataclass(frozen=True)
class PreparedFeatures:
    """Feature columns of numbers, checked against the schema of a table.

    The forms are one vector column, one array column of numbers, a pair of array columns (indices,
    values), and a list of numeric columns.

    Parameters
    ----------
    form
        Form of the features: "vector", "array", "indexed" or "numbers".
    columns
        Names of the columns.
    dimension
        Number of features ``d``.
    names
        Names of the features, if the columns or their metadata have them.
    """

    form: str
    columns: tuple[str, ...]
    dimension: int
    names: tuple[str, ...] | None = None

    @classmethod
    def resolve(
        cls, table: Table, columns: str | Sequence[str], dimension: int | None = None
    ) -> PreparedFeatures:
        """Determine the form and the dimension of feature columns.

        Parameters
        ----------
        table
            The rows. The first is read if ``dimension`` is None and the column's metadata has no
            dimension.
        columns
            Name of one column, or names of several.
        dimension
            Number of features ``d``; required for a pair of index and value columns.

        Raises
        ------
        ConfigError
            A column is unknown, or the types are no supported form.
        DataError
            The dimension depends on the first row, and there is none or it has a null there.
        """
        requested = (columns,) if isinstance(columns, str) else tuple(columns)
        fields = fields_named(table, requested)
        types = [f.type for f in fields]
        found = tuple(f.name for f in fields)
        if types and all(is_number(t) or pa.types.is_boolean(t) for t in types):
            return cls("numbers", found, len(found), requested)
        arrays = [is_list(t) and is_number(t.value_type) for t in types]
        if arrays == [True, True] and pa.types.is_integer(types[0].value_type):
            if dimension is None:
                raise ConfigError(
                    f"found index and value columns {requested} without a dimension, expected the "
                    "number of features; set numFeatures"
                )
            return cls("indexed", found, dimension)
        if len(types) == 1 and (is_vector(types[0]) or arrays[0]):
            form = "vector" if is_vector(types[0]) else "array"
            names, stated = names_and_size(fields[0])
            size = dimension or stated or _first_size(table, found[0])
            return cls(form, found, size, names if names and len(names) == size else None)
        types_text = ", ".join(f"{f.name}: {shown_type(f)}" for f in fields)
        raise ConfigError(
            f"found feature columns {types_text or '(none)'}; expected one vector column, one "
            "array of numbers, a pair of arrays (indices, values) or numeric columns; "
            "set featuresCol"
        )

    @property
    def taught(self) -> tuple[KeySample, ...]:
        """See `Features.taught`; no map computes these features."""
        return ()

    @property
    def never_held_out(self) -> None:
        """See `Features.never_held_out`; no rows chose these features."""
        return None

    def labels(self) -> Sequence[str] | None:
        """See `Features.labels`."""
        return self.names

    def usable(self, arrays: Sequence[pa.Array], *, missing: bool = False) -> Bool:
        """See `Features.usable` and `decoders.usable`."""
        return usable(self.form, arrays, missing=missing)

    def decode(self, arrays: Sequence[pa.Array], *, missing: bool = False) -> Rows:
        """See `Features.decode` and `decoders.decode`."""
        return decode(self.form, arrays, self.columns, self.dimension, missing=missing)

    def groups(self, arrays: Sequence[pa.Array]) -> None:
        """See `Features.groups`."""


def names_and_size(column: pa.Field) -> tuple[tuple[str, ...] | None, int | None]:
    """Feature names and dimension in the metadata of Spark ML or of the LIBSVM source."""
    noted = json.loads((column.metadata or {}).get(METADATA, b"{}"))
    metadata = noted.get("ml_attr", {})
    attributes = sorted(
        (a for group in metadata.get("attrs", {}).values() for a in group), key=lambda a: a["idx"]
    )
    names = tuple(str(a["name"]) for a in attributes if "name" in a)
    dimension = metadata.get("num_attrs") or noted.get("numFeatures")
    return names or None, int(dimension or len(attributes)) or None


def _first_size(table: Table, column: str) -> int:
    first = table.head([column], 1)
    if not first.num_rows:
        raise DataError("found no rows, expected rows of two classes; check the input's filter")
    value = first.column(0)[0].as_py()
    if value is None:
        raise DataError(f"found null in column {column!r}, expected features; drop these rows")
    if isinstance(value, dict):
        return int(len(value["values"]) if value["size"] is None else value["size"])
    return len(value)
