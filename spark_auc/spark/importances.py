"""What a model is made of: the importance of each raw column, and the weight of each feature."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf

from spark_auc.features.contributions import contributions, parts
from spark_auc.features.token_names import FeatureNames
from spark_auc.spark.contributions import recipe_stage
from spark_auc.spark.data.nested import with_fields
from spark_auc.spark.features.token_sample import token_names
from spark_auc.spark.pipeline_model import RankerPipelineModel

# Features whose tokens are looked up.
_NAMED = 1000


def importances(model: RankerPipelineModel, dataset: DataFrame) -> DataFrame:
    """The importance of each raw column, pair and cross, in units of the score, descending.

    It is the standard deviation, over the rows, of what the column contributes to the score; see
    `with_contributions`. Columns that only move together share what they explain.

    Parameters
    ----------
    model
        A recipe and a ranker; with rankers of segments, the ranker of all rows counts.
    dataset
        The rows.

    Returns
    -------
    DataFrame
        ``column`` (string; "age x city" for a pair or cross, "trees" for all leaves),
        ``importance`` and ``meanContribution`` (double).

    Raises
    ------
    ConfigError
        There is no recipe, or an embedding after it.

    Examples
    --------
    >>> from spark_auc import FeatureRecipe, MBAClassifier, RankerPipeline, importances
    >>> recipe = FeatureRecipe(spline=["position", "age"], auto=False)
    >>> model = RankerPipeline([recipe, MBAClassifier(regParam=0.1)]).fit(rows)
    >>> [row.column for row in importances(model, rows).collect()]
    ['position', 'age']
    """
    stage, w = recipe_stage(model), model.ranker.scorer.w
    read = with_fields(dataset, model.strings())
    features = stage.input_features(read)
    recipe, names = stage.recipe, parts(stage.recipe)

    def values(*arrays: pa.Array) -> pa.Array:
        found = contributions(recipe, w, features.raw.decode(arrays))
        offsets = np.arange(len(found) + 1, dtype=np.int32) * len(names)
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(found.ravel()))

    # Spark reads the types themselves, which are but text under postponed annotations.
    values.__annotations__ = {"arrays": pa.Array, "return": pa.Array}
    made = arrow_udf(values, "array<double>")  # type: ignore[call-overload]
    each = features.as_rows(read).select(
        F.posexplode(made(*features.expressions())).alias("part", "value")
    )
    name = F.get(F.array(*map(F.lit, names)), F.col("part"))
    measured = each.groupBy("part").agg(
        F.stddev_pop("value").alias("importance"), F.avg("value").alias("meanContribution")
    )
    named = measured.select(name.alias("column"), "importance", "meanContribution")
    return named.orderBy(F.desc("importance"), "column")


def feature_weights(model: RankerPipelineModel, dataset: DataFrame) -> DataFrame:
    """The weight of each feature of a recipe: of knots, tokens, crosses, leaves.

    Parameters
    ----------
    model
        A recipe and a ranker; with rankers of segments, the ranker of all rows counts.
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
        There is no recipe, or an embedding after it.

    Examples
    --------
    >>> from spark_auc import FeatureRecipe, MBAClassifier, RankerPipeline, feature_weights
    >>> recipe = FeatureRecipe(standard=["position", "age"], auto=False)
    >>> model = RankerPipeline([recipe, MBAClassifier(regParam=0.1)]).fit(rows)
    >>> [row.feature for row in feature_weights(model, rows).collect()]
    ['position', 'position missing', 'age', 'age missing']
    """
    stage, w = recipe_stage(model), model.ranker.scorer.w
    names = list(FeatureNames(stage.recipe))
    if stage.recipe.hashed:
        read = with_fields(dataset, model.strings())
        largest = [names[j] for j in np.argsort(-np.abs(w), kind="stable")[:_NAMED] if w[j]]
        found = token_names(read, stage.input_features(read), largest, read.count())
        names = [found.get(name, name) for name in names]
    table = pa.table({"feature": pa.array(names, pa.string()), "weight": w})
    return dataset.sparkSession.createDataFrame(table)
