"""The estimator of a tanh network's hidden layer, drawn at random or trained."""

from __future__ import annotations

from typing import Any

import numpy as np
from pyspark import keyword_only
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasLabelCol, HasMaxIter
from pyspark.sql import DataFrame

from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.operator import column_moments
from spark_auc.core.validation import check_whole
from spark_auc.features.network import NetworkMap
from spark_auc.spark.data.columns import TrainingColumns
from spark_auc.spark.data.features import Features
from spark_auc.spark.data.rows import DistributedRows
from spark_auc.spark.features.embedding import EmbeddingEstimator, sampled, unlabelled
from spark_auc.spark.features.random_features import HasNumOutputs
from spark_auc.spark.params import HasPositiveLabel


class TanhNetwork(EmbeddingEstimator, HasNumOutputs, HasLabelCol, HasPositiveLabel, HasMaxIter):
    """The hidden layer of a tanh network of standardised columns, by `NetworkMap`.

    Parameters
    ----------
    inputCol, numFeatures
        Vector or array column, or list of columns, as for `MBAClassifier`.
    outputCol
        The embedded rows, dense vectors. Default "embedded".
    numOutputs
        Width of the layer; by default 500 of a random and ``d / 2`` of a trained one (MBA).
    trained
        False (default): weights are random. True: they are trained by log loss, in the driver,
        on a sample of labelled rows.
    labelCol, positiveLabel
        As for `MBAClassifier`, where it is trained.
    sampleSize
        Rows to train on, by their hash. Default 20,000.
    maxIter
        Most iterations of training. Default 200.
    seed
        Of the weights, of where training begins, and of the sample.

    Examples
    --------
    >>> from spark_auc import TanhNetwork
    >>> embedding = TanhNetwork(inputCol=["position", "age"], numOutputs=16)
    >>> embedding.fit(rows).transform(rows).first().embedded.size
    16
    """

    trained: Param[bool] = Param(
        Params._dummy(),
        "trained",
        "whether weights are trained, on a sample in the driver, or random.",
        typeConverter=TypeConverters.toBoolean,
    )
    sampleSize: Param[int] = Param(
        Params._dummy(), "sampleSize", "rows to train on, >= 1.", TypeConverters.toInt
    )

    @keyword_only
    def __init__(
        self,
        *,
        inputCol: str | list[str] = "features",
        outputCol: str = "embedded",
        numFeatures: int | None = None,
        numOutputs: int | None = None,
        trained: bool = False,
        labelCol: str = "label",
        positiveLabel: float | str | bool | None = None,
        sampleSize: int = 20_000,
        maxIter: int = 200,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self._setDefault(trained=False, sampleSize=20_000, maxIter=200)
        given: dict[str, Any] = self._input_kwargs  # type: ignore[attr-defined]
        self.setParams(**given)

    def embedding(self, dataset: DataFrame, features: Features) -> NetworkMap:
        """See `EmbeddingEstimator.embedding`."""
        width, seed = self.optional(self.numOutputs), self.getSeed()
        size = self.getOrDefault(self.sampleSize)
        # Before a pass, and because 0 is not "not given".
        if width is not None:
            check_whole("numOutputs", width, 1)
        check_whole("sampleSize", size, 1)
        if not self.getOrDefault(self.trained):
            columns = column_moments(unlabelled(dataset, features))
            made = NetworkMap.random(features.dimension, width or 500, seed=seed)
            return made.of_columns(*_units(columns))
        labelled = TrainingColumns.resolve(
            dataset, features, self.getLabelCol(), self.optional(self.positiveLabel)
        )
        rows = DistributedRows.of(dataset, labelled)
        columns = column_moments(rows)
        mean, scale = _units(columns)
        sample = sampled(rows, columns, size, seed)
        X = sample.X if isinstance(sample.X, np.ndarray) else sample.X.toarray()
        made = NetworkMap.trained(
            (X - mean) / scale, sample.y, features=width, max_iter=self.getMaxIter(), seed=seed
        )
        return made.of_columns(mean, scale)


def _units(columns: ColumnMoments) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation ``(d,)`` of each column."""
    mean = columns.weight @ columns.mean / columns.weight.sum()
    return mean, columns.standard_deviation()
