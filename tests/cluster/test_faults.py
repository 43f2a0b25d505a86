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
from tests.cluster.site import Site, check_complete, check_error, check_whole

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return Site(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Two to four workers, at 127.0.0.1 or in namespaces of their own."""
    rng = random.Random(SEED)
    workers, apart = rng.randint(2, 4), rng.random() < 0.5
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


def killed(site, cluster, triple, moment, rng):
    """A run of the triple's job, how it ended, the manifest before, and what was killed when."""
    base = site.unfaulted(cluster, triple.job)
    run = site.run(cluster, triple.job)
    if triple.former and not {"retrain", "opauc stream"} & {triple.job}:
        site.former(run)
    before, hits = run.manifest(), []
    at = base.begin + moment * (base.seconds - base.begin)

    def fault(submitted, elapsed):
        there = victims(cluster, submitted, triple.target) if elapsed >= at else []
        if there and kill(pid := rng.choice(there)):
            hits.append((pid, round(elapsed, 1)))
        return bool(hits)

    return run, site.ended(run, cluster, site.zip, fault), before, hits


@pytest.mark.parametrize(
    "triple", triples(SEED, TRIPLES), ids=lambda t: f"{t.job}-{t.target}-{t.moment}"
)
def test_a_killed_part(site, cluster, triple):
    rng, moment = random.Random(f"{SEED} {triple}"), triple.moment
    while True:
        run, ended, before, hits = killed(site, cluster, triple, moment, rng)
        if hits:
            break
        # The job was faster than its unfaulted run, or its last tasks had ended.
        check_complete(ended)
        assert moment > 0.01, "the target never ran"
        moment /= 2
    bits = site.unfaulted(cluster, triple.job).bits
    print(f"{triple}: {hits[0]}, exit code {ended.code} after {ended.seconds:.1f} s")
    if ended.code:
        # Who is killed with SIGKILL says nothing.
        if triple.target not in ("driver", "submit"):
            check_error(ended)
            print(ended.line["message"])
        check_whole(run, before)
        cluster.heal()
        check_complete(site.ended(run, cluster, site.zip))
    else:
        check_complete(ended)
    assert run.bits() == bits
    cluster.heal()
