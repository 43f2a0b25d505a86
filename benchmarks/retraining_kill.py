"""The job ``retrain``, killed with SIGKILL at random moments and run again.

Three days are processed. Then the rows of the last day are restated, and a run has two new days to
decide about and the restated day to read again. Trial after trial begins from this state: the run
is killed, at a random time or at a random one of the driver's file operations, and every fifth time
together with its JVM. What it left must be valid: readable moments, each day's the old or the new
ones; a complete published model; whole records. Three in five of the runs that follow are killed,
too; the last must end as an uninterrupted run ends: equal records (but for seconds), equal bits of
the store's rows, the same model.

A JVM serves many drivers, each of which is a fork of this process, so that a run takes seconds.
``--engine local`` runs the jobs in the forks alone, without Spark. Prints the seed, then a line for
each trial; exits with 1 if a promise is broken.

    python -m benchmarks.retraining_kill --kills 100
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from pyspark.serializers import UTF8Deserializer, read_int

from spark_auc.app.jobs import retrain, retrain_period  # noqa: F401
from spark_auc.app.jobs.champion import published_record
from spark_auc.app.jobs.retrain_history import History

# A fork has what is imported here.
from spark_auc.app.running import run
from spark_auc.pipeline import retraining  # noqa: F401
from spark_auc.store.moment_store import MomentStore

FIRST = date(2026, 3, 1)
FOLDS = 2
# Beside the interpreter, which need not be on the path.
SUBMIT = str(Path(sys.executable).with_name("spark-submit"))
SPARK = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
}
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class BrokenError(Exception):
    """A promise is broken."""


def day(k: int) -> str:
    return (FIRST + timedelta(days=k)).isoformat()


def write_rows(k: int, seed: int) -> None:
    rng = np.random.default_rng([seed, k])
    y = rng.random(400) < 0.4
    X = rng.normal(size=(400, 2)) + y[:, None] * [1.0, 0.2 * k]
    city = np.array(["Bern", "Rome", "Oslo"])[rng.integers(0, 3, 400)]
    columns = {"label": y.astype(int), "age": X[:, 0], "price": X[:, 1], "city": city}
    pq.write_table(pa.table(columns), f"clicks/{day(k)}.parquet")


def configure(engine: str, last: int, **others: Any) -> None:
    features = {"standard": ["age", "price"], "tokens": ["city"], "auto": False, "dimension": 8}
    section = {
        "data": {"path": "clicks/{period}.parquet"},
        "features": features,
        "store": "moments",
        "history": "history",
        "folds": FOLDS,
        "windows": [2, 7],
        "training": {"regParams": [1e-3, 1e-1]},
        # Each new champion of the same quality replaces the last, so that each day publishes.
        "gate": {"oldest": 1, "least": 100},
        "drift": {"psi": 1e9, "stopPSI": 1e9, "distance": 1e9, "shift": 1e9, "prevalence": 1e9},
        "first": day(0),
        "period": day(last),
        "output": {"path": "model"},
    }
    config: dict[str, Any] = {"engine": engine, "retrain": section | others}
    if engine == "spark":
        config["spark"] = {"conf": SPARK}
    Path("conf.yaml").write_text(yaml.safe_dump(config))


class Gateway:
    """A JVM for the drivers, as spark-submit starts it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.process: subprocess.Popen[bytes] | None = None

    def settings(self) -> dict[str, str]:
        """Environment of a driver."""
        if self.process is None or self.process.poll() is not None:
            self._start()
        return self._settings

    def _start(self) -> None:
        info = self.home / "connection"
        info.unlink(missing_ok=True)
        env = {"_PYSPARK_DRIVER_CONN_INFO_PATH": str(info), "PYSPARK_PYTHON": sys.executable}
        env["JDK_JAVA_OPTIONS"] = JAVA
        log = (self.home / "jvm.txt").open("ab")
        self.process = subprocess.Popen(
            [SUBMIT, "--master", "local[2]", "--driver-memory", "1g", "pyspark-shell"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            # Directories of trials are deleted.
            cwd=self.home,
            env=os.environ | env,
        )
        while not info.exists():
            assert self.process.poll() is None, (self.home / "jvm.txt").read_text()
            time.sleep(0.1)
        with info.open("rb") as file:
            port, secret = read_int(file), UTF8Deserializer().loads(file)
        self._settings = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}

    def kill(self) -> None:
        """Kill the JVM; the next driver gets another."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class Driver:
    """A fork of this process that runs a function and reports its result through a pipe."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.pipe, write = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid:
            os.close(write)
            return
        status = 1
        try:
            os.close(self.pipe)
            with os.fdopen(write, "wb") as pipe:
                pipe.write(pickle.dumps(function()))
            status = 0
        except BaseException:
            traceback.print_exc(file=sys.stderr)
        finally:
            sys.stderr.flush()
            os._exit(status)

    def result(self) -> Any:
        """What the function returned; None if the fork was killed or failed."""
        with os.fdopen(self.pipe, "rb") as pipe:
            content = pipe.read()
        _, status = os.waitpid(self.pid, 0)
        self.is_killed = os.WIFSIGNALED(status)
        return None if status else pickle.loads(content)


