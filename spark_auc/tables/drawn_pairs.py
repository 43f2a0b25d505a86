"""Random pairs of a positive and a negative row, from all partitions (MBA, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from scipy import sparse

from spark_auc.core.batch import Batch, stacked
from spark_auc.core.labels import LabelCounts
from spark_auc.core.sampling.draws import Draws
from spark_auc.core.types import Float
from spark_auc.tables.table import Batches, Table

_DRAWN = pa.schema(
    {
        "part": pa.int32(),
        "positive": pa.bool_(),
        "moment": pa.float64(),
        "indices": pa.list_(pa.int32()),
        "values": pa.list_(pa.float64()),
    }
)


def drawn_rows(
    table: Table,
    read: Callable[[Batches], Iterator[Batch]],
    draws: Draws,
    bounds: tuple[Float, Float],
) -> Table:
    """Draw rows, and sort each part by moment in one task, for `PairReader`.

    Parameters
    ----------
    table
        The rows.
    read
        Decodes their batches.
    draws, bounds
        See `RowSource.paired`.

    Returns
    -------
    Table
        ``part``, ``positive``, ``moment``, ``indices`` and ``values`` of each drawn row.
    """

    def draw(batches: Batches) -> Batches:
        for batch in read(batches):
            rows, moments = draws.arrivals(batch)
            positive = batch.y[rows]
            part = np.where(positive, *(np.searchsorted(b, moments, "right") for b in bounds))
            columns = [pa.array(part, pa.int32()), pa.array(positive), pa.array(moments)]
            yield pa.RecordBatch.from_arrays([*columns, *_lists(batch.X[rows])], _DRAWN.names)

    parts = min(bounds[0].size + 1, table.memory.slots)
    return table.map(draw, _DRAWN).arranged("part", ["part", "moment"], parts)


def _lists(X: Float | sparse.csr_matrix) -> list[pa.Array]:
    """Indices and values of each row; the index lists of dense rows are empty."""
    if isinstance(X, np.ndarray):
        empty = pa.ListArray.from_arrays(np.zeros(len(X) + 1, np.int32), pa.array([], pa.int32()))
        offsets = np.arange(0, X.size + 1, X.shape[1], dtype=np.int32)
        return [empty, pa.ListArray.from_arrays(offsets, np.ascontiguousarray(X, float).ravel())]
    offsets = X.indptr.astype(np.int32)
    return [
        pa.ListArray.from_arrays(offsets, X.indices.astype(np.int32)),
        pa.ListArray.from_arrays(offsets, np.asarray(X.data, float)),
    ]


class PairReader:
    """Pairs the k-th positive with the k-th negative drawn row.

    Parameters
    ----------
    dimension
        Number of features ``d``.
    """

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.pairs = 0

    def read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Batch]:
        """Differences of the pairs as positive rows, then one negative row of zeros."""
        unpaired: list[Batch] = []
        for batch in batches:
            if batch.num_rows:
                part = batch.column("part").to_numpy().astype(np.uint64)
                positive = batch.column("positive").to_numpy(zero_copy_only=False)
                unpaired.append(Batch(self._rows(batch), positive, None, part))
                rows = stacked(unpaired)
                plus, minus = np.flatnonzero(rows.y), np.flatnonzero(~rows.y)
                count = min(plus.size, minus.size)
                if count:
                    difference = rows.X[plus[:count]] - rows.X[minus[:count]]
                    self.pairs += count
                    yield Batch(difference, np.ones(count, bool), None, rows.keys()[plus[:count]])
                unpaired = [rows.take(np.concatenate([plus[count:], minus[count:]]))]
        if self.pairs:
            zeros = sparse.csr_matrix((1, self.dimension))
            yield Batch(zeros, np.zeros(1, bool), None, np.zeros(1, np.uint64))

    def labels(self) -> LabelCounts:
        """Number of differences (1.0) and of rows of zeros (0.0); empty without pairs."""
        return LabelCounts({1.0: self.pairs, 0.0: 1} if self.pairs else {})

    def _rows(self, batch: pa.RecordBatch) -> Float | sparse.csr_matrix:
        lists = [batch.column(name) for name in ("indices", "values")]
        offsets = lists[1].offsets.to_numpy() - lists[1].offsets[0].as_py()
        indices, values = (part.flatten().to_numpy() for part in lists)
        shape = batch.num_rows, self.dimension
        if values.size and not indices.size:
            return values.reshape(shape)
        return sparse.csr_matrix((values, indices, offsets), shape=shape)
