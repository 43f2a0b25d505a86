"""What the parts of scores contribute to them: values, names, and the largest as a list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
import pyarrow as pa

from spark_auc.core.batch import Batch
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.segments import SegmentWeights
from spark_auc.core.types import Float, Int, Rows
from spark_auc.errors import ConfigError, DataError
from spark_auc.features.contributions import contributions, largest, parts
from spark_auc.features.token_names import printable
from spark_auc.pipeline.part_words import Words, placed, recipe_words
from spark_auc.serving.linear_scorer import LinearScorer
from spark_auc.tables.features import Features
from spark_auc.tables.raw_features import EmbeddedFeatures, RawFeatures
from spark_auc.tables.segments import SegmentColumn
from spark_auc.tables.table import Batches, Table

# Type of a list of contributions.
LISTED = pa.list_(pa.struct([("feature", pa.string()), ("value", pa.float64())]))
# Most values of rows at a time, and most sparse rows.
_VALUES, _ROWS = 1 << 22, 256

# From Arrow columns to the contributions ``(n, p)`` of rows, and the names of parts in them.
Explain: TypeAlias = Callable[[Sequence[pa.Array]], tuple[Rows, Words]]


@dataclass(frozen=True)
class Parts:
    """The parts of which scores are sums.

    Parameters
    ----------
    names
        Their names ``(p,)``.
    features
        The features of the rows.
    columns
        Names of the columns that tasks read: those of the features, and others.
    explain
        What the parts of these rows contribute.
    """

    names: Sequence[str]
    features: Features
    columns: tuple[str, ...]
    explain: Explain

    def moments(self, table: Table) -> ColumnMoments:
        """Mean and variance of the contributions over rows, in the second class.

        Raises
        ------
        DataError
            There are no rows, or a row cannot be scored.
        """
        explain, count = self.explain, len(self.names)

        def fold(batches: Batches) -> Iterator[tuple[str, ColumnMoments]]:
            values = (explain(batch.columns)[0] for batch in batches)
            rows = (Batch(X, np.zeros(X.shape[0], np.bool_)) for X in values)
            yield "parts", ColumnMoments.fold(rows, count)

        size, what = 8 * 6 * count, f"contributions of {count} parts"
        rows = table.select(self.columns)
        states = rows.fold(fold, (ColumnMoments,), state_bytes=size, what=what)
        moments = cast(ColumnMoments, states.get("parts", ColumnMoments.zero(count)))
        if not moments.rows.sum():
            raise DataError("found no rows, expected rows to measure; check the filter of the data")
        return moments


def parts_of(
    scorer: LinearScorer, features: Features, table: Table, *, segments: bool = True
) -> Parts:
    """The parts of the scores of rows.

    Parameters
    ----------
    scorer
        A ranker.
    features
        The features of the rows.
    table
        The rows.
    segments
        Whether rankers of segments score their rows; else the ranker of all rows does.

    Raises
    ------
    ConfigError
        There is an embedding, whose features are no parts of a sum over columns; or a column is
        missing.
    """
    if isinstance(features, EmbeddedFeatures):
        raise ConfigError(
            "found a model with embeddings, expected a ranker without embeddings, whose scores are "
            "sums over columns; leave out contributions"
        )

    def make(w: Float) -> Parts:
        if isinstance(features, RawFeatures):
            return _of_recipe(features, w)
        return _of_features(features, scorer.names, w)

    if not segments or scorer.segments is None:
        return make(scorer.w)
    column, weights = scorer.segments
    segment = SegmentColumn(column, weights.values)
    segment.check(table)
    return _of_segments(make, weights, segment)


def _of_recipe(features: RawFeatures, w: Float) -> Parts:
    """The columns, pairs and crosses of a recipe, and its trees.

    Their names in rows are those of `recipe_words`.

    Parameters
    ----------
    features
        The features of the rows.
    w : (F,)
        Their weights.
    """
    recipe = features.recipe

    def explain(arrays: Sequence[pa.Array]) -> tuple[Rows, Words]:
        columns = features.raw.decode(arrays)
        return contributions(recipe, w, columns), recipe_words(recipe, columns)

    return Parts(parts(recipe), features, features.columns, explain)


def _of_features(features: Features, names: Sequence[str] | None, w: Float) -> Parts:
    """Features of numbers, by their names, or else by their numbers."""
    known = pa.array([printable(name) for name in names or map(str, range(w.size))], pa.string())

    def explain(arrays: Sequence[pa.Array]) -> tuple[Rows, Words]:
        X = features.decode(arrays)
        values = X * w if isinstance(X, np.ndarray) else X.multiply(w).tocsr()
        return values, lambda chosen, _: known.take(pa.array(chosen))

    return Parts(known.to_pylist(), features, features.columns, explain)


def _of_segments(
    make: Callable[[Float], Parts], weights: SegmentWeights, column: SegmentColumn
) -> Parts:
    """Parts of the scores by the rankers of the rows' segments.

    The intercept of a segment is a part, too, such as "segment city=Oslo", or "no segment of city"
    for rows of no segment.

    Parameters
    ----------
    make
        The parts of a score by weights.
    weights
        The rankers.
    column
        The segment column.
    """
    name = column.column
    whole, *_ = made = [make(w) for w in weights.W]
    each, last = [parts.explain for parts in made], len(whole.names)
    known = [printable(f"segment {name}={value}") for value in weights.values]
    intercepts = pa.array([*known, printable(f"no segment of {name}")], pa.string())

    def explain(arrays: Sequence[pa.Array]) -> tuple[Rows, Words]:
        segment = column.numbers(arrays[-1])
        values = np.zeros((segment.size, last + 1))
        inner: list[tuple[Int, Words]] = []
        for s in np.unique(segment):
            rows = np.flatnonzero(segment == s)
            own, words = each[s]([array.take(pa.array(rows)) for array in arrays[:-1]])
            values[rows, :-1] = own if isinstance(own, np.ndarray) else own.toarray()
            values[rows, -1] = weights.intercept[s]
            inner.append((rows, words))

        def named(chosen: Int, rows: Int) -> pa.Array:
            places = [np.flatnonzero(chosen == last)]
            names = [intercepts.take(pa.array(segment[rows[places[0]]]))]
            for own, words in inner:
                at = np.flatnonzero((chosen < last) & np.isin(rows, own))
                places.append(at)
                names.append(words(chosen[at], np.searchsorted(own, rows[at])))
            return placed(names, np.concatenate(places))

        return values, named

    names = [*whole.names, f"segment of {name}"]
    return Parts(names, whole.features, (*whole.columns, name), explain)


def listed(values: Rows, words: Words, count: int, centre: Float | None = None) -> pa.ListArray:
    """The largest contributions of each row in absolute value, descending; those of 0 are left out.

    Parameters
    ----------
    values : (n, p)
        Contributions.
    words
        The names of parts in rows.
    count
        Largest number of contributions of a row.
    centre : (p,)
        What is subtracted from the values. Default: 0.
    """
    n, p = values.shape
    step = max(1, _VALUES // max(p, 1))
    if centre is None and not isinstance(values, np.ndarray):
        step = _ROWS
    pieces = []
    for begin in range(0, n, step) or [0]:
        own: Rows = values[begin : begin + step]
        numbers = np.arange(p)
        if not isinstance(own, np.ndarray):
            # Without a centre, parts of no row of the piece are 0.
            numbers = np.unique(own.indices) if centre is None else numbers
            own = own[:, numbers].toarray()
        if centre is not None:
            own = own - centre
        places = largest(own, count)
        rows, _ = np.nonzero(places >= 0)
        chosen = places[places >= 0]
        shown = words(numbers[chosen], begin + rows).cast(pa.string())
        pairs = pa.StructArray.from_arrays(
            [shown, pa.array(own[rows, chosen])], names=["feature", "value"]
        )
        offsets = np.append(0, np.cumsum((places >= 0).sum(axis=1))).astype(np.int32)
        pieces.append(pa.ListArray.from_arrays(pa.array(offsets), pairs))
    return pa.concat_arrays(pieces)
