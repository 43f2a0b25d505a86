"""Estimators of random embeddings: Fourier features and thresholds."""

from __future__ import annotations

from typing import Annotated, TypedDict, Unpack

import numpy as np
from pyspark.ml.param.shared import HasSeed, HasStandardization
from pyspark.sql import DataFrame

from spark_auc.core.moments.operator import column_moments
from spark_auc.features.fourier import FourierMap
from spark_auc.features.thresholds import ThresholdMap
from spark_auc.spark.data.features import Features
from spark_auc.spark.features.embedding import EmbeddingEstimator, EmbeddingSettings, unlabelled
from spark_auc.spark.settings import Range, Setting


class OutputSettings(EmbeddingSettings, total=False):
    """The number of features that a random embedding makes."""

    numOutputs: Annotated[int, Setting("Number of embedded features.", 500, Range(ge=1))]


class KernelSettings(TypedDict, total=False):
    """The columns that a kernel takes, and its bandwidth."""

    bandwidth: Annotated[
        float | None,
        Setting(
            "The kernel's bandwidth b; by default the mean squared distance of rows to their "
            "mean, in the columns that the kernel takes.",
            None,
            Range(gt=0),
        ),
    ]
    standardization: Annotated[
        bool,
        Setting("Whether the kernel takes columns divided by their standard deviation.", True),
    ]


class FourierSettings(OutputSettings, KernelSettings, total=False):
    """Settings of `RandomFourierFeatures`."""

    seed: Annotated[int, Setting("Seed of the frequencies and phases.", 0, Range(ge=0))]


class ThresholdSettings(OutputSettings, total=False):
    """Settings of `RandomThresholds`."""

    seed: Annotated[int, Setting("Seed of the columns and thresholds.", 0, Range(ge=0))]


class RandomFourierFeatures(
    EmbeddingEstimator, HasStandardization, HasSeed, settings=FourierSettings
):
    """Random Fourier features of the Gaussian kernel, by `spark_auc.features.FourierMap`.

    The embedded rows are dense vectors.

    Raises
    ------
    TypeError
        A Param is unknown or of another type.
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

    def embedding(self, dataset: DataFrame, features: Features) -> FourierMap:
        """See `EmbeddingEstimator.embedding`."""
        values: FourierSettings = self.values()
        columns = column_moments(unlabelled(dataset, features))
        standard = values["standardization"]
        scale = columns.standard_deviation() if standard else np.ones(features.dimension)
        bandwidth = values["bandwidth"]
        if bandwidth is None:
            bandwidth = float((columns.variance[1] / scale**2).sum())
        made = FourierMap.random(
            features.dimension, bandwidth, values["numOutputs"], values["seed"]
        )
        return made.of_columns(scale)


class RandomThresholds(EmbeddingEstimator, HasSeed, settings=ThresholdSettings):
    """Random thresholds of random columns, by `spark_auc.features.ThresholdMap`.

    The embedded rows are dense vectors.

    Raises
    ------
    TypeError
        A Param is unknown or of another type.
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

    def embedding(self, dataset: DataFrame, features: Features) -> ThresholdMap:
        """See `EmbeddingEstimator.embedding`."""
        values: ThresholdSettings = self.values()
        columns = column_moments(unlabelled(dataset, features))
        deviation = columns.standard_deviation()
        return ThresholdMap.random(columns.mean[1], deviation, values["numOutputs"], values["seed"])
