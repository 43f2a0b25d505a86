"""Mutated bytes of every kind of state: a state, or `ModelFormatError`, and nothing else."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import mmap
import os
import random
import resource
import signal
import time
import traceback
import warnings

import numpy as np
import pytest

from spark_auc.core.moments import tiles
from spark_auc.errors import ModelFormatError, SparkAUCError
from tests.fuzz.inputs import SHARE
from tests.fuzz.mutations import Mutations
from tests.fuzz.stored_states import exercise, kinds, samples

pytestmark = pytest.mark.fuzz

MUTATIONS = 100_000
# Of the states that are read, one in so many is used too: that takes ten times as long.
USED = 10
# A state that takes more processor time than that hangs; what may be allocated beside what was.
SECONDS, BYTES = 60, 1 << 28


def test_every_kind_has_a_sample():
    assert {kind.__name__ for kind in kinds()} == {kind.__name__ for kind in samples()}


@pytest.fixture(scope="module")
def stored():
    # Several tiles, of few features.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "LARGEST_TILE", 2)
        found = samples()
        # Kernels are compiled before the processes part.
        for kind, parts in found.items():
            for data in parts:
                assert kind.from_bytes(data).to_bytes() == data
                used(kind.from_bytes(data))
        yield found


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_mutated_bytes(kind, stored, request):
    given = request.config.getoption("--hypothesis-seed", None)
    seed = random.randrange(2**32) if given in (None, "random") else int(given)
    count = max(1, round(SHARE * MUTATIONS))
    others = [data for parts in stored.values() for data in parts]
    current = mmap.mmap(-1, 1 << 20)
    draw = Mutations(random.Random(f"{seed} {kind.__name__}"), stored[kind], others)
    status, found = apart(lambda: mutate(kind, draw, count, current), current)
    assert status == 0, (
        f"--hypothesis-seed={seed}: {kind.__name__} ended with {status}: {found}, at\n"
        f"{current[8 : 8 + int.from_bytes(current[:8], 'little')]!r}"
    )
    print(f"--hypothesis-seed={seed}: {kind.__name__} {found}")
    # Damage alone is always found; states that can be read are there too, or nothing is used.
    assert found["refused"] + found["read"] == count
    assert count < 1000 or found["used"] > 0


def mutate(kind, draw, count, current):
    """How many mutations were refused, read and used; anything else raises."""
    warnings.simplefilter("ignore")
    found = {"refused": 0, "read": 0, "used": 0}
    begun = time.process_time()
    with np.errstate(all="ignore"):
        for _ in range(count):
            data = draw()
            current[:8] = len(data).to_bytes(8, "little")
            current[8 : 8 + len(data)] = data
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            try:
                state = kind.from_bytes(data)
            except ModelFormatError:
                found["refused"] += 1
                continue
            found["read"] += 1
            if found["read"] % USED == 0:
                found["used"] += 1
                used(state)
    return found | {"seconds": round(time.process_time() - begun, 1)}


def used(state):
    """Use a state, which may tell that it cannot serve."""
    with contextlib.suppress(SparkAUCError):
        exercise(state)


def apart(work, current):
    """What ``work`` returns, in a process of its own with little memory, and how that ended."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            faulthandler.enable()
            with open("/proc/self/statm") as statm:
                now = int(statm.read().split()[0]) * mmap.PAGESIZE
            resource.setrlimit(resource.RLIMIT_AS, (now + BYTES, now + BYTES))
            answer, status = json.dumps(work()), 0
        except BaseException:
            answer = json.dumps(traceback.format_exc(limit=-6))
        finally:
            os.write(write, answer.encode()[:60_000])
            os._exit(status)
    os.close(write)
    with open(read, "rb") as pipe:
        answer = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, json.loads(answer) if answer else "no word"
