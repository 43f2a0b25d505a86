"""Click data in Criteo's layout with planted weights, so that the best AUC possible is known.

A row has one token in each field. Field f of n has V_f tokens, from 3 to 10^6 in geometric steps,
of Zipf-like popularity: P(token r) = log(1 + 1/r) / log(1 + V_f). Tokens are hashed into
``dimension`` columns, each with a weight drawn from N(0, 1). With z the row's score, shifted and
scaled to mean 0 and variance 1 over such rows,

    P(label = 1) = 1 / (1 + exp(-(bias + strength z))).

No model can rank better than P. Its AUC and the positive rate are what the caller asks for, and
determine strength and bias.

Every draw is a hash of (seed, row id, field), whence a row depends on neither partitioning nor
the number of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DoubleType, LongType, StructField, StructType
from scipy.optimize import brentq
from scipy.special import expit, ndtri

from spark_auc.errors import ConfigError

Float = NDArray[np.float64]
Hash = NDArray[np.uint64]

FEWEST_TOKENS, MOST_TOKENS = 3, 10**6
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
    rows
        Number of rows.
    dimension
        Number of hashed columns.
    positive_rate
        Expected share of label 1, in (0, 1).
    ceiling
        AUC of the true probability, in [0.51, 0.99]: the best that any model can reach. Low is
        difficult. Met to about 0.002; `best_auc` tells what it came to.
    seed
        Any integer; a seed has its own tokens, weights and rows.
    nonzeros
        Number of fields.
    partitions
        Number of Spark partitions, Spark's default if None.
    with_probability
        Whether to add the true probability.

    Returns
    -------
    DataFrame
        ``id`` (long, 0 .. rows - 1), ``label`` (double, 0 or 1), ``features`` (sparse vector of
        unit length: tokens of a row that collide add up, all others are equal) and, if asked
        for, ``probability`` (double).

    Raises
    ------
    ConfigError
        If ``positive_rate`` or ``ceiling`` is out of range.
    """
    clicks = _Clicks.calibrated(dimension, nonzeros, seed, positive_rate, ceiling)
    schema = StructType(
        [
            StructField("id", LongType(), nullable=False),
            StructField("label", DoubleType(), nullable=False),
            StructField("features", VectorUDT(), nullable=False),
            *([StructField("probability", DoubleType(), nullable=False)] * with_probability),
        ]
    )

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
    """Estimate the AUC of the true probability of `click_data` of the same arguments.

    The expected AUC over the labels, in closed form, of a sample of ``rows`` rows drawn as the
    data are but apart from them. No Spark.
    """
    clicks = _Clicks.calibrated(dimension, nonzeros, seed, positive_rate, ceiling)
    first = 2**61
    chunks = np.split(np.arange(first, first + rows), range(2**15, rows, 2**15))
    scores = np.concatenate([clicks.scores(clicks.sparse(ids)) for ids in chunks])
    return _expected_auc(clicks.probability(np.sort(scores)))


@dataclass(frozen=True)
class _Clicks:
    """The distribution: all it takes to draw any row."""

    dimension: int
    nonzeros: int
    seed: int
    bias: float = 0.0
    slope: float = 1.0
