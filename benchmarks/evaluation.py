"""Exact evaluation against Spark ML's BinaryClassificationEvaluator on the same rows.

Prints one JSON object. Seconds are wall time of warm runs over Parquet files with a score and a
label. Machines are noisy: compare the ratios, which are of one run.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from contextlib import ExitStack
from typing import Any

from pyspark.ml.evaluation import BinaryClassificationEvaluator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.measuring import SETTINGS, PeakMemory, seconds, standalone
from spark_auc import AUCEvaluator, evaluate
from spark_auc.spark.data.session import session

# Number of repeats; the fastest counts.
REPEATS = 3


def rows(spark: SparkSession, count: int, share: float = 0.05) -> DataFrame:
    """Rows of two Gaussian classes, a ``share`` of them positive, a million in each partition."""
    label = (F.rand(1) < share).cast("double")
    return spark.range(count).select(
        "id", label.alias("label"), (F.randn(2) + label).alias("score")
    )


def written(df: DataFrame, path: str) -> DataFrame:
    """The rows as Parquet files."""
    df.write.parquet(path)
    return df.sparkSession.read.parquet(path)


def in_groups(df: DataFrame, groups: int, large: int) -> dict[str, Any]:
    """Time and memory of groups at random, but for the first ``large`` rows, which are one."""
    number = F.when(F.col("id") < large, 0).otherwise(F.abs(F.xxhash64("id")) % groups)
    grouped = df.select("score", "label", F.concat(F.lit("user "), number).alias("user"))
    plain, _ = seconds(lambda: evaluate(df, scoreCol="score"))
    with PeakMemory() as memory:
        spent, report = seconds(lambda: evaluate(grouped, scoreCol="score", groupCol="user"))
    found = report.groups
    positive, negative = found.measures.positive, found.measures.negative
    return {
        "groups": len(found),
        "largest": int((positive + negative).max()),
        "gauc": found.gauc,
        "without": plain,
        "seconds": spent,
        **peaks(memory),
    }


def peaks(memory: PeakMemory) -> dict[str, float]:
    """Peak resident memory in MiB of the processes."""
    found = {"driverMiB": memory.driver, "jvmMiB": memory.jvm, "workerMiB": memory.worker}
    return found | ({"executorMiB": memory.executor} if memory.executor else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--heap", default="1g", help="heap size of the driver")
    parser.add_argument("--groups", type=int, help="measure this number of groups alone, once")
    parser.add_argument("--large", type=int, default=0, help="rows of one of these groups")
    parser.add_argument("--once", action="store_true", help="evaluate rows without files, once")
    parser.add_argument("--alone", action="store_true", help="skip Spark ML's evaluator")
    parser.add_argument("--executors", help="heap size of two executors, instead of local mode")
    arguments = parser.parse_args()
    conf = SETTINGS | {"spark.driver.memory": arguments.heap}
    with ExitStack() as stack:
        if arguments.executors:
            master = stack.enter_context(standalone(2, "8g"))
            conf |= {"spark.master": master, "spark.executor.memory": arguments.executors}
        work = stack.enter_context(tempfile.TemporaryDirectory())
        spark = stack.enter_context(session("benchmark", conf))
        spark.sparkContext.setLogLevel("ERROR")
        df = rows(spark, arguments.rows, 0.3 if arguments.groups else 0.05)
        if arguments.once:
            with PeakMemory() as memory:
                spent, report = seconds(lambda: evaluate(df, scoreCol="score"))
            interval = [report.interval.lower, report.interval.upper]
            told = {"rows": arguments.rows, "seconds": spent, "auc": report.auc}
            print(json.dumps(told | {"interval": interval} | peaks(memory)))
            return
        df = written(df, f"{work}/rows")
        if arguments.groups:
            print(json.dumps(in_groups(df, arguments.groups, arguments.large)))
            return
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
