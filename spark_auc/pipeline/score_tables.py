"""Score tables in the tasks, from which exact measures are computed.

One pass reads the rows. Each task sums its rows by distinct score into tables, which are kept where
the rows are, and sends an overview of bounded size. The overview's histogram
divides the scores into ranges, with the weights below and above each range. A second job measures
each range separately, so no machine needs memory for all scores.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from operator import itemgetter

import numpy as np
import pyarrow as pa

from spark_auc.core.evaluation.delong import placements
from spark_auc.core.evaluation.measures import RankingOptions
from spark_auc.core.evaluation.overview import Overview
from spark_auc.core.evaluation.ranking import Ranking
from spark_auc.core.evaluation.roc import auc
from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.labels import Label
from spark_auc.core.row_source import State
from spark_auc.errors import SparkAUCError
from spark_auc.pipeline.score_columns import ScoreColumns, read
from spark_auc.tables.table import Batches, Table

_log = logging.getLogger(__name__)

# Rows of a table, which take some hundred MiB in a task; and rows of a range: smaller, so that each
# task slot measures several ranges.
_TABLE_ROWS = 1 << 20
_RANGE_ROWS = 1 << 18


def _in_chunks(batches: Batches) -> Iterator[list[pa.RecordBatch]]:
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
_PLACED = pa.schema([(name, pa.float64()) for name in ("score", "positive", "negative")])


def _tabulating(positive: Label | None, max_bins: int, keep: bool) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        overview = Overview.zero(max_bins)
        for chunk in _in_chunks(batches):
            table, faults, labels = read(chunk, positive)
            histogram = ScoreHistogram.of_table(table, max_bins)
            overview = overview.merge(Overview(faults, labels, histogram))
            if keep:
                yield record(_TABULATED, table.to_bytes(), None)
        yield record(_TABULATED, None, overview.to_bytes())

    return run


def _overviews(batches: Batches) -> Iterator[tuple[str, State]]:
    """A fold that merges the overviews of a task."""
    overviews = [
        Overview.from_bytes(value) for b in batches for value in b.column(1).to_pylist() if value
    ]
    if overviews:
        yield "overview", reduce(Overview.merge, overviews)


@dataclass(frozen=True)
class Scored:
    """Score tables of scored rows; see `tabulated`.

    Parameters
    ----------
    tables
        Score tables and overviews of the tasks.
    overview
        Overview of all rows, which are valid and of two classes.
    classes
        The positive and the negative label.
    """

    tables: Table
    overview: Overview
    classes: tuple[Label, Label]

    @property
    def table(self) -> ScoreTable:
        """Score table of the histogram's bins."""
        return self.overview.histogram.table

    @property
    def centre(self) -> float:
        """AUC of the histogram, an approximation of the exact AUC."""
        return auc(self.table)

    def by_range(
        self, measure: Callable[[int, ScoreTable], pa.RecordBatch], schema: pa.Schema
    ) -> Table:
        """Apply ``measure`` to the number and the score table of each range, in the tasks."""
        starts, outside = self.overview.histogram.ranges(_RANGE_ROWS)

        def cut(batches: Batches) -> Batches:
            for batch in batches:
                for data in batch.column(0).to_pylist():
                    if data is None:
                        continue
                    table = ScoreTable.from_bytes(data)
                    first = np.searchsorted(table.score, starts)
                    last = np.append(first[1:], table.score.size)
                    for k in np.flatnonzero(last > first):
                        part = table.between(first[k], last[k])
                        yield record(_RANGED, k, part.to_bytes())

        def measured(batches: Batches) -> Batches:
            for k, tables in _ranges(batches):
                yield measure(k, ScoreTable.union(tables).within(outside[k]))

        parts = min(len(starts), 4 * self.tables.memory.slots)
        return (
            self.tables.map(cut, _RANGED).arranged("range", ["range"], parts).map(measured, schema)
        )

    def ranking(self, options: RankingOptions) -> Ranking:
        """Exact measures of all rows.

        Parameters
        ----------
        options
            The measures.

        Raises
        ------
        SparkAUCError
            Spark lost a range, or computed rows again with other scores.
        """
        centre, start = self.centre, time.perf_counter()

        def measure(k: int, table: ScoreTable) -> pa.RecordBatch:
            return record(_RANGED, k, Ranking.of(table, centre, options).to_bytes())

        result = self.by_range(measure, _RANGED).gathered()
        assert result is not None
        ranges = len(self.overview.histogram.ranges(_RANGE_ROWS)[0])
        numbers = result["range"].to_pylist()
        if sorted(numbers) != list(range(ranges)):
            raise SparkAUCError(
                f"found {len(numbers)} of {ranges} ranges of scores, expected all; run again"
            )
        payloads = sorted(zip(numbers, result["payload"].to_pylist(), strict=True), reverse=True)
        ranking = reduce(Ranking.merge, (Ranking.from_bytes(data) for _, data in payloads))
        weight = self.table.weight.sum(axis=1)
        if not np.isclose(ranking.pairs.sum(), weight.prod(), rtol=1e-9, atol=0):
            raise SparkAUCError(
                f"found pairs of weight {ranking.pairs.sum():g}, expected {weight.prod():g}: rows "
                "were lost, or computed again with other scores; write the scored rows, and "
                "measure the written rows"
            )
        _log.info("measured %d ranges of scores in %.1f s", ranges, time.perf_counter() - start)
        return ranking

    def placements(self) -> Table:
        """Placement values of each distinct score, for DeLong's covariance.

        Returns
        -------
        Table
            ``score``, and ``positive`` and ``negative``: the placement values of a positive and of
            a negative row with this score; see `delong.placements`.
        """

        def place(_: int, table: ScoreTable) -> pa.RecordBatch:
            arrays = [pa.array(values) for values in (table.score, *placements(table))]
            return pa.RecordBatch.from_arrays(arrays, schema=_PLACED)

        return self.by_range(place, _PLACED)


