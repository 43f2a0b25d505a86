"""The estimator of the Nystroem embedding: a kernel by landmarks (Khalid et al., 2018)."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from pyspark import keyword_only
from pyspark.ml.clustering import KMeans
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasMaxIter, HasStandardization
from pyspark.sql import DataFrame

from spark_auc.core.batch import divided
from spark_auc.core.moments.operator import column_moments
from spark_auc.core.types import Float, Rows
from spark_auc.core.validation import check_whole
from spark_auc.errors import ConfigError, DataError
from spark_auc.features.kernels import Kernel
from spark_auc.features.nystroem import NystroemMap
from spark_auc.spark.data.encoders import vectors_frame
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.features import Features
from spark_auc.spark.features.embedding import EmbeddingEstimator, sampled, unlabelled
from spark_auc.spark.params import one_of

_log = logging.getLogger(__name__)


class NystroemEmbedding(EmbeddingEstimator, HasStandardization, HasMaxIter):
    """Features whose inner products approximate a kernel, by `spark_auc.features.NystroemMap`.

    With `RankSVMClassifier` behind it this is NBAUC, with `NSAUCClassifier` NSAUC (Khalid et
    al.); with `MBAClassifier` it needs one pass and no step size.

    Parameters
    ----------
    inputCol, numFeatures
        Vector or array column, or list of columns, as for `MBAClassifier`.
    outputCol
        The embedded rows, dense vectors. Default "embedded".
    numLandmarks
        Number ``v`` of landmarks, at least 2 of k-means. Default 1600, the paper's.
    landmarks
        "kmeans" (default): centres of Spark ML's KMeans. "sample": rows, by their hash.
    sampleSize
        Rows that k-means takes, by their hash. Default 80,000.
    kernel
        "gaussian" (default), "laplacian", "polynomial" or "linear"; see
        `spark_auc.features.kernels.Kernel`.
    bandwidth
        The kernel's ``b``; by default the mean squared distance of rows to their mean, the
        paper's rule, in columns as the kernel meets them.
    degree, offset
        Of the polynomial kernel. Default 2 and 1.
    rank
        Most features to keep; by default all whose eigenvalue is above rounding.
    standardization
        Whether the kernel meets columns divided by their standard deviation. Default True.
    maxIter
        Most iterations of k-means. Default 20.
    seed
        Of sample and k-means.

    Raises
    ------
    ConfigError
        By ``fit``: a Param or column cannot serve.
    DataError
        By ``fit``: a value cannot be used, or rows do not differ.
    ResourceError
        By ``fit``: memory does not suffice.

    Examples
    --------
    >>> from spark_auc import NystroemEmbedding
    >>> columns = ["position", "age"]
    >>> embedding = NystroemEmbedding(inputCol=columns, numLandmarks=8, landmarks="sample")
    >>> embedding.fit(rows).transform(rows).first().embedded.size
    8
    """

    numLandmarks: Param[int] = Param(
        Params._dummy(), "numLandmarks", "number of landmarks, >= 1.", TypeConverters.toInt
    )
    landmarks: Param[str] = Param(
        Params._dummy(),
        "landmarks",
        "'kmeans': centres of k-means; 'sample': rows, by their hash.",
        typeConverter=one_of("landmarks", "kmeans", "sample"),
    )
    sampleSize: Param[int] = Param(
        Params._dummy(), "sampleSize", "rows that k-means takes, >= 1.", TypeConverters.toInt
    )
    kernel: Param[str] = Param(
        Params._dummy(),
        "kernel",
        "the kernel: 'gaussian', 'laplacian', 'polynomial' or 'linear'.",
        typeConverter=one_of("kernel", "gaussian", "laplacian", "polynomial", "linear"),
    )
    bandwidth: Param[float] = Param(
        Params._dummy(),
        "bandwidth",
        "the kernel's bandwidth, > 0; by default the sum of the columns' variances.",
        typeConverter=TypeConverters.toFloat,
    )
    degree: Param[int] = Param(
        Params._dummy(), "degree", "degree of the polynomial kernel, >= 1.", TypeConverters.toInt
    )
    offset: Param[float] = Param(
        Params._dummy(), "offset", "offset of the polynomial kernel.", TypeConverters.toFloat
    )
    rank: Param[int] = Param(
        Params._dummy(), "rank", "most features to keep, >= 1.", TypeConverters.toInt
    )

    @keyword_only
    def __init__(
        self,
        *,
        inputCol: str | list[str] = "features",
        outputCol: str = "embedded",
        numFeatures: int | None = None,
        numLandmarks: int = 1600,
        landmarks: str = "kmeans",
        sampleSize: int = 80_000,
        kernel: str = "gaussian",
        bandwidth: float | None = None,
        degree: int = 2,
        offset: float = 1.0,
        rank: int | None = None,
        standardization: bool = True,
        maxIter: int = 20,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self._setDefault(
            numLandmarks=1600,
            landmarks="kmeans",
            sampleSize=80_000,
            kernel="gaussian",
            degree=2,
            offset=1.0,
            standardization=True,
            maxIter=20,
        )
        given: dict[str, Any] = self._input_kwargs  # type: ignore[attr-defined]
        self.setParams(**given)

    def embedding(self, dataset: DataFrame, features: Features) -> NystroemMap:
        """See `EmbeddingEstimator.embedding`."""
        count, size = self.getOrDefault(self.numLandmarks), self.getOrDefault(self.sampleSize)
        kmeans = self.getOrDefault(self.landmarks) == "kmeans"
        least = 2 if kmeans else 1
        if count < least or (kmeans and size < count):
            raise ConfigError(
                f"found numLandmarks {count} and sampleSize {size}, expected numLandmarks >= "
                f"{least} and sampleSize of at least as many; set them so"
            )
        # Whatever is wrong with these is told before a pass.
        kernel, rank = self._kernel(1.0), self.optional(self.rank)
        if rank is not None:
            check_whole("rank", rank, 1)
        rows = unlabelled(dataset, features)
        columns = column_moments(rows)
        standard = self.getOrDefault(self.standardization)
        scale = columns.standard_deviation() if standard else np.ones(features.dimension)
        if not self.isDefined(self.bandwidth):
            found = float((columns.variance[1] / scale**2).sum())
            if not 0 < found < np.inf:
                raise DataError(
                    f"found rows whose columns have a variance of {found} in all, expected one "
                    "above 0; give rows that differ"
                )
            kernel = self._kernel(found)
        sample = sampled(rows, columns, size if kmeans else count, self.getSeed())
        X = divided(sample.X, scale)
        landmarks = self._centres(dataset, X, count) if kmeans else X
        if landmarks.shape[0] < count:
            _log.warning(
                "found %d landmarks, expected numLandmarks %d: the rows that differ are too few; "
                "the embedding has fewer features",
                landmarks.shape[0],
                count,
            )
        return NystroemMap.of_landmarks(landmarks, kernel, rank, scale)

    def _kernel(self, bandwidth: float) -> Kernel:
        given = self.optional(self.bandwidth)
        return Kernel(
            self.getOrDefault(self.kernel),
            bandwidth if given is None else given,
            self.getOrDefault(self.degree),
            self.getOrDefault(self.offset),
        )

    def _centres(self, dataset: DataFrame, X: Rows, count: int) -> Float:
        """Centres ``(v, d)`` of k-means."""
        frame = vectors_frame(dataset.sparkSession, X, "row")
        kmeans = KMeans(featuresCol="row", k=count, maxIter=self.getMaxIter(), seed=self.getSeed())
        with translated():
            return np.array(kmeans.fit(frame).clusterCenters())
