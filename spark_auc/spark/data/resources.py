"""Task slots and memory of a session, and checks that a job fits in them."""

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

# Measured: collecting a result needs this multiple of its size in the driver's heap.
_HEAP_MULTIPLE = 4
# Share of the available memory for rows on the driver.
_ROWS_SHARE = 0.25
# Counting slots runs a Spark job, and a fit needs the number in each pass. Dynamic allocation can
# change it, so the count expires after some seconds.
_FRESH = 10.0
_slots: WeakKeyDictionary[SparkSession, tuple[float, int]] = WeakKeyDictionary()
_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def in_bytes(size: str, default_unit: str = "b") -> int:
    """Number of bytes of a Spark size such as "1g" or "512m".

    Parameters
    ----------
    size
        The size.
    default_unit
        Unit of a size without one: "b", "k", "m", "g" or "t".

    Raises
    ------
    ResourceError
        The text is no size.
    """
    match = re.fullmatch(r"(\d+)([bkmgt]?)b?", size.strip().lower())
    if match is None:
        raise ResourceError(
            f"found the size {size!r}, expected a number with a unit b, k, m, g or t; repair the "
            "memory settings of Spark"
        )
    return int(match[1]) * _UNITS[match[2] or default_unit]


def task_slots(spark: SparkSession) -> int:
    """Number of tasks that run at once; new executors count after 10 s.

    A lost executor does not lower the number: the next pass would group partitions differently,
    which changes the last bits of its result.
    """
    counted, slots = _slots.get(spark, (-math.inf, 0))
    if time.monotonic() - counted > _FRESH:
        # By default a range has one partition for each slot; reading its last row runs one task.
        ids = spark.range(1 << 16).select(F.spark_partition_id())
        slots = max(slots, int(ids.tail(1)[0][0]) + 1)
        _slots[spark] = time.monotonic(), slots
    return slots


@dataclass(frozen=True)
class SessionMemory:
    """Memory budget of a Spark session (`MemoryBudget`)."""

    spark: SparkSession

    @property
    def slots(self) -> int:
        """See `MemoryBudget.slots`."""
        return task_slots(self.spark)

    @property
    def gather_limit(self) -> int:
        """See `MemoryBudget.gather_limit`."""
        heap, result = self._settings
        of_heap = in_bytes(heap, "m")
        return min(of_heap // _HEAP_MULTIPLE, in_bytes(result) or of_heap)

    @property
    def _settings(self) -> tuple[str, str]:
        """Values of spark.driver.memory and spark.driver.maxResultSize."""
        conf = self.spark.conf
        names = "spark.driver.memory", "spark.driver.maxResultSize"
        heap, result = (str(conf.get(name, "1g")) for name in names)
        return heap, result

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
        _log.info(
            "memory for %s: %.1f MiB in each of %d task slots",
            what,
            state_bytes / 2**20,
            self.slots,
        )
        # In local mode the tasks use the driver's machine: one state for each task slot.
        check_available(state_bytes, self.slots if local else 0, what)

    def check_gathered(self, state_bytes: int, what: str) -> None:
        """See `MemoryBudget.check_gathered`; the message names the settings to change."""
        if state_bytes > (limit := self.gather_limit):
            (heap, result), need = self._settings, -(-state_bytes // 2**20)
            raise ResourceError(
                f"found {what} that take {need} MiB to gather, expected at most "
                f"{limit // 2**20} MiB with spark.driver.memory={heap} and "
                f"spark.driver.maxResultSize={result}; set spark.driver.memory to "
                f"{_HEAP_MULTIPLE * need}m and spark.driver.maxResultSize to {need + 64}m or more, "
                "or use fewer features"
            )

    def check_folds(self, state_bytes: int, folds: int, what: str) -> None:
        """See `MemoryBudget.check_folds`; the folds are merged while no task runs."""
        check_available(state_bytes, 0, what, folds)