def in_fork(function: Callable[[], Any]) -> Any:
    """What a function returns in a fork."""
    if (result := Driver(lambda: (function(),)).result()) is None:
        raise BrokenError("a check failed; see the messages above")
    return result[0]


class Ended(NamedTuple):
    """How a run ended: its exit code and result, file operations, and seconds."""

    code: int
    result: dict[str, Any]
    operations: int
    seconds: float


def job(settings: dict[str, str], started: Path, at: int | None) -> Ended:
    """Run the job in a fork; it kills itself before file operation ``at`` in this directory."""
    os.environ.update(settings)
    log = os.open("log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 2)
    if settings:
        _stop_context()
    operations, root = 0, os.getcwd()
    places = (
        "moments",
        "history",
        "model",
        *(f"{root}/{p}" for p in ("moments", "history", "model")),
    )

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal operations
        if event in ("open", "os.rename") and str(arguments[0]).startswith(places):
            operations += 1
            if operations == at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    started.touch()
    start, output = time.perf_counter(), io.StringIO()
    with contextlib.redirect_stdout(output):
        code = run("retrain", "conf.yaml")
    seconds = time.perf_counter() - start
    return Ended(code, json.loads(output.getvalue().splitlines()[-1]), operations, seconds)


def _stop_context() -> None:
    """Stop the context in the JVM, whose driver may have been killed."""
    from pyspark import SparkContext

    SparkContext._ensure_initialized()
    jvm = SparkContext._jvm
    assert jvm is not None
    companion = getattr(getattr(jvm.org.apache.spark, "SparkContext$"), "MODULE$")
    active = companion.getActive()
    if active.isDefined():
        active.get().stop()


def without_seconds(record: dict[str, Any]) -> dict[str, Any]:
    """A record without what two runs of the same rows differ in: times, and sizes of files."""
    return {k: v for k, v in record.items() if k not in ("seconds", "phases", "store")}


def rows_of_store() -> list[str]:
    """The rows of the store as text of all their bits, sorted."""
    table = deltalake.DeltaTable("moments").to_pyarrow_table()
    return sorted(str(sorted(row.items())) for row in table.to_pylist())


def moments() -> dict[str, list[bytes]]:
    """The bits of the folds of each stored day, by the reader of the store."""
    [facts] = MomentStore.stored_facts("moments").values()
    store = MomentStore("moments", facts)
    folds = {period: store.folds(period, "rows") for period in store.periods()}
    return {period: [m.to_bytes() for m in parts] for period, parts in folds.items()}


def published() -> tuple[dict[str, Any] | None, dict[str, bytes]]:
    """The champion's record, and the bits of its weights, its anchor's and its scores.

    Reading the record compares all files with the hashes of the manifest.
    """
    record = published_record("model")
    if record is None:
        return None, {}
    version = Path("model", json.loads(Path("model/manifest.json").read_text())["directory"])
    tables = {
        name: pq.read_table(version / name / "ranker" / "data")
        for name in ("model", "anchor")
        if (version / name).exists()
    }
    weights = {name: np.asarray(table["weight"]).tobytes() for name, table in tables.items()}
    return without_seconds(record), weights | {"scores": (version / "scores").read_bytes()}


class State(NamedTuple):
    """What runs leave."""

    records: dict[str, dict[str, Any]]
    log: list[dict[str, Any]]
    moments: dict[str, list[bytes]]
    champion: dict[str, Any] | None
    model: dict[str, bytes]
    rows: list[str]


def state() -> State:
    """The state of the current directory; raises if anything is invalid."""
    records = {p: without_seconds(r) for p, r in History("history").records.items()}
    lines = Path("history/history.jsonl").read_text().splitlines()
    log = [without_seconds(json.loads(line)) for line in lines]
    champion, model = published()
    scores = {path.name: path.read_bytes() for path in Path("history").glob("*.scores")}
    return State(records, log, moments(), champion, model | scores, rows_of_store())


def check_left(left: State, before: State, after: State) -> list[str]:
    """What is invalid in the state that a killed run left."""
    faults = []
    for period, record in left.records.items():
        final = after.records[period]
        allowed = [before.records.get(period), final, final | {"completed": False}]
        if record not in allowed:
            faults.append(f"record of {period}: {record}")
    for period, bits in left.moments.items():
        if bits not in (before.moments.get(period), after.moments[period]):
            faults.append(f"moments of {period}")
    if lost := before.moments.keys() - left.moments.keys():
        faults.append(f"lost moments of {sorted(lost)}")
    champion = left.champion
    records = [before.champion, *(r | {"completed": False} for r in after.records.values())]
    if champion not in records:
        faults.append(f"champion {champion}")
    return faults


def check_final(final: State, after: State) -> list[str]:
    """Where a state differs from that of an uninterrupted run."""
    pairs = zip(State._fields, final, after, strict=True)
    return [name for name, a, b in pairs if a != b]


class Trials:
    """Runs from one state, killed and run again."""

    def __init__(self, home: Path, rng: random.Random, engine: str) -> None:
        self.home, self.rng = home, rng
        self.gateway = Gateway(home) if engine == "spark" else None
        self.kills, self.killed_by, self.faults = 0, {"time": 0, "operation": 0, "jvm": 0}, 0
        self._enter("base")
        Path("clicks").mkdir()
        for k in range(5):
            in_fork(lambda k=k: write_rows(k, 0))
        configure(engine, 2)
        self._complete()
        in_fork(lambda: write_rows(2, 9))
        configure(engine, 4, lookback=1)
        self.before: State = in_fork(state)
        self._copy("uninterrupted")
        self.ended = self._complete()
        self.after: State = in_fork(state)
        outcomes = [period["outcome"] for period in self.ended.result["periods"]]
        assert outcomes == ["promoted"] * 2, self.ended.result
        assert self.before.moments[day(2)] != self.after.moments[day(2)]

    def _enter(self, name: str) -> None:
        (self.home / name).mkdir(exist_ok=True)
        os.chdir(self.home / name)

    def _copy(self, name: str) -> None:
        shutil.rmtree(self.home / name, ignore_errors=True)
        shutil.copytree(self.home / "base", self.home / name)
        self._enter(name)

    def _start(self, at: int | None = None) -> Driver:
        started = self.home / "started"
        started.unlink(missing_ok=True)
        settings = self.gateway.settings() if self.gateway else {}
        driver = Driver(lambda: job(settings, started, at))
        while not started.exists() and not os.waitid(
            os.P_PID, driver.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT
        ):
            time.sleep(0.02)
        return driver

    def _complete(self) -> Ended:
        ended = self._start().result()
        if ended is None or ended.code:
            log = Path("log.txt").read_text()[-3000:]
            raise BrokenError(f"a run ended with {ended}: {log}")
        return ended

    def _killed(self) -> bool:
        """Start a run and kill it; whether it was killed before its end."""
        kind = "operation" if self.rng.random() < 0.5 else "time"
        with_jvm = kind == "time" and self.rng.random() < 0.4 and self.gateway is not None
        if kind == "operation":
            driver = self._start(self.rng.randint(1, self.ended.operations))
        else:
            driver = self._start()
            time.sleep(self.rng.uniform(0, self.ended.seconds))
            if with_jvm and self.gateway:
                # The JVM dies with its driver, or the driver sees the JVM die.
                self.gateway.kill()
                time.sleep(self.rng.uniform(0, 0.2))
                kind = "jvm"
            os.kill(driver.pid, signal.SIGKILL)
        ended = driver.result()
        # A driver whose JVM was killed may end with an error before it is killed itself.
        is_failed = not driver.is_killed and (ended is None or ended.code != 0)
        if is_failed and kind != "jvm":
            raise BrokenError(f"a run failed: {ended}, {Path('log.txt').read_text()[-3000:]}")
        is_killed = driver.is_killed or is_failed
        self.kills += is_killed
        self.killed_by[kind] += is_killed
        return is_killed

    def trial(self, number: int) -> None:
        """Kill runs from the first state, check what they leave, and complete them."""
        self._copy("trial")
        faults, stages = [], []
        while self._killed():
            left = in_fork(state)
            faults += check_left(left, self.before, self.after)
            done = sum(record.get("completed", False) for record in left.records.values())
            champion = (left.champion or {}).get("period")
            stages.append(f"{len(left.records)} records, {done} completed, {champion}")
            if self.rng.random() < 0.4:
                break
        self._complete()
        faults += check_final(in_fork(state), self.after)
        self.faults += bool(faults)
        print(json.dumps({"trial": number, "left": stages, "faults": faults}), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--engine", choices=["local", "spark"], default="spark")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="end earlier")
    args = parser.parse_args()
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(2**32)
    print(json.dumps({"seed": seed}), flush=True)
    home = Path(tempfile.mkdtemp())
    deadline = time.monotonic() + 60 * args.minutes
    trials = Trials(home, random.Random(seed), args.engine)
    try:
        number = 0
        while trials.kills < args.kills and time.monotonic() < deadline:
            trials.trial(number)
            number += 1
    finally:
        if trials.gateway is not None:
            trials.gateway.kill()
    summary = {"kills": trials.kills, "by": trials.killed_by, "brokenTrials": trials.faults}
    summary |= {"secondsOfARun": round(trials.ended.seconds, 1), "seed": seed}
    print(json.dumps(summary))
    if not trials.faults:
        shutil.rmtree(home)
    return 1 if trials.faults else 0


if __name__ == "__main__":
    sys.exit(main())
