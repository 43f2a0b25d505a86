"""Estimators of random embeddings: Fourier features and thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np
from pyspark import keyword_only
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasStandardization
from pyspark.sql import DataFrame

from spark_auc.core.moments.operator import column_moments
from spark_auc.core.validation import check_above, check_whole
from spark_auc.features.fourier import FourierMap
from spark_auc.features.thresholds import ThresholdMap
from spark_auc.spark.data.features import Features
from spark_auc.spark.features.embedding import EmbeddingEstimator, unlabelled


class HasNumOutputs(Params):
    """How many features an embedding makes."""

    numOutputs: Param[int] = Param(
        Params._dummy(), "numOutputs", "number of embedded features, >= 1.", TypeConverters.toInt
    )


class RandomFourierFeatures(EmbeddingEstimator, HasNumOutputs, HasStandardization):
    """Random Fourier features of the Gaussian kernel, by `spark_auc.features.FourierMap`.

    Parameters
    ----------
    inputCol, numFeatures
        Vector or array column, or list of columns, as for `MBAClassifier`.
    outputCol
        The embedded rows, dense vectors. Default "embedded".
    numOutputs
        Number of features. Default 500, MBA's.
    bandwidth
        The kernel's ``b``; by default the mean squared distance of rows to their mean.
    standardization
        Whether the kernel meets columns divided by their standard deviation. Default True.
    seed
        Of the frequencies and phases.

    Examples
    --------
    >>> from spark_auc import RandomFourierFeatures
    >>> embedding = RandomFourierFeatures(inputCol=["position", "age"], numOutputs=16)
    >>> embedding.fit(rows).transform(rows).first().embedded.size
    16
    """

    bandwidth: Param[float] = Param(
        Params._dummy(),
        "bandwidth",
        "the kernel's bandwidth, > 0; by default the sum of the columns' variances.",
        typeConverter=TypeConverters.toFloat,
    )

    @keyword_only
    def __init__(
        self,
        *,
        inputCol: str | list[str] = "features",
        outputCol: str = "embedded",
        numFeatures: int | None = None,
        numOutputs: int = 500,
        bandwidth: float | None = None,
        standardization: bool = True,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self._setDefault(numOutputs=500, standardization=True)
        given: dict[str, Any] = self._input_kwargs  # type: ignore[attr-defined]
        self.setParams(**given)

    def embedding(self, dataset: DataFrame, features: Features) -> FourierMap:
        """See `EmbeddingEstimator.embedding`."""
        count = self.getOrDefault(self.numOutputs)
        given = self.getOrDefault(self.bandwidth) if self.isDefined(self.bandwidth) else None
        # Before a pass.
        check_whole("numOutputs", count, 1)
        if given is not None:
            check_above("bandwidth", given, 0)
        columns = column_moments(unlabelled(dataset, features))
        standard = self.getOrDefault(self.standardization)
        scale = columns.standard_deviation() if standard else np.ones(features.dimension)
        own = float((columns.variance[1] / scale**2).sum())
        bandwidth = own if given is None else given
        made = FourierMap.random(features.dimension, bandwidth, count, self.getSeed())
        return made.of_columns(scale)


class RandomThresholds(EmbeddingEstimator, HasNumOutputs):
    """Random thresholds of random columns, by `spark_auc.features.ThresholdMap`.

    Parameters
    ----------
    inputCol, numFeatures
        Vector or array column, or list of columns, as for `MBAClassifier`.
    outputCol
        The embedded rows, dense vectors. Default "embedded".
    numOutputs
        Number of features. Default 500, MBA's.
    seed
        Of the columns and thresholds.

    Examples
    --------
    >>> from spark_auc import RandomThresholds
    >>> embedding = RandomThresholds(inputCol=["position", "age"], numOutputs=16)
    >>> embedding.fit(rows).transform(rows).first().embedded.size
    16
    """

    @keyword_only
    def __init__(
        self,
        *,
        inputCol: str | list[str] = "features",
        outputCol: str = "embedded",
        numFeatures: int | None = None,
        numOutputs: int = 500,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self._setDefault(numOutputs=500)
        given: dict[str, Any] = self._input_kwargs  # type: ignore[attr-defined]
        self.setParams(**given)

    def embedding(self, dataset: DataFrame, features: Features) -> ThresholdMap:
        """See `EmbeddingEstimator.embedding`."""
        count = self.getOrDefault(self.numOutputs)
        check_whole("numOutputs", count, 1)
        columns = column_moments(unlabelled(dataset, features))
        deviation = columns.standard_deviation()
        return ThresholdMap.random(columns.mean[1], deviation, count, self.getSeed())
