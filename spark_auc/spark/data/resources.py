"""What the session has to work with: task slots and memory, compared with what a job needs."""

from __future__ import annotations

import logging
import math
import re
import time
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_auc.core.memory import available_memory, check_available
from spark_auc.errors import ResourceError

_log = logging.getLogger(__name__)

# Collecting results was seen to need this multiple of their size in the driver's heap.
_HEAP_MULTIPLE = 4
# Of the memory that is available, the share that rows on the driver may take.
_ROWS_SHARE = 0.25
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


@dataclass(frozen=True)
class SessionMemory:
    """The budget of rows that a session's tasks read."""

    spark: SparkSession

    @property
    def slots(self) -> int:
        """See `MemoryBudget.slots`."""
        return task_slots(self.spark)

    @property
    def gather_limit(self) -> int:
        """See `MemoryBudget.gather_limit`."""
        return Gathering.of(self.spark).limit

    @property
    def rows_limit(self) -> float:
        """See `MemoryBudget.rows_limit`."""
        available = available_memory()
        limit = float(self.gather_limit)
        return limit if available is None else min(limit, _ROWS_SHARE * available)

    def check(self, state_bytes: int, what: str) -> None:
        """See `MemoryBudget.check`."""
        self.check_gathered(state_bytes, what)
        local = str(self.spark.conf.get("spark.master", "")).startswith("local")
        _log.info("%s take %.0f MiB a state; %d task slots", what, state_bytes / 2**20, self.slots)
        # In local mode the driver shares the machine with one state per task slot.
        check_available(state_bytes, self.slots if local else 0, what)

    def check_gathered(self, state_bytes: int, what: str) -> None:
        """See `MemoryBudget.check_gathered`."""
        Gathering.of(self.spark).check(state_bytes, what)

    def check_folds(self, state_bytes: int, folds: int, what: str) -> None:
        """See `MemoryBudget.check_folds`; no task runs meanwhile."""
        check_available(state_bytes, 0, what, folds)
