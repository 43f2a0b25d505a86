"""The merge of the states of many task slots, on one machine.

The states of a fit are made up. By default each partition has a few dense random rows, whose
moments no compression shortens. With ``--clicks`` each slot sends the moments of that number of
rows of 39 hashed tokens, the same ones in all slots. From there on all is real: states by tile,
shuffle, merges and the driver's result, by `spark_auc.spark.data.aggregate`. Bytes are those of
Spark's event log. Two tasks run at once, so that seconds are those of two cores for all slots.
Prints a JSON object for each number of slots.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.measuring import SETTINGS, PeakMemory, cpu_seconds, seconds
from benchmarks.moment_store import clicks
from spark_auc.core.moments.accumulator import PairAccumulator
from spark_auc.core.moments.moments_tile import MomentsTile
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.moments.tiles import Tiling
from spark_auc.spark.data import resources
from spark_auc.spark.data.aggregate import Fold, aggregate
from spark_auc.spark.data.session import session

# Rows of a partition. No entry of the matrix is 0, so that no state is smaller for its few rows.
ROWS = 4


def folding(dimension: int) -> Fold:
    """A fold that makes up the rows of the partitions whose numbers it reads."""

    def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, MomentsTile]]:
        moments, y = PairAccumulator(dimension), np.arange(2 * ROWS) < ROWS
        for batch in batches:
            for number in batch.column(0).to_pylist():
                rng = np.random.default_rng(number)
                moments.add(rng.normal(size=(y.size, dimension)), y, None)
        yield from moments.parts()

    return fold


def store_clicks(dimension: int, rows: int, path: str) -> None:
    """Write the moments of rows of hashed tokens, by tile."""
    moments = PairAccumulator(dimension)
    moments.add(*clicks(np.random.default_rng(0), dimension, rows), None)
    names, states = zip(*moments.parts(), strict=True)
    pq.write_table(pa.table({"name": names, "tile": [s.to_bytes() for s in states]}), path)


def sending(path: str) -> Fold:
    """A fold that sends the moments in a file, whatever partitions it reads."""

    def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, MomentsTile]]:
        for _ in batches:
            pass
        for part in pq.ParquetFile(path).iter_batches(1):
            yield part["name"][0].as_py(), MomentsTile.from_bytes(part["tile"][0].as_py())

    return fold


def merged(spark: SparkSession, dimension: int, partitions: int, fold: Fold) -> PairMoments:
    """The moments of all partitions."""
    state = 2 * Tiling(dimension).nbytes
    frame = spark.range(0, partitions, 1, partitions)
    # The check is of a machine that runs all slots at once, and this one runs two.
    with mock.patch.object(resources, "check_available"):
        states = aggregate(frame, fold, (MomentsTile,), state_bytes=state, what="moments")
    return PairMoments.of_parts(states, dimension)


def moved(log: Path) -> tuple[int, int]:
    """Bytes written to shuffles, and bytes sent to the driver, of all tasks in an event log."""
    shuffled, sent = 0, 0
    for file in log.rglob("[!.]*"):
        for line in file.read_text().splitlines() if file.is_file() else ():
            if '"SparkListenerTaskEnd"' in line and (found := json.loads(line).get("Task Metrics")):
                shuffled += found["Shuffle Write Metrics"]["Shuffle Bytes Written"]
                sent += found["Result Size"]
    return shuffled, sent


def measured(dimension: int, partitions: int, slots: int, heap: str, made: int) -> dict[str, float]:
    """Time, memory and bytes of one merge, in a session of its own.

    ``made`` is the number of rows of hashed tokens in each slot; 0 for dense ones.
    """
    with tempfile.TemporaryDirectory() as log, tempfile.TemporaryDirectory() as states:
        fold, expected = folding(dimension), 2 * ROWS * partitions
        if made:
            path = f"{states}/moments.parquet"
            store_clicks(dimension, made, path)
            fold, expected = sending(path), made * slots
        logged = {"enabled": "true", "dir": f"file://{log}", "compress": "false"}
        logged = {f"spark.eventLog.{name}": value for name, value in logged.items()}
        # The number of partitions of a range, which is how task slots are counted.
        logged |= {"spark.default.parallelism": str(slots), "spark.driver.memory": heap}
        with session("benchmark", SETTINGS | logged) as spark:
            spark.sparkContext.setLogLevel("ERROR")
            merged(spark, 8, 4, folding(8))  # compiles, and starts the workers
            cpu = cpu_seconds()
            with PeakMemory() as memory:
                spent, moments = seconds(lambda: merged(spark, dimension, partitions, fold))
            cpu = cpu_seconds() - cpu
        shuffled, sent = moved(Path(log))
    rows = moments.positive.rows + moments.negative.rows
    assert rows == expected, rows
    state = 2 * Tiling(dimension).nbytes
    return {
        "dimension": dimension,
        "slots": slots,
        "stateMiB": state / 2**20,
        "seconds": spent,
        "cpuSeconds": cpu,
        "shuffledStatesPerSlot": shuffled / state / slots,
        "statesToDriver": sent / state,
        "driverMiB": memory.driver,
        "jvmMiB": memory.jvm,
        "workerMiB": memory.worker,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dimension", type=int, default=3000)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--slots", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--heap", default="2g", help="heap size of the driver")
    parser.add_argument(
        "--clicks", type=int, default=0, help="rows of hashed tokens in each slot's moments"
    )
    arguments = parser.parse_args()
    for slots in arguments.slots:
        found = measured(
            arguments.dimension, arguments.partitions, slots, arguments.heap, arguments.clicks
        )
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
