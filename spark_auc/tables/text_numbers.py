"""Numbers of columns of text, parsed by Arrow."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_auc.errors import LineError
from spark_auc.features.lines import shown
from spark_auc.features.raw_columns import Numbers, Text
from spark_auc.tables.arrow_columns import own_text

_KINDS = {"integer": (pa.int64(), "an integer"), "float": (pa.float64(), "a number")}


def numbers(name: str, text: Text, kind: str = "float", place: str | None = None) -> Numbers:
    """Parse a column of text; empty text is a missing value.

    Parameters
    ----------
    name
        Name of the column, for the error.
    text
        The column.
    kind
        "float" for float64, "integer" for int64.
    place
        Where the first row that is no number is, for the error. Default: its row.

    Raises
    ------
    LineError
        Text is no number of this kind.
    """
    arrow, noun = _KINDS[kind]
    valid = text.starts < text.ends
    array = own_text(text._replace(validity=valid))
    try:
        values = _parsed(array, arrow)
    except pa.ArrowInvalid:
        row = bisect_left(range(valid.size), True, key=lambda n: _fails(array[: n + 1], arrow))
        raise LineError(
            f"found {shown(text, row)!r} in column {name!r} in {place or f'row {row} of a batch'}, "
            f"expected {noun}; repair the row, or read the column as text"
        ) from None
    return Numbers(values.fill_null(0).to_numpy(), valid)


def _parsed(array: pa.Array, arrow: pa.DataType) -> pa.Array:
    # Arrow reads hexadecimal integers, which no other reader does.
    if pa.types.is_integer(arrow) and array.buffers()[2] is not None:
        letters = np.frombuffer(array.buffers()[2], np.uint8) | 32
        if (letters == ord("x")).any() and pc.match_substring(
            array, "x", ignore_case=True
        ).true_count:
            raise pa.ArrowInvalid
    return array.cast(arrow)


def _fails(array: pa.Array, arrow: pa.DataType) -> bool:
    try:
        _parsed(array, arrow)
    except pa.ArrowInvalid:
        return True
    return False
