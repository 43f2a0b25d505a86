"""Time and memory of a store of moments: put 30 days of 5 folds, read and merge them.

``python -m benchmarks.moment_store DIRECTORY [features] [days] [rows]`` prints JSON. Writing and
reading run in processes of their own, so that each has a peak of its own.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from datetime import date, timedelta

import numpy as np
from scipy import sparse

from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.store.facts import Facts
from spark_auc.store.moment_store import MomentStore
from spark_auc.store.windows import Window

FOLDS, ENTRIES, DISTINCT_DAYS = 5, 39, 3


def clicks(
    rng: np.random.Generator, d: int, n: int
) -> tuple[sparse.csr_matrix, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Rows of hashed tokens, few of them frequent, and their labels."""
    columns = (d * rng.random((n, ENTRIES)) ** 3).astype(np.int32)
    start = np.arange(0, n * ENTRIES + 1, ENTRIES)
    X = sparse.csr_matrix((np.ones(columns.size), columns.ravel(), start), (n, d))
    X.sum_duplicates()
    return X, rng.random(n) < 0.2


def peak() -> float:
    """Peak memory of this process in GB."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 2)


def write(location: str, d: int, days: int, n: int) -> dict[str, object]:
    """Put the days; the folds of a few days are put again under other dates."""
    rng, store = np.random.default_rng(0), MomentStore(location, Facts(d, FOLDS))
    seconds: list[float] = []
    folds: list[PairMoments] = []
    for first in range(min(days, DISTINCT_DAYS)):
        folds.clear()
        folds += [PairMoments.of(*clicks(rng, d, n // FOLDS)) for _ in range(FOLDS)]
        for day in range(first, days, DISTINCT_DAYS):
            start = time.perf_counter()
            store.put((date(2026, 1, 1) + timedelta(day)).isoformat(), "clicks", folds)
            seconds.append(time.perf_counter() - start)
    mb = sum(store.sizes().values()) / len(store.sizes()) / 1e6
    return {"put_s": round(float(np.median(seconds)), 2), "day_MB": round(mb, 1), "GB": peak()}


def read(location: str, d: int, days: int, _: int) -> dict[str, object]:
    """Merge the window of all days, then build one complement after the other."""
    start = time.perf_counter()
    store = MomentStore(location, Facts(d, FOLDS))
    opened = time.perf_counter()
    [merged] = store.windows([Window(days)])
    read_at, cpu, after_read = time.perf_counter(), time.process_time(), peak()
    rows = [(m.positive.rows, m.negative.rows) for m in merged.complements()]
    end = time.perf_counter()
    return {
        "open_s": round(opened - start, 3),
        "read_and_merge_s": round(read_at - opened, 2),
        "read_and_merge_cpu_s": round(cpu, 2),
        "read_GB": after_read,
        "complements_s": round(end - read_at, 2),
        "GB": peak(),
        "rows": sum(map(sum, rows)) // (FOLDS - 1),
    }


def main(
    location: str, d: str = "2000", days: str = "30", n: str = "200000", step: str = ""
) -> None:
    """Run both steps, each in a process of its own, or one step."""
    if step:
        print(json.dumps({"write": write, "read": read}[step](location, int(d), int(days), int(n))))
        return
    for name in ("write", "read"):
        command = [sys.executable, "-m", "benchmarks.moment_store", location, d, days, n, name]
        answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        print(
            json.dumps({"step": name, "features": int(d), "days": int(days)} | json.loads(answer))
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
