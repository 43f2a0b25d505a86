"""The estimator of a spline basis: knots at quantiles of raw numeric columns."""

from __future__ import annotations

from typing import Annotated, Unpack

import numpy as np
from pyspark.ml.functions import vector_to_array
from pyspark.ml.param.shared import HasRelativeError
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_auc.errors import ConfigError, DataError
from spark_auc.features.splines import Splines, probabilities
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.features import Features, PreparedFeatures, quoted
from spark_auc.spark.features.embedding import ColumnSettings, EmbeddingEstimator
from spark_auc.spark.settings import Range, Setting


class SplineSettings(ColumnSettings, total=False):
    """Settings of `SplineBasis`."""

    numKnots: Annotated[
        int,
        Setting(
            "Knots of a column, from its least to its greatest value; fewer if values repeat.",
            12,
            Range(ge=2),
        ),
    ]
    relativeError: Annotated[
        float,
        Setting(
            "Error of the quantiles' ranks; see DataFrame.approxQuantile.", 0.001, Range(ge=0, le=1)
        ),
    ]


class SplineBasis(  # noqa: N818  (its base is no exception)
    EmbeddingEstimator,
    HasRelativeError,
    settings=SplineSettings,
    absent={
        "seed": "nothing is drawn; leave it out",
        "numFeatures": "(indices, values) columns are not taken; leave it out",
    },
):
    """Piecewise linear functions of raw numeric columns, by `spark_auc.features.Splines`.

    The embedding for raw numbers of any unit and with any tails: each column becomes ``numKnots``
    "hats" between its quantiles, of which at most two are not 0 at a value, and an indicator of
    missing values. inputCol is a list of numeric columns, whose values may be null or NaN, or one
    vector or array column; the embedded rows are sparse vectors. A linear ranker of them is an
    additive function of the columns.

    Raises
    ------
    TypeError
        A Param is unknown or of another type.
    ConfigError
        A Param is out of range; by ``fit``, a Param or column cannot serve.
    DataError
        By ``fit``: there are no rows.

    Examples
    --------
    >>> from spark_auc import SplineBasis
    >>> embedding = SplineBasis(inputCol=["position", "age"], numKnots=4)
    >>> embedding.fit(rows).transform(rows).first().embedded.size
    10
    """

    def __init__(self, **params: Unpack[SplineSettings]) -> None:
        super().__init__(**params)

    def embedding(self, dataset: DataFrame, features: Features) -> Splines:
        """See `EmbeddingEstimator.embedding`."""
        values: SplineSettings = self.values()
        at = probabilities(values["numKnots"])
        columns = _columns(features)
        names = [f"c{k}" for k in range(len(columns))]
        rows = dataset.select(*(c.alias(name) for c, name in zip(columns, names, strict=True)))
        with translated():
            quantiles = rows.approxQuantile(names, at.tolist(), values["relativeError"])
            if not any(quantiles) and dataset.isEmpty():
                raise DataError(
                    "found no rows, expected some to make an embedding of; check the input"
                )
        # Which of two zeros a quantile is depends on where rows lie; the sum is always 0.0.
        return Splines.of_quantiles([np.asarray(column, float) + 0.0 for column in quantiles])


def _columns(features: Features) -> list[Column]:
    """Each feature as a column."""
    if not isinstance(features, PreparedFeatures) or features.form == "indexed":
        raise ConfigError(
            f"found features {features.columns}, expected raw numeric columns, or "
            "a vector or array of them; set inputCol"
        )
    if features.form == "numbers":
        return features.expressions()
    column = F.col(quoted(features.columns[0]))
    array = vector_to_array(column) if features.form == "vector" else column
    return [F.get(array, F.lit(k)).cast("double") for k in range(features.dimension)]
