"""Missing values: null, NaN, and some texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_auc.core.types import Bool
from spark_auc.features.absent_text import ABSENT, WHITE
from spark_auc.tables.arrow_columns import flat
from spark_auc.tables.table import Table
from spark_auc.tables.types import is_text

T = TypeVar("T", bound=Table)

# Words for a missing label, number, boolean or time.
MISSING = (*ABSENT, "?")


def present(values: pa.Array, words: Sequence[str] = MISSING) -> pa.Array:
    """Text without white space around it; null where it is one of some words."""
    trimmed = pc.utf8_trim(values, WHITE)
    return pc.if_else(pc.is_in(trimmed, pa.array(words, trimmed.type)), None, trimmed)


def complete(table: T, names: Sequence[str]) -> T:
    """The rows in which none of some columns is missing.

    Raises
    ------
    ConfigError
        A column is unknown.
    """

    def keep(arrays: Sequence[pa.Array]) -> Bool:
        values = [present(a) if is_text(a.type) else a for a in map(flat, arrays)]
        missing = [pc.is_null(a, nan_is_null=True).to_numpy(zero_copy_only=False) for a in values]
        return np.asarray(~np.logical_or.reduce(missing))

    return table.where(names, keep) if names else table
