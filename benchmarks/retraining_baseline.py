"""Spark ML's logistic regression on the raw clicks of `benchmarks.retraining`; for spark-submit.

Makes the same features, fits each penalty on four fifths of the rows, measures its AUC on the
others, and fits the best penalty to all rows. Prints the seconds from the first read to the end.

    spark-submit benchmarks/retraining_baseline.py ROWS.parquet '[0.001, 0.01]'
"""

from __future__ import annotations

import json
import sys
import time

from pyspark.ml import Pipeline
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.evaluation import BinaryClassificationEvaluator
from pyspark.ml.feature import FeatureHasher, Normalizer, StandardScaler, VectorAssembler
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

NUMBERS, TOKENS, KEY, LABEL = (
    ("price", "age", "position"),
    ("city", "device", "site"),
    "id",
    "click",
)


def main(path: str, penalties: list[float]) -> None:
    spark = SparkSession.builder.getOrCreate()
    start = time.perf_counter()
    rows = spark.read.parquet(path)
    for name in NUMBERS:
        missing = F.col(name).isNull() | F.isnan(name)
        rows = rows.withColumn(f"no {name}", missing.cast("double"))
        rows = rows.withColumn(name, F.when(missing, 0.0).otherwise(F.col(name)))
    stages = [
        VectorAssembler(inputCols=list(NUMBERS), outputCol="numbers"),
        StandardScaler(inputCol="numbers", outputCol="scaled", withMean=True),
        FeatureHasher(inputCols=list(TOKENS), outputCol="tokens", numFeatures=64),
        VectorAssembler(
            inputCols=["scaled", *(f"no {n}" for n in NUMBERS), "tokens"], outputCol="all"
        ),
        Normalizer(inputCol="all", outputCol="features"),
    ]
    made = Pipeline(stages=stages).fit(rows).transform(rows).select(KEY, LABEL, "features").cache()
    fifth = F.pmod(F.xxhash64(KEY), F.lit(5)) == 0
    train, test = made.filter(~fifth), made.filter(fifth)
    judge = BinaryClassificationEvaluator(labelCol=LABEL, numBins=0)
    auc = {}
    for penalty in penalties:
        model = LogisticRegression(labelCol=LABEL, regParam=penalty).fit(train)
        auc[penalty] = judge.evaluate(model.transform(test))
    best = max(auc, key=lambda penalty: auc[penalty])
    LogisticRegression(labelCol=LABEL, regParam=best).fit(made)
    taken = round(time.perf_counter() - start, 1)
    print(json.dumps({"seconds": taken, "auc": auc[best], "regParam": best}))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
