"""Columns of training rows: features, label, weight, key and fold; and their batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_auc.core.batch import WEIGHTS, Batch, usable_weights
from spark_auc.core.labels import Label, LabelCounts
from spark_auc.core.types import Float, Keys
from spark_auc.errors import ConfigError, DataError
from spark_auc.tables.decoders import as_doubles, without_nulls
from spark_auc.tables.features import Features
from spark_auc.tables.hashes import check_hashable, xxhash64
from spark_auc.tables.labels import LabelReader, positive_label
from spark_auc.tables.segments import SegmentColumn
from spark_auc.tables.table import Table, field_of
from spark_auc.tables.tally import as_text, tallied
from spark_auc.tables.types import is_number, is_text, shown_type

R = TypeVar("R", pa.RecordBatch, pa.Table)

# Every fold needs moments of all features.
_MAX_FOLDS = 100


def check_weights(table: Table, name: str) -> None:
    """`ConfigError` if a weight column is unknown or not numeric."""
    column = field_of(table, name)
    if not is_number(column.type):
        raise ConfigError(
            f"found weight column {name!r} of type {shown_type(column)}, expected numbers; convert "
            "it, or set weightCol to another column"
        )


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
    def of(cls, table: Table, name: str) -> FoldColumn:
        """Read the distinct values of a column, in one pass that reads this column alone.

        Raises
        ------
        ConfigError
            The column is unknown, or of a type other than integer and string.
        DataError
            The column contains a null, fewer than 2 values or more than 100.
        """
        column = field_of(table, name)
        whole = pa.types.is_integer(column.type)
        if not whole and not is_text(column.type):
            raise ConfigError(
                f"found fold column {name!r} of type {shown_type(column)}; expected whole "
                "numbers or strings; cast it or set foldCol"
            )
        tally = tallied(table, name)
        if tally.missing:
            raise DataError(
                f"found nulls in fold column {name!r}, expected a fold for each row; fill them or "
                "drop these rows"
            )
        values = tally.values.tolist()
        if not 2 <= len(values) <= _MAX_FOLDS:
            raise DataError(
                f"found {'too many' if len(values) > 1 else len(values)} values in fold column "
                f"{name!r}, expected from 2 to {_MAX_FOLDS}; set another foldCol, or keyCol and "
                "numFolds to keep rows of one value together"
            )
        return cls(column.name, tuple(sorted(map(int, values)) if whole else sorted(values)))

    def numbers(self, array: pa.Array) -> Keys:
        """Index ``(n,)`` of each row's fold in ``values``; `DataError` for other values."""
        known = pa.array([str(value) for value in self.values])
        numbers = without_nulls(
            pc.index_in(as_text(array), known),
            f"fold column {self.column!r} (or values that appeared after the folds were listed)",
        )
        return cast(Keys, numbers.to_numpy().astype(np.uint64))


@dataclass(frozen=True)
class TrainingColumns:
    """Columns of training rows, checked against the schema of a table.

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
        Whether batches contain the place of each row; see `Table.select`.
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
        table: Table,
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
        value = positive_label(table, label, positive)
        of_label = field_of(table, label)
        if pa.types.is_boolean(of_label.type):
            # Predictions have the type of the label.
            value = value is None or bool(value)
        if weight:
            check_weights(table, weight)
        weight, key = (field_of(table, name).name if name else None for name in (weight, key))
        if key:
            check_hashable(table, key)
        return cls(features, of_label.name, value, weight, key, folds, placed)

    @property
    def names(self) -> list[str]:
        """Names of the columns that `BatchReader` takes, in its order."""
        others = (
            self.weight,
            self.key,
            self.folds and self.folds.column,
            self.segments and self.segments.column,
        )
        return [*self.features.columns, self.label, *(name for name in others if name)]

    def sampled_groups(self, batch: pa.RecordBatch) -> Keys:
        """Groups ``(n,)`` of which a `KeySample` is drawn: those of keys, or of equal raw values.

        Parameters
        ----------
        batch
            Rows of the columns of `names`.
        """
        width = len(self.features.columns)
        groups: Keys | None
        if self.key:
            groups = xxhash64([batch.column(width + 1 + bool(self.weight))])
        else:
            groups = self.features.groups(batch.columns[:width])
        assert groups is not None, "features of raw columns by their values"
        return groups

    def of(self, table: Table) -> Table:
        """The columns of a table that `BatchReader` takes."""
        return table.select(self.names, placed=self.placed)


@dataclass
class BatchReader:
    """Decodes Arrow batches to rows and counts the labels.

    Parameters
    ----------
    columns
        The columns of the batches, as `TrainingColumns.of` selects them.
    """

    columns: TrainingColumns
    label_reader: LabelReader = field(init=False)

    def __post_init__(self) -> None:
        self.label_reader = LabelReader(self.columns.label, self.columns.positive)

    def read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Batch]:
        """Decode batches; `DataError` at the first batch with an invalid value."""
        columns = self.columns
        width, taught = len(columns.features.columns), columns.features.taught
        for rows in batches:
            batch = rows
            if taught:
                # A map of the features knows the labels of these rows.
                groups = columns.sampled_groups(batch)
                inside = np.logical_or.reduce([sample.of(groups) for sample in taught])
                batch = batch.filter(pa.array(~inside))
            if columns.weight:
                batch = weighted(batch, width + 1)
            if batch.num_rows:
                X = columns.features.decode(batch.columns[:width])
                y = self.label_reader.read(batch.column(width))
                others = iter(batch.columns[width + 1 :])
                weight = row_weights(next(others), columns.weight) if columns.weight else None
                key = xxhash64([next(others)]) if columns.key else None
                group = columns.folds.numbers(next(others)) if columns.folds else key
                if group is None:
                    group = columns.features.groups(batch.columns[:width])
                segment = columns.segments.numbers(next(others)) if columns.segments else None
                place = next(others).to_numpy().astype(np.int64) if columns.placed else None
                yield Batch(X, y, weight, key, group, place, segment)

    def labels(self) -> LabelCounts:
        """Number of rows of each label that was read."""
        return self.label_reader.labels()


def weighted(rows: R, column: int) -> R:
    """The rows of a batch or table whose weight, in the column of this number, is not 0."""
    # A null is an error, as of `row_weights`.
    kept = pc.fill_null(pc.not_equal(rows.column(column), 0), True)
    return rows if pc.all(kept).as_py() else rows.filter(kept)


def row_weights(array: pa.Array, name: str | None) -> Float:
    """Weights ``(n,)`` of a weight column; `DataError` if one cannot be used."""
    weight: Float = as_doubles(without_nulls(array, f"weight column {name!r}")).to_numpy()
    bad = weight[~usable_weights(weight)]
    if bad.size:
        raise DataError(
            f"found {bad.size} weights that are NaN, negative or out of range in a batch of "
            f"{len(weight)} rows (the first is {bad[0]}), expected 0 or weights from "
            f"{WEIGHTS[0]} to {WEIGHTS[1]}; drop, repair or rescale these rows"
        )
    return weight
