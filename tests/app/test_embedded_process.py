"""The process of a job without Spark: its memory, and its end by Ctrl-C."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pytest

pytestmark = pytest.mark.slow

MEGABYTES = 128
# Small parts of all kinds, which few rows fill: what grows then are the rows themselves.
MEASURED = r"""
import json, re, sys
from pathlib import Path
from spark_auc.core import memory
memory.available_memory = lambda: int(sys.argv[3]) << 20
from spark_auc.pipeline import score_tables
from spark_auc.tables import arrow_table, text_ranges
text_ranges._RANGE_BYTES = 1 << 20
score_tables._RANGE_ROWS = 1 << 14
arrow_table._ROWS_SHARE = 1 / 32
from spark_auc.app.running import run
code = run("train", options={"data": sys.argv[1], "label": "y", "output": sys.argv[2]},
           overrides=["train.training.regParam=0.01", "train.features.dimension=16",
                      "train.features.numKnots=4", "train.features.crosses=null",
                      "train.holdout.train=0.5"])
# Not that of resource, which a process inherits from the one that made it.
peak = int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) / 2**10
print(json.dumps({"code": code, "peak": peak}))
"""


def write(path, rows, columns, seed=0):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(rows, columns)), 4)
    y = X[:, 0] + rng.normal(size=rows) > 1
    columns = {f"x{k}": X[:, k] for k in range(columns)}
    pv.write_csv(pa.table(columns | {"y": y.astype(int)}), path)


def test_memory_does_not_grow_with_the_rows(tmp_path):
    """Without limits, the further columns and scores that are kept take more than twice as much.

    Peaks of the same rows differ by up to 40 MB between runs.
    """
    peaks = {}
    for rows in (500_000, 4_000_000):
        write(tmp_path / f"{rows}.csv", rows, 2)
        ended = subprocess.run(
            [sys.executable, "-c", MEASURED, f"{rows}.csv", f"model{rows}", str(MEGABYTES)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        found = json.loads(ended.stdout.splitlines()[-1])
        assert found["code"] == 0, ended.stderr
        peaks[rows] = found["peak"]
    assert peaks[4_000_000] - peaks[500_000] < MEGABYTES / 2, peaks


def test_ctrl_c_ends_a_job_within_a_block(tmp_path):
    write(tmp_path / "rows.csv", 400_000, 15)
    arguments = ["--data", "rows.csv", "--label", "y", "--output", "model", "--json"]
    code = "from spark_auc.app.cli import main; main()"
    job = subprocess.Popen(
        [sys.executable, "-c", code, "train", *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in job.stderr:
        if "formats of columns of text" in line:
            break
    job.send_signal(signal.SIGINT)
    out, _ = job.communicate(timeout=60)
    result = json.loads(out.splitlines()[-1])
    assert (job.returncode, result["error"]) == (130, "KeyboardInterrupt")
    left = {str(path.relative_to(tmp_path)) for path in Path(tmp_path).rglob("*")} - {"rows.csv"}
    assert not any(name.endswith("manifest.json") for name in left), left
