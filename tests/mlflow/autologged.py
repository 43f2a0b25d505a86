"""Fits our stages under MLflow's autolog, which patches Spark ML; prints what was logged."""

import json
import sys

import mlflow
import numpy as np
import pyarrow as pa
from pyspark.ml import Pipeline
from pyspark.ml.linalg import Vectors

from spark_auc import AUCEvaluator, FeatureRecipe, MBAClassifier, RankerPipeline, SplineBasis
from spark_auc.mlflow import load_model, log_model
from spark_auc.spark.data.session import session


def told(run):
    data = mlflow.get_run(run.info.run_id).data
    tags = {k: v for k, v in data.tags.items() if k.startswith("estimator")}
    return {"params": data.params, "metrics": data.metrics, "tags": tags}


def main(uri):
    mlflow.set_tracking_uri(uri)
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(2, 400))
    table = pa.table({"x": x, "y": y, "label": (x + y + rng.logistic(size=400) > 0).astype(float)})
    ranker = MBAClassifier(featuresCol=["x", "y"], regParam=0.25)
    splines = SplineBasis(inputCol=["x", "y"], numKnots=3)
    found = {}
    conf = {"spark.master": "local[2]", "spark.ui.enabled": "false"}
    with session("autologged", conf) as spark:
        rows = spark.createDataFrame(table)
        plain = ranker.fit(rows)
        mlflow.pyspark.ml.autolog()
        with mlflow.start_run() as run:
            model = ranker.fit(rows)
            assert model.coefficients == plain.coefficients
            auc = AUCEvaluator().evaluate(model.transform(rows))
            info = log_model(model)
            assert (
                load_model(info.model_uri).score([1.0, 2.0])
                == model.predictRaw(Vectors.dense(1.0, 2.0))[1]
            )
        found["estimator"] = told(run) | {"auc": auc}
        with mlflow.start_run() as run:
            last = MBAClassifier(featuresCol="embedded", regParam=0.5)
            model = Pipeline(stages=[splines, last]).fit(rows)
            partial = AUCEvaluator(metricName="partialAUC", maxFPR=0.2)
            value = partial.evaluate(model.transform(rows))
        found["pipeline"] = told(run) | {"partial": value}
        with mlflow.start_run() as run:
            RankerPipeline([FeatureRecipe(), ranker]).fit(rows)
        found["ranker pipeline"] = told(run)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
