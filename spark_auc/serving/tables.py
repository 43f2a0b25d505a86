"""Raw columns and features of mappings, pandas and Arrow tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

from spark_auc.core.types import Float, Rows
from spark_auc.errors import ConfigError, DataError, some_of
from spark_auc.features.derived import with_derived
from spark_auc.features.raw_columns import Column, Columns, Numbers, whole
from spark_auc.features.recipe import Recipe
from spark_auc.features.single_values import number
from spark_auc.serving.nested import column_at
from spark_auc.tables.arrow_columns import raw_column
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.raw_columns import TYPES_WITHOUT_VALUES
from spark_auc.tables.text_types import inferred_as, typed


def is_table(rows: Any) -> bool:
    """Whether rows are a pandas data frame, an Arrow table or a record batch."""
    is_frame = type(rows).__module__.partition(".")[0] == "pandas" and hasattr(rows, "columns")
    return is_frame or isinstance(rows, pa.Table | pa.RecordBatch)


def table_of(rows: Any, names: Sequence[str]) -> pa.Table:
    """Columns of the rows, or fields of their structs, as an Arrow table; others are not read.

    Parameters
    ----------
    rows
        A pandas data frame, an Arrow table or a record batch.
    names
        Names of the columns, and paths of fields.

    Raises
    ------
    ConfigError
        The rows are no table.
    DataError
        A column is missing, or is there twice, or has values of several classes.
    """
    if not is_table(rows):
        raise ConfigError(
            f"found rows of class {type(rows).__name__}, expected a mapping, a pandas data frame "
            "or an Arrow table; convert them"
        )
    is_arrow = isinstance(rows, pa.Table | pa.RecordBatch)
    there = rows.schema.names if is_arrow else [str(name) for name in rows.columns]

    def column(place: int) -> pa.ChunkedArray:
        if there.count(there[place]) > 1:
            raise DataError(
                f"found {there.count(there[place])} columns {there[place]!r}, expected one; drop "
                "the others"
            )
        return _chunked(rows.column(place) if is_arrow else _converted(rows, place, there[place]))

    found = {name: column_at(name, there, column) for name in names}
    if absent := [name for name, array in found.items() if array is None]:
        raise DataError(
            f"found no column {', '.join(map(repr, absent[:10]))} among {some_of(sorted(there))}, "
            "expected all columns of the fit; add them"
        )
    return pa.table(found)


def _chunked(array: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def _converted(frame: Any, place: int, name: str) -> pa.Array | pa.ChunkedArray:
    """A column of a data frame."""
    try:
        return pa.array(frame.iloc[:, place], from_pandas=True)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise DataError(
            f"found values in column {name!r} that have no type ({str(error)[:200]}), expected "
            "text, numbers, booleans or times, of one type; convert the column"
        ) from None


def columns_of(table: pa.Table, recipe: Recipe) -> Columns:
    """The raw columns of a recipe, from a table that has them.

    Whole numbers that pandas made floats, for missing values among them, are integers again. A
    column without any value, which has no type of its own, is of the type of the fit.

    Raises
    ------
    DataError
        A column has another type.
    """
    found, table = dict[str, Column](), with_values(table, recipe)
    for name, entry in {column.name: column for column in recipe.inputs}.items():
        array = joined(table[name])
        if array.null_count == len(array):
            array = pa.nulls(len(array), TYPES_WITHOUT_VALUES[entry.type])
        column = raw_column(name, array, recipe.zone, recipe.absent)
        found[name] = whole(name, column) if name in recipe.whole else column
    return with_derived(found, recipe.derived)


def with_values(table: pa.Table, recipe: Recipe) -> pa.Table:
    """The table with the values of text in columns that a recipe has as numbers or times.

    Raises
    ------
    DataError
        More than half of the values of a column do not fit; others count as missing.
    """
    types = {column.name: column.type for column in recipe.inputs}
    rows = ArrowTable.of(table, max(1, table.num_rows))
    found = inferred_as(rows, types, recipe.readings)
    if not found:
        return table
    made = typed(rows, [one.reading for one in found.values()], strict=False).gathered()
    assert made is not None
    return made


def values_of_texts(texts: Mapping[str, str], recipe: Recipe) -> dict[str, Any]:
    """The values of text in columns of one row that a recipe has as numbers or times.

    Raises
    ------
    DataError
        A value does not fit.
    """
    try:
        made = with_values(pa.table({name: [text] for name, text in texts.items()}), recipe)
        row: dict[str, Any] = made.to_pylist()[0]
    except (OverflowError, ValueError) as error:
        raise DataError(
            f"found {', '.join(f'{name!r}: {text!r}' for name, text in texts.items())} ({error}), "
            "expected numbers, and times of the years 1 to 9999; repair or drop the row"
        ) from None
    return row


def features_of(rows: Any, width: int, names: tuple[str, ...] | None) -> tuple[Rows, bool]:
    """Rows of features as kernels take them, and whether they are one row.

    Parameters
    ----------
    rows
        An array ``(n, d)`` or ``(d,)``, a sparse matrix, a mapping of named features, or the
        `table_of` them.
    width
        Number of features ``d``.
    names
        Their names; None if they have none.

    Raises
    ------
    ConfigError
        The rows are of another class, or have names and the features have none.
    DataError
        They have another shape, a feature is missing, or not a finite number.
    """
    one = isinstance(rows, Mapping)
    if one or is_table(rows):
        rows = _named(rows, names)
    if sparse.issparse(rows):
        X: Any = sparse.csr_matrix(rows, dtype=float)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
    else:
        try:
            X = np.asarray(rows, float)
        except (TypeError, ValueError):
            raise ConfigError(
                f"found rows of class {type(rows).__name__} for a ranker of features, expected an "
                "array of numbers (n, d) or a sparse matrix; convert them"
            ) from None
        one = X.ndim == 1
        X = np.ascontiguousarray(X[None] if one else X)
    if X.ndim != 2 or X.shape[1] != width:
        raise DataError(
            f"found rows of shape {X.shape}, expected (n, {width}); pass the features that the "
            "ranker was trained on"
        )
    if not np.isfinite(X if isinstance(X, np.ndarray) else X.data).all():
        raise DataError(
            "found features that are missing, NaN or infinite, expected finite numbers; repair the "
            "rows"
        )
    return X, one


def _named(rows: Any, names: tuple[str, ...] | None) -> Float:
    """Features by their names: ``(d,)`` of a mapping, ``(n, d)`` of a table."""
    if names is None:
        raise ConfigError(
            f"found rows of class {type(rows).__name__} for features without names, expected an "
            "array of numbers (n, d) or a sparse matrix; pass the features in their order"
        )
    if isinstance(rows, Mapping):
        if absent := [name for name in names if name not in rows]:
            raise DataError(
                f"found no column {', '.join(map(repr, absent[:10]))} among "
                f"{some_of(sorted(map(str, rows)))}, expected all columns of the fit; add them"
            )
        return np.array([number(name, rows[name]) for name in names])
    columns = []
    for name in names:
        column = raw_column(name, joined(rows[name]))
        if not isinstance(column, Numbers) or column.values.dtype.kind == "M":
            raise DataError(
                f"found column {name!r} of type {rows[name].type}, expected numbers; convert it"
            )
        values = column.values.astype(float)
        valid = True if column.validity is None else column.validity
        columns.append(np.where(valid, values, np.nan))
    return np.stack(columns, axis=1)


def joined(column: pa.ChunkedArray) -> pa.Array:
    """The values of a column as one array."""
    array = column.combine_chunks()
    return array if isinstance(array, pa.Array) else pa.concat_arrays(array.chunks)
