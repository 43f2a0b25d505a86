"""The estimator of a tanh network's hidden layer, drawn at random or trained."""

from __future__ import annotations

import logging
from typing import Annotated, Unpack

import numpy as np

from spark_auc.core.batch import Batch
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.operator import column_moments
from spark_auc.core.row_source import rows_where
from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.features.network import NetworkMap
from spark_auc.pipeline.settings import LabelSettings, Range, Setting
from spark_auc.spark.features.embedding import (
    ENTRY_BYTES,
    EmbeddingEstimator,
    EmbeddingModel,
    EmbeddingSettings,
    sampled,
    unlabelled,
)
from spark_auc.tables.columns import TrainingColumns
from spark_auc.tables.features import Features
from spark_auc.tables.rows import TableRows
from spark_auc.tables.table import Table

_log = logging.getLogger(__name__)

# Largest share of the rows that a network before a ranker learns from.
_MOST_TAUGHT = 0.5
# Added to the seed: samples of one seed are nested, and trees may have drawn theirs by this seed.
_APART = 0x7A4E


class NetworkSettings(EmbeddingSettings, LabelSettings, total=False):
    """Settings of `TanhNetwork`."""

    numOutputs: Annotated[
        int | None,
        Setting(
            "Width of the layer; by default 500 of a random and d / 2 of a trained one (MBA).",
            None,
            Range(ge=1),
        ),
    ]
    trained: Annotated[
        bool,
        Setting(
            "Whether weights are trained by log loss, in the driver, on a sample of labelled "
            "rows; else they are random.",
            False,
        ),
    ]
    sampleSize: Annotated[int, Setting("Rows to train on, by their hash.", 20_000, Range(ge=1))]
    maxIter: Annotated[int, Setting("Most iterations of training.", 200, Range(ge=1))]
    seed: Annotated[
        int,
        Setting("Seed of the weights, or of their start and the sample.", 0, Range(ge=0)),
    ]


class TanhNetwork(EmbeddingEstimator, settings=NetworkSettings):
    """The hidden layer of a tanh network of standardised columns, by `NetworkMap`.

    The embedded rows are dense vectors. In a `RankerPipeline`, the rows that train a network do
    not train the ranker. labelCol, positiveLabel, sampleSize and maxIter are of a
    trained network alone.

    Raises
    ------
    ConfigError
        A Param is out of range; by ``fit``, a Param or column cannot serve, or has no effect.
    DataError
        By ``fit``: a value cannot be used.
    ResourceError
        By ``fit``: the sample does not fit in memory.

    Examples
    --------
    >>> from spark_auc import TanhNetwork
    >>> embedding = TanhNetwork(inputCol=["position", "age"], numOutputs=16)
    >>> embedding.fit(rows).transform(rows).first().embedded.size
    16
    """

    def __init__(self, **params: Unpack[NetworkSettings]) -> None:
        super().__init__(**params)

    def check(self) -> None:
        """See `Configured.check`."""
        if not self.values()["trained"]:
            self.refuse("trained False", "labelCol", "positiveLabel", "sampleSize", "maxIter")

    def embedding(self, table: Table, features: Features) -> NetworkMap:
        """See `EmbeddingEstimator.embedding`."""
        values: NetworkSettings = self.values()
        width, seed = values["numOutputs"], values["seed"]
        if not values["trained"]:
            columns = column_moments(unlabelled(table, features))
            made = NetworkMap.random(features.dimension, width or 500, seed=seed)
            return made.of_columns(*_units(columns))
        rows = self._labelled(table, features)
        columns = column_moments(rows)
        counts = float(columns.rows.sum()), float(columns.entries.sum())
        sample = sampled(rows, *counts, values["sampleSize"], seed)
        return self._trained(columns, sample)

    def fitted_before(
        self, table: Table, features: Features, key: str | None = None
    ) -> EmbeddingModel:
        """See `EmbeddingEstimator.fitted_before`.

        A trained network learns from some sampleSize rows, and at most half of them, drawn by key
        or, without one, by equal values of the rows before the network.
        """
        values: NetworkSettings = self.values()
        if not values["trained"]:
            return self.fitted(table, features)
        rows = self._labelled(table, features, key)
        columns = column_moments(rows)
        total, entries = float(columns.rows.sum()), float(columns.entries.sum())
        share = min(values["sampleSize"] / total, _MOST_TAUGHT)
        sample = KeySample(share, values["seed"] + _APART)
        rows.memory.check_gathered(int(ENTRY_BYTES * entries * share), "rows of a network")
        taught = rows.changed(rows_where(sample.inside)).gathered().joined()
        _log.info(
            "a network learns from %d of %d rows, which are left out of training",
            *(taught.y.size, int(total)),
        )
        # The order of rows after a shuffle is not fixed.
        order = np.lexsort((taught.keys(), taught.groups()))
        return self.model_of(self._trained(columns, taught.take(order)), sample)

    def _labelled(self, table: Table, features: Features, key: str | None = None) -> TableRows:
        values: NetworkSettings = self.values()
        label = values["labelCol"], values["positiveLabel"]
        columns = TrainingColumns.resolve(table, features, *label, key=key)
        return TableRows.of(table, columns)

    def _trained(self, columns: ColumnMoments, sample: Batch) -> NetworkMap:
        """The network of a sample in memory; ``columns`` are of all rows."""
        values: NetworkSettings = self.values()
        width, seed = values["numOutputs"], values["seed"]
        mean, scale = _units(columns)
        X = sample.X if isinstance(sample.X, np.ndarray) else sample.X.toarray()
        made = NetworkMap.trained(
            (X - mean) / scale, sample.y, features=width, max_iter=values["maxIter"], seed=seed
        )
        return made.of_columns(mean, scale)


def _units(columns: ColumnMoments) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation ``(d,)`` of each column."""
    mean = columns.weight @ columns.mean / columns.weight.sum()
    return mean, columns.standard_deviation()
