"""Processes of this machine by their session, as the parts of a cluster start each other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

# Short-lived JVMs: half of the time would go into the second compiler.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=120m"


# Classes of Spark; see `tests.cluster.classes`.
ARCHIVE = Path(sys.prefix) / "spark_classes.jsa"


class Process(NamedTuple):
    """A process that runs: its id, its parent's, its session's, and its command line."""

    pid: int
    parent: int
    session: int
    command: str


def processes(*sessions: int) -> list[Process]:
    """The processes of sessions that are not dead."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with suppress(OSError):
                state, parent, _, leader = (
                    (place / "stat").read_text().rpartition(")")[2].split()[:4]
                )
                session = int(leader)
                if session in sessions and state not in "ZX":
                    command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found.append(Process(int(place.name), int(parent), session, command))
    return found


def kill(pid: int, number: int = signal.SIGKILL) -> bool:
    """Whether a process was there to get the signal."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def end(session: int) -> None:
    """Kill all processes of a session."""
    while left := processes(session):
        for process in left:
            kill(process.pid)
        time.sleep(0.05)


def until(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Wait until a condition holds; `AssertionError` if it does not in time."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, f"not within {seconds} s: {what}"
        time.sleep(0.1)


def environment(**others: str) -> dict[str, str]:
    """This process's environment, without what would lead Spark elsewhere."""
    led = ("SPARK_", "PYSPARK_", "PYTHONPATH", "JDK_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(led)}
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    settings = {"OPENBLAS_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"}
    # Without the log: JVMs with other paths of classes would warn on standard output.
    archive = f" -XX:SharedArchiveFile={ARCHIVE} -Xlog:disable" if ARCHIVE.exists() else ""
    return kept | python | {"JDK_JAVA_OPTIONS": JAVA + archive} | settings | others


def started(
    command: list[object], place: Path, log: Path, err: Path | None = None, **variables: str
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own."""
    with log.open("ab") as out, (err or log).open("ab") as other:
        return subprocess.Popen(
            [str(part) for part in command],
            stdout=out,
            stderr=other,
            stdin=subprocess.DEVNULL,
            cwd=place,
            env=environment(**variables),
            start_new_session=True,
        )
