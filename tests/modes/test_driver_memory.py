"""A driver without memory, in a process of its own."""

import subprocess
import sys

import pytest

PROGRAM = """
import pyarrow as pa
from spark_auc.errors import ResourceError
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.session import session

def large(batches):
    for _ in batches:
        for _ in range(100):
            yield pa.record_batch({"payload": pa.array([bytes(4 << 20)], pa.binary())})

try:
    settings = {"spark.master": "local[2]", "spark.driver.memory": "512m"}
    with session("test", settings) as spark, translated():
        spark.range(0, 2, 1, 2).mapInArrow(large, "payload binary").toArrow()
except ResourceError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_driver_without_memory_ends_the_job():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "raise spark.driver.memory" in done.stdout
