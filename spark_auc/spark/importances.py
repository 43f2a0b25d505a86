"""What a model is made of: the importance of each raw column, and the weight of each feature."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from spark_auc.pipeline.token_sample import token_names
from spark_auc.spark.contributions import explained
from spark_auc.spark.data.nested import with_fields
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
from spark_auc.spark.pipeline_model import RankerPipelineModel
from spark_auc.tables.raw_features import RawFeatures

# Features whose tokens are looked up.
_NAMED = 1000


def importances(model: RankerPipelineModel | LinearRankerModel, dataset: DataFrame) -> DataFrame:
    """The importance of each raw column, pair and cross, in units of the score, descending.

    It is the standard deviation, over the rows, of what the column contributes to the score; see
    `with_contributions`. Columns that only move together share what they explain.

    Parameters
    ----------
    model
        A ranker, with or without a recipe; with rankers of segments, the ranker of all rows counts.
    dataset
        The rows.

    Returns
    -------
    DataFrame
        ``column`` (string; "age x city" for a pair or cross, "trees" for all leaves; without a
        recipe the name of a feature, or its number), ``importance`` and ``meanContribution``
        (double).

    Raises
    ------
    ConfigError
        There is an embedding, or a column is missing.
    DataError
        There are no rows, or a row that cannot be scored.

    Examples
    --------
    >>> from spark_auc import FeatureRecipe, MBAClassifier, RankerPipeline, importances
    >>> recipe = FeatureRecipe(spline=["position", "age"], auto=False)
    >>> model = RankerPipeline([recipe, MBAClassifier(regParam=0.1)]).fit(rows)
    >>> [row.column for row in importances(model, rows).collect()]
    ['position', 'age']
    """
    read = SparkTable(with_fields(dataset, model.strings()))
    parts = explained(model, read, segments=False)
    moments = parts.moments(read)
    # All rows are in the second class.
    importance = np.sqrt(moments.variance[1])
    order = np.argsort(-importance, kind="stable")
    table = pa.table(
        {
            "column": pa.array(parts.names, pa.string()).take(pa.array(order)),
            "importance": importance[order],
            "meanContribution": moments.centre[order],
        }
    )
    return dataset.sparkSession.createDataFrame(table)


def feature_weights(
    model: RankerPipelineModel | LinearRankerModel, dataset: DataFrame
) -> DataFrame:
    """The weight of each feature: of knots, tokens, crosses, leaves of a recipe, or of columns.

    Parameters
    ----------
    model
        A ranker, with or without a recipe; with rankers of segments, the ranker of all rows counts.
    dataset
        Rows whose tokens name the hashed features of the 1,000 largest weights; other hashed
        features are called by their numbers.

    Returns
    -------
    DataFrame
        ``feature`` (string) and ``weight`` (double), in the order of the features.

    Raises
    ------
    ConfigError
        There is an embedding, or a column is missing.

    Examples
    --------
    >>> from spark_auc import FeatureRecipe, MBAClassifier, RankerPipeline, feature_weights
    >>> recipe = FeatureRecipe(standard=["position", "age"], auto=False)
    >>> model = RankerPipeline([recipe, MBAClassifier(regParam=0.1)]).fit(rows)
    >>> [row.feature for row in feature_weights(model, rows).collect()]
    ['position', 'position missing', 'age', 'age missing']
    """
    read = with_fields(dataset, model.strings())
    table = SparkTable(read)
    features, named = explained(model, table, segments=False).features, model.named_weights()
    w, names = named.w, list(named.names or map(str, range(named.w.size)))
    if isinstance(features, RawFeatures) and features.recipe.hashed:
        largest = [names[j] for j in np.argsort(-np.abs(w), kind="stable")[:_NAMED] if w[j]]
        found = token_names(table, features, largest, read.count())
        names = [found.get(name, name) for name in names]
    table = pa.table({"feature": pa.array(names, pa.string()), "weight": w})
    return dataset.sparkSession.createDataFrame(table)
