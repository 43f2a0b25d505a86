"""Every job of ``spark-auc`` on small data, by spark-submit, and the bits that it leaves."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

import spark_auc
from spark_auc.app.jobs.retrain_history import History
from spark_auc.publication.versions import current
from tests.cluster.cluster import Cluster
from tests.cluster.processes import Process, end, processes, started

ROOT = Path(spark_auc.__file__).parents[1]
FILES, ROWS = 6, 1500
NUMBERS = [f"x{k}" for k in range(6)]
DAYS = ["2026-03-01", "2026-03-02"]
PATIENCE = 300
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "768m",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "4",
    # A task for each file, so that there are several on each core.
    "spark.sql.files.openCostInBytes": "128m",
    # A new JVM takes longer to compile generated code than the code saves on few rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    # What is cut off is given up after seconds, not after minutes.
    "spark.network.timeout": "10s",
    "spark.network.timeoutInterval": "2s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "10s",
    "spark.executor.heartbeatInterval": "2s",
    "spark.rpc.askTimeout": "10s",
    "spark.shuffle.io.retryWait": "1s",
}
# Of JSON files: what differs between two runs of the same rows.
TIMES = {"seconds", "rowsPerSecond", "phases", "store", "timestamp", "uid"}


# Of the names of stages in metadata: what Spark ML draws at random; and hashes of such metadata.
_NAMES = re.compile(r"(?<=_)[0-9a-f]{12}|(?<=\"metadata\": \")[0-9a-f]{64}")


class Job(NamedTuple):
    """A job's module, its section without paths, the kind that it publishes, and its arguments."""

    name: str
    section: dict[str, Any]
    kind: str = "model"
    flags: tuple[str, ...] = ()
    needs: str | None = None


MADE = {"columns": {"features": NUMBERS}, "data": {"path": "{data}/rows"}}
RAW = {"standard": NUMBERS[:4], "spline": NUMBERS[4:], "tokens": ["city"], "auto": False}
STREAMED = ", ".join(["label double", *(f"{name} double" for name in NUMBERS)])
MEASURED = {"model": "{raw}", "data": {"path": "{data}/rows"}}
JOBS = {
    "prepare": Job(
        "prepare",
        {
            "input": {"layout": "synthetic", "rows": 20000, "dimension": 128, "seed": 1},
            "split": {"by": "key", "column": "id", "train": 0.8},
        },
        "data",
    ),
    "train": Job("train", MADE),
    "train hinge": Job(
        "train", MADE | {"learner": "RankSVMClassifier", "training": {"regParam": 0.01}}
    ),
    "train raw": Job(
        "train",
        {"data": {"path": "{data}/rows"}, "features": RAW | {"dimension": 64, "numKnots": 6}},
    ),
    "score": Job("score", MEASURED | {"keep": ["id", "label"]}, "scores", needs="train raw"),
    "evaluate": Job("evaluate", MEASURED, "evaluation", needs="train raw"),
    "opauc": Job("opauc", MADE | {"training": {"regParam": 0.01}}),
    "opauc stream": Job(
        "opauc",
        {
            "data": {"path": "arriving"},
            "columns": {"features": NUMBERS},
            "training": {"regParam": 0.01},
            "stream": {"checkpoint": "checkpoint", "schema": STREAMED, "maxFilesPerTrigger": 1},
        },
        flags=("--stream",),
    ),
    "adadsg": Job(
        "adadsg",
        MADE
        | {
            "validation": {"path": "{data}/rows"},
            "columns": {"features": NUMBERS, "key": "id"},
            "training": {"firstStage": 2000},
            "checkpoint": "checkpoint",
        },
    ),
    "retrain": Job(
        "retrain",
        {
            "data": {"path": "{data}/days/{period}.parquet"},
            "features": RAW | {"dimension": 16, "numKnots": 4},
            "store": "moments",
            "history": "history",
            "folds": 2,
            "windows": [2],
            "training": {"regParams": [1e-3, 1e-1]},
            "gate": {"oldest": 1, "least": 100},
            "first": DAYS[0],
            "period": DAYS[-1],
        },
    ),
}


def write_data(place: Path) -> None:
    """Write the rows of all jobs."""
    for name, directory in (("rows", "rows"), *((f"{d}.parquet", "days") for d in DAYS)):
        inside = place / (name if directory == "rows" else f"days/{name}")
        inside.mkdir(parents=True)
        for k in range(FILES):
            table = _table([len(name) + ord(name[-9]) if directory == "days" else 0, k], k * ROWS)
            pq.write_table(table, inside / f"{k}.parquet")


def _table(seed: list[int], first: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS, len(NUMBERS)))
    y = X @ np.arange(len(NUMBERS)) + 4 * rng.normal(size=ROWS) > 6
    city = np.array(["Bern", "Rome", "Oslo"])[rng.integers(0, 3, ROWS)]
    columns = {"id": np.arange(first, first + ROWS), "label": y.astype(float), "city": city}
    return pa.table(columns | {name: X[:, k] for k, name in enumerate(NUMBERS)})


def write_zip(path: Path) -> Path:
    """Write the package as ``git archive`` does for ``--py-files``."""
    package = Path(spark_auc.__file__).parent
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(package.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, file.relative_to(package.parent))
    return path


class Shipment(NamedTuple):
    """How executors get the package: options of spark-submit, and variables of the driver."""

    options: list[str]
    variables: dict[str, str]


class Ended(NamedTuple):
    """How a job ended: exit code, its last line, seconds, and where its log is."""

    code: int
    line: dict[str, Any] | None
    seconds: float
    log: Path


