"""The estimator of the Nystroem embedding: a kernel by landmarks (Khalid et al., 2018)."""

from __future__ import annotations

import logging
from typing import Annotated, Literal, Unpack

import numpy as np
import pyarrow as pa
from pyspark.ml.clustering import KMeans
from pyspark.ml.linalg import VectorUDT
from pyspark.sql.types import StructField, StructType

from spark_auc.core.batch import divided
from spark_auc.core.types import Float, Rows
from spark_auc.errors import ConfigError
from spark_auc.features.embedding import Embedding
from spark_auc.features.kernels import Kernel
from spark_auc.features.nystroem import NystroemMap
from spark_auc.pipeline.settings import Range, Setting
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.spark_table import spark_of
from spark_auc.spark.features.column_scales import REPLACED, Scale, ScaleSettings, resolved
from spark_auc.spark.features.embedding import (
    EmbeddingEstimator,
    EmbeddingSettings,
    sampled,
    unlabelled,
)
from spark_auc.tables.encoders import encode_vectors
from spark_auc.tables.features import Features
from spark_auc.tables.table import Table

_log = logging.getLogger(__name__)


class NystroemSettings(EmbeddingSettings, ScaleSettings, total=False):
    """Settings of `NystroemEmbedding`."""

    numLandmarks: Annotated[
        int,
        Setting(
            "Number v of landmarks, at least 2 of k-means; the paper's is 1600.", 1600, Range(ge=1)
        ),
    ]
    landmarks: Annotated[
        Literal["kmeans", "sample"],
        Setting("'kmeans': centres of Spark ML's KMeans; 'sample': rows, by their hash.", "kmeans"),
    ]
    sampleSize: Annotated[
        int, Setting("Rows that k-means takes, by their hash.", 80_000, Range(ge=1))
    ]
    kernel: Annotated[
        Literal["gaussian", "laplacian", "polynomial", "linear"],
        Setting("The kernel; see spark_auc.features.kernels.Kernel.", "gaussian"),
    ]
    degree: Annotated[int, Setting("Degree of the polynomial kernel.", 2, Range(ge=1))]
    offset: Annotated[float, Setting("Offset of the polynomial kernel.", 1.0, Range(ge=0))]
    rank: Annotated[
        int | None,
        Setting(
            "Most features to keep; by default all whose eigenvalue is above rounding.",
            None,
            Range(ge=1),
        ),
    ]
    maxIter: Annotated[int, Setting("Most iterations of k-means.", 20, Range(ge=1))]
    seed: Annotated[int, Setting("Seed of sample and k-means.", 0)]


class NystroemEmbedding(
    EmbeddingEstimator,
    settings=NystroemSettings,
    absent={"standardization": REPLACED},
):
    """Features whose inner products approximate a kernel, by `spark_auc.features.NystroemMap`.

    The embedded rows are dense vectors. With `RankSVMClassifier` behind it this is NBAUC, with
    `NSAUCClassifier` NSAUC (Khalid et al.); `MBAClassifier` needs one pass and no step size.

    Raises
    ------
    ConfigError
        A Param is out of range; by ``fit``, a Param or column cannot serve, or has no effect.
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

    def __init__(self, **params: Unpack[NystroemSettings]) -> None:
        super().__init__(**params)

    def check(self) -> None:
        """See `Configured.check`."""
        values: NystroemSettings = self.values()
        count, size = values["numLandmarks"], values["sampleSize"]
        if values["landmarks"] == "sample":
            self.refuse("landmarks 'sample'", "sampleSize", "maxIter")
        elif count < 2 or size < count:
            raise ConfigError(
                f"found numLandmarks {count} and sampleSize {size}, expected numLandmarks >= 2 "
                "and sampleSize of at least as many; set them so"
            )
        if values["kernel"] != "polynomial":
            self.refuse(f"kernel {values['kernel']!r}", "degree", "offset")

    def embedding(self, table: Table, features: Features) -> Embedding:
        """See `EmbeddingEstimator.embedding`."""
        values: NystroemSettings = self.values()
        count, size = values["numLandmarks"], values["sampleSize"]
        kmeans = values["landmarks"] == "kmeans"
        scaling = resolved(values["scaling"], features)
        rows = unlabelled(table, features, missing=scaling == "robust")
        scale = Scale.of(rows, scaling)
        bandwidth = scale.bandwidth(values["bandwidth"])
        kernel = Kernel(values["kernel"], bandwidth, values["degree"], values["offset"])
        counts = scale.rows, scale.entries
        sample = sampled(rows, *counts, size if kmeans else count, values["seed"])
        X = divided(scale.scaled(sample.X), scale.divisors)
        landmarks = self._centres(table, X, count) if kmeans else X
        if landmarks.shape[0] < count:
            _log.warning(
                "found %d landmarks, expected numLandmarks %d: too few rows differ; the "
                "embedding has fewer features",
                landmarks.shape[0],
                count,
            )
        made = NystroemMap.of_landmarks(landmarks, kernel, values["rank"], scale.divisors)
        return scale.before(made)

    def _centres(self, table: Table, X: Rows, count: int) -> Float:
        """Centres ``(v, d)`` of k-means on rows ``(n, d)``, dense or CSR."""
        # `mapInArrow` converts structs to vectors; `createDataFrame` does not.
        structs = spark_of(table).createDataFrame(pa.table({"row": encode_vectors(X)}))
        schema = StructType([StructField("row", VectorUDT())])
        frame = structs.mapInArrow(lambda rows: rows, schema)
        kmeans = KMeans(featuresCol="row", k=count, maxIter=self.getMaxIter(), seed=self.getSeed())
        with translated():
            return np.array(kmeans.fit(frame).clusterCenters())
