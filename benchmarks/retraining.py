"""Days of raw clicks with planted drift, one run of the job ``retrain`` a day.

The weights of the columns move gradually, turn suddenly on one day and follow a week; on poisoned
days the labels of more than half of the rows are flipped. A day's rows are deleted after its run.
Prints a line for each day, and a summary: promotions, poisoned days that were promoted, the largest
difference between a champion's weights and those of numpy from all rows of its window, the median
seconds of a day, and those of Spark ML's logistic regression over the same number of penalties on
the rows of the window.

    python -m benchmarks.retraining --days 60 --rows 20000
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import os
import tempfile
import time
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.evaluation import BinaryClassificationEvaluator
from pyspark.ml.feature import VectorAssembler

from benchmarks.measuring import SETTINGS
from spark_auc.app.cli import run
from spark_auc.app.jobs.champion import read_champion
from spark_auc.spark.data.session import session

FIRST = date(2026, 1, 1)
COLUMNS = 8
PENALTIES = [1e-4, 1e-3, 1e-2, 1e-1]


def day(k: int) -> str:
    return (FIRST + timedelta(days=k)).isoformat()


def effects(k: int, turn: int) -> np.ndarray:
    """The planted weights of day ``k``."""
    base = np.linspace(1.0, -1.0, COLUMNS)
    base = base + 0.01 * k * np.cos(np.arange(COLUMNS))
    base[0] += 0.5 * np.sin(2 * np.pi * k / 7)
    return base if k < turn else base[::-1]


def rows(k: int, count: int, turn: int, poisoned: bool) -> pa.Table:
    rng = np.random.default_rng([11, k])
    X = rng.normal(size=(count, COLUMNS))
    y = rng.random(count) < 1 / (1 + np.exp(2.5 - 0.7 * X @ effects(k, turn)))
    if poisoned:
        y ^= rng.random(count) < 0.6
    return pa.table({"label": y.astype(int)} | {f"x{j}": X[:, j] for j in range(COLUMNS)})


def by_all_rows(record: dict[str, Any], kept: dict[str, pa.Table]) -> np.ndarray:
    """Ridge weights by numpy from the rows of a champion's window, raw columns."""
    made = record["challenger"]
    table = pa.concat_tables([t for p, t in kept.items() if made["from"] <= p <= made["to"]])
    y = table["label"].to_numpy() > 0
    X = np.column_stack([table[f"x{j}"].to_numpy() for j in range(COLUMNS)])
    scale = X.std(axis=0, ddof=1)
    P, N = X[y] / scale, X[~y] / scale
    mu = P.mean(0) - N.mean(0)
    Sigma = np.cov(P.T, bias=True) + np.cov(N.T, bias=True) + np.outer(mu, mu)
    return np.linalg.solve(Sigma + made["regParam"] * np.eye(COLUMNS), mu) / scale


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=60)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--poisoned", type=int, nargs="*", default=[12, 13, 25, 36, 47, 55])
    parser.add_argument("--turn", type=int, default=30)
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    os.chdir(tempfile.mkdtemp())
    Path("clicks").mkdir()
    names = [f"x{j}" for j in range(COLUMNS)]
    section = {
        "data": {"path": "clicks/{period}.parquet"},
        "columns": {"features": names},
        "store": "moments",
        "history": "history",
        "first": day(0),
        "windows": [7, 30, 90],
        "training": {"regParams": PENALTIES, "tol": 1e-12},
        # Poisoned days must lose at the gate, and not by drift.
        "drift": {"stopPSI": 1e9},
        "output": {"path": "model"},
    }
    kept: dict[str, pa.Table] = {}
    seconds, difference, promoted = [], 0.0, []
    with session("retraining", SETTINGS) as spark:
        for k in range(args.days):
            kept[day(k)] = rows(k, args.rows, args.turn, k in args.poisoned)
            path = Path(f"clicks/{day(k)}.parquet")
            pq.write_table(kept[day(k)], path)
            Path("conf.yaml").write_text(yaml.safe_dump({"retrain": section | {"period": day(k)}}))
            start = time.perf_counter()
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                code = run("retrain", "conf.yaml")
            seconds.append(time.perf_counter() - start)
            result = json.loads(output.getvalue().splitlines()[-1])
            path.unlink()
            outcome = result["periods"][0]["outcome"] if code == 0 else result["message"]
            print(json.dumps({"day": k, "poisoned": k in args.poisoned, "outcome": outcome}))
            if outcome == "promoted":
                champion = read_champion("model")
                assert champion is not None
                expected = by_all_rows(champion.record, kept)
                found = champion.model.ranker.scorer.w
                gap = float(np.abs(found - expected).max() / np.abs(expected).max())
                difference = max(difference, gap)
                promoted.append(k)
        last = read_champion("model")
        assert last is not None
        made = last.record["challenger"]
        window = pa.concat_tables([t for p, t in kept.items() if made["from"] <= p <= made["to"]])
        pq.write_table(window, "window.parquet")
        df = VectorAssembler(inputCols=names, outputCol="features").transform(
            spark.read.parquet("window.parquet")
        )
        start = time.perf_counter()
        train, test = (df.filter(f"pmod(xxhash64(x0), 5) {sign} 0") for sign in (">", "="))
        train.cache()
        judge = BinaryClassificationEvaluator(numBins=0)
        for penalty in PENALTIES:
            judge.evaluate(LogisticRegression(regParam=penalty).fit(train).transform(test))
        lr = time.perf_counter() - start
    median = float(np.median(seconds[1:]))
    summary = {
        "days": args.days,
        "rowsPerDay": args.rows,
        "promoted": promoted,
        "poisonedPromoted": sorted({*promoted} & {*args.poisoned}),
        "weightDifference": difference,
        "secondsPerDay": round(median, 2),
        "logisticRegressionSeconds": round(lr, 2),
        "windowRows": window.num_rows,
        "ratio": round(lr / median, 2),
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
