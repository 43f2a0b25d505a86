"""Where jobs run and are compared: their rows, their package, and their unfaulted runs."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.cluster.cluster import Cluster
from tests.cluster.jobs import (
    JOBS,
    PATIENCE,
    Ended,
    Run,
    Shipment,
    Submitted,
    write_data,
    write_zip,
)
from tests.cluster.processes import processes

# A driver without its other half ends within these seconds.
ALONE = 15


class Unfaulted(NamedTuple):
    """A run without faults: its bits, when its first task ran, when it ended, and the run."""

    bits: dict[str, Any]
    begin: float
    seconds: float
    run: Run


class Site:
    """The rows of all jobs, the package as a zip, and the runs so far."""

    def __init__(self, place: Path) -> None:
        self._place = place
        write_data(place / "data")
        self.zip = Shipment(["--py-files", str(write_zip(place / "spark_auc.zip"))], {})
        self._unfaulted: dict[str, Unfaulted] = {}
        self._runs = 0

    def run(self, cluster: Cluster, job: str, **others: Any) -> Run:
        """A new run of a job."""
        self._runs += 1
        needed = JOBS[job].needs
        raw = self.unfaulted(cluster, needed).run.output if needed else None
        name = f"{self._runs:03d}-{job.replace(' ', '-')}"
        return Run(job, self._place / name, self._place / "data", raw, **others)

    def unfaulted(self, cluster: Cluster, job: str) -> Unfaulted:
        """The run of a job without faults; it runs once."""
        if job not in self._unfaulted:
            run = self.run(cluster, job)
            begin = 0.0

            def seen(submitted: Submitted, elapsed: float) -> bool:
                nonlocal begin
                begin = elapsed
                return bool(cluster.processes("python"))

            ended = self.ended(run, cluster, self.zip, seen)
            check_complete(ended)
            self._unfaulted[job] = Unfaulted(run.bits(), begin, ended.seconds, run)
        return self._unfaulted[job]

    def former(self, run: Run) -> None:
        """Put an earlier output where the run publishes."""
        shutil.copytree(self._unfaulted_of(run).output, run.output)

    def _unfaulted_of(self, run: Run) -> Run:
        return next(u.run for u in self._unfaulted.values() if u.run.job is run.job)

    def ended(
        self,
        run: Run,
        cluster: Cluster,
        shipment: Shipment,
        fault: Callable[[Submitted, float], bool] | None = None,
    ) -> Ended:
        """Submit a job and wait for its end.

        ``fault`` is called with the job and the seconds since its start until it returns True. If
        spark-submit ends before its driver, the driver must end too.
        """
        submitted = run.start(cluster, shipment)
        start = time.monotonic()
        try:
            while submitted.process.poll() is None:
                elapsed = time.monotonic() - start
                assert elapsed < PATIENCE, f"no end within {PATIENCE} s: {run.place}"
                if fault and fault(submitted, elapsed):
                    fault = None
                time.sleep(0.05)
            seconds = time.monotonic() - start
            while left := processes(submitted.pid):
                late = time.monotonic() - start - seconds
                assert late < ALONE, f"after spark-submit these go on: {left}"
                time.sleep(0.1)
        finally:
            submitted.close()
        return submitted.ended(seconds)


def check_complete(ended: Ended) -> None:
    """A job did what it should."""
    assert ended.code == 0, f"{ended.line}\n{ended.log.read_text()[-3000:]}"
    assert ended.line is not None
    assert ended.line["status"] == "ok"


def check_error(ended: Ended) -> None:
    """A job failed, and its last line says why."""
    assert ended.code > 0, ended
    assert ended.line, ended.log.read_text()[-3000:]
    assert ended.line.get("status") == "error", ended.line
    assert ended.line["message"], ended.line


def check_whole(run: Run, before: bytes | None) -> None:
    """The output of a failed job is absent, the one from before, or whole."""
    if run.manifest() != before:
        # Compares every file with its hash.
        run.version()
