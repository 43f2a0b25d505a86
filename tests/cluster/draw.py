"""The faults of a run, drawn from its seed."""

from __future__ import annotations

import itertools
import random
from typing import NamedTuple

from tests.cluster.jobs import JOBS

# "driver" is the Python process of the job, "submit" the JVM of spark-submit that started it.
TARGETS = ("worker", "executor", "python", "driver", "submit")
# Ten consecutive seeds kill every target of every job.
SEEDS = 10
PAIRS = list(itertools.product(JOBS, TARGETS))
LEAST = -(-len(PAIRS) // SEEDS)


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
    shuffled = random.Random(0).sample(PAIRS, len(PAIRS))
    pairs = shuffled[seed % SEEDS :: SEEDS]
    rng = random.Random(seed)
    others = [pair for pair in shuffled if pair not in pairs]
    pairs = [*pairs, *(rng.choice(others) for _ in range(count - len(pairs)))]
    return [
        Triple(*pair, round(rng.uniform(0, 0.95), 3), rng.random() < 0.5, rng.random() < 0.25)
        for pair in pairs
    ]
