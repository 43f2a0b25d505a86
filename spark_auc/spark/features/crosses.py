"""Products of pairs of features of sparse rows, as a stage."""

from __future__ import annotations

from typing import Any

from pyspark import keyword_only
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.sql import DataFrame

from spark_auc.features.crosses import CrossMap
from spark_auc.spark.data.features import Features
from spark_auc.spark.features.embedding import EmbeddingEstimator


class FeatureCrosses(EmbeddingEstimator):
    """A row's features and hashed products of all pairs of them, by `CrossMap`.

    Meant for sparse categorical rows; ``fit`` only finds out the number of features.

    Parameters
    ----------
    inputCol, numFeatures
        Vector or array column, or list of columns, as for `MBAClassifier`.
    outputCol
        The embedded rows, sparse vectors. Default "embedded".
    numBits
        Pairs share ``2^numBits`` columns. Default 18.
    seed
        Of the hash.

    Examples
    --------
    >>> from spark_auc import FeatureCrosses
    >>> embedding = FeatureCrosses(inputCol="features", numFeatures=2, numBits=4)
    >>> embedding.fit(rows).transform(rows).first().embedded.size
    18
    """

    numBits: Param[int] = Param(
        Params._dummy(), "numBits", "pairs share 2^numBits columns.", TypeConverters.toInt
    )

    @keyword_only
    def __init__(
        self,
        *,
        inputCol: str | list[str] = "features",
        outputCol: str = "embedded",
        numFeatures: int | None = None,
        numBits: int = 18,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self._setDefault(numBits=18)
        given: dict[str, Any] = self._input_kwargs  # type: ignore[attr-defined]
        self.setParams(**given)

    def embedding(self, dataset: DataFrame, features: Features) -> CrossMap:
        """See `EmbeddingEstimator.embedding`."""
        return CrossMap(features.dimension, self.getOrDefault(self.numBits), self.getSeed())
