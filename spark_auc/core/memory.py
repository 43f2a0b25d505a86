"""How much memory a computation may use, and the refusal of one that needs more."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from spark_auc.errors import ResourceError

# Of the memory that is available, the share that states of folds and tables of scores may take.
_GATHERED_SHARE = 0.25


class MemoryBudget(Protocol):
    """What a source of rows has to work with."""

    @property
    def slots(self) -> int:
        """Tasks that run at once, each with a state of its own."""
        ...

    @property
    def gather_limit(self) -> int:
        """Bytes of merged states that may be held beside each other."""
        ...

    @property
    def rows_limit(self) -> float:
        """Bytes that rows may take in this process's memory."""
        ...

    def check(self, state_bytes: int, what: str) -> None:
        """`ResourceError` where a state of so many bytes cannot be made of all rows."""
        ...

    def check_gathered(self, state_bytes: int, what: str) -> None:
        """`ResourceError` where so many bytes cannot come to this process."""
        ...

    def check_folds(self, state_bytes: int, folds: int, what: str) -> None:
        """`ResourceError` where merged states of so many folds do not fit beside each other."""
        ...


@dataclass(frozen=True)
class ProcessMemory:
    """The budget of rows that are in this process's memory already."""

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
    """Refuse states that do not fit in this machine's memory; `ResourceError` with the numbers.

    Parameters
    ----------
    state_bytes
        Bytes of one state.
    slots
        States under construction on this machine, beside the merged one and the solver's copy of
        half of it.
    what
        What the states are, for messages.
    folds
        States of folds that are held besides, to choose among penalties; those of the other folds
        replace them tile by tile.
    """
    needed = state_bytes * (2 * folds + 3) // 2 + slots * state_bytes
    available = available_memory()
    if available is not None and needed > available:
        raise ResourceError(
            f"found {what} that need about {needed // 2**20} MiB of memory on this machine "
            f"({slots} tasks), expected at most the {available // 2**20} MiB available; "
            f"use fewer features, fewer {'folds' if folds else 'tasks'} or a larger machine"
        )


def available_memory() -> int | None:
    """Bytes that this machine and container can still give; None where that cannot be told."""
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
