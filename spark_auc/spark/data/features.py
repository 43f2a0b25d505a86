"""Feature columns of a DataFrame: what a task decodes to rows.

`Features` is what training and scoring need. `PreparedFeatures` are columns of numbers in one of
the supported forms; `spark_auc.spark.data.raw_features` maps raw columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegralType,
    NumericType,
)

from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.core.types import Bool, Keys, Rows
from spark_auc.errors import ConfigError, DataError
from spark_auc.spark.data.checks import checked
from spark_auc.spark.data.decoders import decode, usable
from spark_auc.spark.data.names import known_column, quoted
from spark_auc.spark.data.vector_metadata import names_and_size


class Features(Protocol):
    """Columns of a DataFrame that tasks decode to rows of features."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that are read."""
        ...

    @property
    def width(self) -> int:
        """Number of the columns that `decode` takes."""
        ...

    @property
    def dimension(self) -> int:
        """Number of features ``d``."""
        ...

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the features that belong to the model; None if a map of the model has them."""
        ...

    @property
    def taught(self) -> tuple[KeySample, ...]:
        """Samples of rows whose labels a map of the features learnt; training leaves them out."""
        ...

    @property
    def never_held_out(self) -> KeySample | None:
        """The rows that chose some of the features; see `Folds`."""
        ...

    def labels(self) -> Sequence[str] | None:
        """Names of the features for a summary; None if they have no names."""
        ...

    def expressions(self) -> list[Column]:
        """The input columns of `decode`, in its order."""
        ...

    def field(self, df: DataFrame, name: str) -> Column:
        """Another column of the same rows, for use beside `decode`."""
        ...

    def as_rows(self, df: DataFrame, *, missing: bool = False, invalid: bool = False) -> DataFrame:
        """Add a filter that raises `DataError` at a row with null features, where it is needed.

        Parameters
        ----------
        df
            The rows.
        missing
            Whether null numbers are valid.
        invalid
            Whether rows that cannot be used are kept.
        """
        ...

    def usable(self, arrays: Sequence[pa.Array], *, missing: bool = False) -> Bool:
        """Whether each row ``(n,)`` of Arrow columns has valid values; arguments as of `decode`."""
        ...

    def decode(self, arrays: Sequence[pa.Array], *, missing: bool = False) -> Rows:
        """Decode Arrow columns to rows ``(n, d)``.

        Parameters
        ----------
        arrays
            Values of `expressions`.
        missing
            Whether null and NaN are valid features.

        Raises
        ------
        DataError
            A value is invalid.
        """
        ...

    def groups(self, arrays: Sequence[pa.Array]) -> Keys | None:
        """Groups ``(n,)`` of the rows of Arrow columns; None for groups of equal features.

        Parameters
        ----------
        arrays
            Values of `expressions`.
        """
        ...


@dataclass(frozen=True)
class PreparedFeatures:
    """Feature columns of numbers, checked against the schema of a DataFrame.

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
        cls, df: DataFrame, columns: str | Sequence[str], dimension: int | None = None
    ) -> PreparedFeatures:
        """Determine the form and the dimension of feature columns.

        Parameters
        ----------
        df
            A DataFrame. Its first row is read if ``dimension`` is None and the column's metadata
            has no dimension.
        columns
            Name of one column, or names of several.
        dimension
            Number of features ``d``; required for a pair of index and value columns.

        Raises
        ------
        ConfigError
            A column is unknown, or the types are no supported form.
        DataError
            The dimension depends on the first row, and ``df`` is empty or has a null there.
        """
        requested = (columns,) if isinstance(columns, str) else tuple(columns)
        fields = [known_column(df, name) for name in requested]
        types = [f.dataType for f in fields]
        found = tuple(f.name for f in fields)
        if types and all(isinstance(t, NumericType | BooleanType) for t in types):
            return cls("numbers", found, len(found), requested)
        if len(types) == 2 and _is_array(types[0], IntegralType) and _is_array(types[1]):
            if dimension is None:
                raise ConfigError(
                    f"found index and value columns {requested} without a dimension, expected the "
                    "number of features; set numFeatures"
                )
            return cls("indexed", found, dimension)
        if len(types) == 1 and (isinstance(types[0], VectorUDT) or _is_array(types[0])):
            form = "vector" if isinstance(types[0], VectorUDT) else "array"
            names, stated = names_and_size(fields[0])
            size = dimension or stated or _first_size(df, requested[0])
            return cls(form, found, size, names if names and len(names) == size else None)
        types_text = ", ".join(
            f"{name}: {kind.simpleString()}" for name, kind in zip(requested, types, strict=True)
        )
        raise ConfigError(
            f"found feature columns {types_text or '(none)'}; expected one vector column, one "
            "array of numbers, a pair of arrays (indices, values) or numeric columns; "
            "set featuresCol"
        )

    @property
    def width(self) -> int:
        """See `Features.width`."""
        return len(self.columns)

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

    def field(self, df: DataFrame, name: str) -> Column:
        """See `Features.field`."""
        return F.col(quoted(name))

    def expressions(self) -> list[Column]:
        """See `Features.expressions`."""
        columns = [F.col(quoted(name)) for name in self.columns]
        if self.form == "numbers":
            return [column.cast("double") for column in columns]
        return columns

    def as_rows(self, df: DataFrame, *, missing: bool = False, invalid: bool = False) -> DataFrame:
        """See `Features.as_rows`.

        The filter is also a workaround: Spark 4.3 passes the batches of a columnar source to an
        Arrow UDF without conversion to rows, which fails for vector columns, even for unused ones.
        A filter forces the conversion.
        """
        for name in self.columns:
            column = F.col(quoted(name))
            null = F.lit(f"found null in column {name!r}, expected features; drop these rows")
            allowed = invalid or (missing and self.form == "numbers")
            # Always false; the optimizer cannot prove it and so keeps the filter.
            never = F.hash(column).bitwiseAND(F.lit(1)) > 1
            fault = F.when(never if allowed else column.isNull(), null)
            df = df.filter(checked(F.lit(True), fault))
        return df

    def usable(self, arrays: Sequence[pa.Array], *, missing: bool = False) -> Bool:
        """See `Features.usable` and `decoders.usable`."""
        return usable(self.form, arrays, missing=missing)

    def decode(self, arrays: Sequence[pa.Array], *, missing: bool = False) -> Rows:
        """See `Features.decode` and `decoders.decode`."""
        return decode(self.form, arrays, self.columns, self.dimension, missing=missing)

    def groups(self, arrays: Sequence[pa.Array]) -> None:
        """See `Features.groups`."""


def scoreable(df: DataFrame, features: Features, *, invalid: bool = False) -> DataFrame:
    """The rows in a form whose columns an Arrow function can take; see `Features.as_rows`.

    Without a vector column `decode` raises the errors of null features.
    """
    vectors = any(isinstance(field.dataType, VectorUDT) for field in df.schema)
    return features.as_rows(df, invalid=invalid) if vectors else df


def _is_array(kind: DataType, element: type[DataType] = NumericType) -> bool:
    return isinstance(kind, ArrayType) and isinstance(kind.elementType, element)


def _first_size(df: DataFrame, column: str) -> int:
    row = df.select(F.col(quoted(column))).first()
    if row is None:
        raise DataError("found no rows, expected rows of two classes; check the input's filter")
    if row[0] is None:
        raise DataError(f"found null in column {column!r}, expected features; drop these rows")
    return len(row[0])
