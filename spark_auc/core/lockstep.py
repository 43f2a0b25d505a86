"""Computations whose requests are answered together, such as solvers that share passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from threading import Condition, Thread, local
from typing import Generic, TypeVar

from spark_auc.core.parallel import blas_for

Request = TypeVar("Request")
Answer = TypeVar("Answer")
T = TypeVar("T")
R = TypeVar("R")


class Lockstep(Generic[Request, Answer]):
    """Threads that advance request by request: one answer serves the requests of all of them.

    Parameters
    ----------
    answer
        Function from one request of each running thread to their answers, in the same order. The
        thread that called `map` calls it, so that Spark jobs begin where the user expects them.
    """

    def __init__(self, answer: Callable[[Sequence[Request]], Sequence[Answer]]) -> None:
        self._answer = answer
        self._thread = local()
        self._changed = Condition()
        self._requests: dict[int, Request] = {}
        self._answers: dict[int, Answer] = {}
        self._running: set[int] = set()
        self._failure: BaseException | None = None

    def ask(self, request: Request) -> Answer:
        """The answer to a request; outside of `map` it is answered alone."""
        number: int | None = getattr(self._thread, "number", None)
        if number is None:
            return self._answer([request])[0]
        with self._changed:
            self._requests[number] = request
            self._changed.notify_all()
            self._changed.wait_for(lambda: number in self._answers or self._failure is not None)
            if self._failure is not None:
                raise self._failure
            return self._answers.pop(number)

    def map(
        self, function: Callable[[T], R], items: Iterable[T], at_once: int | None = None
    ) -> Iterator[R]:
        """Results of a function in the order of its arguments, each computed in its own thread.

        Parameters
        ----------
        function
            The function.
        items
            Its arguments.
        at_once
            Most threads at a time. Default: one for each argument.

        Raises
        ------
        Exception
            The first error of the function or of ``answer``. The other threads end first.
        """
        remaining = iter(items)
        while arguments := list(islice(remaining, at_once)):
            yield from self._together(function, arguments)

    def _together(self, function: Callable[[T], R], arguments: Sequence[T]) -> list[R]:
        self._requests, self._answers = {}, {}
        self._running, self._failure = set(range(len(arguments))), None
        results: dict[int, R] = {}
        errors: dict[int, BaseException] = {}

        def run(number: int) -> None:
            self._thread.number = number
            try:
                results[number] = function(arguments[number])
            except BaseException as error:
                errors[number] = error
            finally:
                with self._changed:
                    self._running.discard(number)
                    self._changed.notify_all()

        threads = [Thread(target=run, args=[number], daemon=True) for number in self._running]
        with blas_for(max(1, len(threads))):
            try:
                for thread in threads:
                    thread.start()
                self._serve()
            except BaseException as error:
                with self._changed:
                    self._failure = error
                    self._changed.notify_all()
                raise
            finally:
                for thread in threads:
                    if thread.ident:
                        thread.join()
        if errors:
            raise errors[min(errors)]
        return [results[number] for number in range(len(arguments))]

    def _serve(self) -> None:
        """Answer until no thread runs."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._requests.keys() >= self._running)
                requests, self._requests = dict(sorted(self._requests.items())), {}
            if not requests:
                return
            answers = dict(zip(requests, self._answer(list(requests.values())), strict=True))
            with self._changed:
                self._answers |= answers
                self._changed.notify_all()
