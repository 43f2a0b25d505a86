"""Scored rows as score tables on the executors: what every exact measure is taken from.

Rows are read once. Each task sums its rows by distinct score into tables, which stay on the
executors' disks, and tells the driver an overview of bounded size. The overview's histogram cuts
the scores into ranges and says what lies below and above each, so that each range is then
measured by itself, and no machine holds all scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame

from spark_auc.core.evaluation.delong import placements
from spark_auc.core.evaluation.overview import Overview
from spark_auc.core.evaluation.ranking import Ranking, RankingOptions
from spark_auc.core.evaluation.roc import auc
from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.labels import Label
from spark_auc.core.row_source import State
from spark_auc.errors import SparkAUCError
from spark_auc.spark.data.aggregate import aggregate
from spark_auc.spark.data.columns import label_column
from spark_auc.spark.data.failures import translated
from spark_auc.spark.evaluation.score_columns import ScoreColumns, read

# Rows that one table sums, some hundred MiB in a task, and that one range holds, of which there
# should be several for each task slot.
_TABLE_ROWS = 1 << 20
_RANGE_ROWS = 1 << 18


def _in_chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    chunk: list[pa.RecordBatch] = []
    for batch in batches:
        chunk.append(batch)
        if sum(b.num_rows for b in chunk) >= _TABLE_ROWS:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


_TABULATED = pa.schema([("table", pa.binary()), ("overview", pa.binary())])
_RANGED = pa.schema([("range", pa.int32()), ("payload", pa.binary())])


def _tabulating(
    positive: Label | None, max_bins: int, keep: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        overview = Overview.zero(max_bins)
        for chunk in _in_chunks(batches):
            table, faults, labels = read(chunk, positive)
            histogram = ScoreHistogram.of_table(table, max_bins)
            overview = overview.merge(Overview(faults, labels, histogram))
            if keep:
                yield _batch(_TABULATED, [table.to_bytes()], [None])
        yield _batch(_TABULATED, [None], [overview.to_bytes()])

    return run


def _batch(schema: pa.Schema, *columns: list[object]) -> pa.RecordBatch:
    arrays = [pa.array(c, t) for c, t in zip(columns, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _overviews(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, State]]:
    """A fold that merges the overviews of a task."""
    found = [
        Overview.from_bytes(value) for b in batches for value in b.column(0).to_pylist() if value
    ]
    if found:
        yield "overview", reduce(Overview.merge, found)


@dataclass(frozen=True)
class Scored:
    """Scored rows, tabulated on the executors; made by `tabulated`.

    Parameters
    ----------
    tables
        The tables and overviews, kept on the executors' disks.
    overview
        The overview of all rows, in which both classes are present and nothing is at fault.
    classes
        The positive and the negative label.
    """

    tables: DataFrame
    overview: Overview
    classes: tuple[Label, Label]

    @property
    def table(self) -> ScoreTable:
        """The histogram's table."""
        return self.overview.histogram.table

    @property
    def centre(self) -> float:
        """The AUC, nearly."""
        return auc(self.table)

    def _by_range(self, measured: Callable[[int, ScoreTable], pa.Table], schema: str) -> DataFrame:
        """What ``measured`` makes of each range of scores, on the executors."""
        starts, outside = self.overview.histogram.ranges(_RANGE_ROWS)

        def cut(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for data in batch.column(0).to_pylist():
                    table = ScoreTable.from_bytes(data)
                    first = np.searchsorted(table.score, starts)
                    last = np.append(first[1:], table.score.size)
                    for k in np.flatnonzero(last > first):
                        part = table.between(first[k], last[k])
                        yield _batch(_RANGED, [k], [part.to_bytes()])

        def measure(rows: pa.Table) -> pa.Table:
            k = rows["range"][0].as_py()
            tables = [ScoreTable.from_bytes(data) for data in rows["payload"].to_pylist()]
            return measured(k, ScoreTable.union(tables).within(outside[k]))

        parts = self.tables.filter("table IS NOT NULL").select("table")
        ranged = parts.mapInArrow(cut, "range int, payload binary")
        return ranged.groupBy("range").applyInArrow(measure, schema)

    def ranking(self, asked: RankingOptions) -> Ranking:
        """The exact measures of all rows."""
        centre = self.centre

        def measured(k: int, table: ScoreTable) -> pa.Table:
            payload = Ranking.of(table, centre, asked).to_bytes()
            return pa.Table.from_batches([_batch(_RANGED, [k], [payload])])

        with translated():
            found = self._by_range(measured, "range int, payload binary").toArrow()
        ranges = len(self.overview.histogram.ranges(_RANGE_ROWS)[0])
        numbers = found["range"].to_pylist()
        if sorted(numbers) != list(range(ranges)):
            raise SparkAUCError(
                f"found {len(numbers)} of {ranges} ranges of scores, expected all; run again"
            )
        order = sorted(zip(numbers, found["payload"].to_pylist(), strict=True), reverse=True)
        ranking = reduce(Ranking.merge, (Ranking.from_bytes(data) for _, data in order))
        weight = self.table.weight.sum(axis=1)
        if not np.isclose(ranking.pairs.sum(), weight.prod(), rtol=1e-9, atol=0):
            raise SparkAUCError(
                f"found pairs of weight {ranking.pairs.sum():g}, expected {weight.prod():g}: rows "
                "were lost, or made again and not the same; write the scored rows, and measure "
                "what was written"
            )
        return ranking

    def placements(self) -> DataFrame:
        """Each distinct score with its placement as a positive and as a negative row.

        Columns score, positive and negative, all double; see `delong.placements`.
        """

        def measured(_: int, table: ScoreTable) -> pa.Table:
            return pa.table([table.score, *placements(table)], ["score", "positive", "negative"])

        return self._by_range(measured, "score double, positive double, negative double")


@contextmanager
def tabulated(
    df: DataFrame,
    columns: ScoreColumns,
    *,
    max_bins: int = 1 << 16,
    keep: bool = True,
    what: str | None = None,
) -> Iterator[Scored]:
    """Tabulate scored rows, in one pass over them.

    Parameters
    ----------
    df
        Rows with a score, a label and maybe a weight.
    columns
        Their names.
    max_bins
        Most bins of the overview's histogram.
    keep
        Whether to keep tables for exact measures, until the context ends.
    what
        What messages call the score; its column where not given.

    Raises
    ------
    ConfigError
        A column is unknown or of a type that cannot serve.
    DataError
        A score, label or weight is null, NaN or infinite, a weight is negative, or there are not
        exactly two label values; with counts.
    """
    _, positive = label_column(df, columns.label, columns.positive)
    tables = columns.select(df).mapInArrow(
        _tabulating(positive, max_bins, keep), "table binary, overview binary"
    )
    if keep:
        tables.persist(StorageLevel.DISK_ONLY)
    try:
        found = aggregate(
            tables.filter("overview IS NOT NULL").select("overview"),
            _overviews,
            (Overview,),
            state_bytes=64 * max_bins,
            what=f"histograms of {max_bins} bins",
        )
        overview = found.get("overview")
        overview = overview if isinstance(overview, Overview) else Overview.zero(max_bins)
        overview.faults.check(f"column {(what or columns.score)!r}")
        classes = overview.labels.classes(positive)
        yield Scored(tables, overview, classes)
    finally:
        if keep:
            tables.unpersist()
