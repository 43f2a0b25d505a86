"""What the estimators of embeddings share, and the model that all of them return."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.ml import Estimator, Model
from pyspark.sql import DataFrame

from spark_auc.core.batch import Batch, hashed_shares
from spark_auc.core.labels import LabelCounts
from spark_auc.core.row_source import rows_where
from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.core.sampling.repeats import distinct_keys
from spark_auc.errors import DataError
from spark_auc.features.embedding import Embedding
from spark_auc.features.restore import restore
from spark_auc.pipeline.settings import FEATURES, DimensionSettings, Setting
from spark_auc.spark.data.names import check_new
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.spark.persistence import EstimatorStage, ModelStage
from spark_auc.tables.encoders import VECTOR, encode_vectors
from spark_auc.tables.features import Features, PreparedFeatures
from spark_auc.tables.raw_features import EmbeddedFeatures
from spark_auc.tables.rows import TableRows
from spark_auc.tables.table import Batches, Table

_log = logging.getLogger(__name__)

# Bytes of an embedding in one row of a saved table.
_PART = 1 << 24
# Bytes of a stored entry of a row.
ENTRY_BYTES = 12
# Most features whose names a column has as metadata.
_NAMED = 1 << 14
# What a sample's hash is salted with.
_SAMPLE = 0x3E


class ColumnSettings(TypedDict, total=False):
    """The columns of an embedding."""

    inputCol: Annotated[str | list[str], Setting(FEATURES, "features")]
    outputCol: Annotated[str, Setting("Column of embedded rows, a vector each.", "embedded")]


class EmbeddingSettings(ColumnSettings, DimensionSettings, total=False):
    """Settings of embeddings that take (indices, values) columns."""


class EmbeddingModelSettings(EmbeddingSettings, total=False):
    """Settings of `EmbeddingModel`."""

    seed: Annotated[int, Setting("Seed that the embedding was made with.", 0)]


class EmbeddingModel(ModelStage, Model, settings=EmbeddingModelSettings):
    """Adds outputCol, the embedding of inputCol; made by the ``fit`` of an embedding.

    The task that reads a row embeds it: a stage fitted on the result embeds the rows again in
    each of its passes, and no table of embedded rows is written.

    Parameters
    ----------
    embedding
        The map of rows.
    taught
        The rows of the fit whose labels the map learnt; not stored. Default: none.

    Examples
    --------
    >>> from spark_auc import SplineBasis
    >>> model = SplineBasis(inputCol=["position", "age"], numKnots=4).fit(rows)
    >>> type(model).__name__
    'EmbeddingModel'
    >>> model.transform(rows).columns[-1]
    'embedded'
    """

    def __init__(self, embedding: Embedding | None = None, taught: KeySample | None = None) -> None:
        super().__init__()
        self._embedding = embedding
        self._taught = taught

    @property
    def embedding(self) -> Embedding:
        """The map of rows."""
        assert self._embedding is not None, "an EmbeddingModel is made by fit() or load()"
        return self._embedding

    def _transform(self, dataset: DataFrame) -> DataFrame:
        features = self.features(self.input_features(SparkTable(dataset)))
        return embedded(dataset, features, self.getOutputCol())

    def input_features(self, table: Table) -> Features:
        """The features of a table's rows, in the columns that inputCol names."""
        return PreparedFeatures.resolve(table, self.getInputCol(), self.embedding.input_dimension)

    def features(self, inner: Features) -> EmbeddedFeatures:
        """The embedding of features; see `EmbeddedFeatures.of`."""
        return EmbeddedFeatures.of(inner, self.embedding, self._taught)

    def _saved(self) -> tuple[pa.Table, dict[str, Any]]:
        data = self.embedding.to_bytes()
        parts = [data[k : k + _PART] for k in range(0, len(data), _PART)]
        return pa.table({"part": np.arange(len(parts)), "payload": parts}), {}

    def _loaded(self, table: pa.Table, facts: dict[str, Any]) -> None:
        self._embedding = restore(b"".join(table["payload"].to_pylist()))


