"""The estimator of a spline basis: knots at quantiles of raw numeric columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from pyspark import keyword_only
from pyspark.ml.functions import vector_to_array
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasRelativeError
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_auc.errors import ConfigError, DataError
from spark_auc.features.splines import Splines, probabilities
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.features import Features, quoted
from spark_auc.spark.features.embedding import EmbeddingEstimator


class SplineBasis(EmbeddingEstimator, HasRelativeError):  # noqa: N818  (its base is no exception)
    """Piecewise linear functions of raw numeric columns, by `spark_auc.features.Splines`.

    The embedding for raw numbers of any unit and with any tails, missing ones included: each
    column becomes ``numKnots`` "hats" between its quantiles, of which a value meets at most two,
    and a column that tells whether it is missing. A linear ranker of them is an additive function
    of the columns.

    Parameters
    ----------
    inputCol
        Numeric columns, of which values may be null or NaN; or one vector or array column.
    outputCol
        The embedded rows, sparse vectors. Default "embedded".
    numKnots
        Knots of a column, from its least to its greatest value; fewer where values repeat.
        Default 12.
    relativeError
        Of the quantiles' ranks; see ``DataFrame.approxQuantile``. Default 0.001.

    Raises
    ------
    ConfigError
        By ``fit``: a Param or column cannot serve.
    DataError
        By ``fit``: there are no rows.

    Examples
    --------
    >>> from spark_auc import SplineBasis
    >>> embedding = SplineBasis(inputCol=["position", "age"], numKnots=4)
    >>> embedding.fit(rows).transform(rows).first().embedded.size
    10
    """

    numKnots: Param[int] = Param(
        Params._dummy(), "numKnots", "knots of each column, >= 2.", TypeConverters.toInt
    )

    @keyword_only
    def __init__(
        self,
        *,
        inputCol: str | list[str] = "features",
        outputCol: str = "embedded",
        numKnots: int = 12,
        relativeError: float = 0.001,
    ) -> None:
        super().__init__()
        self._setDefault(numKnots=12, relativeError=0.001)
        given: dict[str, Any] = self._input_kwargs  # type: ignore[attr-defined]
        self.setParams(**given)

    def embedding(self, dataset: DataFrame, features: Features) -> Splines:
        """See `EmbeddingEstimator.embedding`."""
        at = probabilities(self.getOrDefault(self.numKnots))
        columns = _columns(features)
        names = [f"c{k}" for k in range(len(columns))]
        rows = dataset.select(*(c.alias(name) for c, name in zip(columns, names, strict=True)))
        with translated():
            found = rows.approxQuantile(names, at.tolist(), self.getRelativeError())
            if not any(found) and dataset.isEmpty():
                raise DataError(
                    "found no rows, expected some to make an embedding of; check the input"
                )
        # Which of two zeros a quantile is depends on where rows lie; the sum is always 0.0.
        return Splines.of_quantiles([np.asarray(column, float) + 0.0 for column in found])


def _columns(features: Features) -> list[Column]:
    """Each feature as a column."""
    if features.form == "numbers":
        return features.expressions()
    if features.form == "indexed":
        raise ConfigError(
            f"found index and value columns {features.columns}, expected raw numeric columns, or "
            "a vector or array of them; set inputCol"
        )
    column = F.col(quoted(features.columns[0]))
    array = vector_to_array(column) if features.form == "vector" else column
    return [F.get(array, F.lit(k)).cast("double") for k in range(features.dimension)]
