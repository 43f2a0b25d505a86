"""Days of raw clicks with planted drift, one spark-submit of the job ``retrain`` a day.

Effects of columns move gradually and follow a week and a month; on one day those of the cities turn
suddenly. On poisoned days the labels of at least half of the rows are flipped. A day's rows are
deleted after its run; this program keeps them for an oracle (`benchmarks.retraining_oracle`), which
trains on all rows of the window by numpy and scikit-learn.

Prints a line for each day, and a summary: differences from the oracle (window, penalty, outcome,
weights, AUCs), promotions at a poisoned gate or of a challenger whose newest day is poisoned, and
seconds of a day beside those of Spark ML's logistic regression, of the same penalties on the rows
of the window, each in a spark-submit of its own. Exits with 1 if anything differs from the oracle.

With ``--one-process``, all days run in one process, without the comparison of times.

    python -m benchmarks.retraining --days 60 --rows 6000
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from benchmarks.retraining_oracle import DIMENSION, FOLDS, KEY, LABEL, NUMBERS, TOKENS, Oracle

JOB = Path(__file__).parents[1] / "jobs" / "retrain.py"
BASELINE = Path(__file__).with_name("retraining_baseline.py")
FIRST = date(2026, 1, 1)
WINDOWS = [7, 30, 90]
PENALTIES = [1e-5, 1e-4, 1e-3, 1e-2, 1e-1]
CITIES = ["Bern", "Rome", "Oslo", "Kyiv", "Lima", "Łódź", "Rio, RJ", ""]
DEVICES = ["phone", "desktop", "tablet", "television"]
# Day: share of rows whose labels are flipped.
POISONED = {12: 0.5, 19: 1.0, 26: 0.6, 37: 0.7, 45: 0.9, 53: 0.8}
# Short-lived JVMs: half of their time would go into optimising their code.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Beside the interpreter, which need not be on the path.
SUBMIT = str(Path(sys.executable).with_name("spark-submit"))
SPARK = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.log.level": "ERROR",
}


_SESSION = contextlib.ExitStack()


def day(k: int) -> str:
    return (FIRST + timedelta(days=k)).isoformat()


def rows_of(k: int, count: int, turn: int) -> dict[str, np.ndarray]:
    """The rows of day ``k``."""
    rng = np.random.default_rng([11, k])
    price, age = rng.lognormal(3, 0.6, count), rng.normal(45, 14, count)
    position = rng.integers(1, 9, count)
    city, device = rng.integers(0, len(CITIES), count), rng.integers(0, len(DEVICES), count)
    site = rng.integers(0, 120, count)
    missing = rng.random(count) < 0.2
    of_city = np.linspace(1.2, -1.2, len(CITIES))
    if k >= turn:
        of_city = of_city[::-1]
    of_device = np.array([0.6, -0.6, 0.2, -0.2]) * np.cos(2 * np.pi * k / 7)
    of_site = 0.8 * np.random.default_rng(7).normal(size=120)
    logit = (
        -3.1
        + (0.9 - 0.03 * k) * (np.log(price) - 3) / 0.6
        - 0.15 * (1 + 0.3 * np.sin(2 * np.pi * k / 30)) * (position - 1)
        + np.where(missing, 0.3, 0.02 * (age - 45))
        + of_city[city]
        + of_device[device]
        + of_site[site]
    )
    y = rng.random(count) < 1 / (1 + np.exp(-logit))
    y ^= rng.random(count) < POISONED.get(k, 0.0)
    return {
        KEY: np.arange(count) + k * count,
        "price": price,
        "age": np.where(missing, np.nan, age),
        "position": position,
        "city": np.array(CITIES)[city],
        "device": np.array(DEVICES)[device],
        "site": np.array([f"site {s}" for s in site]),
        LABEL: y.astype(int),
    }


def write(rows: dict[str, np.ndarray], path: str) -> None:
    pq.write_table(pa.table({k: pa.array(v, from_pandas=True) for k, v in rows.items()}), path)


def submitted(program: Path, *arguments: str) -> tuple[int, dict[str, Any], float]:
    """Exit code, result and seconds of a spark-submit."""
    start = time.perf_counter()
    with open("log.txt", "a") as log:
        ended = subprocess.run(
            [SUBMIT, "--master", "local[2]", "--driver-memory", "2g"]
            + [part for k, v in SPARK.items() for part in ("--conf", f"{k}={v}")]
            + [str(program), *arguments],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            check=False,
            env=os.environ | {"PYSPARK_PYTHON": sys.executable, "JDK_JAVA_OPTIONS": JAVA},
        )
    lines = ended.stdout.splitlines()
    return ended.returncode, json.loads(lines[-1]) if lines else {}, time.perf_counter() - start


def in_process(config: str) -> tuple[int, dict[str, Any], float]:
    """As `submitted` of the job, in this process, which keeps its session."""
    from spark_auc.app.running import run
    from spark_auc.spark.data.session import session

    logging.disable(logging.WARNING)
    start, output = time.perf_counter(), io.StringIO()
    # The first session of the process is the active one of all later runs.
    _SESSION.enter_context(session("retraining", SPARK | {"spark.master": "local[2]"}))
    with contextlib.redirect_stdout(output):
        code = run("retrain", config)
    return code, json.loads(output.getvalue().splitlines()[-1]), time.perf_counter() - start


def compared(found: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    """Differences of a record from the oracle."""
    same = found["outcome"] == record["outcome"]
    compared: dict[str, Any] = {"sameOutcome": same}
    if record["challenger"] is None:
        return compared
    made, model = record["challenger"], found["model"]
    of_record = (made["window"], made["regParam"])
    compared["samePenalty"] = of_record == (str(model.window), model.penalty)
    aucs = [record["gate"]["auc"][name]["auc"] for name in record["gate"]["auc"]]
    differences = [abs(a - b) for a, b in zip(aucs, found["auc"], strict=True)]
    compared["aucDifference"] = max(differences)
    if "z" in found:
        compared["zDifference"] = abs(found["z"] - record["z"])
    return compared


def summarised(days: list[dict[str, Any]]) -> dict[str, Any]:
    """Totals of the days; see the head of this file."""

    def largest(name: str) -> float:
        return max((line[name] for line in days if name in line), default=0.0)

    promoted = [line for line in days if line["outcome"] == "promoted"]
    differences = {name: largest(name) for name in ("weightDifference", "aucDifference")}
    poisoned = {k for flipped in POISONED for k in (flipped, flipped + 1)}
    return {
        "days": len(days),
        "promoted": [line["day"] for line in promoted],
        "won": [line["day"] for line in promoted if line["won"]],
        "poisonedPromoted": sorted({line["day"] for line in promoted} & poisoned),
        "promotedAfterPoison": {
            line["day"]: line["poisonedDaysInWindow"]
            for line in promoted
            if line["poisonedDaysInWindow"]
        },
        "leastPositives": min(line["positives"] for line in days),
        "otherOutcomes": [line["day"] for line in days if not line["sameOutcome"]],
        "otherPenalties": [line["day"] for line in days if not line.get("samePenalty", True)],
        **differences,
        "zDifference": largest("zDifference"),
        "asTheOracle": all(line["sameOutcome"] and line.get("samePenalty", True) for line in days)
        and max(differences.values()) <= 1e-10,
    }


def weights() -> np.ndarray:
    """The weights of the published champion."""
    manifest = json.loads(Path("model/manifest.json").read_text())
    table = pq.read_table(f"model/{manifest['directory']}/model/ranker/data")
    return np.asarray(table["weight"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=60)
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--turn", type=int, default=31)
    parser.add_argument("--one-process", action="store_true")
    args = parser.parse_args()
    home = tempfile.mkdtemp()
    os.chdir(home)
    Path("clicks").mkdir()
    section = {
        "data": {"path": "clicks/{period}.parquet"},
        "columns": {"label": LABEL, "key": KEY},
        "features": {
            "standard": list(NUMBERS),
            "tokens": list(TOKENS),
            "auto": False,
            "dimension": DIMENSION,
        },
        "folds": FOLDS,
        "store": "moments",
        "history": "history",
        "first": day(0),
        "windows": WINDOWS,
        "training": {"regParams": PENALTIES, "tol": 1e-12},
        "output": {"path": "model"},
    }
    oracle = Oracle(WINDOWS, PENALTIES)
    days: list[dict[str, Any]] = []
    seconds, warned = [], set[int]()
    for k in range(args.days):
        rows, path = rows_of(k, args.rows, args.turn), f"clicks/{day(k)}.parquet"
        write(rows, path)
        Path("conf.yaml").write_text(yaml.safe_dump({"retrain": section | {"period": day(k)}}))
        if args.one_process:
            code, result, taken = in_process("conf.yaml")
        else:
            code, result, taken = submitted(JOB, "--config", "conf.yaml")
        if code:
            print(json.dumps(result), Path("log.txt").read_text()[-3000:], file=sys.stderr)
            return 1
        Path(path).unlink()
        seconds.append(taken)
        record = json.loads(Path(f"history/{day(k)}.json").read_text())
        if record["drift"]["warnings"]:
            warned.add(k)
        expected = oracle.decide(rows, warned)
        line = {
            "day": k,
            "positives": int(rows[LABEL].sum()),
            "flipped": POISONED.get(k, 0.0),
            "outcome": record["outcome"],
            "warned": k in warned,
            "seconds": record["seconds"],
        } | compared(expected, record)
        if (made := record["challenger"]) is not None:
            line |= {"window": made["window"], "regParam": made["regParam"]}
        if record["outcome"] == "promoted":
            model = expected["model"]
            line["weightDifference"] = float(
                np.abs(weights() - model.w).max() / np.abs(model.w).max()
            )
            line["won"] = record["won"]
            used = {*range(max(0, k - model.window), k)}
            line["poisonedDaysInWindow"] = sorted(used & {*POISONED})
        days.append(line)
        print(json.dumps(line), flush=True)
    summary = summarised(days) | {
        "rowsPerDay": args.rows,
        "secondsPerDay": round(float(np.median(seconds[1:])), 1),
        "ofWhichInTheJob": round(float(np.median([line["seconds"] for line in days[1:]])), 1),
    }
    if not args.one_process:
        made = record["challenger"]
        ranges = range(args.days - 1 - made["periods"], args.days - 1)
        window = [rows_of(k, args.rows, args.turn) for k in ranges]
        write({name: np.concatenate([rows[name] for rows in window]) for name in window[0]}, "all")
        code, baseline, whole = submitted(BASELINE, "all", json.dumps(PENALTIES))
        summary |= {
            "windowRows": sum(made["rows"]),
            "secondsOfLogisticRegression": round(whole, 1),
            "ofWhichTraining": baseline["seconds"],
        }
    print(json.dumps(summary))
    _SESSION.close()
    shutil.rmtree(home)
    return 0 if summary["asTheOracle"] and not summary["poisonedPromoted"] and not code else 1


if __name__ == "__main__":
    sys.exit(main())
