"""AUC and training time on real data against Spark ML logistic regression.

Needs SPARK_AUC_DATA. Seconds are those of one warm fit on cached rows. Logistic regression has the
best of six penalties by test AUC, which favours it; MBAClassifier has the penalty of the reference
protocol.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from pyspark.ml.classification import LogisticRegression
from pyspark.ml.functions import vector_to_array
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_auc import MBAClassifier
from spark_auc.spark.data.libsvm import libsvm
from spark_auc.spark.data.raw import criteo
from spark_auc.spark.data.session import session
from spark_auc.spark.data.split import by_position
from spark_auc.spark.evaluation.evaluate import evaluate

DATA = Path(os.environ.get("SPARK_AUC_DATA", "../shared/data")).resolve()
SETS = {"a9a": (123, 1e-4), "w1a": (300, 10.0), "splice_scale": (60, 1.0)}
PENALTIES = (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)


def rows(spark: SparkSession, name: str) -> tuple[DataFrame, DataFrame, float, bool]:
    """Training and test rows, our penalty, and whether columns are standardised."""
    if name == "criteo_80k":
        split = by_position(criteo(spark, str(DATA / "criteo_80k.tsv"), 4096), 64_000).cache()
        train, test = (split.filter(F.col("part") == p).drop("part") for p in ("train", "test"))
        return train, test, 1e-4, False
    dimension, penalty = SETS[name]
    parts = (libsvm(spark, str(DATA / f), dimension) for f in (name, f"{name}.t"))
    train, test = (p.withColumn("label", (F.col("label") > 0).cast("double")) for p in parts)
    return train, test, penalty, True


def timed_fit(estimator: Any, train: DataFrame) -> tuple[Any, float]:
    start = time.perf_counter()
    model = estimator.fit(train)
    return model, time.perf_counter() - start


def test_auc(df: DataFrame, column: str) -> float:
    return 100 * evaluate(df, scoreCol=column).auc


def main() -> None:
    conf = {
        "spark.master": "local[2]",
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
    }
    with session("real data", conf) as spark:
        for name in [*SETS, "criteo_80k"]:
            train, test, penalty, standardization = rows(spark, name)
            train, test = train.cache(), test.cache()
            train.count(), test.count()
            mba = MBAClassifier(regParam=penalty, standardization=standardization)
            mba.fit(train), LogisticRegression(maxIter=1).fit(train)
            model, seconds = timed_fit(mba, train)
            peers = []
            for reg in PENALTIES:
                lr = LogisticRegression(regParam=reg, standardization=standardization)
                peer, peer_seconds = timed_fit(lr, train)
                scored = peer.transform(test).withColumn("s", vector_to_array("rawPrediction")[1])
                iterations = peer.summary.totalIterations
                peers.append((test_auc(scored, "s"), peer_seconds, reg, iterations))
            best = max(peers)
            result = {
                "set": name,
                "auc": round(test_auc(model.transform(test), "rawPrediction"), 3),
                "seconds": round(seconds, 2),
                "lrAUC": round(best[0], 3),
                "lrSeconds": round(best[1], 2),
                "lrRegParam": best[2],
                "lrIterations": best[3],
            }
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
