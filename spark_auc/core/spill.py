"""Arrays in a temporary file, where reading them takes less time than what is done with them."""

from __future__ import annotations

import logging
import os
import tempfile
from threading import Lock
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

_log = logging.getLogger(__name__)

# Place and number of the bytes of some arrays.
Place: TypeAlias = tuple[int, int]
# Bytes that stay in memory, so that few rows need no file.
IN_MEMORY = 16 * 2**20


class Spill:
    """A temporary file of this process.

    It has no name where the system allows this, which then deletes it when the process ends, even
    if it is killed.
    """

    def __init__(self) -> None:
        self._file: IO[Any] | None = None
        self._lock = Lock()

    def put(self, *arrays: NDArray[Any]) -> Place | None:
        """Append the bytes of arrays; None where the disk has no room for them."""
        with self._lock:
            try:
                if self._file is None:
                    self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
                start = self._file.seek(0, os.SEEK_END)
                for array in arrays:
                    array.tofile(self._file)
                return start, self._file.tell() - start
            except OSError as error:
                _log.debug("what does not fit on the disk stays in memory: %s", error)
                return None

    def get(self, place: Place) -> NDArray[np.uint8]:
        """The bytes of arrays, in their order."""
        assert self._file is not None, "a place is of a file"
        with self._lock:
            self._file.seek(place[0])
            found = np.fromfile(self._file, np.uint8, place[1])
        if found.size < place[1]:
            raise OSError(f"found {found.size} of {place[1]} bytes in the temporary file")
        return found
