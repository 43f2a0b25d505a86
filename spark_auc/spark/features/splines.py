"""The estimator of a spline basis: knots at quantiles of raw numeric columns."""

from __future__ import annotations

from typing import Annotated, Unpack

from spark_auc.errors import ConfigError
from spark_auc.features.splines import Splines
from spark_auc.pipeline.settings import Range, Setting
from spark_auc.spark.features.column_scales import column_summaries
from spark_auc.spark.features.embedding import ColumnSettings, EmbeddingEstimator, unlabelled
from spark_auc.tables.features import Features, PreparedFeatures
from spark_auc.tables.table import Table


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


class SplineBasis(
    EmbeddingEstimator,
    settings=SplineSettings,
    absent={
        "seed": "nothing is drawn; leave it out",
        "numFeatures": "(indices, values) columns are not taken; leave it out",
        "relativeError": "knots depend on the rows alone; leave it out",
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

    def embedding(self, table: Table, features: Features) -> Splines:
        """See `EmbeddingEstimator.embedding`."""
        if isinstance(features, PreparedFeatures) and features.form == "indexed":
            raise ConfigError(
                f"found index and value columns {features.columns}, expected raw numeric columns, "
                "or a vector or array of them; set inputCol"
            )
        columns = column_summaries(unlabelled(table, features, missing=True))
        return Splines.of_knots([column.knots(self.values()["numKnots"]) for column in columns])
