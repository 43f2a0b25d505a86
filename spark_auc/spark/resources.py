"""What the session has to work with: task slots and memory, compared with what a job needs."""

from __future__ import annotations

import logging
import math
import re
import time
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_auc.errors import ResourceError

_log = logging.getLogger(__name__)

# Collecting results was seen to need this multiple of their size in the driver's heap.
_HEAP_MULTIPLE = 4
# Executors come and go, but asking takes a job, and a fit asks before each of its passes.
_FRESH = 10.0
_slots: WeakKeyDictionary[SparkSession, tuple[float, int]] = WeakKeyDictionary()
_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def in_bytes(size: str, default_unit: str = "b") -> int:
    """Bytes of a Spark size such as "1g" or "512m"."""
    found = re.fullmatch(r"(\d+)([bkmgt]?)b?", size.strip().lower())
    if found is None:
        raise ResourceError(f"found the size {size!r}, expected a number with b, k, m, g or t")
    return int(found[1]) * _UNITS[found[2] or default_unit]


def task_slots(spark: SparkSession) -> int:
    """Number of tasks that run at once, as Spark planned it some seconds ago at most."""
    asked, slots = _slots.get(spark, (-math.inf, 0))
    if time.monotonic() - asked > _FRESH:
        # A range without a stated number of partitions has one for each slot, and looking at its
        # last row runs a single task.
        ids = spark.range(1 << 16).select(F.spark_partition_id())
        slots = int(ids.tail(1)[0][0]) + 1
        _slots[spark] = time.monotonic(), slots
    return slots


@dataclass(frozen=True)
class Gathering:
    """How many bytes the driver may gather at once, and which settings say so."""

    limit: int
    heap: str
    result: str

    @classmethod
    def of(cls, spark: SparkSession) -> Gathering:
        """Read the limits of a session."""
        heap = str(spark.conf.get("spark.driver.memory", "1g"))
        result = str(spark.conf.get("spark.driver.maxResultSize", "1g"))
        most = in_bytes(result) or in_bytes(heap, "m")
        return cls(min(in_bytes(heap, "m") // _HEAP_MULTIPLE, most), heap, result)

    def check(self, state_bytes: int, what: str) -> None:
        """Refuse a state that cannot be gathered; `ResourceError` says which settings to change."""
        if state_bytes > self.limit:
            need = -(-state_bytes // 2**20)
            raise ResourceError(
                f"found {what} that take {need} MiB to gather, expected at most "
                f"{self.limit // 2**20} MiB with spark.driver.memory={self.heap} and "
                f"spark.driver.maxResultSize={self.result}; set spark.driver.memory to "
                f"{_HEAP_MULTIPLE * need}m and spark.driver.maxResultSize to {need + 64}m or more, "
                "or use fewer features"
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


def check_memory(
    spark: SparkSession, state_bytes: int, slots: int, what: str, folds: int = 0
) -> None:
    """Refuse a job whose states do not fit; `ResourceError` with the numbers.

    The driver holds the merged state and the solver's copy of half of it; in local mode it also
    shares the machine with one state per task slot. To choose among penalties it holds a state
    per fold besides, which those of the other folds replace tile by tile.
    """
    local = str(spark.conf.get("spark.master", "")).startswith("local")
    needed = state_bytes * (2 * folds + 3) // 2 + (slots * state_bytes if local else 0)
    available = available_memory()
    _log.info(
        "%s take %.0f MiB a state; %d task slots; the driver's machine needs about %.0f MiB",
        what,
        state_bytes / 2**20,
        slots,
        needed / 2**20,
    )
    if available is not None and needed > available:
        raise ResourceError(
            f"found {what} that need about {needed // 2**20} MiB of memory on the driver's machine "
            f"({slots} task slots), expected at most the {available // 2**20} MiB available; "
            f"use fewer features, fewer {'folds' if folds else 'task slots'} or a larger machine"
        )
