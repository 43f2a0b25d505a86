"""Jobs on a real cluster, parts of which are killed at random moments.

Each job ends in the bits of its unfaulted run, or with one clear error and an output that is whole
or absent; then the same command ends in these bits.
"""

import random

import pytest

pytest.importorskip("deltalake")

from tests.cluster import network
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import SEED, TRIPLES
from tests.cluster.draw import triples
from tests.cluster.processes import kill
from tests.cluster.site import INSTALLED, Site

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return Site(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Two or three workers, at 127.0.0.1 or in namespaces of their own."""
    rng = random.Random(SEED)
    workers, apart = rng.randint(2, 3), rng.random() < 0.5
    place = tmp_path_factory.mktemp("cluster")
    lack = network.lack()
    made = network.Network(workers) if apart and not lack else None
    print(f"{workers} workers " + (f"at {made.hosts}" if made else f"at 127.0.0.1; {lack or ''}"))
    try:
        with Cluster(place, workers, made) as running:
            yield running
    finally:
        if made:
            made.close()


def victims(cluster, submitted, target):
    """Ids of the processes of a target that run for this job."""
    if target == "worker":
        # Without its executor, a worker has no part in the job.
        return [w.pid for k, w in enumerate(cluster.workers) if cluster.processes("executor", k)]
    if target == "driver":
        driver = submitted.driver()
        return [driver.pid] if driver else []
    if target == "submit":
        return [submitted.pid]
    return [process.pid for process in cluster.processes(target)]


def parameters():
    """The faults of this run. A process takes all of a job, which runs once without a fault."""
    for triple in triples(SEED, TRIPLES):
        group = pytest.mark.xdist_group(triple.job)
        name = f"{triple.job}-{triple.target}-{triple.moment}"
        yield pytest.param(triple, id=name, marks=group)


@pytest.mark.parametrize("triple", parameters())
def test_a_killed_part(site, cluster, triple):
    rng, pids = random.Random(f"{SEED} {triple}"), []
    has_former = triple.former and triple.job not in ("retrain", "opauc stream")
    unfaulted = site.unfaulted(cluster, triple.job)

    def make():
        run = site.run(cluster, triple.job)
        if has_former:
            site.former(run)
        return run

    def kill_one(submitted):
        there = victims(cluster, submitted, triple.target)
        if there and kill(pid := rng.choice(there)):
            pids.append(pid)
        return bool(pids)

    shipment = site.zip if triple.zipped else INSTALLED
    run, ended, second = site.struck(cluster, make, triple.moment, kill_one, shipment)
    print(
        f"{triple}: process {pids[0]} after {second:.1f} s, exit code {ended.code} after "
        f"{ended.seconds:.1f} s: {(ended.line or {}).get('message')}"
    )
    before = unfaulted.run.manifest() if has_former else None
    # Who is killed with SIGKILL says nothing.
    site.check(cluster, run, ended, before, silent=triple.target in ("driver", "submit"))
