"""Names of hashed features from a sample of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_auc.core.batch import hashed_shares
from spark_auc.core.row_source import State
from spark_auc.features.token_names import FeatureNames, TokenCounts
from spark_auc.spark.data.aggregate import aggregate
from spark_auc.spark.data.raw_features import RawFeatures
from spark_auc.spark.data.readers import rows_for_tasks

# Rows of the sample, on average.
_ROWS = 100_000
# Keeps the draw independent of others by the same keys.
_SAMPLE = 0x70E5
# Hashes of rows modulo this number are compared with the share of the sample.
_UNITS = 1 << 30
# Bytes of the counts of a task: tokens of a few dozen features.
_STATE_BYTES = 1 << 25


def token_names(
    df: DataFrame, features: RawFeatures, names: Iterable[str], rows: int
) -> dict[str, str]:
    """Names by tokens of hashed features that are called by their numbers.

    The sample and the names depend on the rows and not on their partitions.

    Parameters
    ----------
    df
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
    recipe, raw, share = features.recipe, features.raw, min(1.0, _ROWS / rows)
    expressions = [column.alias(f"c{k}") for k, column in enumerate(features.expressions())]
    frame, read, _ = rows_for_tasks(df, raw.columns, df.select(*expressions))
    if read is iter:
        # Rows that Spark sends are drawn before they are sent.
        hashed = F.pmod(F.xxhash64(*features.expressions()), F.lit(_UNITS))
        frame, share = df.where(hashed < int(_UNITS * share)).select(*expressions), 1.0

    def drawn(batch: pa.RecordBatch) -> pa.RecordBatch:
        if share == 1.0:
            return batch
        shares = hashed_shares(raw.keys(batch.columns[: raw.width]), 0, _SAMPLE)
        return batch.filter(pa.array(shares < share))

    def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, State]]:
        counts = TokenCounts(counted)
        for batch in map(drawn, read(batches)):
            if batch.num_rows:
                columns = raw.decode(batch.columns[: raw.width])
                counts = counts.merge(TokenCounts.of(recipe, counted, columns))
        yield "tokens", counts

    what = f"tokens of {counted.size} features in a sample"
    states = aggregate(frame, fold, (TokenCounts,), state_bytes=_STATE_BYTES, what=what)
    tokens = cast(TokenCounts, states.get("tokens", TokenCounts(counted))).names()
    return {name: f"{name}: {tokens[k]}" for name, k in places.items() if k in tokens}
