"""A standalone cluster of real processes: a master and workers, at addresses of their own."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import py4j
import pyspark

from tests.cluster.network import Network
from tests.cluster.processes import Process, end, processes, started, until

PYSPARK = Path(pyspark.__file__).parent
LOOPBACK = "127.0.0.1"
DEPLOY = "org.apache.spark.deploy"
# A host that is cut off is given up after these seconds.
SILENCE = 8
CLASSES = {"executor": "CoarseGrainedExecutorBackend", "python": "pyspark.daemon"}


class Cluster:
    """A master, and workers of one core each.

    Parameters
    ----------
    place
        Directory of logs and work.
    workers
        Number of workers.
    network
        Namespaces of the workers; None for 127.0.0.1.
    local
        Directory of the executors' blocks; None for one below ``place``.
    """

    def __init__(
        self, place: Path, workers: int, network: Network | None = None, local: Path | None = None
    ) -> None:
        self.place, self._network, self._local = place, network, local or place / "local"
        self.host = network.address if network else LOOPBACK
        self._local.mkdir(parents=True, exist_ok=True)
        self.home = _home(place / "spark")
        self.workers: list[subprocess.Popen[bytes]] = []
        self.master = self._start("master", self.host, ["--port", "0"])
        try:
            log = place / "master.log"
            self.address = self._logged(log, r"Starting Spark master at (spark://\S+)")
            self._page = self._logged(log, r"MasterWebUI.* started at (http://\S+)")
            self.workers = [self._worker(k) for k in range(workers)]
            self.heal()
        except BaseException:
            self.close()
            raise

    def _start(self, name: str, host: str, arguments: list[object]) -> subprocess.Popen[bytes]:
        role = "master" if name == "master" else "worker"
        program = f"{DEPLOY}.{role}.{role.title()}"
        command = [self.home / "bin" / "spark-class", program, "--host", host]
        if self._network and role == "worker":
            space = self._network.namespace(int(name.removeprefix("worker")))
            command = ["ip", "netns", "exec", space, *command]
        return started(
            [*command, "--webui-port", "0", *arguments],
            self.place,
            self.place / f"{name}.log",
            SPARK_LOCAL_IP=host,
            SPARK_DAEMON_MEMORY="256m",
            SPARK_DAEMON_JAVA_OPTS=f"-Dspark.worker.timeout={SILENCE}",
            SPARK_LOCAL_DIRS=str(self._local),
        )

    def _worker(self, k: int) -> subprocess.Popen[bytes]:
        host = self._network.hosts[k] if self._network else LOOPBACK
        room = ["--cores", "1", "--memory", "1g", "--work-dir", self.place / f"work{k}"]
        return self._start(f"worker{k}", host, [*room, self.address])

    def _logged(self, log: Path, pattern: str) -> str:
        until(lambda: re.search(pattern, log.read_text()), 60, f"{pattern!r} in {log}")
        match = re.search(pattern, log.read_text())
        assert match
        return match[1]

    def heal(self) -> None:
        """Start dead workers again, and wait until the master has them all, and no job."""
        for k, worker in enumerate(self.workers):
            if worker.poll() is not None:
                end(worker.pid)
                self.workers[k] = self._worker(k)
        until(self.is_well, 90, "all workers alive and no executor left")

    def is_well(self) -> bool:
        """Whether the master has all workers, and no job."""
        state = self.state()
        alive = [worker for worker in state["workers"] if worker["state"] == "ALIVE"]
        free = all(worker["coresused"] == 0 for worker in alive)
        return len(alive) == len(self.workers) and free and not state["activeapps"]

    def state(self) -> dict[str, Any]:
        """The master's own account of workers and jobs."""
        with urllib.request.urlopen(f"{self._page}/json/", timeout=10) as answer:
            return dict(json.load(answer))

    def processes(self, kind: str, k: int | None = None) -> list[Process]:
        """Executors or Python workers of all workers, or of worker ``k``.

        A Python worker is a fork of the daemon that its executor started.
        """
        chosen = self.workers if k is None else [self.workers[k]]
        found = processes(*(worker.pid for worker in chosen))
        found = [process for process in found if CLASSES[kind] in process.command]
        daemons = {process.pid for process in found}
        return [p for p in found if kind == "executor" or p.parent in daemons]

    def close(self) -> None:
        """End all processes."""
        for process in (*self.workers, self.master):
            end(process.pid)
            process.wait()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _home(place: Path) -> Path:
    """Make a home of Spark, of the programs, jars and modules of the installed one.

    Spark puts its zip of PySpark before all other modules, and a zip has no compiled modules: to
    compile them takes each Python process a second. Here a directory has the name of the zip.
    """
    modules = place / "python" / "lib" / "pyspark.zip"
    modules.mkdir(parents=True)
    (modules / "pyspark").symlink_to(PYSPARK)
    (modules / "py4j").symlink_to(Path(py4j.__file__).parent)
    for name in ("bin", "jars"):
        (place / name).symlink_to(PYSPARK / name)
    return place
