"""Calls in threads: their order, their BLAS threads, and several callers at the same time."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from spark_auc.core.parallel import in_threads


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
