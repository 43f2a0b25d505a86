"""Memory budgets: how much memory a computation may use."""

from __future__ import annotations

import ctypes
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from spark_auc.errors import ResourceError

# Share of the available memory that the states of folds and tables of scores may take.
_GATHERED_SHARE = 0.25
# Number of folds that are solved at the same time; each needs a matrix of its own.
FOLDS_AT_ONCE = 2


class MemoryBudget(Protocol):
    """The memory that computations on a source of rows may use."""

    @property
    def slots(self) -> int:
        """Number of concurrent tasks; each builds its own state."""

    @property
    def gather_limit(self) -> int:
        """Limit of the total size of merged states held at the same time, in bytes."""

    @property
    def rows_limit(self) -> float:
        """Limit of the size of rows in this process's memory, in bytes."""

    def check(self, state_bytes: int, what: str) -> None:
        """Raise `ResourceError` if building a state of this size exceeds the budget."""

    def check_gathered(self, state_bytes: int, what: str) -> None:
        """Raise `ResourceError` if a result of this size does not fit in this process."""

    def check_folds(self, state_bytes: int, folds: int, what: str) -> None:
        """Raise `ResourceError` if one merged state per fold does not fit in memory together."""


@dataclass(frozen=True)
class ProcessMemory:
    """The budget of rows in this process's memory.

    Parameters
    ----------
    slots
        Number of concurrent tasks.
    rows_limit
        Limit of the size of rows in memory, in bytes.
    """

    slots: int = 1
    rows_limit: float = float("inf")

    @property
    def gather_limit(self) -> int:
        """See `MemoryBudget.gather_limit`."""
        available = available_memory()
        return sys.maxsize if available is None else int(_GATHERED_SHARE * available)

    def check(self, state_bytes: int, what: str) -> None:
        """See `MemoryBudget.check`."""
        check_available(state_bytes, self.slots, what)

    def check_gathered(self, state_bytes: int, what: str) -> None:
        """See `MemoryBudget.check_gathered`."""
        check_available(state_bytes, 0, what)

    def check_folds(self, state_bytes: int, folds: int, what: str) -> None:
        """See `MemoryBudget.check_folds`."""
        check_available(state_bytes, 0, what, folds)


def check_available(state_bytes: int, slots: int, what: str, folds: int = 0) -> None:
    """Raise `ResourceError` if states do not fit in this machine's memory.

    Parameters
    ----------
    state_bytes
        Size of one state in bytes.
    slots
        Number of states under construction on this machine. The merged state and the solver's
        copies of half of it, one for each fold solved at the same time, are added.
    what
        Description of the states for messages.
    folds
        Number of states of folds held for the choice of the penalty. The moments of the
        complements replace them tile by tile.

    Raises
    ------
    ResourceError
        The states need more than the available memory.
    """
    copies = FOLDS_AT_ONCE if folds else 1
    needed = state_bytes * (2 * (folds + slots + 1) + copies) // 2
    available = available_memory()
    if available is not None and needed > available:
        raise ResourceError(
            f"found {what} that need about {needed // 2**20} MiB of memory on this machine "
            f"({slots} tasks), expected at most {available // 2**20} MiB, the memory available; "
            f"use fewer features, fewer {'folds' if folds else 'tasks'} or a larger machine"
        )


def available_memory() -> int | None:
    """Available memory of this machine and container in bytes; None if it is unknown."""
    amounts = []
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        kib = re.search(r"MemAvailable:\s+(\d+) kB", meminfo.read_text())
        amounts += [int(kib[1]) * 1024] if kib else []
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ):
        if Path(limit).exists() and (most := Path(limit).read_text().strip()).isdigit():
            amounts.append(int(most) - int(Path(used).read_text()))
    return min(amounts, default=None)


def give_back() -> None:
    """Return memory that is free to the system.

    The GNU C library keeps what threads free, in pieces that later arrays do not fit: a pass over
    more rows leaves more of them.
    """
    if trim := _trim():
        trim(0)


@cache
def _trim() -> Any:
    """The function of the C library that returns memory; None if it has none."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
