"""Rows of 2^20 hashed features: all penalties and folds, beside three fits of Spark ML.

The first part lets `MBAClassifier` choose among 25 penalties in 5 folds, and fits Spark ML's
logistic regression with three penalties on the same rows, cached; ``--reg-param`` fits one penalty
of `MBAClassifier` alone, for rows that take long, and ``--covariance head=4000 lowRank=50``
approximate covariances beside the exact ones. Prints one JSON object per measurement: wall and
CPU seconds, and the peak memory of the driver's Python process and of the Python workers.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
from typing import Any

from pyspark.ml.classification import LogisticRegression
from pyspark.ml.functions import vector_to_array
from pyspark.sql import DataFrame

from benchmarks.main_job import auc, stored
from benchmarks.measuring import SETTINGS, PeakMemory, cpu_seconds, seconds
from spark_auc import MBAClassifier
from spark_auc.spark.data.session import session
from spark_auc.spark.data.synthetic import click_data

DIMENSION = 1 << 20
PLANTED = {"dimension": DIMENSION, "positive_rate": 0.05, "ceiling": 0.85, "seed": 7}
# regParam of logistic regression, of which a user would compare a few.
LR_PENALTIES = (1e-6, 1e-5, 1e-4)


def fitted(train: DataFrame, test: DataFrame, **params: Any) -> dict[str, Any]:
    """One fit of MBAClassifier."""
    before = cpu_seconds()
    with PeakMemory() as peak:
        spent, model = seconds(lambda: MBAClassifier(standardization=False, **params).fit(train))
    summary = model.summary
    result = {
        "fit": spent,
        "cpu": cpu_seconds() - before,
        "driverMiB": peak.driver,
        "workersMiB": peak.workers,
        "form": summary.form,
        "phases": summary.seconds,
        "certificate": summary.certificate,
        "auc": auc(model.transform(test), "rawPrediction"),
        "regParam": model.getRegParam(),
    }
    if summary.selection:
        candidates = summary.selection["candidates"]
        result["solved"] = sum(c["leftOut"] is None for c in candidates)
        result["candidates"] = len(candidates)
    return result


def logistic(train: DataFrame, test: DataFrame) -> dict[str, Any]:
    """Three fits of Spark ML's logistic regression on cached rows."""
    cached = train.cache()
    cached.count()
    fits = []
    for reg in LR_PENALTIES:
        lr = LogisticRegression(regParam=reg, maxIter=100, standardization=False)
        spent, model = seconds(lambda lr=lr: lr.fit(cached))
        scored = model.transform(test).withColumn("s", vector_to_array("rawPrediction")[1])
        iterations = model.summary.totalIterations
        fits.append(
            {"regParam": reg, "fit": spent, "iterations": iterations, "auc": auc(scored, "s")}
        )
        print(json.dumps({"lr": fits[-1]}), flush=True)
    cached.unpersist()
    return {"fits": fits, "fit": sum(fit["fit"] for fit in fits)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=2e6, help="number of rows")
    parser.add_argument("--reg-param", type=float, help="fit this penalty alone")
    parser.add_argument("--covariance", nargs="*", default=[], help="kind=size, one or more")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    n = int(arguments.rows)
    with session("benchmark", SETTINGS) as spark, tempfile.TemporaryDirectory() as work:
        spark.sparkContext.setLogLevel("ERROR")
        rows = click_data(spark, n + 100_000, **PLANTED)
        train = stored(rows.filter(f"id < {n}"), f"{work}/train")
        test = stored(rows.filter(f"id >= {n}"), f"{work}/test")
        for covariance in arguments.covariance:
            kind, _, size = covariance.partition("=")
            params = {
                "covariance": kind,
                "headSize" if kind == "head" else "covarianceRank": int(size),
            }
            if arguments.reg_param:
                params["regParam"] = arguments.reg_param
            result = fitted(train, test, **params)
            print(json.dumps({"rows": n, "covariance": covariance} | result), flush=True)
        if arguments.reg_param:
            result = fitted(train, test, regParam=arguments.reg_param)
            print(json.dumps({"rows": n, "features": DIMENSION} | result))
            return
        result = fitted(train, test)
        print(json.dumps({"rows": n, "features": DIMENSION} | result), flush=True)
        theirs = logistic(train, test)
        ratio = theirs["fit"] / result["fit"]
        print(json.dumps({"three fits of lr": theirs["fit"], "lr/choice": ratio}))


if __name__ == "__main__":
    main()
