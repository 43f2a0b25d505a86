"""Feature, label and weight columns of training rows, as batches of ``(X, y, weight)``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, NumericType, StringType

from spark_auc.core.labels import Label, LabelCounts
from spark_auc.core.moments import Batch
from spark_auc.errors import ConfigError, DataError
from spark_auc.spark.decoders import whole
from spark_auc.spark.features import Features, known_column, quoted

Float = NDArray[np.float64]


@dataclass(frozen=True)
class TrainingColumns:
    """Feature, label and weight columns of training rows.

    Parameters
    ----------
    features
        The feature columns.
    label
        Name of the label column.
    positive
        The positive label; None for 0/1 or -1/+1.
    weight
        Name of the weight column, if any.
    """

    features: Features
    label: str
    positive: Label | None = None
    weight: str | None = None

    @classmethod
    def resolve(
        cls,
        df: DataFrame,
        features: Features,
        label: str,
        positive: Label | bool | None = None,
        weight: str | None = None,
    ) -> TrainingColumns:
        """Check label and weight against the schema; `ConfigError` if they cannot serve."""
        found = known_column(df, label).dataType
        if not isinstance(found, NumericType | BooleanType | StringType):
            raise ConfigError(
                f"found label column {label!r} of type {found.simpleString()}; "
                "expected numbers, booleans or strings; set labelCol"
            )
        text = isinstance(found, StringType)
        if text and positive is None:
            raise ConfigError(
                f"found label column {label!r} of strings without a positive value; "
                "set positiveLabel"
            )
        if weight and not isinstance(known_column(df, weight).dataType, NumericType):
            raise ConfigError(
                f"found weight column {weight!r} of type "
                f"{df.schema[weight].dataType.simpleString()}; expected numbers; set weightCol"
            )
        if positive is not None:
            try:
                positive = str(positive) if text else float(positive)
            except ValueError:
                raise ConfigError(
                    f"found positiveLabel {positive!r} for the numeric label column {label!r}; "
                    "expected a number; set positiveLabel"
                ) from None
        return cls(features, label, positive, weight or None)

    def select(self, df: DataFrame) -> DataFrame:
        """The columns that `read` takes."""
        label = F.col(quoted(self.label))
        if not isinstance(df.schema[self.label].dataType, StringType):
            label = label.cast("double")
        chosen = [*self.features.expressions(), label]
        if self.weight:
            chosen.append(F.col(quoted(self.weight)).cast("double"))
        return df.select(*(c.alias(f"c{k}") for k, c in enumerate(chosen)))


@dataclass
class Reader:
    """Turns Arrow batches of `TrainingColumns.select` into arrays and counts their labels."""

    columns: TrainingColumns
    counts: Counter[Label] = field(default_factory=Counter)

    def read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Batch]:
        """Batches of ``(X, y, weight)``; `DataError` at the first value that is not usable."""
        width = len(self.columns.features.columns)
        for batch in batches:
            if batch.num_rows:
                X = self.columns.features.decode(batch.columns[:width])
                weight = self._weight(batch.column(width + 1)) if self.columns.weight else None
                yield X, self._positive(batch.column(width)), weight

    def labels(self) -> LabelCounts:
        """The label values read so far."""
        return LabelCounts(dict(self.counts))

    def _positive(self, array: pa.Array) -> NDArray[np.bool_]:
        labels = whole(array, f"label column {self.columns.label!r}")
        for item in labels.value_counts():
            self.counts[item["values"].as_py()] += item["counts"].as_py()
        if len(self.counts) > 2:
            # Raises with the values found; there is no point in reading on.
            self.labels().classes(self.columns.positive)
        values = labels.to_numpy(zero_copy_only=False)
        positive = self.columns.positive
        result: NDArray[np.bool_] = values > 0 if positive is None else values == positive
        return result

    def _weight(self, array: pa.Array) -> Float:
        weight: Float = whole(array, f"weight column {self.columns.weight!r}").to_numpy()
        bad = weight[~(np.isfinite(weight) & (weight > 0))]
        if bad.size:
            raise DataError(
                f"found {bad.size} weights that are not finite and positive in a batch of "
                f"{len(weight)} rows (the first is {bad[0]}); expected weights > 0; "
                "drop or repair these rows"
            )
        return weight
