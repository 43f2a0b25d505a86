"""The steps of docker/Dockerfile, run one by one in a Debian root, without a container engine.

``--file docker/embedded.Dockerfile`` runs those of the image without Spark, and no pods.

``python -m tests.image.steps`` makes a root by debootstrap, does every step, and then runs the
entrypoint: the pods of examples/kubernetes on a few rows, with their variables, volumes, user and
read-only root; and a job that SIGTERM ends. It prints each step, and ends at the first that fails.

The root differs from the image in its base: Debian's own Python of the same minor version, in an
environment at /usr/local, in place of the build of python:slim. Steps are isolated by namespaces of
mounts and processes, and use the network of this machine. It needs root, debootstrap, unshare, and
Debian sources of the image's release in apt.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.image.dockerfile import Step, command, copied, steps
from tests.image.kubernetes import ROOT, documents, pod_of

# What the base image sets, and its packages beside those of Debian's smallest system.
BASE = {
    "PATH": "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
}
PACKAGES = "ca-certificates,netbase,python3-venv,tzdata"
# Files of this machine by which steps reach its network.
NETWORK = (
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/pip.conf",
    "/etc/ssl/certs/ca-certificates.crt",
)
ROWS, DAYS = 400, 3


def missing() -> str | None:
    """Why this machine cannot run the steps, or None."""
    if os.geteuid() != 0:
        return "only root can make a root directory and mount"
    for program in ("debootstrap", "unshare", "chroot", "apt-get"):
        if shutil.which(program) is None:
            return f"found no program {program}; apt-get install {program}"
    return None


def release(image: str) -> tuple[str, str]:
    """The Python version and Debian's release of the base image."""
    found = re.fullmatch(r"python:(\d+\.\d+)-slim-(\w+)", image)
    if not found:
        raise SystemExit(f"found the base {image}, expected python:VERSION-slim-RELEASE")
    return found[1], found[2]


def make_base(root: Path, python: str, debian: str) -> None:
    """Make a root directory of Debian, with its Python where the base image has it."""
    words = "$(REPO_URI) $(RELEASE) $(CODENAME)"
    wanted = ["Created-By: Packages", "Component: main"]
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", words, *wanted],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.split() for line in listed.stdout.splitlines()]
    sources = [(uri, codename) for uri, _, codename in lines if codename.startswith(debian)]
    mirror = next((uri for uri, codename in sources if codename == debian), None)
    if mirror is None:
        raise SystemExit(f"found no source of Debian {debian} in apt, expected one; add it")
    subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", debian, str(root), mirror],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (root / "etc/apt/sources.list").write_text(
        "".join(f"deb {uri} {codename} main\n" for uri, codename in sources)
    )
    for file in NETWORK:
        if Path(file).exists():
            shutil.copyfile(file, root / file[1:])
    run(root, BASE, ["python3", "-m", "venv", "/usr/local"])
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    found = run(root, BASE, ["python", "-c", program], capture=True).strip()
    if found != python:
        raise SystemExit(f"found Python {found} in Debian {debian}, expected {python}")


def inside(
    root: Path,
    environment: Mapping[str, str],
    words: Sequence[str],
    *,
    user: str = "0",
    directory: str = "/",
    read_only: bool = False,
    mounts: Mapping[str, Path | None] = {},
) -> list[str]:
    """The command that runs words in the root, as its first process, in namespaces of its own.

    Parameters
    ----------
    root
        The root directory.
    environment
        All variables but HOME.
    words
        Program and arguments.
    user
        Number or name, of the root's passwd.
    directory
        Where the program starts.
    read_only
        Whether only the mounts can be written to.
    mounts
        By path in the root: a directory of this machine, or None for an empty one in memory.
    """
    accounts = [line.split(":") for line in (root / "etc/passwd").read_text().splitlines()]
    uid, gid, home = next((a[2], a[3], a[5]) for a in accounts if user in (a[0], a[2]))
    there = {path: f"{root}{path}" for path in mounts}
    for path in there.values():
        Path(path).mkdir(parents=True, exist_ok=True)
    lines = [
        f"mount --bind {root} {root}",
        f"mount -t proc proc {root}/proc",
        f"mount -t tmpfs -o mode=1777 tmpfs {root}/dev/shm",
    ]
    lines += [f"mount -o remount,bind,ro {root}"] if read_only else []
    for path, source in mounts.items():
        kind = f"--bind {source}" if source else "-t tmpfs -o mode=1777 tmpfs"
        lines.append(f"mount {kind} {there[path]}")
    variables = [f"{name}={value}" for name, value in {"HOME": home, **environment}.items()]
    lines.append('exec "$@"')
    return [
        *("unshare", "--mount", "--pid", "--fork", "--kill-child"),
        *("bash", "-euc", "\n".join(lines), "steps"),
        *("chroot", f"--userspec={uid}:{gid}", "--groups=", str(root)),
        *("env", "-i", f"--chdir={directory}", *variables, *words),
    ]


