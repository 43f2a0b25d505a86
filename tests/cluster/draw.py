"""The faults of a run, drawn from its seed."""

from __future__ import annotations

import itertools
import random
from typing import NamedTuple

from tests.cluster.jobs import JOBS

# "driver" is the Python process of the job, "submit" the JVM of spark-submit that started it.
TARGETS = ("worker", "executor", "python", "driver", "submit")
# A run takes some of the jobs, as each of them has to run without a fault first. Consecutive seeds
# take consecutive jobs, so that as many runs as there are jobs kill every target of every job.
ORDER = random.Random(0).sample(list(JOBS), len(JOBS))
LEAST = len(TARGETS)


class Triple(NamedTuple):
    """What is killed, and when: as a share of the job's work, which begins with the first task."""

    job: str
    target: str
    moment: float
    # Whether an earlier output is there.
    former: bool
    # Whether the job is sent the package as a zip file, beside the one that all nodes have.
    zipped: bool


def triples(seed: int, count: int) -> list[Triple]:
    """The faults of a run.

    Parameters
    ----------
    seed
        The run's seed.
    count
        Number of faults, at least `LEAST`.
    """
    if count < LEAST:
        raise ValueError(f"found {count} triples, expected at least {LEAST}; raise TRIPLES")
    rng = random.Random(seed)
    jobs = (ORDER[(seed + k) % len(ORDER)] for k in itertools.count())
    pairs = ((job, target) for job in jobs for target in TARGETS)
    return [
        Triple(*pair, round(rng.uniform(0, 0.95), 3), rng.random() < 0.5, rng.random() < 0.25)
        for pair in itertools.islice(pairs, count)
    ]
