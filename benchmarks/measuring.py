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
    """Context that records the peak resident memory in MiB of driver, JVM and Python workers.

    ``workers`` is that of all Python workers together, ``worker`` that of the largest.
    """

    def __enter__(self) -> PeakMemory:
        self.driver, self.jvm, self.workers, self.worker = 0.0, 0.0, 0.0, 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.1):
            self.driver = max(self.driver, resident(Path("/proc/self")))
            mine = {p: command(p) for p in descendants()}
            jvm = sum(resident(p) for p, c in mine.items() if "SparkSubmit" in c)
            workers = [resident(p) for p, c in mine.items() if "pyspark.daemon" in c]
            self.jvm = max(self.jvm, jvm)
            self.workers = max(self.workers, sum(workers))
            self.worker = max(self.worker, *workers, 0.0)


def descendants() -> list[Path]:
    """The living processes that this process started, and those that they started."""
    children: dict[str, list[Path]] = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and (fields := status(process)):
            children.setdefault(fields[1], []).append(process)
    found = list(children.get(str(os.getpid()), []))
    for process in found:
        found += children.get(process.name, [])
    return found


def status(process: Path) -> list[str]:
    """The fields of a process behind its name, from its state on; none if it has ended."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


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
        if not (fields := status(process)):
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
