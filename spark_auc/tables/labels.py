"""The label column: its type, the positive label, and the labels of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import pyarrow as pa
from pyarrow import types as kinds

from spark_auc.core.labels import Label, LabelCounts, rest_of
from spark_auc.core.row_source import State
from spark_auc.core.types import Bool
from spark_auc.errors import ConfigError, DataError
from spark_auc.tables.arrow_columns import flat
from spark_auc.tables.decoders import as_doubles, without_nulls
from spark_auc.tables.table import Batches, Table, field_of
from spark_auc.tables.types import is_number, is_text, of_values, shown_type


def positive_label(table: Table, name: str, positive: Label | bool | None) -> Label | None:
    """The positive label as a value of the type of the label column.

    Parameters
    ----------
    table
        The rows.
    name
        Name of the label column.
    positive
        The positive label; None for 0/1 or -1/+1.

    Raises
    ------
    ConfigError
        The column is unknown or of an unsupported type, or the positive label is missing or of
        another type.
    """
    column = field_of(table, name)
    kind = of_values(column.type)
    if is_text(kind):
        if positive is None:
            raise ConfigError(
                f"found label column {name!r} of strings and no positive label, expected "
                "the string of the positive class; set positiveLabel"
            )
        return str(positive)
    boolean = kinds.is_boolean(kind)
    if not boolean and not is_number(kind):
        raise ConfigError(
            f"found label column {name!r} of type {shown_type(column)}; "
            "expected numbers, booleans or strings; set labelCol"
        )
    try:
        value = None if positive is None else float(positive)
        if value is not None and not np.isfinite(value):
            raise ValueError
        if boolean and value not in (None, 0.0, 1.0):
            raise ValueError
    except ValueError:
        raise ConfigError(
            f"found positiveLabel {positive!r} for the label column {name!r} of type "
            f"{shown_type(column)}; expected a finite number, and for booleans True or False; set "
            "positiveLabel"
        ) from None
    return value


def label_values(array: pa.Array) -> pa.Array:
    """Labels as text or doubles."""
    array = flat(array)
    return array if is_text(array.type) else as_doubles(array)


def is_positive(labels: pa.Array, positive: Label | None) -> Bool:
    """Whether each label ``(n,)`` of `label_values` is positive."""
    values = labels.to_numpy(zero_copy_only=False)
    return np.asarray(values > 0 if positive is None else values == positive, np.bool_)


def check_classes(table: Table, name: str, positive: Label | None) -> None:
    """`DataError` with the labels of the rows unless they are of two classes, by one pass."""

    def fold(batches: Batches) -> Iterator[tuple[str, State]]:
        reader = LabelReader(name, positive)
        for batch in batches:
            reader.read(batch.column(0))
        yield name, reader.labels()

    labels = table.select([name])
    states = labels.fold(fold, (LabelCounts,), state_bytes=1 << 16, what="labels")
    cast(LabelCounts, states.get(name, LabelCounts())).classes(positive)


@dataclass
class LabelReader:
    """Decodes labels and counts them.

    Parameters
    ----------
    column
        Name of the label column.
    positive
        The positive label, of the type of the values; None for 0/1 or -1/+1.
    counts
        Number of rows of each label that was read.
    """

    column: str
    positive: Label | None
    counts: Counter[Label] = field(default_factory=Counter)

    def labels(self) -> LabelCounts:
        """Number of rows of each label that was read."""
        return LabelCounts(dict(self.counts))

    def read(self, array: pa.Array) -> Bool:
        """Whether each row is positive; `DataError` for null, NaN, or a third of two labels."""
        labels = label_values(without_nulls(array, f"label column {self.column!r}"))
        if unknown := labels.is_null(nan_is_null=True).sum().as_py():
            raise DataError(
                f"found {unknown} NaN in label column {self.column!r} in a batch of "
                f"{len(labels)} rows; expected none; drop these rows"
            )
        for item in labels.value_counts():
            self.counts[item["values"].as_py()] += item["counts"].as_py()
        if len(self.counts) > 2 and self.positive is None:
            # Raises an error that lists the labels, before the task reads its other batches.
            self.labels().classes(None)
        if len(self.counts) > 2 and self.positive is not None:
            rows = self.counts.pop(self.positive, 0)
            others = Counter({rest_of(self.positive): self.counts.total()})
            self.counts = others + Counter({self.positive: rows})
        return is_positive(labels, self.positive)