class EmbeddingEstimator(EstimatorStage, Estimator[EmbeddingModel]):
    """An estimator of `EmbeddingModel`; a subclass makes the map of rows in `embedding`."""

    OUTPUTS = ("outputCol",)

    def embedding(self, table: Table, features: Features) -> Embedding:
        """The map of rows that is fitted to the data."""
        raise NotImplementedError

    def input_features(self, table: Table) -> Features:
        """The features of a table's rows, in the columns that inputCol names."""
        values = self.values()
        return PreparedFeatures.resolve(table, values["inputCol"], values.get("numFeatures"))

    def fitted(self, table: Table, features: Features | None = None) -> EmbeddingModel:
        """Fit the map to features of the rows of a table; by default those of inputCol."""
        return self.model_of(self.embedding(table, features or self.input_features(table)))

    def fitted_before(
        self, table: Table, features: Features, key: str | None = None
    ) -> EmbeddingModel:
        """Fit the map for a ranker of the same rows, which leaves out those that taught the map.

        Parameters
        ----------
        table, features
            The rows and their features.
        key
            The key column of the ranker.
        """
        return self.fitted(table, features)

    def model_of(self, made: Embedding, taught: KeySample | None = None) -> EmbeddingModel:
        """The model of a map; ``taught`` as of `EmbeddingModel`."""
        _log.info(
            "%s makes %d features of %d", type(made).__name__, made.dimension, made.input_dimension
        )
        return self._copyValues(EmbeddingModel(made, taught))


def unlabelled(table: Table, features: Features, *, missing: bool = False) -> TableRows:
    """The features of all rows, each as a negative row; some may be missing if ``missing``."""
    selected = table.select(features.columns, placed=True)
    return TableRows(
        selected, lambda: _Unlabelled(features, missing), features.dimension, _some_rows
    )


def sampled(rows: TableRows, total: float, entries: float, count: int, seed: int) -> Batch:
    """At most ``count`` of ``total`` rows, by their hash, in the driver's memory; one pass.

    All rows together store ``entries``.

    The rows and their order do not depend on the partitions. Copies of a row get keys of their own
    within a partition or row group; see `spark_auc.core.sampling.repeats`.

    Raises
    ------
    ResourceError
        The rows do not fit in the memory of the driver.
    """
    size = ENTRY_BYTES * entries * min(count / total, 1.0)
    what = f"a sample of {count} rows"
    rows.memory.check_gathered(int(size), what)
    # Of as many as this, enough are below it but for bad luck beyond four standard deviations.
    share = (count + 4.0 * np.sqrt(count)) / total

    def taken(batch: Batch) -> NDArray[np.bool_]:
        below: NDArray[np.bool_] = hashed_shares(batch.keys(), seed, _SAMPLE) < share
        return below

    local = rows.changed(distinct_keys()).changed(rows_where(taken)).gathered()
    batch = local.joined()
    order = np.argsort(hashed_shares(batch.keys(), seed, _SAMPLE), kind="stable")
    return batch.take(order[:count])


@dataclass
class _Unlabelled:
    """Reads features alone; see `spark_auc.tables.rows.RowReader`."""

    features: Features
    missing: bool
    rows: int = 0

    def read(self, batches: Batches) -> Iterator[Batch]:
        for batch in batches:
            *columns, place = batch.columns
            X = self.features.decode(columns, missing=self.missing)
            self.rows += batch.num_rows
            place = place.to_numpy().astype(np.int64)
            yield Batch(X, np.zeros(batch.num_rows, bool), place=place)

    def labels(self) -> LabelCounts:
        return LabelCounts({0.0: self.rows} if self.rows else {})


def _some_rows(labels: LabelCounts) -> None:
    if not labels.rows:
        raise DataError("found no rows, expected some to make an embedding of; check the input")


def embedded(df: DataFrame, features: Features, output: str) -> DataFrame:
    """Add the features as a vector column; a row that cannot be used fails the job.

    Raises
    ------
    ConfigError
        The column is there already.
    """
    check_new(df, {"outputCol": output})

    def vectors(arrays: Sequence[pa.Array]) -> list[pa.Array]:
        return [encode_vectors(features.decode(arrays))]

    table = SparkTable(df).extended(features.columns, vectors, [pa.field(output, VECTOR)])
    return table.frame.withMetadata(output, _noted(features))


def _noted(features: Features) -> dict[str, Any]:
    """Dimension and names of the features, as Spark ML notes them with a column."""
    noted: dict[str, Any] = {"num_attrs": features.dimension}
    names = features.labels() if features.dimension <= _NAMED else None
    if names:
        noted["attrs"] = {"numeric": [{"idx": k, "name": n} for k, n in enumerate(names)]}
    return {"ml_attr": noted}
