"""Generate click data like Criteo's with known weights, and so with a known best AUC.

A row has one token in each field. Field f of n has V_f tokens, from 3 to 10^6 in geometric steps,
with probabilities P(token r) = log(1 + 1/r) / log(1 + V_f). Tokens are hashed into ``dimension``
columns, each with a weight drawn from N(0, 1). With z the row's score, standardized to mean 0 and
variance 1 over the distribution,

    P(label = 1) = 1 / (1 + exp(-(bias + strength z))).

The probability P ranks best of all models. Its AUC and the positive rate are parameters, and
determine strength and bias.

Each random number is a hash of seed, row id and field. A row therefore depends neither on the
partitions nor on the number of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DoubleType, LongType, StructField, StructType
from scipy.optimize import brentq
from scipy.sparse import csr_array
from scipy.special import expit, logit, ndtri

from spark_auc.core.evaluation.roc import expected_auc
from spark_auc.core.types import Float
from spark_auc.errors import ConfigError

Hash = NDArray[np.uint64]

FEWEST_TOKENS, MOST_TOKENS = 3, 10**6
# First ids of rows for calibration and for `best_auc`; data sets use ids below them.
CALIBRATION_IDS, SAMPLE_IDS = 2**48, 2**49
CALIBRATION_ROWS = 2**16


def click_data(
    spark: SparkSession,
    rows: int,
    dimension: int,
    positive_rate: float,
    ceiling: float,
    seed: int,
    nonzeros: int = 39,
    partitions: int | None = None,
    with_probability: bool = False,
) -> DataFrame:
    """Generate click data on the executors.

    Parameters
    ----------
    spark
        The session.
    rows
        Number of rows.
    dimension
        Number of hashed columns.
    positive_rate
        Expected share of label 1, in (0, 1).
    ceiling
        AUC of the true probability, in (0.5, 1): the best AUC of any model. The data reach it to
        about 0.002; `best_auc` estimates the exact value.
    seed
        An integer that determines tokens, weights and rows.
    nonzeros
        Number of fields.
    partitions
        Number of Spark partitions; None for Spark's default.
    with_probability
        Whether to add a column with the true probability.

    Returns
    -------
    DataFrame
        ``id`` (long, 0 .. rows - 1), ``label`` (double, 0 or 1), ``features`` (sparse vector of
        unit length, whose entries are proportional to the number of tokens in a column) and, if
        ``with_probability``, ``probability`` (double).

    Raises
    ------
    ConfigError
        ``dimension``, ``positive_rate`` or ``ceiling`` is out of range.
    """
    clicks = _Clicks.calibrated(dimension, nonzeros, seed, positive_rate, ceiling)
    schema = StructType(
        [
            StructField("id", LongType(), nullable=False),
            StructField("label", DoubleType(), nullable=False),
            StructField("features", VectorUDT(), nullable=False),
        ]
    )
    if with_probability:
        schema.add("probability", DoubleType(), nullable=False)

    def generate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield clicks.batch(batch.column("id").to_numpy(), with_probability)

    return spark.range(0, rows, 1, partitions).mapInArrow(generate, schema)


def best_auc(
    dimension: int,
    positive_rate: float,
    ceiling: float,
    seed: int,
    nonzeros: int = 39,
    rows: int = 2**18,
) -> float:
    """Estimate the AUC of the true probability of `click_data` with the same parameters.

    It generates ``rows`` feature rows that are in no data set, and averages the AUC over random
    labels in closed form. It needs no Spark.

    Parameters
    ----------
    dimension, positive_rate, ceiling, seed, nonzeros
        See `click_data`.
    rows
        Number of rows of the sample.
    """
    clicks = _Clicks.calibrated(dimension, nonzeros, seed, positive_rate, ceiling)
    chunks = np.array_split(np.arange(SAMPLE_IDS, SAMPLE_IDS + rows), rows // 2**15 + 1)
    logits = np.concatenate([clicks.logits(clicks.features(ids)) for ids in chunks])
    return expected_auc(expit(np.sort(logits)))


@dataclass(frozen=True)
class _Clicks:
    """The distribution of the rows; a row is a function of the distribution and its id."""

    dimension: int
    nonzeros: int
    seed: int
    intercept: float = 0.0
    slope: float = 1.0

    @classmethod
    def calibrated(
        cls, dimension: int, nonzeros: int, seed: int, positive_rate: float, ceiling: float
    ) -> _Clicks:
        """Find the intercept and the slope that give this positive rate and AUC, on a sample."""
        if dimension < 2:
            raise ConfigError(f"found dimension = {dimension}; expected 2 or more")
        if not 0 < positive_rate < 1:
            raise ConfigError(f"found positive_rate = {positive_rate}; expected it in (0, 1)")
        unscaled = cls(dimension, nonzeros, seed)
        ids = np.arange(CALIBRATION_IDS, CALIBRATION_IDS + CALIBRATION_ROWS)
        scores = np.sort(unscaled.logits(unscaled.features(ids)))
        mean, sd = scores.mean(), scores.std()
        z = (scores - mean) / sd

        def bias(strength: float) -> float:
            middle, reach = logit(positive_rate), strength * np.abs(z).max()
            return float(
                brentq(
                    lambda b: expit(b + strength * z).mean() - positive_rate,
                    middle - reach,
                    middle + reach,
                )
            )

        def auc(strength: float) -> float:
            return expected_auc(expit(bias(strength) + strength * z))

        weakest, strongest = 0.01, 100.0
        lowest, highest = auc(weakest), auc(strongest)
        if not lowest <= ceiling <= highest:
            raise ConfigError(
                f"found ceiling = {ceiling}; expected an AUC in [{lowest:.3f}, {highest:.3f}]"
            )
        strength = brentq(lambda s: auc(s) - ceiling, weakest, strongest, xtol=1e-6)
        slope = float(strength / sd)
        return replace(unscaled, intercept=bias(strength) - slope * float(mean), slope=slope)

    def features(self, ids: NDArray[np.int64]) -> csr_array:
        """Draw the feature rows (n, dimension) of these ids, indices ascending."""
        columns = np.sort(self._columns(ids), axis=1)
        first = np.ones(columns.shape, dtype=bool)
        np.not_equal(columns[:, 1:], columns[:, :-1], out=first[:, 1:])
        offsets = np.append(0, np.cumsum(first.sum(axis=1))).astype(np.int32)
        starts = np.flatnonzero(first)
        counts = np.diff(starts, append=columns.size).astype(np.float64)
        lengths = np.sqrt(np.add.reduceat(counts**2, offsets[:-1]))
        values = counts / np.repeat(lengths, np.diff(offsets))
        return csr_array((values, columns.ravel()[starts], offsets), (len(ids), self.dimension))

    def logits(self, features: csr_array) -> Float:
        """Return the log-odds (n,) of label 1."""
        scores: Float = features @ self._weights
        return self.intercept + self.slope * scores

    def batch(self, ids: NDArray[np.int64], with_probability: bool) -> pa.RecordBatch:
        """Draw the rows of these ids, in the layout of `click_data`."""
        features = self.features(ids)
        probability = expit(self.logits(features))
        label = (self._uniform("label", ids.astype(np.uint64)) < probability).astype(np.float64)
        vectors = pa.StructArray.from_arrays(
            [
                # VectorUDT's type of sparse vectors.
                np.zeros(len(ids), dtype=np.int8),
                np.full(len(ids), self.dimension, dtype=np.int32),
                pa.ListArray.from_arrays(features.indptr, features.indices),
                pa.ListArray.from_arrays(features.indptr, features.data),
            ],
            names=["type", "size", "indices", "values"],
        )
        columns = {"id": ids, "label": label, "features": vectors}
        if with_probability:
            columns["probability"] = probability
        return pa.RecordBatch.from_pydict(columns)

    def _columns(self, ids: NDArray[np.int64]) -> NDArray[np.int32]:
        """Draw the hashed column (n, nonzeros) of each field's token."""
        fields = np.arange(self.nonzeros, dtype=np.uint64)
        most = np.log1p(np.geomspace(FEWEST_TOKENS, MOST_TOKENS, self.nonzeros).round())
        counter = ids.astype(np.uint64)[:, np.newaxis] * np.uint64(self.nonzeros) + fields
        token = np.exp(self._uniform("token", counter) * most).astype(np.uint64)
        hashed = self._hash("column", token + (fields << np.uint64(32)))
        # Scaling the high 32 bits to the dimension is much faster than a remainder.
        hashed >>= np.uint64(32)
        hashed *= np.uint64(self.dimension)
        hashed >>= np.uint64(32)
        return hashed.astype(np.int32)

    @cached_property
    def _weights(self) -> Float:
        # Not a field: tasks draw the weights instead of receiving them with the closure.
        weights: Float = ndtri(self._uniform("weight", np.arange(self.dimension, dtype=np.uint64)))
        return weights

    def _uniform(self, stream: str, counter: Hash) -> Float:
        """Draw one number in (0, 1) for each counter."""
        high = self._hash(stream, counter) >> np.uint64(11)
        return (high.astype(np.float64) + 0.5) * 2.0**-53

    def _hash(self, stream: str, counter: Hash) -> Hash:
        """Hash (seed, stream, counter) by splitmix64 (Steele, Lea & Flood 2014)."""
        key = blake2b(f"{self.seed} {stream}".encode(), digest_size=8).digest()
        z = counter * np.uint64(0x9E3779B97F4A7C15)
        z += np.uint64(int.from_bytes(key, "little"))
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            z ^= z >> np.uint64(shift)
            z *= np.uint64(factor)
        z ^= z >> np.uint64(31)
        return z
