"""The opauc job on a stream of files, killed with SIGKILL at random times and restarted.

Compares the final state with that of an uninterrupted run on the same files, some of which are
corrupt. More than 1,000 features are sparse, 20 of them in a row; ``--learner`` and ``--training``
are those of the job. Prints one JSON object; exits with 1 unless the states are equal in bits and
no file was lost or counted twice.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from spark_auc.app.jobs.stream_state import Checkpoint, StreamState
from spark_auc.publication.directory import Directory

JOB = Path(__file__).parents[1] / "jobs" / "opauc.py"
VICTIMS = ("driver", "worker", "driver", "worker", "jvm")
# Most features that are columns of their own, and entries of a row of more.
_DENSE, _STORED = 1000, 20
SPARK = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def make_files(where: Path, files: int, rows: int, dimension: int, seed: int) -> int:
    """Write the files, every 40th of them corrupt; returns the number of valid rows."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=dimension)
    where.mkdir(parents=True)
    total = 0
    for k in range(files):
        # Files differ in their numbers of rows, so that the total reveals a lost file.
        n = rows + k
        if dimension > _DENSE:
            indices = np.sort(rng.zipf(1.3, size=(n, _STORED)) % dimension, axis=1)
            values = rng.normal(size=(n, _STORED))
            # An entry that occurs twice in a row would be refused.
            values[:, 1:][indices[:, 1:] == indices[:, :-1]] = np.nan
            y = np.nansum(values * weights[indices], axis=1) + rng.normal(size=n) > 2
            kept = [~np.isnan(row) for row in values]
            X = {
                "indices": [i[k] for i, k in zip(indices.astype(np.int32), kept, strict=True)],
                "values": [v[k] for v, k in zip(values, kept, strict=True)],
            }
        else:
            dense = rng.normal(size=(n, dimension)) + 10
            y = (dense - 10) @ weights + 2 * rng.normal(size=n) > 2
            X = {f"f{j}": dense[:, j] for j in range(dimension)}
        table = {"label": y.astype(float)} | X
        path = where / f"{k:05d}.parquet"
        pq.write_table(pa.table(table), path)
        if k % 40 == 7:
            path.write_bytes(path.read_bytes()[:-20])
        else:
            total += n
        os.utime(path, (1.7e9 + 60 * k, 1.7e9 + 60 * k))
    return total


def configure(home: Path, arguments: argparse.Namespace) -> Path:
    dimension, training = arguments.dimension, json.loads(arguments.training)
    features = [f"f{j}" for j in range(dimension)] if dimension <= _DENSE else ["indices", "values"]
    kinds = ["double"] * dimension if dimension <= _DENSE else ["array<int>", "array<double>"]
    columns = [f"{name} {kind}" for name, kind in zip(features, kinds, strict=True)]
    all_pairs = arguments.learner == "MBAClassifier"
    config = {
        "spark": {"conf": SPARK},
        "opauc": {
            "data": {"path": str(home / "arriving")},
            "columns": {
                "features": features,
                "numFeatures": dimension if dimension > _DENSE else None,
            },
            "learner": arguments.learner,
            "training": training,
            "stream": {
                "checkpoint": str(home / "checkpoint"),
                "schema": ", ".join(["label double", *columns]),
                "maxFilesPerTrigger": arguments.per_batch,
                "halfLife": {"rows": 50_000} if all_pairs else None,
            },
            "output": {"path": str(home / "model")},
        },
    }
    path = home / "conf.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def started(config: Path) -> subprocess.Popen[bytes]:
    log = (config.parent / "log.txt").open("ab")
    return subprocess.Popen(
        [sys.executable, str(JOB), "--config", str(config), "--stream"],
        stdout=log,
        stderr=log,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
    )


def descendants_of(pid: int) -> list[int]:
    """Ids of all descendants of a process."""
    parents: dict[int, int] = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                text = (process / "stat").read_text()
            except OSError:
                continue
            parents[int(process.name)] = int(text.rpartition(")")[2].split()[1])
    descendants, pending = [], [pid]
    while pending:
        current = pending.pop()
        children = [child for child, parent in parents.items() if parent == current]
        descendants += children
        pending += children
    return descendants


