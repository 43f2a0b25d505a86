"""Columns of training rows: features, label, weight, key and fold; and their batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, IntegralType, NumericType, StringType

from spark_auc.core.batch import WEIGHTS, Batch, usable_weights
from spark_auc.core.labels import Label, LabelCounts
from spark_auc.core.types import Float, Keys
from spark_auc.errors import ConfigError, DataError
from spark_auc.spark.data.decoders import without_nulls
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.features import Features
from spark_auc.spark.data.labels import LabelReader, label_column
from spark_auc.spark.data.names import known_column, quoted
from spark_auc.spark.data.readers import Read
from spark_auc.spark.data.segments import SegmentColumn

R = TypeVar("R", pa.RecordBatch, pa.Table)

# Every fold needs moments of all features.
_MAX_FOLDS = 100


def weight_column(df: DataFrame, name: str) -> Column:
    """The weight as double; `ConfigError` if the column is unknown or not numeric."""
    kind = known_column(df, name).dataType
    if not isinstance(kind, NumericType):
        raise ConfigError(
            f"found weight column {name!r} of type {kind.simpleString()}; "
            "expected numbers; set weightCol"
        )
    return F.col(quoted(name)).cast("double")


@dataclass(frozen=True)
class FoldColumn:
    """A column that assigns each row to a fold.

    Parameters
    ----------
    column
        Name of the column.
    values
        Distinct values of the column, ascending: integers or strings.
    """

    column: str
    values: tuple[int, ...] | tuple[str, ...]

    @classmethod
    def of(cls, df: DataFrame, name: str) -> FoldColumn:
        """Read the distinct values of a column, in one job that reads this column alone.

        Raises
        ------
        ConfigError
            The column is unknown, or of a type other than integer and string.
        DataError
            The column contains a null, fewer than 2 values or more than 100.
        """
        kind = known_column(df, name).dataType
        if not isinstance(kind, IntegralType | StringType):
            raise ConfigError(
                f"found fold column {name!r} of type {kind.simpleString()}; expected whole "
                "numbers or strings; cast it or set foldCol"
            )
        distinct = df.select(F.col(quoted(name)).alias("fold")).distinct().limit(_MAX_FOLDS + 1)
        with translated():
            values = [row.fold for row in distinct.collect()]
        if None in values:
            raise DataError(
                f"found nulls in fold column {name!r}, expected a fold for each row; fill them or "
                "drop these rows"
            )
        if not 2 <= len(values) <= _MAX_FOLDS:
            raise DataError(
                f"found {'too many' if len(values) > 1 else len(values)} values in fold column "
                f"{name!r}, expected from 2 to {_MAX_FOLDS}; set another foldCol, or keyCol and "
                "numFolds to keep rows of one value together"
            )
        return cls(name, tuple(sorted(values)))

    def number(self) -> Column:
        """Index of each row's fold in ``values``; null for a value outside ``values``."""
        column = F.col(quoted(self.column))
        number = F.when(column == F.lit(self.values[0]), 0)
        for k, value in enumerate(self.values[1:], 1):
            number = number.when(column == F.lit(value), k)
        return number


