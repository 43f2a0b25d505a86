"""Pair moments of a DataFrame, in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pyarrow as pa
from pyspark.sql import DataFrame

from spark_auc.core.accumulator import PairAccumulator
from spark_auc.core.labels import LabelCounts
from spark_auc.core.moments import PairMoments
from spark_auc.core.moments_tile import MomentsTile
from spark_auc.spark.aggregate import Fold, State, aggregate
from spark_auc.spark.columns import Reader, TrainingColumns

_LABELS = "labels"


def pair_moments(df: DataFrame, columns: TrainingColumns) -> tuple[PairMoments, LabelCounts]:
    """Exact pair moments and label counts of all rows.

    Raises
    ------
    DataError
        A value is not usable; see `TrainingColumns` and `Features`.
    ResourceError
        The moments would not fit in memory.
    """
    dimension = columns.features.dimension
    parts = aggregate(
        columns.select(df),
        _fold(columns),
        (LabelCounts, MomentsTile),
        state_bytes=PairMoments.nbytes(dimension),
        what=f"moments of {dimension} features",
    )
    labels = cast(LabelCounts, parts.pop(_LABELS, LabelCounts()))
    labels.classes(columns.positive)
    return PairMoments.of_parts(cast(dict[str, MomentsTile], parts), dimension), labels


def _fold(columns: TrainingColumns) -> Fold:
    def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, State]]:
        reader = Reader(columns)
        accumulator = PairAccumulator(columns.features.dimension)
        for batch in reader.read(batches):
            accumulator.add(*batch)
        if reader.counts:
            yield _LABELS, reader.labels()
            yield from accumulator.parts()

    return fold