def proc_file(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except OSError:
        return ""


def victim(job: int, kind: str) -> int | None:
    if kind == "driver":
        return job
    if kind == "jvm":
        return next((p for p in descendants_of(job) if "java" in proc_file(p, "cmdline")), None)
    # The first process of this name is the daemon; the workers are its forks.
    daemons = [p for p in descendants_of(job) if "pyspark.daemon" in proc_file(p, "cmdline")]
    running = [
        p for p in daemons[1:] if proc_file(p, "stat").rpartition(")")[2].split()[:1] == ["R"]
    ]
    return running[0] if running else None


def lines(home: Path) -> list[dict[str, Any]]:
    path = home / "checkpoint" / "status.jsonl"
    text = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in text if line.endswith("\n")]


def interrupt(
    job: subprocess.Popen[bytes], home: Path, kind: str, batches: int, delay: float
) -> Any:
    """Kill a process ``delay`` seconds after ``batches`` batches are done."""
    while len(lines(home)) < batches and job.poll() is None:
        time.sleep(0.02)
    time.sleep(delay)
    finished, shots, deadline = len(lines(home)), 0, time.monotonic() + 60
    # Spark replaces a worker that dies between two tasks, so one kill may have no effect.
    while job.poll() is None and time.monotonic() < deadline:
        if (pid := victim(job.pid, kind)) is not None:
            os.kill(pid, signal.SIGKILL)
            shots += 1
        time.sleep(0.05)
    return {"killed": kind, "shots": shots, "batchesDone": finished, "exit": job.poll()}


def final(home: Path) -> StreamState:
    directory = Directory.of(str(home / "checkpoint"))
    arriving = Directory.of(str(home / "arriving"))
    return Checkpoint(directory, directory / "rejected", arriving).load()


def same_lines(a: Path, b: Path) -> bool:
    timed = ("seconds", "rowsPerSecond")
    first, second = (
        [{k: v for k, v in li.items() if k not in timed} for li in lines(h)] for h in (a, b)
    )
    return first == second


def same_names(a: Path, b: Path, where: str) -> bool:
    return sorted(os.listdir(a / where)) == sorted(os.listdir(b / where))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--dimension", type=int, default=8)
    parser.add_argument("--per-batch", type=int, default=4)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--learner", default="MBAClassifier")
    parser.add_argument("--training", default='{"regParam": 0.1}', help="as JSON")
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as base:
        complete, killed = Path(base) / "complete", Path(base) / "killed"
        expected = make_files(
            complete / "arriving",
            arguments.files,
            arguments.rows,
            arguments.dimension,
            arguments.seed,
        )
        shutil.copytree(complete / "arriving", killed / "arriving")
        configs = [configure(h, arguments) for h in (complete, killed)]
        start = time.monotonic()
        code = started(configs[0]).wait(1800)
        seconds = time.monotonic() - start
        batches = len(lines(complete))
        # Before the last batches: a finished job cannot be killed.
        moments = sorted(rng.sample(range(batches - 2), arguments.kills))
        kills = []
        for k, at in enumerate(moments):
            job = started(configs[1])
            kind = VICTIMS[k % len(VICTIMS)]
            kills.append(interrupt(job, killed, kind, at, rng.uniform(0, 0.6)))
            job.kill()
            job.wait()
        codes = [code, started(configs[1]).wait(1800)]
        states = [final(h) for h in (complete, killed)]
        bits = [s.statistics.to_bytes() if s.statistics else b"" for s in states]
        rows = [s.statistics.rows if s.statistics else 0 for s in states]
        checks = {
            "exitCodes": codes == [0, 0],
            "bits": bits[0] == bits[1] != b"",
            "rows": rows == [expected, expected],
            "status": same_lines(complete, killed),
            "rejected": same_names(complete, killed, "checkpoint/rejected"),
            "remaining": same_names(complete, killed, "arriving"),
            "kills": all(kill["exit"] for kill in kills),
        }
        log = (killed / "log.txt").read_text()
        result = {
            "identical": all(checks.values()),
            "checks": checks,
            "files": arguments.files,
            "batches": batches,
            "rows": rows[1],
            "rejected": states[1].progress.rejected,
            "prequentialAUC": states[1].progress.status["prequentialAUC"],
            "kills": kills,
            # Batches that were killed between their own commit and Spark's.
            "batchesHandedOverTwice": log.count("was learned already"),
            "secondsUninterrupted": round(seconds, 1),
        }
        if not result["identical"]:
            print(log[-3000:], file=sys.stderr)
    print(json.dumps(result))
    return 0 if result["identical"] else 1


if __name__ == "__main__":
    sys.exit(main())
