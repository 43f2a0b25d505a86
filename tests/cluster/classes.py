"""Write an archive of Spark's classes, from which the JVMs of the tests start faster.

Run ``python -m tests.cluster.classes``. The archive is in the environment's directory.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.cluster.processes import ARCHIVE, JAVA, processes, started, until

_SCRIPT = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.range(100).selectExpr("id", "id % 7 AS k", "cast(id AS string) AS s")
rows.write.parquet(sys.argv[1])
rows = spark.read.parquet(sys.argv[1])
rows.mapInArrow(lambda batches: batches, rows.schema).groupBy("k").count().orderBy("k").toArrow()
spark.stop()
"""


def make() -> None:
    """Write the archive by a session that reads, shuffles and writes."""
    with tempfile.TemporaryDirectory() as place:
        script, made = Path(place, "script.py"), Path(place, "classes.jsa")
        script.write_text(_SCRIPT)
        options = f"{JAVA} -XX:ArchiveClassesAtExit={made} -Xlog:disable"
        command: list[object] = [sys.executable, script, Path(place, "rows")]
        log = Path(place, "log")
        process = started(command, Path(place), log, JDK_JAVA_OPTIONS=options)
        code = process.wait()
        # Python ends before its JVM has written the archive.
        until(lambda: not processes(process.pid), 300, "the end of the session")
        if code or not made.exists():
            raise SystemExit(
                f"found no archive of classes, expected one:\n{log.read_text()[-3000:]}"
            )
        ARCHIVE.write_bytes(made.read_bytes())


if __name__ == "__main__":
    make()