def run(
    root: Path,
    environment: Mapping[str, str],
    words: Sequence[str],
    capture: bool = False,
    **settings: Any,
) -> str:
    """Run words in the root (`inside`), and return what they print; SystemExit if they fail."""
    started = inside(root, environment, words, **settings)
    ended = subprocess.run(
        started, check=False, text=True, stdout=subprocess.PIPE if capture else None
    )
    if ended.returncode:
        raise SystemExit(f"found exit code {ended.returncode} of {words}, expected 0")
    return ended.stdout or ""


def do(root: Path, step: Step) -> None:
    """Do a step in the root."""
    if step.instruction == "WORKDIR":
        (root / step.directory[1:]).mkdir(parents=True, exist_ok=True)
    elif step.instruction == "RUN":
        shell = ["/bin/sh", "-c", step.value]
        environment = BASE | step.environment
        run(root, environment, shell, user=step.user, directory=step.directory)
    elif step.instruction == "COPY":
        *sources, target = step.words
        place = root / str(Path(step.directory, target))[1:]
        ignore = (ROOT / ".dockerignore").read_text()
        for source in sources:
            for path in copied(ROOT, ignore, source):
                into = place / path.name if target.endswith("/") else place
                to = into if path == ROOT / source else place / path.relative_to(ROOT / source)
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, to)


def rows(directory: Path) -> datetime.date:
    """Write a file of raw clicks for each of the last days, and return the oldest day."""
    directory.mkdir(parents=True)
    draw = np.random.default_rng(1)
    today = datetime.datetime.now(datetime.UTC).date()
    days = [today - datetime.timedelta(days=back) for back in range(1, DAYS + 1)]
    for day in days:
        age, site = draw.normal(size=ROWS), draw.integers(5, size=ROWS)
        label = (age + 0.3 * site + draw.normal(size=ROWS) > 1.5).astype(float)
        names = [f"site {k}" for k in site]
        table = pa.table({"age": age, "site": names, "label": label})
        pq.write_table(table, directory / f"{day}.parquet")
    return days[-1]


