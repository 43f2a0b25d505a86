"""Products of pairs of features of sparse rows, as a stage."""

from __future__ import annotations

from typing import Annotated, Unpack

from spark_auc.features.crosses import CrossMap
from spark_auc.pipeline.settings import Range, Setting
from spark_auc.spark.features.embedding import EmbeddingEstimator, EmbeddingSettings
from spark_auc.tables.features import Features
from spark_auc.tables.table import Table


class CrossesSettings(EmbeddingSettings, total=False):
    """Settings of `FeatureCrosses`."""

    numBits: Annotated[int, Setting("Pairs share 2^numBits columns.", 18, Range(ge=1, le=30))]
    seed: Annotated[int, Setting("Seed of the hash.", 0, Range(ge=0))]


class FeatureCrosses(EmbeddingEstimator, settings=CrossesSettings):
    """A row's features and hashed products of all pairs of them, by `CrossMap`.

    Meant for sparse categorical rows; the embedded rows are sparse vectors. ``fit`` reads the
    number of features only.

    Raises
    ------
    ConfigError
        A Param is out of range; by ``fit``, a Param or column cannot serve.

    Examples
    --------
    >>> from spark_auc import FeatureCrosses
    >>> embedding = FeatureCrosses(inputCol="features", numFeatures=2, numBits=4)
    >>> embedding.fit(rows).transform(rows).first().embedded.size
    18
    """

    def __init__(self, **params: Unpack[CrossesSettings]) -> None:
        super().__init__(**params)

    def embedding(self, table: Table, features: Features) -> CrossMap:
        """See `EmbeddingEstimator.embedding`."""
        values: CrossesSettings = self.values()
        return CrossMap(features.dimension, values["numBits"], values["seed"])
