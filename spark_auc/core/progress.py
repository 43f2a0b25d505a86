"""Progress of a pass over the parts of some rows, in the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from threading import Lock
from typing import TypeVar

T = TypeVar("T")

_log = logging.getLogger(__name__)

# Seconds between two lines of a pass. Short passes have none.
EVERY = 10.0


class Progress:
    """Logs the share of a pass that is done, and the time that is left.

    Parameters
    ----------
    what
        What the pass makes, such as "moments of 10000 features".
    parts
        Number of parts of about equal size. Threads may finish them in any order.
    """

    def __init__(self, what: str, parts: int) -> None:
        self._what, self._parts, self._done = what, parts, 0
        self._start = self._last = time.monotonic()
        self._lock = Lock()

    def of(self, items: Iterable[T]) -> Iterator[T]:
        """The items of a part, which is done after the last one."""
        yield from items
        with self._lock:
            self._done += 1
            now, done = time.monotonic(), self._done
            if now - self._last < EVERY or done == self._parts:
                return
            self._last = now
        left = (now - self._start) * (self._parts - done) / done
        _log.info("%s: %d%% of the rows, %.0f s left", self._what, 100 * done // self._parts, left)
