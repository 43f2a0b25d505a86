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

COLUMNS = 12
MEGABYTES = 128
# Of this budget rows take a share.
MEASURED = r"""
import json, re, sys
from pathlib import Path
from spark_auc.core import memory
memory.available_memory = lambda: int(sys.argv[3]) << 20
from spark_auc.tables.arrow_table import process_memory
from spark_auc.app.running import run
code = run("train", options={"data": sys.argv[1], "label": "y", "output": sys.argv[2]},
           overrides=["train.training.regParam=0.01", "train.features.dimension=16",
                      "train.features.numKnots=4", "train.features.crosses=null"])
# Not that of resource, which a process inherits from the one that made it.
peak = int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) / 2**10
print(json.dumps({"code": code, "peak": peak, "rows": process_memory().rows_limit}))
"""


def write(path, rows, seed=0):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(rows, COLUMNS)), 4)
    y = X[:, 0] + rng.normal(size=rows) > 1
    columns = {f"x{k}": X[:, k] for k in range(COLUMNS)}
    columns |= {f"c{k}": rng.integers(0, 9, rows).astype(str) for k in range(3)}
    pv.write_csv(pa.table(columns | {"y": y.astype(int)}), path)


def test_memory_does_not_grow_with_the_rows(tmp_path):
    """The text of the larger file, and its packed rows, take about the budget each."""
    peaks = {}
    for rows in (10_000, 1_000_000):
        write(tmp_path / f"{rows}.csv", rows)
        ended = subprocess.run(
            [sys.executable, "-c", MEASURED, f"{rows}.csv", f"model{rows}", str(MEGABYTES)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        found = json.loads(ended.stdout.splitlines()[-1])
        assert found["code"] == 0, ended.stderr
        assert found["rows"] <= 32 << 20
        peaks[rows] = found["peak"]
    # The budget, and blocks of text in several forms in two threads; without a limit, the rows
    # take three times the budget.
    assert peaks[1_000_000] - peaks[10_000] < 2 * MEGABYTES, peaks


def test_ctrl_c_ends_a_job_within_a_block(tmp_path):
    write(tmp_path / "rows.csv", 400_000)
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
        if "types of columns of text" in line:
            break
    job.send_signal(signal.SIGINT)
    out, _ = job.communicate(timeout=60)
    result = json.loads(out.splitlines()[-1])
    assert (job.returncode, result["error"]) == (130, "KeyboardInterrupt")
    left = {str(path.relative_to(tmp_path)) for path in Path(tmp_path).rglob("*")} - {"rows.csv"}
    assert not any(name.endswith("manifest.json") for name in left), left
