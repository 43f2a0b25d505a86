"""Any accepted feature columns, resolved against a DataFrame's schema.

Features are one vector column, one array column of numbers, a pair of array columns (indices,
values), or a list of numeric columns.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    FractionalType,
    IntegralType,
    NumericType,
    StructField,
)

from spark_auc.core.types import Rows
from spark_auc.errors import ConfigError, DataError
from spark_auc.spark.data.checks import checked
from spark_auc.spark.data.decoders import decode


def known_column(df: DataFrame, name: str) -> StructField:
    """The column's field; `ConfigError` naming the nearest known column if there is none."""
    if name in df.columns:
        return df.schema[name]
    near = difflib.get_close_matches(name, df.columns, 1)
    raise ConfigError(
        f"found no column {name!r}, expected one of {', '.join(df.columns)}"
        + (f"; did you mean {near[0]!r}?" if near else "; set the column's name")
    )


def quoted(name: str) -> str:
    """The column name as one identifier, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True)
class Features:
    """The feature columns of a DataFrame, resolved against its schema.

    Parameters
    ----------
    form
        Which decoder reads them.
    columns
        Their names.
    dimension
        Number of features ``d``.
    names
        Feature names, where the columns carry them.
    """

    form: str
    columns: tuple[str, ...]
    dimension: int
    names: tuple[str, ...] | None = None

    @classmethod
    def resolve(
        cls, df: DataFrame, columns: str | Sequence[str], dimension: int | None = None
    ) -> Features:
        """Find out the form and the dimension of the features.

        Parameters
        ----------
        df
            Any DataFrame. Its first row is read if neither ``dimension`` nor the column's
            metadata tells the dimension.
        columns
            One column's name, or several.
        dimension
            Number of features; needed for a pair of index and value columns.

        Raises
        ------
        ConfigError
            A column is unknown, or the types are not an accepted form.
        DataError
            The dimension is to be found in the first row and there is none.
        """
        wanted = (columns,) if isinstance(columns, str) else tuple(columns)
        fields = [known_column(df, name) for name in wanted]
        types = [f.dataType for f in fields]
        if types and all(isinstance(t, NumericType | BooleanType) for t in types):
            return cls("numbers", wanted, len(wanted), wanted)
        if len(types) == 2 and _is_array(types[0], IntegralType) and _is_array(types[1]):
            if dimension is None:
                raise ConfigError(
                    f"found index and value columns {wanted}, expected their dimension too; "
                    "set numFeatures"
                )
            return cls("indexed", wanted, dimension)
        if len(types) == 1 and (isinstance(types[0], VectorUDT) or _is_array(types[0])):
            form = "vector" if isinstance(types[0], VectorUDT) else "array"
            names, stated = _metadata(fields[0])
            size = dimension or stated or _first_size(df, wanted[0])
            return cls(form, wanted, size, names if names and len(names) == size else None)
        found = ", ".join(f"{n}: {t.simpleString()}" for n, t in zip(wanted, types, strict=True))
        raise ConfigError(
            f"found feature columns {found or 'of no name'}; expected one vector column, one "
            "array of numbers, a pair of arrays (indices, values) or numeric columns; "
            "set featuresCol"
        )

    def expressions(self) -> list[Column]:
        """The columns in the order in which `decode` takes them."""
        if self.form == "numbers":
            return [F.col(quoted(c)).cast("double") for c in self.columns]
        return [F.col(quoted(c)) for c in self.columns]

    def without_nulls(self, df: DataFrame) -> DataFrame:
        """The rows; where vectors are among them, one with null features fails (`DataError`).

        Where none are, whoever reads the features says so.
        """
        vectors = any(isinstance(field.dataType, VectorUDT) for field in df.schema)
        return self.as_rows(df) if vectors else df

    def as_rows(self, df: DataFrame, *, missing: bool = False) -> DataFrame:
        """The rows, of which one with null features fails (`DataError`) unless they may be missing.

        Also a cure: Spark 4.3 hands a column-wise source to an Arrow UDF without turning it into
        rows first, and cannot do so with vectors, whether they come in, go out or are not used. A
        filter makes rows of them.
        """
        for name in self.columns:
            column = F.col(quoted(name))
            null = F.lit(f"found null in column {name!r}, expected features; drop these rows")
            allowed = missing and self.form == "numbers"
            # Spark does not know that a last bit is at most 1, and so keeps the filter.
            wrong = F.hash(column).bitwiseAND(F.lit(1)) > 1 if allowed else column.isNull()
            df = df.filter(checked(F.lit(True), F.when(wrong, null)))
        return df

    def decode(self, arrays: Sequence[pa.Array], *, missing: bool = False) -> Rows:
        """Rows ``(n, d)`` of Arrow columns, CSR where any row is sparse; see `decoders.decode`."""
        return decode(self.form, arrays, self.columns, self.dimension, missing=missing)


def _is_array(found: DataType, element: type[DataType] = FractionalType) -> bool:
    return isinstance(found, ArrayType) and isinstance(found.elementType, element)


def _metadata(column: StructField) -> tuple[tuple[str, ...] | None, int | None]:
    """Feature names and dimension that Spark ML and the LIBSVM source note with a column."""
    noted = (column.metadata or {}).get("ml_attr", {})
    attributes = sorted(
        (a for group in noted.get("attrs", {}).values() for a in group), key=lambda a: a["idx"]
    )
    names = tuple(str(a["name"]) for a in attributes if "name" in a)
    dimension = noted.get("num_attrs") or (column.metadata or {}).get("numFeatures")
    return names or None, int(dimension or len(attributes)) or None


def _first_size(df: DataFrame, column: str) -> int:
    row = df.select(F.col(quoted(column))).first()
    if row is None:
        raise DataError("found no rows, expected rows of two classes; check the input's filter")
    if row[0] is None:
        raise DataError(f"found null in column {column!r}, expected features; drop these rows")
    return len(row[0])
