"""Exact evaluation against Spark ML's BinaryClassificationEvaluator on the same rows.

Prints one JSON object. Seconds are wall time of warm runs over Parquet files with a score and a
label. Machines are noisy: compare the ratios, which are of one run.
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

# Number of repeats; the fastest counts.
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
    parser.add_argument("--heap", default="1g", help="heap size of the driver")
    parser.add_argument("--alone", action="store_true", help="skip Spark ML's evaluator")
    arguments = parser.parse_args()
    conf = SETTINGS | {"spark.driver.memory": arguments.heap}
    with session("benchmark", conf) as spark, tempfile.TemporaryDirectory() as work:
        spark.sparkContext.setLogLevel("ERROR")
        df = rows(spark, arguments.rows, f"{work}/rows")
        scan, _ = seconds(lambda: df.agg(F.sum("score"), F.sum("label")).first(), REPEATS)
        exact, report = seconds(lambda: evaluate(df, scoreCol="score"), REPEATS)
        binned, bounds = seconds(
            lambda: evaluate(df, scoreCol="score", exact=False).bounds, REPEATS
        )
        evaluator_stage = AUCEvaluator(rawPredictionCol="score")
        evaluator, _ = seconds(lambda: evaluator_stage.evaluate(df), REPEATS)
        result = {
            "rows": arguments.rows,
            "scan": scan,
            "report": exact,
            "histogram": binned,
            "evaluator": evaluator,
            "auc": report.auc,
            "interval": [report.interval.lower, report.interval.upper],
            "bounds": bounds,
        }
        if not arguments.alone:
            spark_evaluator = BinaryClassificationEvaluator(rawPredictionCol="score", numBins=0)
            spark_ml, area = seconds(lambda: spark_evaluator.evaluate(df), REPEATS)
            result |= {
                "sparkML": spark_ml,
                "sparkMLAUC": area,
                "sparkML/report": spark_ml / exact,
                "difference": area - report.auc,
            }
        print(json.dumps(result))


if __name__ == "__main__":
    main()
