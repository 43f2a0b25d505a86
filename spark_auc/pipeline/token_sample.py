"""Names of hashed features from a sample of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

import numpy as np
import pyarrow as pa

from spark_auc.core.batch import hashed_shares
from spark_auc.core.row_source import State
from spark_auc.features.token_names import FeatureNames, TokenCounts
from spark_auc.tables.hashes import hashable_names, xxhash64
from spark_auc.tables.raw_features import RawFeatures
from spark_auc.tables.table import Batches, Table

# Rows of the sample, on average, and the most parts of which they are.
_ROWS = 100_000
_PARTS = 32
# Keeps the draw independent of others by the same keys.
_SAMPLE = 0x70E5
_BATCH_ROWS = 10_000
# Bytes of the counts of a task: tokens of a few dozen features.
_STATE_BYTES = 1 << 25


def token_names(
    table: Table, features: RawFeatures, names: Iterable[str], rows: int
) -> dict[str, str]:
    """Names by tokens of hashed features that are called by their numbers.

    The sample is of all rows, or of parts at equal distances of a table of many parts. It depends
    on the rows and not on the partitions of tasks.

    Parameters
    ----------
    table
        The rows.
    features
        Their features.
    names
        Names of features, such as "token 1234"; others are left as they are.
    rows
        Number of rows.

    Raises
    ------
    DataError
        A value is invalid.
    """
    known = FeatureNames(features.recipe)
    places = {name: place for name in names if (place := known.place(name)) is not None}
    if not places:
        return {}
    counted = np.array(sorted(places.values()), np.int64)
    recipe, raw = features.recipe, features.raw
    some, share_of_parts = table.spread(_PARTS)
    share = min(1.0, _ROWS / (rows * share_of_parts))

    width = len(raw.found)

    def drawn(batch: pa.RecordBatch) -> pa.RecordBatch:
        if share == 1.0:
            return batch
        shares = hashed_shares(xxhash64(batch.columns[width:]), 0, _SAMPLE)
        return batch.filter(pa.array(shares < share))

    def fold(batches: Batches) -> Iterator[tuple[str, State]]:
        counts = TokenCounts(counted)
        for batch in _joined(map(drawn, batches)):
            columns = raw.decode(batch.columns[:width])
            counts = counts.merge(TokenCounts.of(recipe, counted, columns))
        yield "tokens", counts

    what = f"tokens of {counted.size} features in a sample"
    selected = some.select([*raw.found, *(hashable_names(some) if share < 1.0 else ())])
    states = selected.fold(fold, (TokenCounts,), state_bytes=_STATE_BYTES, what=what)
    tokens = cast(TokenCounts, states.get("tokens", TokenCounts(counted))).names()
    return {name: f"{name}: {tokens[k]}" for name, k in places.items() if k in tokens}


def _joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of one size or more, as each takes longer to count than its rows."""
    parts, rows = list[pa.RecordBatch](), 0
    for batch in batches:
        parts.append(batch)
        rows += batch.num_rows
        if rows >= _BATCH_ROWS:
            yield from pa.Table.from_batches(parts).combine_chunks().to_batches()
            parts, rows = [], 0
    if rows:
        yield from pa.Table.from_batches(parts).combine_chunks().to_batches()