@contextmanager
def tabulated(
    table: Table,
    columns: ScoreColumns,
    *,
    max_bins: int = 1 << 16,
    keep: bool = True,
    what: str | None = None,
) -> Iterator[Scored]:
    """Sum scored rows to score tables, in one pass.

    Parameters
    ----------
    table
        Rows with a score, a label and optionally a weight.
    columns
        Names of these columns.
    max_bins
        Largest number of bins of the overview's histogram.
    keep
        Whether to keep the score tables for exact measures inside the block.
    what
        Name of the score column in messages; None for its name in ``columns``.

    Raises
    ------
    ConfigError
        A column is unknown or of an unsupported type.
    DataError
        A score, label or weight is null, NaN or infinite, a weight is negative, or the number of
        distinct labels is not 2; the message contains counts.
    """
    positive = columns.checked(table)
    made = table.select(columns.names).map(_tabulating(positive, max_bins, keep), _TABULATED)
    with made.kept(spill=True) if keep else nullcontext(made) as tables:
        states = tables.fold(
            _overviews,
            (Overview,),
            state_bytes=64 * max_bins,
            what=f"histograms of {max_bins} bins",
        )
        overview = states.get("overview")
        overview = overview if isinstance(overview, Overview) else Overview.zero(max_bins)
        overview.faults.check(f"column {(what or columns.score)!r}")
        classes = columns.classes(overview.labels, positive)
        yield Scored(tables, overview, classes)


def record(schema: pa.Schema, *values: object) -> pa.RecordBatch:
    """A batch of one row."""
    arrays = [pa.array([value], kind) for value, kind in zip(values, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _ranges(batches: Batches) -> Iterator[tuple[int, list[ScoreTable]]]:
    """The score tables of each range of sorted rows."""
    rows = (row for batch in batches for row in zip(*_lists(batch), strict=True))
    for number, of_range in groupby(rows, key=itemgetter(0)):
        yield number, [ScoreTable.from_bytes(data) for _, data in of_range]


def _lists(batch: pa.RecordBatch) -> list[list[object]]:
    return [column.to_pylist() for column in batch.columns]
