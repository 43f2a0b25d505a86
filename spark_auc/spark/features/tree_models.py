"""Reading the trees of Spark ML's saved models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import fspath
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_auc.core.types import AnyPath, Float
from spark_auc.errors import ModelFormatError
from spark_auc.spark.data.failures import SPARK_FAILURES, first_line
from spark_auc.spark.data.paths import literal_reader
from spark_auc.trees.forest import Forest
from spark_auc.trees.spark_models import SparkNodes, from_spark

_SUFFIXES = ("Classification", "Regression")
_KINDS = ("DecisionTree", "RandomForest", "GBT")


def read_spark_trees(path: AnyPath, spark: SparkSession) -> Forest:
    """The trees of a DecisionTree, RandomForest or GBT model that Spark ML saved.

    A classification tree's leaf has the share of class 1 as value, divided by the number of
    trees of a forest. Regression trees and those of GBT have their prediction, multiplied by the
    weight of the tree in GBT.

    Parameters
    ----------
    path
        Directory to which ``model.write().save(path)`` wrote, on any file system that Spark
        reaches.
    spark
        The session, classic or Connect.

    Raises
    ------
    ModelFormatError
        The path has no such model, or the model is damaged or has more than two classes.
    """
    path = fspath(path)
    read = literal_reader(spark, path)
    try:
        metadata = json.loads(read.text(f"{path}/metadata").collect()[0][0])
        kind = str(metadata["class"]).rpartition(".")[2]
        family = next((name for name in _KINDS if kind.startswith(name)), "")
        if kind not in {f"{name}{suffix}Model" for name in _KINDS for suffix in _SUFFIXES}:
            raise ValueError(f"a {kind}")
        nodes = read.parquet(f"{path}/data")
        weights = np.ones(1)
        if family == "DecisionTree":
            nodes = nodes.select(F.lit(0).alias("treeID"), F.struct("*").alias("nodeData"))
        else:
            # The names of these columns depend on the version of Spark.
            rows = read.parquet(f"{path}/treesMetadata")
            rows = rows.select(rows.columns[0], rows.columns[-1]).toDF("tree", "weight")
            weights = np.array([row[1] for row in rows.orderBy("tree").collect()])
        if family == "RandomForest":
            weights = weights / weights.size
        table = nodes.select("treeID", "nodeData.*").orderBy("treeID", "id").toArrow()
        shares = kind.endswith("ClassificationModel") and family != "GBT"
        columns, stored = int(metadata["numFeatures"]), _nodes(table, metadata, weights, shares)
    except (*SPARK_FAILURES, ValueError, LookupError, TypeError) as error:
        raise ModelFormatError(
            f"found no model of trees in {path} ({first_line(error)}), expected one of "
            f"{', '.join(_KINDS)}; give the directory that model.write().save(path) wrote"
        ) from None
    return from_spark(columns, stored)


def _nodes(
    table: pa.Table, metadata: Mapping[str, Any], weights: Float, shares: bool
) -> SparkNodes:
    if metadata.get("numClasses", 2) > 2:
        raise ModelFormatError(
            f"found a model of {metadata['numClasses']} classes, expected 2; train it on two "
            "classes"
        )
    split = table["split"].combine_chunks()
    cuts = split.field("leftCategoriesOrThreshold")
    value = table["prediction"].to_numpy()
    if shares:
        counts = np.array(table["impurityStats"].to_pylist(), float)
        value = counts[:, 1] / counts.sum(axis=1)
    tree = table["treeID"].to_numpy()
    if not np.array_equal(np.unique(tree), np.arange(weights.size)):
        raise ValueError("its weights are not those of its trees")
    return SparkNodes(
        tree,
        table["id"].to_numpy(),
        table["leftChild"].to_numpy(),
        table["rightChild"].to_numpy(),
        split.field("featureIndex").to_numpy(),
        split.field("numCategories").to_numpy(),
        [np.array(cut, float) for cut in cuts.to_pylist()],
        value * weights[tree],
    )
