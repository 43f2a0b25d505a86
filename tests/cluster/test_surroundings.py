"""Hosts that are cut off, full disks, slow tasks, lost files of shuffles, a packed environment.

Each job ends in the bits of its unfaulted run, or with one clear error and an output that is whole
or absent; when the fault is over, the same command ends in these bits.
"""

import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("deltalake")

from tests.cluster import disks, network
from tests.cluster.cluster import SILENCE, Cluster
from tests.cluster.conftest import SEED
from tests.cluster.disks import SmallDisk
from tests.cluster.jobs import ROOT, Shipment
from tests.cluster.processes import environment, kill
from tests.cluster.site import Site, check_complete, check_error

LACK = network.lack() or disks.lack()
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.xdist_group("surroundings"),
    pytest.mark.skipif(bool(LACK), reason=str(LACK)),
]

# A task that takes longer than the others, or than 3 s, is started on another executor too.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "1s",
    "spark.speculation.task.duration.threshold": "3s",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return Site(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def hosts():
    made = network.Network(2)
    yield made
    made.close()


@pytest.fixture(scope="module")
def blocks(tmp_path_factory):
    """The disk of the executors' blocks."""
    disk = SmallDisk(tmp_path_factory.mktemp("blocks"), "1g")
    yield disk
    disk.close()


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """A disk for outputs, which the workers see too: it is older than they are."""
    disk = SmallDisk(tmp_path_factory.mktemp("outputs"), "64m")
    yield disk
    disk.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, hosts, blocks, outputs):
    place = tmp_path_factory.mktemp("cluster")
    with Cluster(place, len(hosts.hosts), hosts, blocks.place) as running:
        yield running


@pytest.fixture
def rng(request):
    return random.Random(f"{SEED} {request.node.name}")


@pytest.mark.parametrize("job", ["train raw", "score"])
def test_a_host_that_is_cut_off(site, cluster, hosts, rng, job):
    k = rng.randrange(len(hosts.hosts))
    mend = threading.Timer(2 * SILENCE, hosts.set_link, [k, "up"])

    def cut(_):
        hosts.set_link(k, "down")
        mend.start()
        return True

    moment = rng.uniform(0, 0.8)
    run, ended, second = site.struck(cluster, lambda: site.run(cluster, job), moment, cut)
    print(f"{job}: no link after {second:.1f} s, ended after {ended.seconds:.1f} s, {ended.code}")
    mend.join()
    cluster.heal()
    site.check(cluster, run, ended)


@pytest.mark.parametrize("job", ["score", "evaluate"])
def test_no_room_for_blocks(site, cluster, blocks, rng, job):
    def fill(_):
        blocks.fill()
        return True

    moment = rng.uniform(0, 0.5)
    try:
        run, ended, second = site.struck(cluster, lambda: site.run(cluster, job), moment, fill)
    finally:
        blocks.free()
    print(f"{job}: full after {second:.1f} s, ended after {ended.seconds:.1f} s: {ended.line}")
    if ended.code:
        assert ended.line["error"] == "StorageError"
    site.check(cluster, run, ended)


@pytest.mark.parametrize("job", ["prepare", "train raw", "score", "evaluate"])
def test_no_room_for_the_output(site, cluster, outputs, job):
    site.unfaulted(cluster, job)
    run = site.run(cluster, job, output=outputs.place / job.replace(" ", "-"))
    outputs.fill(left=12 * 1024)
    try:
        ended = site.ended(run, cluster)
        left = [path.name for path in run.output.rglob("*") if path.is_file()]
    finally:
        outputs.free()
    check_error(ended)
    print(f"{job}: {ended.line['message']}")
    assert ended.line["error"] == "StorageError"
    assert not left
    site.check(cluster, run, ended)


@pytest.mark.parametrize("job", ["prepare", "score"])
def test_an_output_that_workers_do_not_share(site, cluster, tmp_path, job):
    site.unfaulted(cluster, job)
    # A namespace of its own does not see what is mounted elsewhere later.
    disk = SmallDisk(tmp_path, "64m")
    try:
        run = site.run(cluster, job, output=disk.place / "output")
        (disk.place / "seen").touch()
        if (
            Path(f"/proc/{cluster.workers[0].pid}/root") / tmp_path.relative_to("/") / "seen"
        ).exists():
            pytest.skip("found that workers see later mounts of this machine")
        ended = site.ended(run, cluster)
        check_error(ended)
        print(f"{job}: {ended.line['message']}")
        assert ended.line["error"] == "ConfigError"
        assert "the driver and all workers share" in ended.line["message"]
        assert run.manifest() is None
    finally:
        disk.close()


@pytest.mark.parametrize("job", ["prepare", "train raw", "score"])
def test_a_slow_task_is_repeated(site, cluster, rng, job):
    def stop(_):
        there = cluster.processes("python")
        return bool(there) and kill(rng.choice(there).pid, signal.SIGSTOP)

    # Nothing continues the stopped process: the job ends only if its task is repeated.
    make, moment = lambda: site.run(cluster, job, conf=SPECULATION), rng.uniform(0, 0.8)
    run, ended, second = site.struck(cluster, make, moment, stop)
    print(f"{job}: a task stopped after {second:.1f} s, ended after {ended.seconds:.1f} s")
    check_complete(ended)
    site.check(cluster, run, ended)


def test_lost_files_of_shuffles(site, cluster, blocks, tmp_path):
    def lose(_):
        lost = [*blocks.place.rglob("shuffle_*")]
        for path in lost:
            path.unlink()
        return bool(lost)

    log = {"enabled": "true", "dir": f"file://{tmp_path}", "compress": "false"}
    conf = {f"spark.eventLog.{name}": value for name, value in log.items()}
    make = lambda: site.run(cluster, "evaluate", conf=conf)  # noqa: E731
    run, ended, _ = site.struck(cluster, make, 0, lose)
    check_complete(ended)
    assert any("FetchFailed" in file.read_text() for file in tmp_path.rglob("events_*"))
    site.check(cluster, run, ended)


def test_a_packed_environment(site, cluster, rng, tmp_path):
    """Executors run the Python of an archive, which has the package and all that it needs."""
    python = tmp_path / "environment" / "bin" / "python"

    def run(*command):
        subprocess.run(list(map(str, command)), check=True, cwd=tmp_path, env=environment())

    run(sys.executable, "-m", "venv", tmp_path / "environment")
    limits = ["--quiet", "--disable-pip-version-check", "--constraint", ROOT / "constraints.txt"]
    run(python, "-m", "pip", "install", *limits, ROOT, "pandas", "pyarrow")
    archive = tmp_path / "environment.tar.gz"
    pack = ["-m", "venv_pack", "--prefix", tmp_path / "environment", "--compress-level", 1]
    run(sys.executable, *pack, "--output", archive)
    shipped = Shipment(
        ["--archives", f"{archive}#environment"], {"PYSPARK_PYTHON": "./environment/bin/python"}
    )

    def kill_executor(_):
        there = cluster.processes("executor")
        return bool(there) and kill(rng.choice(there).pid)

    make = lambda: site.run(cluster, "train raw")  # noqa: E731
    result, ended, _ = site.struck(cluster, make, rng.uniform(0, 0.8), kill_executor, shipped)
    check_complete(ended)
    site.check(cluster, result, ended)
