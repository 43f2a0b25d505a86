"""Estimators of random embeddings: Fourier features and thresholds."""

from __future__ import annotations

from typing import Annotated, Unpack

from spark_auc.core.moments.operator import column_moments
from spark_auc.features.embedding import Embedding
from spark_auc.features.fourier import FourierMap
from spark_auc.features.thresholds import ThresholdMap
from spark_auc.pipeline.settings import Range, Setting
from spark_auc.spark.features.column_scales import REPLACED, Scale, ScaleSettings, resolved
from spark_auc.spark.features.embedding import EmbeddingEstimator, EmbeddingSettings, unlabelled
from spark_auc.tables.features import Features
from spark_auc.tables.table import Table


class OutputSettings(EmbeddingSettings, total=False):
    """The number of features that a random embedding makes."""

    numOutputs: Annotated[int, Setting("Number of embedded features.", 500, Range(ge=1))]


class FourierSettings(OutputSettings, ScaleSettings, total=False):
    """Settings of `RandomFourierFeatures`."""

    seed: Annotated[int, Setting("Seed of the frequencies and phases.", 0, Range(ge=0))]


class ThresholdSettings(OutputSettings, total=False):
    """Settings of `RandomThresholds`."""

    seed: Annotated[int, Setting("Seed of the columns and thresholds.", 0, Range(ge=0))]


class RandomFourierFeatures(
    EmbeddingEstimator,
    settings=FourierSettings,
    absent={"standardization": REPLACED},
):
    """Random Fourier features of the Gaussian kernel, by `spark_auc.features.FourierMap`.

    The embedded rows are dense vectors.

    Raises
    ------
    ConfigError
        A Param is out of range; by ``fit``, a Param or column cannot serve.
    DataError
        By ``fit``: a value cannot be used.

    Examples
    --------
    >>> from spark_auc import RandomFourierFeatures
    >>> embedding = RandomFourierFeatures(inputCol=["position", "age"], numOutputs=16)
    >>> embedding.fit(rows).transform(rows).first().embedded.size
    16
    """

    def __init__(self, **params: Unpack[FourierSettings]) -> None:
        super().__init__(**params)

    def embedding(self, table: Table, features: Features) -> Embedding:
        """See `EmbeddingEstimator.embedding`."""
        values: FourierSettings = self.values()
        scaling = resolved(values["scaling"], features)
        scale = Scale.of(unlabelled(table, features, missing=scaling == "robust"), scaling)
        bandwidth = scale.bandwidth(values["bandwidth"])
        made = FourierMap.random(
            features.dimension, bandwidth, values["numOutputs"], values["seed"]
        )
        return scale.before(made.of_columns(scale.divisors))


class RandomThresholds(EmbeddingEstimator, settings=ThresholdSettings):
    """Random thresholds of random columns, by `spark_auc.features.ThresholdMap`.

    The embedded rows are dense vectors.

    Raises
    ------
    ConfigError
        A Param is out of range; by ``fit``, a Param or column cannot serve.
    DataError
        By ``fit``: a value cannot be used.

    Examples
    --------
    >>> from spark_auc import RandomThresholds
    >>> embedding = RandomThresholds(inputCol=["position", "age"], numOutputs=16)
    >>> embedding.fit(rows).transform(rows).first().embedded.size
    16
    """

    def __init__(self, **params: Unpack[ThresholdSettings]) -> None:
        super().__init__(**params)

    def embedding(self, table: Table, features: Features) -> ThresholdMap:
        """See `EmbeddingEstimator.embedding`."""
        values: ThresholdSettings = self.values()
        columns = column_moments(unlabelled(table, features))
        deviation = columns.standard_deviation()
        return ThresholdMap.random(columns.mean[1], deviation, values["numOutputs"], values["seed"])
