"""Calls in threads: their order, their BLAS threads, and several callers at the same time."""

import os
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from weakref import WeakSet

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from spark_auc.core import row_source
from spark_auc.core.batch import Batch
from spark_auc.core.parallel import blas_of, cpus, free_cpus, in_threads, mapped


def blas_threads():
    found = ThreadpoolController().select(user_api="blas").info()
    return [library["num_threads"] for library in found]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_results_are_in_the_order_of_the_arguments(threads):
    taken = []

    def items():
        for k in range(5):
            taken.append(k)
            yield k

    results = in_threads(lambda k: k * k, items(), threads)
    assert next(results) == 0
    assert len(taken) == threads
    assert list(results) == [1, 4, 9, 16]


def test_calls_share_the_blas_threads_and_give_them_back():
    with threadpool_limits(4, "blas"):
        before = blas_threads()
        assert list(in_threads(lambda _: max(blas_threads()), np.arange(5), 2)) == [2, 2, 2, 2, 4]
        assert blas_threads() == before


def test_few_features_take_one_thread_unless_another_limit_holds():
    with threadpool_limits(4, "blas"):
        for dimension, threads in ((100, 1), (5000, 4)):
            with blas_of(dimension):
                assert max(blas_threads()) == threads
            assert max(blas_threads()) == 4

        def within(_):
            with blas_of(100):
                return max(blas_threads())

        # The last call has no other beside it.
        assert list(in_threads(within, range(3), 2)) == [2, 2, 1]
        assert max(blas_threads()) == 4


def test_a_library_that_is_loaded_later_is_limited_too():
    code = """
from spark_auc.core.parallel import blas_of
with blas_of(100):
    pass
import scipy.linalg
from threadpoolctl import ThreadpoolController
with blas_of(100):
    found = ThreadpoolController().select(user_api="blas").info()
    assert len(found) > 1 and all(library["num_threads"] == 1 for library in found), found
"""
    subprocess.run(
        [sys.executable, "-c", code], check=True, env=os.environ | {"OPENBLAS_NUM_THREADS": "2"}
    )


def test_callers_at_the_same_time_take_turns():
    """Overlapping limits would be restored in the wrong order."""
    running, together = Counter(), []

    def caller(k):
        def call(_):
            running[k] += 1
            time.sleep(0.005)
            together.append(len(+running))
            running[k] -= 1

        list(in_threads(call, range(4), 2))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(caller, range(3)))
    assert together == [1] * 12


def test_an_error_of_a_call_gives_them_back():
    def fail(k):
        raise ValueError(k)

    before = blas_threads()
    with pytest.raises(ValueError, match="0"):
        list(in_threads(fail, range(3), 2))
    assert blas_threads() == before


# A finalizer like that of Spark Connect's models: it waits for a thread of another pool. The
# garbage collector runs it after 1, 2, 3, ... new objects of a call.
COLLECTED = """
import gc
from concurrent.futures import ThreadPoolExecutor

pool = ThreadPoolExecutor(1)
pool.submit(int).result()
finalized = []

class Model:
    def __init__(self):
        self.itself = self

    def __del__(self):
        finalized.append(pool.submit(int).result())

for count in range(1, 300):
    gc.disable()
    gc.collect()
    Model()
    gc.set_threshold(count)
    gc.enable()
    assert list({call}) == [0, 1, 4]
    gc.set_threshold(10**6)
assert len(finalized) > 200, len(finalized)
"""
CALLS = [
    ("from spark_auc.core.parallel import mapped", "mapped(lambda k: k * k, range(3), 2)"),
    (
        "from spark_auc.core.lockstep import Lockstep; steps = Lockstep(lambda asked: asked)",
        "steps.map(lambda k: steps.ask(k) * k, range(3))",
    ),
]


@pytest.mark.parametrize(("imports", "call"), CALLS, ids=["mapped", "lockstep"])
def test_a_finalizer_that_waits_for_a_thread(imports, call):
    program = imports + COLLECTED.replace("{call}", call)
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100)


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_an_error_comes_after_the_calls_that_have_begun(kind):
    both, ended = Barrier(2), []

    def fail(k):
        if k < 2:
            both.wait()
        if k == 0:
            raise kind(k)
        time.sleep(0.5)
        ended.append(k)

    with pytest.raises(kind, match="0"):
        mapped(fail, range(9), 2)
    assert ended == [1]


@pytest.mark.parametrize(("items", "threads"), [(0, 2), (1, 4), (5, 2), (5, None)])
def test_every_item_has_its_result(items, threads):
    assert mapped(str, range(items), threads) == [str(k) for k in range(items)]


def test_a_call_beside_others_has_one_processor_and_a_call_alone_has_all():
    """Threads within threads would hold more states at a time, and gain nothing."""
    assert (
        mapped(lambda _: (free_cpus(), mapped(lambda _: free_cpus(), "ab")), "cd", 2)
        == [(1, [1, 1])] * 2
    )
    assert mapped(lambda _: free_cpus(), "c", 2) == [cpus()]
    with pytest.raises(ValueError, match="found"):
        mapped(lambda _: int("found"), "cd", 2)
    assert free_cpus() == cpus()


class Rows:
    """A state of the number of rows, and the most such states there were at a time."""

    alive, most = WeakSet(), 0

    def __init__(self, count):
        self.count = count
        self.alive.add(self)
        Rows.most = max(self.most, len(self.alive))

    def merge(self, other):
        return Rows(self.count + other.count)


def test_the_states_of_all_parts_are_not_in_memory_together(monkeypatch):
    monkeypatch.setattr(row_source, "free_cpus", lambda: 1)
    X = np.broadcast_to(0.0, (1 << 11, 1 << 11))
    rows = row_source.ArrayRows((Batch(X, np.arange(1 << 11) < 9),) * 16, 1 << 11)

    def fold(batches):
        yield "rows", Rows(sum(batch.y.size for batch in batches))

    found = rows.fold(fold, (Rows,), state_bytes=8, what="rows")
    assert found["rows"].count == 16 << 11
    assert found.labels.rows == {0.0: 16 * 2039, 1.0: 16 * 9}
    # The merged one, one of a part, and what their merge makes.
    assert Rows.most == 3


def test_states_that_a_part_makes_one_by_one_are_merged_one_by_one(monkeypatch):
    monkeypatch.setattr(row_source, "free_cpus", lambda: 1)
    X = np.broadcast_to(0.0, (1 << 11, 1 << 11))
    rows = row_source.ArrayRows((Batch(X, np.arange(1 << 11) < 9),) * 16, 1 << 11)
    Rows.most = 0

    def fold(batches):
        count = sum(batch.y.size for batch in batches)
        for k in range(8):
            yield str(k), Rows(count + k)

    found = rows.fold(fold, (Rows,), state_bytes=8, what="rows")
    assert [found[str(k)].count for k in range(8)] == [(16 << 11) + 4 * k for k in range(8)]
    assert found.labels.rows == {0.0: 16 * 2039, 1.0: 16 * 9}
    # The merged ones, and a few of a part; all of a part would be 8 more.
    assert Rows.most <= 11
