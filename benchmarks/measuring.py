"""Helpers of the benchmarks: session settings, wall time, and memory of all processes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "8g",
    "spark.driver.maxResultSize": "4g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
}


def seconds(run: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """Least wall time in seconds over repeats, and the last result."""
    best, result = float("inf"), None
    for _ in range(repeats):
        start = time.perf_counter()
        result = run()
        best = min(best, time.perf_counter() - start)
    return best, result


class PeakMemory:
    """Context that records the peak resident memory in MiB of driver and Python workers."""

    def __enter__(self) -> PeakMemory:
        self.driver, self.workers, self._ended = 0.0, 0.0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.1):
            self.driver = max(self.driver, resident(Path("/proc/self")))
            processes = [p for p in Path("/proc").iterdir() if p.name.isdigit()]
            workers = sum(resident(p) for p in processes if "pyspark.daemon" in command(p))
            self.workers = max(self.workers, workers)


def command(process: Path) -> str:
    try:
        return (process / "cmdline").read_text()
    except OSError:
        return ""


def resident(process: Path) -> float:
    try:
        pages = int((process / "statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def cpu_seconds() -> float:
    """CPU seconds of this process and of its descendants, living and ended."""
    parents, spent = {}, {}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[process.name] = fields[1]
        # User and system time, and those of children that were waited for.
        spent[process.name] = sum(map(int, fields[11:15]))
    total, own = 0, str(os.getpid())
    for name, ticks in spent.items():
        ancestor = name
        while ancestor not in (own, "0", "1") and ancestor in parents:
            ancestor = parents[ancestor]
        total += ticks if ancestor == own else 0
    return total / os.sysconf("SC_CLK_TCK")
