"""Scores of raw rows with the contributions of raw columns to each."""

from __future__ import annotations

from pyspark.sql import DataFrame

from spark_auc.core.validation import check_whole
from spark_auc.errors import ConfigError
from spark_auc.spark.data.nested import with_fields, without_fields
from spark_auc.spark.data.segments import SegmentColumn
from spark_auc.spark.features.contributions import contribution_column, segment_contribution_column
from spark_auc.spark.features.recipe_model import FeatureRecipeModel
from spark_auc.spark.pipeline_model import RankerPipelineModel

CONTRIBUTIONS = "contributions"


def with_contributions(model: RankerPipelineModel, dataset: DataFrame, count: int = 5) -> DataFrame:
    """The scored rows with a column ``contributions`` of names and values.

    It has the largest contributions of raw columns to the score in absolute value, descending: of
    ``C3=68fd1e64``, a token, of ``age``, all features of a column, or of a cross of two. All
    contributions of a row add up to its score, and those of 0 are left out. With rankers of
    segments the weights are those of the row's segment, whose intercept is a contribution, too.

    Parameters
    ----------
    model
        A recipe and a ranker.
    dataset
        The rows.
    count
        Largest number of contributions of a row.

    Returns
    -------
    DataFrame
        The scored rows.

    Raises
    ------
    ConfigError
        There is no recipe, or an embedding after it, or the column exists already; or the segment
        column is missing.

    Examples
    --------
    >>> from spark_auc import FeatureRecipe, MBAClassifier, RankerPipeline, with_contributions
    >>> recipe = FeatureRecipe(spline=["position", "age"], auto=False)
    >>> model = RankerPipeline([recipe, MBAClassifier(regParam=0.1)]).fit(rows)
    >>> explained = with_contributions(model, rows, 2)
    >>> explained.selectExpr("size(contributions) = 2").distinct().collect()[0][0]
    True
    """
    check_whole("count", count, 1)
    recipe = recipe_stage(model)
    if CONTRIBUTIONS in dataset.columns:
        raise ConfigError(
            f"found column {CONTRIBUTIONS!r} in the data already, expected it to be new; drop it"
        )
    read = with_fields(dataset, model.strings())
    features = recipe.input_features(read)
    scorer = model.ranker.scorer
    if (segments := scorer.segments) is None:
        column = contribution_column(features, scorer.w, count)
    else:
        number = SegmentColumn(segments.column, segments.weights.values).number(read, features)
        column = segment_contribution_column(
            features, segments.weights, segments.column, number, count
        )
    return without_fields(model.transform(read).withColumn(CONTRIBUTIONS, column), dataset, read)


def recipe_stage(model: RankerPipelineModel) -> FeatureRecipeModel:
    """The recipe of a model whose scores are sums over raw columns; else `ConfigError`."""
    recipe = model.stages[0]
    if not isinstance(recipe, FeatureRecipeModel) or model.embeddings:
        kinds = ", ".join(type(stage).__name__ for stage in model.stages)
        raise ConfigError(
            f"found a model of {kinds}, expected a recipe and a linear ranker without embeddings, "
            "whose scores are sums over raw columns; leave out contributions"
        )
    return recipe