@dataclass(frozen=True)
class TrainingColumns:
    """Columns of training rows, checked against the schema of a DataFrame.

    Parameters
    ----------
    features
        The feature columns.
    label
        Name of the label column.
    positive
        The positive label; None for 0/1 or -1/+1.
    weight
        Name of the weight column; None for weight 1.
    key
        Name of the column whose hash selects sampled and held-out rows; None for a hash of the
        row.
    folds
        The fold column; None for folds by hash.
    placed
        Whether batches contain the place of each row: its partition or row group.
    segments
        The segment column; None for batches without segments.
    """

    features: Features
    label: str
    positive: Label | None = None
    weight: str | None = None
    key: str | None = None
    folds: FoldColumn | None = None
    placed: bool = False
    segments: SegmentColumn | None = None

    @classmethod
    def resolve(
        cls,
        df: DataFrame,
        features: Features,
        label: str,
        positive: Label | bool | None = None,
        weight: str | None = None,
        key: str | None = None,
        folds: FoldColumn | None = None,
        placed: bool = False,
    ) -> TrainingColumns:
        """Check all columns against the schema.

        Raises
        ------
        ConfigError
            A column is unknown or of an unsupported type, or the positive label is missing or of
            another type.
        """
        _, value = label_column(df, label, positive)
        of_label = known_column(df, label)
        if isinstance(of_label.dataType, BooleanType):
            # Predictions have the type of the label.
            value = value is None or bool(value)
        if weight:
            weight_column(df, weight)
        weight, key = (known_column(df, name).name if name else None for name in (weight, key))
        return cls(features, of_label.name, value, weight, key, folds, placed)

    @property
    def names(self) -> list[str]:
        """Names of the feature, label and weight columns in the DataFrame."""
        return [*self.features.columns, self.label, *([self.weight] if self.weight else [])]

    @property
    def derived(self) -> bool:
        """Whether `select` computes columns from others, which a Parquet reader cannot."""
        return bool(self.key or self.folds or self.segments)

    def sampled_groups(self, batch: pa.RecordBatch) -> Keys:
        """Groups ``(n,)`` of which a `KeySample` is drawn: those of keys, or of equal raw values.

        Parameters
        ----------
        batch
            Rows of the columns of `select`.
        """
        width = self.features.width
        groups: Keys | None
        if self.key:
            groups = batch.column(width + 1 + bool(self.weight)).to_numpy().view(np.uint64)
        else:
            groups = self.features.groups(batch.columns[:width])
        assert groups is not None, "features of raw columns by their values"
        return groups

    def select(self, df: DataFrame) -> DataFrame:
        """Select the input columns of `BatchReader`."""
        label = self.features.field(df, self.label)
        label, _ = label_column(df, self.label, self.positive, label)
        selected = [*self.features.expressions(), label]
        if self.weight:
            selected.append(weight_column(df, self.weight))
        if self.key:
            selected.append(F.xxhash64(F.col(quoted(self.key))))
        if self.folds:
            selected.append(self.folds.number())
        if self.segments:
            selected.append(self.segments.number(df, self.features))
        if self.placed:
            # The partition before `aggregate` coalesces.
            selected.append(F.spark_partition_id())
        return df.select(*(c.alias(f"c{k}") for k, c in enumerate(selected)))


@dataclass
class BatchReader:
    """Decodes Arrow batches to rows and counts the labels.

    Parameters
    ----------
    columns
        The columns of the batches, in the order of `TrainingColumns.select`.
    source
        Maps the input batches of the task to batches of these columns.
    """

    columns: TrainingColumns
    source: Read = iter
    label_reader: LabelReader = field(init=False)

    def __post_init__(self) -> None:
        self.label_reader = LabelReader(self.columns.label, self.columns.positive)

    def read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Batch]:
        """Decode batches; `DataError` at the first batch with an invalid value."""
        width, taught = self.columns.features.width, self.columns.features.taught
        for rows in self.source(batches):
            batch = rows
            if taught and batch.num_rows:
                # A map of the features knows the labels of these rows.
                groups = self.columns.sampled_groups(batch)
                inside = np.logical_or.reduce([sample.of(groups) for sample in taught])
                batch = batch.filter(pa.array(~inside))
            if self.columns.weight:
                batch = weighted(batch, width + 1)
            if batch.num_rows:
                X = self.columns.features.decode(batch.columns[:width])
                y = self.label_reader.read(batch.column(width))
                others = iter(batch.columns[width + 1 :])
                named = self.columns.weight
                weight = row_weights(next(others), named) if named else None
                key = next(others).to_numpy().view(np.uint64) if self.columns.key else None
                group = self._fold(next(others)) if self.columns.folds else key
                if group is None:
                    group = self.columns.features.groups(batch.columns[:width])
                segment = next(others).to_numpy() if self.columns.segments else None
                place = next(others).to_numpy().astype(np.int64) if self.columns.placed else None
                yield Batch(X, y, weight, key, group, place, segment)

    def labels(self) -> LabelCounts:
        """Number of rows of each label that was read."""
        return self.label_reader.labels()

    def _fold(self, array: pa.Array) -> Keys:
        assert self.columns.folds is not None
        name = self.columns.folds.column
        numbers = without_nulls(
            array, f"fold column {name!r} (or values that appeared after the folds were listed)"
        )
        return cast(Keys, numbers.to_numpy().astype(np.uint64))


def weighted(rows: R, column: int) -> R:
    """The rows of a batch or table whose weight, in the column of this number, is not 0."""
    # A null is an error, as of `row_weights`.
    kept = pc.fill_null(pc.not_equal(rows.column(column), 0.0), True)
    return rows if pc.all(kept).as_py() else rows.filter(kept)


def row_weights(array: pa.Array, name: str | None) -> Float:
    """Weights ``(n,)`` of a weight column; `DataError` if one cannot be used."""
    weight: Float = without_nulls(array, f"weight column {name!r}").to_numpy()
    bad = weight[~usable_weights(weight)]
    if bad.size:
        raise DataError(
            f"found {bad.size} weights that are not finite and positive, or out of range, in a "
            f"batch of {len(weight)} rows (the first is {bad[0]}); expected 0 or weights from "
            f"{WEIGHTS[0]} to {WEIGHTS[1]}; drop, repair or rescale these rows"
        )
    return weight