class Run:
    """A job in a directory of its own, which goes on where it died.

    Parameters
    ----------
    job
        A name of `JOBS`.
    place
        The directory; made if it does not exist.
    data
        Directory of the rows.
    raw
        Location of the model that jobs read.
    conf
        More settings of Spark.
    output
        Location of the output; None for one in the directory.
    """

    def __init__(
        self,
        job: str,
        place: Path,
        data: Path,
        raw: Path | None = None,
        conf: dict[str, str] | None = None,
        output: Path | None = None,
    ) -> None:
        self.name, self.job, self.place = job, JOBS[job], place
        self._location = output or "output"
        self.output = place / self._location
        place.mkdir(parents=True, exist_ok=True)
        if self.job.flags and not (place / "arriving").exists():
            shutil.copytree(data / "rows", place / "arriving")
            for k, path in enumerate(sorted((place / "arriving").iterdir())):
                os.utime(path, (1.7e9 + k, 1.7e9 + k))
        text = json.dumps(self.job.section | {"output": {"path": str(self._location)}})
        text = text.replace("{data}", str(data)).replace("{raw}", str(raw))
        section = json.loads(text)
        if self.job.name != "retrain":
            section["output"]["replace"] = True
        (place / "conf.yaml").write_text(yaml.safe_dump({self.job.name: section}))
        self._conf = SETTINGS | (conf or {})

    def start(self, cluster: Cluster, shipment: Shipment) -> Submitted:
        """Submit the job."""
        number = len(list(self.place.glob("*.out")))
        out, err = self.place / f"{number}.out", self.place / f"{number}.err"
        settings = self._conf | {"spark.driver.host": cluster.host}
        options = f"-Dlog4j2.configurationFile={ROOT}/conf/log4j2.properties"
        settings["spark.driver.extraJavaOptions"] = f"{options} -XX:+ExitOnOutOfMemoryError"
        settings["spark.cores.max"] = str(len(cluster.workers))
        command: list[object] = [cluster.home / "bin" / "spark-submit", "--master", cluster.address]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        command += [*shipment.options, ROOT / "jobs" / f"{self.job.name}.py"]
        command += ["--config", self.place / "conf.yaml", *self.job.flags]
        variables = {"SPARK_LOCAL_IP": cluster.host} | shipment.variables
        return Submitted(started(command, self.place, out, err, **variables), out, err)

    def bits(self) -> dict[str, Any]:
        """What the job left, without times: equal for runs of the same rows."""
        found: dict[str, Any] = {"output": bits_of(self.version(), str(self._location))}
        if self.job.name == "retrain":
            records = History(str(self.place / "history")).records
            found["records"] = {p: without_times(r) for p, r in records.items()}
            rows = deltalake.DeltaTable(str(self.place / "moments")).to_pyarrow_table().to_pylist()
            found["moments"] = sorted(digest(str(sorted(row.items())).encode()) for row in rows)
        return found

    def version(self) -> Path:
        """Directory of the current version, checked against its manifest."""
        return Path(current(str(self.output), self.job.kind).path)

    def manifest(self) -> bytes | None:
        """The manifest; None without one."""
        path = self.output / "manifest.json"
        return path.read_bytes() if path.exists() else None


class Submitted:
    """A submitted job: spark-submit's JVM, and the Python driver that it started."""

    def __init__(self, process: subprocess.Popen[bytes], out: Path, err: Path) -> None:
        self.process, self._out, self._err = process, out, err
        self.pid = process.pid

    def driver(self) -> Process | None:
        """The Python driver, as soon as it runs."""
        scripts = (p for p in processes(self.pid) if p.pid != self.pid and "jobs/" in p.command)
        return next(scripts, None)

    def ended(self, seconds: float) -> Ended:
        """How it ended."""
        lines = self._out.read_text().splitlines()
        line = None
        if lines:
            try:
                line = json.loads(lines[-1])
            except ValueError:
                line = {"not JSON": lines[-1]}
        return Ended(self.process.returncode, line, seconds, self._err)

    def close(self) -> None:
        """End what is left of it."""
        end(self.pid)
        self.process.wait()


def digest(content: bytes) -> str:
    """A hash of bytes."""
    return hashlib.sha256(content).hexdigest()[:16]


def without_times(value: Any) -> Any:
    """JSON without what differs between two runs."""
    if isinstance(value, dict):
        return {key: without_times(v) for key, v in value.items() if key not in TIMES}
    return [without_times(v) for v in value] if isinstance(value, list) else value


def bits_of(version: Path, location: str = "output") -> dict[str, str]:
    """A version's JSON without times, and hashes of its tables by directory and of other files.

    ``location`` is where the job was told to publish, which its configuration repeats.
    """
    return dict(_bits(version, location))


def _bits(version: Path, location: str) -> Iterator[tuple[str, str]]:
    tables: dict[str, list[str]] = {}
    for path in sorted(version.rglob("*")):
        name = str(path.relative_to(version))
        if path.suffix == ".parquet":
            place = str(path.parent.relative_to(version))
            rows = pq.ParquetFile(path).read().to_pylist()
            tables.setdefault(place, []).extend(repr(row) for row in rows)
        elif path.suffix == ".json" or name.endswith("metadata/part-00000"):
            text = _NAMES.sub("", json.dumps(without_times(json.loads(path.read_text()))))
            text = text.replace(location, "output")
            yield name, text
        # A page has the time of its making and the seconds of the phases.
        elif path.is_file() and path.suffix not in {".crc", ".html"} and path.name[0] not in "._":
            yield name, digest(path.read_bytes())
    for place, lines in tables.items():
        yield f"{place}/*.parquet", digest("\n".join(sorted(lines)).encode())
