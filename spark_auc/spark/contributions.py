"""Scores of rows with the contributions of raw columns or features to each."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame

from spark_auc.core.validation import check_whole
from spark_auc.pipeline.contributions import LISTED, Parts, listed, parts_of
from spark_auc.pipeline.scored_rows import of_usable
from spark_auc.spark.data.names import check_new
from spark_auc.spark.data.nested import with_fields, without_fields
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
from spark_auc.spark.pipeline_model import RankerPipelineModel
from spark_auc.tables.table import Table


def with_contributions(
    model: RankerPipelineModel | LinearRankerModel,
    dataset: DataFrame,
    count: int = 5,
    centre: DataFrame | None = None,
    contributionsCol: str = "contributions",
) -> DataFrame:
    """The scored rows with a column of the names and values of contributions.

    It has the largest contributions to the score in absolute value, descending: of
    ``C3=68fd1e64``, a token, of ``age``, all features of a raw column, or of a cross of two;
    without a recipe, of single features. All contributions of a row add up to its score, and those
    of 0 are left out. With rankers of segments the weights are those of the row's segment, whose
    intercept is a contribution, too.

    Parameters
    ----------
    model
        A ranker, with or without a recipe.
    dataset
        The rows.
    count
        Largest number of contributions of a row.
    centre
        Rows such as those of training: each contribution is less its mean over them, and all of a
        row add up to its score less their mean score. Default: contributions as they are.
    contributionsCol
        Name of the column.

    Returns
    -------
    DataFrame
        The scored rows.

    Raises
    ------
    ConfigError
        There is an embedding, or a new column exists already; or the segment column is missing.
    DataError
        There are no rows in ``centre``, or rows that cannot be scored.

    Examples
    --------
    >>> from spark_auc import FeatureRecipe, MBAClassifier, RankerPipeline, with_contributions
    >>> recipe = FeatureRecipe(spline=["position", "age"], auto=False)
    >>> model = RankerPipeline([recipe, MBAClassifier(regParam=0.1)]).fit(rows)
    >>> explained = with_contributions(model, rows, 2, centre=rows)
    >>> explained.selectExpr("size(contributions) = 2").distinct().collect()[0][0]
    True
    """
    check_whole("count", count, 1)
    ranker = model.ranker if isinstance(model, RankerPipelineModel) else model
    outputs = {param.name: name for param, name in model.outputs().items()}
    check_new(dataset, {"contributionsCol": contributionsCol} | outputs)
    read = with_fields(dataset, model.strings())
    means = None
    if centre is not None:
        reference = SparkTable(with_fields(centre, model.strings()))
        means = explained(model, reference).moments(reference).centre
    parts, scored = explained(model, SparkTable(read)), SparkTable(model.transform(read))

    def columns(arrays: Sequence[pa.Array]) -> list[pa.Array]:
        return [listed(*parts.explain(arrays), count, means)]

    if ranker.getHandleInvalid() == "keep":
        columns = of_usable(parts.features, columns)  # type: ignore[assignment]
    made = scored.extended(parts.columns, columns, [pa.field(contributionsCol, LISTED)])
    return without_fields(made.frame, dataset, read)


def explained(
    model: RankerPipelineModel | LinearRankerModel, table: Table, *, segments: bool = True
) -> Parts:
    """The parts of the scores of rows; see `parts_of`."""
    if isinstance(model, RankerPipelineModel):
        return parts_of(model.ranker.scorer, model.features(table), table, segments=segments)
    return parts_of(model.scorer, model.input_features(table), table, segments=segments)
