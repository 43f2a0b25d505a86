"""Where jobs run and are compared: their rows, their package, and their unfaulted runs."""

from __future__ import annotations

import shutil
import signal
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
from tests.cluster.processes import kill, processes

# All nodes have the package.
INSTALLED = Shipment([], {})
# A driver without its other half ends within these seconds.
ALONE = 15


class Unfaulted(NamedTuple):
    """A run without faults: its bits, the seconds from its first task to its end, and the run."""

    bits: dict[str, Any]
    work: float
    run: Run


class Fault:
    """An act some seconds after the first task of a job, repeated until it returns True."""

    def __init__(self, cluster: Cluster, after: float, act: Callable[[Submitted], bool]) -> None:
        self._cluster, self._after, self._act = cluster, after, act
        self._begin: float | None = None
        self.second: float | None = None

    def __call__(self, submitted: Submitted, elapsed: float) -> bool:
        if self._begin is None and self._cluster.processes("python"):
            self._begin = elapsed
        if self._begin is not None and elapsed >= self._begin + self._after:
            self.second = elapsed if self._act(submitted) else None
        return self.second is not None


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
            run, begin = self.run(cluster, job), list[float]()

            def seen(_: Submitted, elapsed: float) -> bool:
                begin[:] = [elapsed]
                return bool(cluster.processes("python"))

            ended = self.ended(run, cluster, fault=seen)
            check_complete(ended)
            self._unfaulted[job] = Unfaulted(run.bits(), ended.seconds - begin[0], run)
        return self._unfaulted[job]

    def former(self, run: Run) -> None:
        """Put an earlier output where the run publishes."""
        shutil.copytree(self._unfaulted[run.name].run.output, run.output)

    def ended(
        self,
        run: Run,
        cluster: Cluster,
        shipment: Shipment = INSTALLED,
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
                assert elapsed < PATIENCE, _unended(run, submitted)
                if fault and fault(submitted, elapsed):
                    fault = None
                time.sleep(0.1)
            seconds = time.monotonic() - start
            while left := processes(submitted.pid):
                late = time.monotonic() - start - seconds
                assert late < ALONE, f"after spark-submit these go on: {left}"
                time.sleep(0.1)
        finally:
            submitted.close()
        return submitted.ended(seconds)

    def struck(
        self,
        cluster: Cluster,
        make: Callable[[], Run],
        moment: float,
        act: Callable[[Submitted], bool],
        shipment: Shipment = INSTALLED,
    ) -> tuple[Run, Ended, float]:
        """A run with a fault, how it ended, and the second of the fault.

        ``act`` is called at a share ``moment`` of the job's work, which begins with the first
        task, and later until it returns True. If the job ends before, a new run has the fault at
        half of the share.
        """
        while True:
            run = make()
            fault = Fault(cluster, moment * self.unfaulted(cluster, run.name).work, act)
            ended = self.ended(run, cluster, shipment, fault)
            if fault.second is not None:
                return run, ended, fault.second
            check_complete(ended)
            assert moment > 0.01, "the target never ran"
            moment /= 2

    def check(
        self,
        cluster: Cluster,
        run: Run,
        ended: Ended,
        before: bytes | None = None,
        silent: bool = False,
    ) -> None:
        """Check how a run with a fault ended, and that the same command then ends in its bits.

        ``before`` is the manifest of an earlier output; a ``silent`` end has no message.
        """
        if ended.code:
            if not silent:
                check_error(ended)
            check_whole(run, before)
            cluster.heal()
            ended = self.ended(run, cluster)
        check_complete(ended)
        found, expected = run.bits(), self.unfaulted(cluster, run.name).bits
        assert found == expected, f"{run.place}: {differing(found, expected)}"
        cluster.heal()


def differing(found: Any, expected: Any) -> Any:
    """What differs, beside what was expected."""
    if isinstance(found, dict) and isinstance(expected, dict):
        names = sorted(found.keys() | expected.keys())
        pairs = [(name, found.get(name), expected.get(name)) for name in names]
        return {name: differing(a, b) for name, a, b in pairs if a != b}
    return f"found {found}, expected {expected}"


def _unended(run: Run, submitted: Submitted) -> str:
    """What is known of a job without an end: its processes, the ends of its log and stacks."""
    found = [f"no end within {PATIENCE} s: {run.place}"]
    for process in processes(submitted.pid):
        found.append(f"{process.pid} {process.command[:200]}")
        # The JVM prints its stacks to standard output, and Python's fault handler to the log.
        kill(process.pid, signal.SIGQUIT if "java" in process.command else signal.SIGABRT)
    time.sleep(2)
    found += [max(run.place.glob(f"*.{end}")).read_text()[-20000:] for end in ("err", "out")]
    return "\n".join(found)


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
