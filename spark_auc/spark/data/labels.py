"""The label column: its type, the positive label, and the labels of rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, NumericType, StringType

from spark_auc.core.labels import Label, LabelCounts
from spark_auc.errors import ConfigError, DataError
from spark_auc.spark.data.decoders import without_nulls
from spark_auc.spark.data.names import known_column, quoted


def label_column(
    df: DataFrame, name: str, positive: Label | bool | None, column: Column | None = None
) -> tuple[Column, Label | None]:
    """The label as double or string, and the positive label as a value of that type.

    Parameters
    ----------
    df
        The rows.
    name
        Name of the label column.
    positive
        The positive label; None for 0/1 or -1/+1.
    column
        An expression for the column. Default: its name.

    Raises
    ------
    ConfigError
        The column is unknown or of an unsupported type, or the positive label is missing or of
        another type.
    """
    kind = known_column(df, name).dataType
    if not isinstance(kind, NumericType | BooleanType | StringType):
        raise ConfigError(
            f"found label column {name!r} of type {kind.simpleString()}; "
            "expected numbers, booleans or strings; set labelCol"
        )
    column = F.col(quoted(name)) if column is None else column
    if isinstance(kind, StringType):
        if positive is None:
            raise ConfigError(
                f"found label column {name!r} of strings and no positive label, expected "
                "the string of the positive class; set positiveLabel"
            )
        return column, str(positive)
    try:
        value = None if positive is None else float(positive)
        if value is not None and not np.isfinite(value):
            raise ValueError
        if isinstance(kind, BooleanType) and value not in (None, 0.0, 1.0):
            raise ValueError
        return column.cast("double"), value
    except ValueError:
        raise ConfigError(
            f"found positiveLabel {positive!r} for the label column {name!r} of type "
            f"{kind.simpleString()}; expected a finite number, and for booleans True or False; set "
            "positiveLabel"
        ) from None


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

    def read(self, array: pa.Array) -> NDArray[np.bool_]:
        """Whether each row is positive; `DataError` for null, NaN or a third label."""
        labels = without_nulls(array, f"label column {self.column!r}")
        if unknown := labels.is_null(nan_is_null=True).sum().as_py():
            raise DataError(
                f"found {unknown} NaN in label column {self.column!r} in a batch of "
                f"{len(labels)} rows; expected none; drop these rows"
            )
        for item in labels.value_counts():
            self.counts[item["values"].as_py()] += item["counts"].as_py()
        if len(self.counts) > 2:
            # Raises an error that lists the labels, before the task reads its other batches.
            self.labels().classes(self.positive)
        values = labels.to_numpy(zero_copy_only=False)
        positive = self.positive
        result: NDArray[np.bool_] = values > 0 if positive is None else values == positive
        return result