def settings_of(
    last: Step,
    name: str,
    work: Path,
    security: Mapping[str, Any],
    container: Mapping[str, Any],
    volumes: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Settings of `inside` for a container of an example, whose claim is a directory of `work`."""
    config = work / f"{name}-config"
    config.mkdir()
    for file, text in documents(name)["ConfigMap"]["data"].items():
        (config / file).write_text(text)
    by_kind = {"persistentVolumeClaim": work / "claim", "configMap": config, "emptyDir": None}
    sources = {v["name"]: by_kind[kind] for v in volumes for kind in v.keys() - {"name"}}
    variables = {variable["name"]: variable["value"] for variable in container["env"]}
    return {
        "environment": BASE | last.environment | variables,
        "user": str(security["runAsUser"]),
        "directory": last.directory,
        "read_only": container["securityContext"]["readOnlyRootFilesystem"],
        "mounts": {m["mountPath"]: sources[m["name"]] for m in container["volumeMounts"]},
    }


def pod(made: list[Step], name: str, work: Path) -> tuple[list[str], dict[str, Any]]:
    """The words that a job's container runs, and the settings of `inside`.

    The driver of a SparkApplication has a local master, and Spark's variables and arguments.
    """
    entrypoint, _ = command(made)
    if name != "spark_application":
        spec = pod_of(name)
        (container,) = spec["containers"]
        security, volumes = spec["securityContext"], spec["volumes"]
        return [*entrypoint, *container["args"]], settings_of(
            made[-1], name, work, security, container, volumes
        )
    spec = documents(name)["SparkApplication"]["spec"]
    driver = spec["driver"]
    conf = spec["sparkConf"] | {"spark.driver.memory": driver["memory"]}
    options = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    words = [*entrypoint, "driver", "--master", "local[2]", *options]
    words += [spec["mainApplicationFile"], *spec["arguments"]]
    security = driver["podSecurityContext"]
    settings = settings_of(made[-1], name, work, security, driver, spec["volumes"])
    settings["environment"] |= {"SPARK_DRIVER_BIND_ADDRESS": "127.0.0.1"}
    return words, settings


def ends_on_sigterm(
    root: Path, words: list[str], settings: dict[str, Any], patience: float
) -> None:
    """Send SIGTERM to the first process of a job whose JVM runs; SystemExit if it goes on."""
    with subprocess.Popen(
        inside(root, words=words, **settings), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as outer:
        assert outer.stderr is not None
        for line in outer.stderr:
            if re.search(rb"Spark \S+ at local", line):
                break
        (first,) = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
        start = time.monotonic()
        os.kill(int(first), signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            outer.wait(patience)
        code, seconds = outer.poll(), time.monotonic() - start
        outer.kill()
    if code != 128 + signal.SIGTERM:
        raise SystemExit(f"found exit code {code} in {patience} s of SIGTERM, expected 143")
    print(f"  ended after {seconds:.1f} s", flush=True)


def main() -> None:
    """Make a root, and run the steps, the pods and a job that SIGTERM ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, help="an empty or new directory, which is kept")
    parser.add_argument("--file", default="docker/Dockerfile", help="the Dockerfile")
    arguments = parser.parse_args()
    given = arguments.root
    if reason := missing():
        raise SystemExit(f"skipped: {reason}")
    start = time.monotonic()

    def said(what: str) -> None:
        print(f"[{time.monotonic() - start:5.0f} s] {what}", flush=True)

    made = list(steps((ROOT / arguments.file).read_text()))
    with tempfile.TemporaryDirectory() as scratch:
        root = given.resolve() if given else Path(scratch, "root")
        work = Path(scratch, "work")
        for step in made:
            said(f"{step.instruction} {re.sub(chr(32) + '+', ' ', step.value)}")
            if step.instruction == "FROM":
                make_base(root, *release(step.value))
            do(root, step)
        if arguments.file != "docker/Dockerfile":
            entrypoint, help_words = command(made)
            said(f"container: {' '.join([*entrypoint, *help_words])}")
            last = made[-1]
            environment, user = BASE | last.environment, last.user
            run(root, environment, [*entrypoint, *help_words], user=user, directory=last.directory)
            return
        work.mkdir(mode=0o755)
        oldest = rows(work / "claim/clicks")
        Path(scratch).chmod(0o755)
        for name in ("train", "retrain", "spark_application"):
            words, settings = pod(made, name, work)
            if name == "retrain":
                # Without it the first run stores one day, and a champion needs earlier ones.
                words.append(f"retrain.first={oldest}")
            uid = int(settings["user"])
            for path in [work / "claim", *(work / "claim").rglob("*")]:
                os.chown(path, uid, uid)
            said(f"pod {name}: {' '.join(words)}")
            run(root, words=words, **settings)
            if name == "train":
                said("SIGTERM")
                patience = pod_of(name)["terminationGracePeriodSeconds"]
                ends_on_sigterm(root, words, settings, patience)
        for output in ("trained", "model", "trained_on_executors"):
            if not (work / "claim" / output / "manifest.json").is_file():
                raise SystemExit(f"found no model {output} in the claim, expected it of the pods")
        said("all steps and pods succeeded")


if __name__ == "__main__":
    sys.exit(main())
