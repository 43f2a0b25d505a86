"""Independent computations in threads, each with its share of the BLAS library's threads."""

from __future__ import annotations

import importlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import islice
from threading import Lock, Thread, local
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")

# Features from which a matrix takes less time on several threads of the BLAS library. With 400,
# 1,600 and 3,000 features a path of ridges takes 7, 2 and 1.4 times as long on two threads as on
# one, and with 5,000 two thirds.
_WORTH_THREADS = 4096
# The number of BLAS threads belongs to the process. Two overlapping limits would restore it in the
# wrong order, and leave the process with the lower number.
_limiting = Lock()
# Whether this thread is one of several in `mapped`.
_beside = local()


def cpus() -> int:
    """Number of processors that this process may use, at least 1; a container may set fewer."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def free_cpus() -> int:
    """Processors for the calls of this thread: 1 beside other calls of `mapped`, which use them."""
    return 1 if getattr(_beside, "others", False) else cpus()


def mapped(function: Callable[[T], R], items: Iterable[T], threads: int | None = None) -> list[R]:
    """Results of a function, computed in threads, in the order of its arguments.

    Parameters
    ----------
    function
        A function that releases the interpreter lock for most of its time. This thread calls it
        too.
    items
        Its arguments.
    threads
        Number of concurrent calls; None for one per free processor.

    Raises
    ------
    Exception
        An error of the function. Calls that have begun end first, and others do not begin.
    """
    arguments = list(items)
    remaining = deque(range(len(arguments)))
    results: dict[int, R] = {}
    errors: dict[int, BaseException] = {}

    def work() -> None:
        before = getattr(_beside, "others", False)
        _beside.others = before or count > 1
        while True:
            try:
                number = remaining.popleft()
            except IndexError:
                break
            try:
                results[number] = function(arguments[number])
            except BaseException as error:
                errors[number] = error
                remaining.clear()
        _beside.others = before

    # No ThreadPoolExecutor: its ``submit`` holds a lock of the process while it allocates. The
    # finalizers of Spark Connect's models submit as well, and if the garbage collector runs one of
    # them there, the thread waits for itself (SPARK-55020, SPARK-57655). A pool of multiprocessing
    # takes milliseconds to start.
    count = min(threads or free_cpus(), len(arguments))
    others = [Thread(target=work, daemon=True) for _ in range(count - 1)]
    for thread in others:
        thread.start()
    work()
    for thread in others:
        thread.join()
    if errors:
        raise errors[min(errors)]
    return [results[number] for number in range(len(arguments))]


def in_threads(function: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[R]:
    """Results of a function, in the order of its arguments.

    Up to ``threads`` arguments are taken at a time and computed together. The threads of the BLAS
    library are divided among them: one matrix per core takes less time than one matrix on all
    cores.

    Parameters
    ----------
    function
        A function that releases the interpreter lock for most of its time, and does not use
        `in_threads` itself.
    items
        Its arguments.
    threads
        Number of concurrent calls; 1 calls the function in this thread.
    """
    if threads == 1:
        yield from map(function, items)
        return
    remaining = iter(items)
    while chunk := list(islice(remaining, threads)):
        if len(chunk) == 1:
            yield function(chunk[0])
            continue
        with blas_for(len(chunk)):
            results = mapped(function, chunk, threads)
        yield from results


@contextmanager
def blas_for(threads: int) -> Iterator[None]:
    """Divide the threads of the BLAS library among some threads, for the time of the block."""
    with _limiting, _divided(threads):
        yield


@contextmanager
def blas_of(dimension: int, callers: int = 1) -> Iterator[None]:
    """The threads of the BLAS library for matrices of some features, for the time of the block.

    Matrices of few features take one thread, those of more share all among the callers. Another
    limit that holds meanwhile stays as it is.
    """
    if not _limiting.acquire(blocking=False):
        yield
        return
    try:
        with _divided(callers if dimension >= _WORTH_THREADS else None):
            yield
    finally:
        _limiting.release()


@cache
def _blas() -> ThreadpoolController:
    """The BLAS libraries of the process; to look for them takes longer than a small matrix."""
    # Only the process that solves has this library; tasks import this module without it.
    from threadpoolctl import ThreadpoolController

    # Has a BLAS library of its own, which would not be found if it were loaded later.
    importlib.import_module("scipy.linalg")
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def _divided(callers: int | None) -> Iterator[None]:
    """Divide the threads among callers; None leaves each of them one."""
    available = max((library["num_threads"] for library in _blas().info()), default=1)
    with _blas().limit(limits=max(1, available // (callers or available))):
        yield
