"""The segments of mappings and tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_auc.core.types import Int
from spark_auc.errors import ConfigError, DataError
from spark_auc.features.single_values import is_missing
from spark_auc.serving.linear_scorer import SegmentScorer
from spark_auc.serving.tables import joined


def segments_of(rows: Any, segments: SegmentScorer) -> Int:
    """The number of each row's segment ``(n,)``; the number of segments for rows of none.

    Whole floats are integers, for pandas makes floats of integers among which some are missing.

    Parameters
    ----------
    rows
        A mapping, which is one row, or a `table_of` rows.
    segments
        The segments.

    Raises
    ------
    ConfigError
        The rows have no names.
    DataError
        The segment column is missing, or has another type.
    """
    name, weights = segments
    if isinstance(rows, pa.Table):
        values = joined(rows[name])
    elif not isinstance(rows, Mapping):
        raise ConfigError(
            f"found rows of class {type(rows).__name__} for rankers of the segments of column "
            f"{name!r}, expected a mapping, a pandas data frame or an Arrow table; pass the "
            "columns by their names"
        )
    elif name not in rows:
        raise DataError(
            f"found no segment column {name!r} among {list(rows)}, expected it; add it, or None "
            "for a missing value"
        )
    else:
        values = _segment(name, rows[name])
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    kind = values.type
    if pa.types.is_floating(kind):
        values = _whole_numbers(name, values)
    elif not (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_date(kind)
        or pa.types.is_null(kind)
    ):
        raise _no_segments(name, f"type {kind}")
    known = pa.array(weights.values, pa.string())
    place = pc.index_in(values.cast(pa.string()), known)
    found: Int = pc.fill_null(place, len(known)).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _segment(name: str, value: Any) -> pa.Array:
    """The value of one row."""
    try:
        return pa.array([None if is_missing(value) else value])
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise _no_segments(name, f"class {type(value).__name__}") from None


def _whole_numbers(name: str, values: pa.Array) -> pa.Array:
    """Whole floats as integers; NaN is a missing value."""
    try:
        return pc.if_else(pc.is_nan(values), None, values).cast(pa.int64())
    except pa.ArrowInvalid:
        raise _no_segments(name, f"type {values.type} with fractions") from None


def _no_segments(name: str, found: str) -> DataError:
    return DataError(
        f"found segment column {name!r} of {found}, expected text, whole numbers, booleans or "
        "dates; convert it"
    )
