"""The ranker of all rows with rankers of segments, from the rows of a fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.errors import ResourceError
from spark_auc.pipeline.ranker_fit import RankerModel
from spark_auc.tables.columns import TrainingColumns
from spark_auc.tables.rows import TableRows
from spark_auc.tables.segments import SegmentColumn
from spark_auc.tables.table import Table
from spark_auc.training.fold_moments import FoldsInMemory
from spark_auc.training.result import TrainingResult
from spark_auc.training.segment_moments import moments_of_segments
from spark_auc.training.segments import OF_A_SOLVE, segment_rankers
from spark_auc.training.settings import TrainingSettings


def segmented(
    model: RankerModel,
    table: Table,
    columns: TrainingColumns,
    name: str,
    result: TrainingResult,
    settings: TrainingSettings,
) -> RankerModel:
    """The model with rankers of segments, if they are better; one more pass over the rows.

    Parameters
    ----------
    model
        The ranker of all rows.
    table, columns
        The rows that it was trained on, and their columns.
    name
        Name of the segment column.
    result
        The training run.
    settings
        Its settings.

    Raises
    ------
    ConfigError
        The segment column is unknown or of another type.
    ResourceError
        The moments of all segments and folds do not fit in memory.
    ConvergenceError
        The solver did not reach its tolerance.
    """
    segments = SegmentColumn.of(table, name)
    rows = TableRows.of(table, replace(columns, segments=segments))
    _check_memory(rows, len(segments.values), settings.folds.parts)
    moments, _ = moments_of_segments(rows, settings.folds, segments.values)
    everyone = [reduce(PairMoments.merge, parts) for parts in zip(*moments.values(), strict=True)]
    assert result.penalty is not None
    made = segment_rankers(
        _in_memory(everyone, settings.folds.count),
        {segment: _in_memory(parts, settings.folds.count) for segment, parts in moments.items()},
        result.w,
        result.penalty,
        settings,
    )
    return model.with_segments(name, made)


def _in_memory(parts: Sequence[PairMoments], folds: int) -> FoldsInMemory:
    """The moments of folds, and of the rows of no fold if there are any."""
    return FoldsInMemory(parts[:folds], *parts[folds:])


def _check_memory(rows: TableRows, segments: int, folds: int) -> None:
    """`ResourceError` unless the moments of the choice of the shrinkage fit in memory."""
    dimension, count = rows.dimension, (segments + 2) * folds
    what = f"moments of {dimension} features in {count} folds, {folds} of each of {segments + 1} "
    what += "segments and of all rows,"
    try:
        rows.memory.check_folds(PairMoments.nbytes(dimension), count + OF_A_SOLVE, what)
    except ResourceError as error:
        raise ResourceError(f"{error}; or leave out segmentCol") from None
