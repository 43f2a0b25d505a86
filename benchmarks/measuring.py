"""Helpers of the benchmarks: session settings, wall time, memory of all processes, a cluster."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark

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

    ``workers`` is that of all Python workers together, ``worker`` that of the largest, and
    ``executor`` that of the largest JVM of an executor.
    """

    def __enter__(self) -> PeakMemory:
        self.driver = self.jvm = self.workers = self.worker = self.executor = 0.0
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
            executors = [resident(p) for p, c in mine.items() if "ExecutorBackend" in c]
            self.executor = max(self.executor, *executors, 0.0)
            self.jvm = max(self.jvm, jvm)
            self.workers = max(self.workers, sum(workers))
            self.worker = max(self.worker, *workers, 0.0)


@contextmanager
def standalone(workers: int, memory: str) -> Iterator[str]:
    """The address of a standalone cluster of workers with one core each, on this machine."""
    started: list[subprocess.Popen[bytes]] = []
    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"

    def start(role: str, log: Path, *arguments: str) -> None:
        program = f"org.apache.spark.deploy.{role.lower()}.{role}"
        command = [str(spark_class), program, "--host", "127.0.0.1", "--webui-port", "0"]
        with log.open("wb") as out:
            started.append(subprocess.Popen([*command, *arguments], stdout=out, stderr=out))

    with tempfile.TemporaryDirectory() as place:
        try:
            start("Master", Path(place) / "master.log", "--port", "0")
            while not (
                found := re.search(r"spark://\S+", (Path(place) / "master.log").read_text())
            ):
                time.sleep(0.2)
            for number in range(workers):
                log, work = Path(place) / f"{number}.log", f"{place}/{number}"
                room = ("--cores", "1", "--memory", memory, "--work-dir", work)
                start("Worker", log, *room, found[0])
            yield found[0]
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.wait()


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
