"""Exact evaluation beside Spark ML's BinaryClassificationEvaluator on the same rows, in one run.

Prints one JSON object per measurement. Seconds are wall time of warm runs over Parquet of a score
and a label; machines are noisy, so read the ratios.
"""

from __future__ import annotations

import argparse
import json
import tempfile

from pyspark.ml.evaluation import BinaryClassificationEvaluator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.measuring import SETTINGS, seconds
from spark_auc import AUCEvaluator, evaluate
from spark_auc.spark.data.session import session

# Repeats of which the fastest counts.
REPEATS = 3


def rows(spark: SparkSession, count: int, path: str) -> DataFrame:
    """Rows of two Gaussian classes, one positive in twenty."""
    label = (F.rand(1) < 0.05).cast("double")
    df = spark.range(count).select(label.alias("label"))
    df.withColumn("score", F.randn(2) + F.col("label")).write.parquet(path)
    return spark.read.parquet(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--heap", default="1g", help="heap of the driver")
    parser.add_argument("--alone", action="store_true", help="leave Spark ML's evaluator out")
    given = parser.parse_args()
    conf = SETTINGS | {"spark.driver.memory": given.heap}
    with session("benchmark", conf) as spark, tempfile.TemporaryDirectory() as work:
        spark.sparkContext.setLogLevel("ERROR")
        df = rows(spark, given.rows, f"{work}/rows")
        scan, _ = seconds(lambda: df.agg(F.sum("score"), F.sum("label")).first(), REPEATS)
        whole, report = seconds(lambda: evaluate(df, scoreCol="score"), REPEATS)
        binned, bounds = seconds(
            lambda: evaluate(df, scoreCol="score", exact=False).bounds, REPEATS
        )
        ours = AUCEvaluator(rawPredictionCol="score")
        evaluator, _ = seconds(lambda: ours.evaluate(df), REPEATS)
        result = {
            "rows": given.rows,
            "scan": scan,
            "report": whole,
            "histogram": binned,
            "evaluator": evaluator,
            "auc": report.auc,
            "interval": [report.interval.lower, report.interval.upper],
            "bounds": bounds,
        }
        if not given.alone:
            theirs = BinaryClassificationEvaluator(rawPredictionCol="score", numBins=0)
            spark_ml, area = seconds(lambda: theirs.evaluate(df), REPEATS)
            result |= {
                "sparkML": spark_ml,
                "sparkMLAUC": area,
                "sparkML/report": spark_ml / whole,
                "difference": area - report.auc,
            }
        print(json.dumps(result))


if __name__ == "__main__":
    main()
