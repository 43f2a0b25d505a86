"""One fit of MBAClassifier against a bare scan and Spark ML logistic regression, in one run.

Prints one JSON object per measurement and a table of ratios. Seconds are wall time of warm runs
(kernels compiled, files in the page cache). Machines are noisy: compare the ratios.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, StructField, StructType
from threadpoolctl import threadpool_limits

from benchmarks.measuring import SETTINGS, seconds
from spark_auc import MBAClassifier
from spark_auc.core.moments.accumulator import Accumulator
from spark_auc.spark.data.resources import task_slots
from spark_auc.spark.data.session import session
from spark_auc.spark.data.synthetic import best_auc, click_data
from spark_auc.spark.evaluation.evaluate import evaluate
from spark_auc.tables.decoders import decode


def scan(df: DataFrame) -> float:
    """Seconds to read the same columns into Python workers and drop them there."""

    def drop(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows]})

    return seconds(lambda: df.mapInArrow(drop, "rows long").agg(F.sum("rows")).first(), 3)[0]


def kernel(df: DataFrame, dimension: int, rows: int, slots: int) -> float:
    """Seconds of the Gram product of all rows alone, with one thread per task slot."""
    sample = df.select("features").limit(rows // slots).toArrow()
    batches = [
        decode("vector", [b.column(0)], ["features"], dimension) for b in sample.to_batches()
    ]

    def run(_: int) -> None:
        accumulator = Accumulator(dimension)
        for X in batches:
            accumulator.add(X, np.arange(X.shape[0]), None)
        accumulator.finish()

    with threadpool_limits(1), ThreadPoolExecutor(slots) as pool:
        return seconds(lambda: list(pool.map(run, range(slots))))[0]


def auc(df: DataFrame, column: str) -> float:
    return evaluate(df, scoreCol=column).auc


def compare(name: str, train: DataFrame, test: DataFrame, **params: Any) -> dict[str, Any]:
    """Time MBAClassifier and logistic regression on the same rows."""
    spark = train.sparkSession
    dimension = len(train.first()["features"])
    rows, slots = train.count(), task_slots(spark)
    standardization = params.pop("standardization")
    mba = MBAClassifier(regParam=params.pop("mba"), standardization=standardization)
    mba.fit(train)
    fit_seconds, model = seconds(lambda: mba.fit(train), 2)
    scan_seconds = scan(train.select("features", "label"))
    gram_seconds = kernel(train, dimension, rows, slots)

    cached = train.cache()
    cache_seconds, _ = seconds(cached.count)
    lr = LogisticRegression(
        regParam=params.pop("lr"), maxIter=100, standardization=standardization, **params
    )
    lr_seconds, lr_model = seconds(lambda: lr.fit(cached))
    iterations = lr_model.summary.totalIterations
    cached.unpersist()

    scored = lr_model.transform(test).withColumn("s", vector_to_array("rawPrediction")[1])
    result = {
        "benchmark": name,
        "rows": rows,
        "features": dimension,
        "slots": slots,
        "fit": fit_seconds,
        "phases": model.summary.seconds,
        "scan": scan_seconds,
        "gram": gram_seconds,
        "fit/scan": fit_seconds / scan_seconds,
        "fit-scan-gram": fit_seconds - scan_seconds - gram_seconds,
        "lr": lr_seconds,
        "lrCache": cache_seconds,
        "lrIterations": iterations,
        "lrPerIteration": lr_seconds / max(iterations, 1),
        "lr/fit": lr_seconds / fit_seconds,
        "auc": auc(model.transform(test), "rawPrediction"),
        "lrAUC": auc(scored, "s"),
        "certificate": model.summary.certificate,
    }
    print(json.dumps(result), flush=True)
    return result


def dense_rows(spark: SparkSession, rows: int, dimension: int, seed: int) -> DataFrame:
    """Gaussian rows as dense vectors, with labels from a planted direction."""

    def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        w = np.random.default_rng(0).normal(size=dimension) / np.sqrt(dimension)
        for batch in batches:
            ids = batch.column(0).to_numpy()
            rng = np.random.default_rng([seed, int(ids[0])])
            X = rng.normal(size=(ids.size, dimension))
            y = X @ w + rng.normal(size=ids.size) > 2.0
            n, offsets = ids.size, np.arange(0, X.size + 1, dimension, np.int32)
            vector = pa.StructArray.from_arrays(
                [
                    pa.array(np.ones(n, np.int8)),
                    pa.nulls(n, pa.int32()),
                    pa.nulls(n, pa.list_(pa.int32())),
                    pa.ListArray.from_arrays(offsets, X.ravel()),
                ],
                ["type", "size", "indices", "values"],
            )
            yield pa.RecordBatch.from_arrays(
                [vector, pa.array(y.astype(float))], ["features", "label"]
            )

    schema = StructType([StructField("features", VectorUDT()), StructField("label", DoubleType())])
    return spark.range(rows).mapInArrow(make, schema)


def stored(df: DataFrame, path: str) -> DataFrame:
    # Files of equal size balance the tasks.
    df.repartition(8).write.parquet(path)
    return df.sparkSession.read.parquet(path)


def table(results: list[dict[str, Any]]) -> None:
    print(
        f"{'':8}{'fit s':>8}{'/scan':>8}{'-scan-gram':>12}{'LR s':>8}{'iter':>6}{'LR/fit':>8}"
        f"{'AUC':>8}{'LR AUC':>8}"
    )
    for r in results:
        print(
            f"{r['benchmark']:8}{r['fit']:8.1f}{r['fit/scan']:8.2f}{r['fit-scan-gram']:12.1f}"
            f"{r['lr']:8.1f}{r['lrIterations']:6d}{r['lr/fit']:8.2f}{r['auc']:8.4f}{r['lrAUC']:8.4f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the number of rows")
    parser.add_argument("--only", choices=["dense", "hard", "easy"], help="run this benchmark only")
    arguments = parser.parse_args()
    results = []
    with session("benchmark", SETTINGS) as spark, tempfile.TemporaryDirectory() as work:
        spark.sparkContext.setLogLevel("ERROR")
        if arguments.only in {None, "dense"}:
            n = int(800_000 * arguments.scale)
            train = stored(dense_rows(spark, n, 200, 1), f"{work}/dense")
            test = stored(dense_rows(spark, 100_000, 200, 2), f"{work}/dense-test")
            results.append(compare("dense", train, test, mba=1e-4, lr=1e-6, standardization=True))
        # Logistic regression stops early on these data unless its tolerance is out of reach.
        for name, rate, tol in (("hard", 0.05, 1e-15), ("easy", 0.2, 1e-6)):
            if arguments.only not in {None, name}:
                continue
            planted = {"dimension": 10_000, "positive_rate": rate, "ceiling": 0.75, "seed": 1}
            n = int(1_000_000 * arguments.scale)
            rows = click_data(spark, n + 100_000, **planted)
            train = stored(rows.filter(f"id < {n}"), f"{work}/{name}")
            test = stored(rows.filter(f"id >= {n}"), f"{work}/{name}-test")
            print(json.dumps({"benchmark": name, "bestAUC": best_auc(**planted)}), flush=True)
            results.append(
                compare(name, train, test, mba=1e-5, lr=0.0, tol=tol, standardization=False)
            )
    table(results)


if __name__ == "__main__":
    main()
