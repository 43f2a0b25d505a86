"""Names of hashed features from a sample of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_auc.core.row_source import State
from spark_auc.features.token_names import FeatureNames, TokenCounts
from spark_auc.spark.data.aggregate import aggregate
from spark_auc.spark.data.raw_features import RawFeatures

# Rows of the sample, on average.
_ROWS = 100_000
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
    expressions = features.expressions()
    drawn = F.pmod(F.xxhash64(*expressions), F.lit(_UNITS)) < int(_UNITS * min(1.0, _ROWS / rows))
    recipe, raw = features.recipe, features.raw

    def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, State]]:
        counts = TokenCounts(counted)
        for batch in batches:
            if batch.num_rows:
                counts = counts.merge(TokenCounts.of(recipe, counted, raw.decode(batch.columns)))
        yield "tokens", counts

    states = aggregate(
        df.where(drawn).select(*(c.alias(f"c{k}") for k, c in enumerate(expressions))),
        fold,
        (TokenCounts,),
        state_bytes=_STATE_BYTES,
        what=f"tokens of {counted.size} features in a sample",
    )
    tokens = cast(TokenCounts, states.get("tokens", TokenCounts(counted))).names()
    return {name: f"{name}: {tokens[k]}" for name, k in places.items() if k in tokens}
