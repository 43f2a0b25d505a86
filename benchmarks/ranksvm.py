"""RankSVM by gathered scores and by ranges of them, against Spark ML logistic regression.

All three are fitted in one run on the same synthetic clicks: 39 tokens a row, hashed to 10,000
features. Prints one JSON object per fit: seconds, AUC on held-out rows, certificate, and peak
resident memory: of the Python driver and of the Python workers during the fit, and of the JVM so
far, which in local mode includes cached rows and the tasks of Spark ML. The machine is noisy:
compare the ratios.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from pyspark.ml.classification import LogisticRegression
from pyspark.ml.functions import vector_to_array
from pyspark.sql import DataFrame, SparkSession

from benchmarks.main_job import auc, stored
from benchmarks.measuring import SETTINGS, PeakMemory, seconds
from spark_auc import RankSVMClassifier
from spark_auc.spark.data.session import session
from spark_auc.spark.data.synthetic import click_data
from spark_auc.training import ranksvm

_PLANTED = {"dimension": 10_000, "positive_rate": 0.2, "ceiling": 0.75, "seed": 1}


def show(name: str, spark: SparkSession, took: float, memory: PeakMemory, **facts: Any) -> None:
    """Print one measurement."""
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    lines = Path(f"/proc/{jvm}/status").read_text().splitlines()
    peak = next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))
    sizes = {"driverMiB": int(memory.driver), "workersMiB": int(memory.workers), "jvmMiB": peak}
    print(json.dumps({"fit": name, "seconds": took, **sizes, **facts}), flush=True)


def rank(name: str, gathered: int, train: DataFrame, test: DataFrame, reg: float) -> float:
    """Fit RankSVM, with gathered scores for at most ``gathered`` rows; its seconds."""
    ranksvm._GATHERED = gathered
    estimator = RankSVMClassifier(regParam=reg, standardization=False)
    with PeakMemory() as memory:
        took, model = seconds(lambda: estimator.fit(train))
    facts = {"auc": auc(model.transform(test), "rawPrediction")}
    show(name, train.sparkSession, took, memory, **facts, certificate=model.summary.certificate)
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--reg-param", type=float, default=1e-4)
    parser.add_argument("--only-ranges", action="store_true", help="do not gather scores")
    parser.add_argument("--alone", action="store_true", help="do not fit logistic regression")
    arguments = parser.parse_args()
    n, reg = arguments.rows, arguments.reg_param
    with session("benchmark", SETTINGS) as spark, tempfile.TemporaryDirectory() as work:
        spark.sparkContext.setLogLevel("ERROR")
        rows = click_data(spark, n + n // 10, **_PLANTED)
        train = stored(rows.filter(f"id < {n}"), f"{work}/train")
        test = stored(rows.filter(f"id >= {n}"), f"{work}/test")
        RankSVMClassifier(regParam=1.0, standardization=False, tol=0.1).fit(test)
        took = {"ranges": rank("ranges", 0, train, test, reg)}
        if not arguments.only_ranges:
            took["gathered"] = rank("gathered", n, train, test, reg)
        if arguments.alone:
            return
        cached = train.cache()
        cached.count()
        lr = LogisticRegression(maxIter=100, regParam=0.0, standardization=False, tol=1e-6)
        with PeakMemory() as memory:
            lr_took, model = seconds(lambda: lr.fit(cached))
        scored = model.transform(test).withColumn("s", vector_to_array("rawPrediction")[1])
        iterations = model.summary.totalIterations
        show("lr", spark, lr_took, memory, auc=auc(scored, "s"), iterations=iterations)
        print(json.dumps({f"{name}/lr": s / lr_took for name, s in took.items()}))


if __name__ == "__main__":
    main()
