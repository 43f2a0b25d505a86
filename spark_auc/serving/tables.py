"""Raw columns, features and segments of mappings, pandas and Arrow tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from spark_auc.core.types import Float, Int, Rows
from spark_auc.errors import ConfigError, DataError
from spark_auc.features.raw_columns import Column, Columns, Numbers, type_of
from spark_auc.features.recipe import Recipe
from spark_auc.features.single_values import number
from spark_auc.serving.arrow_columns import raw_column
from spark_auc.serving.linear_scorer import SegmentScorer

# The types of raw columns without a value, by the types of recipes.
_EMPTY = {
    "text": pa.string(),
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "float": pa.float64(),
    "time": pa.timestamp("us"),
}


def table_of(rows: Any) -> pa.Table:
    """The rows as an Arrow table.

    Raises
    ------
    ConfigError
        The rows are no table.
    """
    if not _is_table(rows):
        raise ConfigError(
            f"found rows of class {type(rows).__name__}, expected a mapping, a pandas data frame "
            "or an Arrow table; convert them"
        )
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    return pa.Table.from_pandas(rows, preserve_index=False)


def columns_of(table: pa.Table, recipe: Recipe) -> Columns:
    """The raw columns of a recipe.

    Whole numbers that pandas made floats, for missing values among them, are integers again. A
    column without any value, which has no type of its own, is of the type of the fit.

    Raises
    ------
    DataError
        A column is missing, or has another type.
    """
    names = dict.fromkeys(column.name for column in recipe.columns)
    if absent := [name for name in names if name not in table.column_names]:
        raise DataError(
            f"found no column {', '.join(map(repr, absent))} among {table.column_names}, expected "
            "all columns of the fit; add them"
        )
    found = dict[str, Column]()
    for name in names:
        entries = [column for column in recipe.columns if column.name == name]
        array = _joined(table[name])
        if pa.types.is_null(array.type):
            array = array.cast(_EMPTY[entries[0].type])
        column = raw_column(name, array)
        kind = type_of(name, column)
        if any(entry.type == "integer" and not entry.accepts(kind) for entry in entries):
            column = _whole(column)
        found[name] = column
    return found


def features_of(rows: Any, width: int, names: tuple[str, ...] | None) -> tuple[Rows, bool]:
    """Rows of features as kernels take them, and whether they are one row.

    Parameters
    ----------
    rows
        An array ``(n, d)`` or ``(d,)``, a sparse matrix, or a mapping or table of named features.
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
    if one or _is_table(rows):
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
    table = rows if isinstance(rows, Mapping) else table_of(rows)
    there = set(table if isinstance(table, Mapping) else table.column_names)
    if absent := [name for name in names if name not in there]:
        raise DataError(
            f"found no feature {', '.join(map(repr, absent[:10]))} among {sorted(there)[:30]}, "
            "expected all that the ranker was trained on; add them"
        )
    if isinstance(table, Mapping):
        return np.array([number(name, table[name]) for name in names])
    columns = []
    for name in names:
        column = raw_column(name, _joined(table[name]))
        if not isinstance(column, Numbers) or column.values.dtype.kind == "M":
            raise DataError(
                f"found column {name!r} of type {table[name].type}, expected numbers; convert it"
            )
        values = column.values.astype(float)
        valid = True if column.validity is None else column.validity
        columns.append(np.where(valid, values, np.nan))
    return np.stack(columns, axis=1)


def _is_table(rows: Any) -> bool:
    is_frame = type(rows).__module__.partition(".")[0] == "pandas" and hasattr(rows, "columns")
    return is_frame or isinstance(rows, pa.Table | pa.RecordBatch)


def segments_of(rows: pa.Table | Mapping[str, Any], segments: SegmentScorer) -> Int:
    """The number of each row's segment ``(n,)``; the number of segments for rows of none.

    Raises
    ------
    DataError
        The segment column is missing, or has another type.
    """
    name, weights = segments
    names = rows.column_names if isinstance(rows, pa.Table) else list(rows)
    if name not in names:
        raise DataError(
            f"found no segment column {name!r} among {names}, expected it; add it, or null values"
        )
    values = _joined(rows[name]) if isinstance(rows, pa.Table) else pa.array([rows[name]])
    kind = values.type
    if pa.types.is_dictionary(kind):
        values = values.dictionary_decode()
        kind = values.type
    if not (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_date(kind)
        or pa.types.is_null(kind)
    ):
        raise DataError(
            f"found segment column {name!r} of type {kind}, expected text, whole numbers, booleans "
            "or dates; convert it"
        )
    known = pa.array(weights.values, pa.string())
    place = pc.index_in(values.cast(pa.string()), known)
    found: Int = pc.fill_null(place, len(known)).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _joined(column: pa.ChunkedArray) -> pa.Array:
    joined = column.combine_chunks()
    return joined if isinstance(joined, pa.Array) else pa.concat_arrays(joined.chunks)


def _whole(column: Column) -> Column:
    """Floats that are whole numbers as integers; other columns as they are."""
    if not isinstance(column, Numbers) or column.values.dtype.kind != "f":
        return column
    values = column.values.astype(float)
    valid = ~np.isnan(values) if column.validity is None else column.validity & ~np.isnan(values)
    inside = np.where(valid, values, 0.0)
    if (inside % 1).any() or (np.abs(inside) >= 2**53).any():
        return column
    return Numbers(inside.astype(np.int64), valid)
