"""A ranker as Spark ML's logistic regression, through a directory."""

from __future__ import annotations

import tempfile

from pyspark.ml.classification import LogisticRegressionModel
from pyspark.sql.utils import is_remote

from spark_auc.errors import ConfigError
from spark_auc.serving.ranker import ServedRanker


def logistic_regression(
    ranker: ServedRanker, features: str | list[str], label: str, prediction: str, raw: str
) -> LogisticRegressionModel:
    """The model of a ranker of features; see `LinearRankerModel.toLogisticRegressionModel`.

    It passes through the temporary directory of the driver, which on a cluster the executors must
    reach too. Elsewhere, write it by `spark_auc.to_logistic_regression` to a path that all reach,
    and load it from there.

    Parameters
    ----------
    ranker
        The ranker.
    features, label, prediction, raw
        Names of its columns.
    """
    # Executors import this file, and have no pydantic.
    from spark_auc.export.logistic import to_logistic_regression

    if is_remote():
        raise ConfigError(
            "found a session of Spark Connect, whose server need not reach this directory, "
            "expected classic Spark; write the model by spark_auc.to_logistic_regression to a "
            "path that the server reaches, and load it by LogisticRegressionModel.load"
        )
    if not isinstance(features, str):
        raise ConfigError(
            f"found featuresCol {features}, expected one column of vectors for Spark ML's "
            "model; assemble them by VectorAssembler, and set featuresCol of a copy to its "
            "output"
        )
    with tempfile.TemporaryDirectory() as directory:
        path = f"file://{directory}/model"
        to_logistic_regression(
            ranker,
            path,
            featuresCol=features,
            labelCol=label,
            predictionCol=prediction,
            rawPredictionCol=raw,
        )
        return LogisticRegressionModel.load(path)
