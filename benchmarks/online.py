"""Rows per second and core: the learners against scikit-learn and Vowpal Wabbit.

Prints one JSON object per learner, from the least CPU seconds of one thread over repeats. Rows are
clicks with 39 non-zeros at d = 10,000, and dense rows of 100 features for OPAUC. Vowpal Wabbit (pip
install 'spark-auc[bench]') reads a cache of the rows; it is skipped if it is not installed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.linear_model import SGDClassifier
from threadpoolctl import threadpool_limits

from experiments.comparators.ftrl import FTRL
from experiments.comparators.oam import OAM
from spark_auc.learners.dsgd import DSGD
from spark_auc.learners.opauc import OPAUC
from spark_auc.learners.opauc_low_rank import OPAUCr
from spark_auc.learners.solam import SOLAM

REPEATS = 4
# Rows per call of learn, as in Arrow batches.
BLOCK = 10_000


def clicks(rows: int, dimension: int = 10_000, fields: int = 39) -> sparse.csr_matrix:
    """Click rows: one hashed column per field, with Zipf-like popularity."""
    rng = np.random.default_rng(0)
    sizes = np.geomspace(3, 1e6, fields)
    tokens = np.floor(np.exp(rng.random((rows, fields)) * np.log1p(sizes))).astype(np.int64)
    columns = ((tokens * 2654435761 + np.arange(fields) * 97531) >> 7) % dimension
    starts = np.arange(0, rows * fields + 1, fields)
    data = np.full(columns.size, fields**-0.5)
    return sparse.csr_matrix((data, columns.ravel().astype(np.int32), starts), (rows, dimension))


def show(name: str, rows: int, run: Callable[[], object]) -> None:
    run()
    seconds = float("inf")
    for _ in range(REPEATS):
        start = time.process_time()
        run()
        seconds = min(seconds, time.process_time() - start)
    print(json.dumps({"learner": name, "rowsPerSecond": round(rows / seconds)}), flush=True)


def vowpal_wabbit(X: sparse.csr_matrix, y: np.ndarray, place: Path) -> None:
    """Rows per second of Vowpal Wabbit with logistic loss, from a cache of the rows."""
    with (place / "rows.vw").open("w") as out:
        for k in range(X.shape[0]):
            at = slice(X.indptr[k], X.indptr[k + 1])
            pairs = zip(X.indices[at], X.data[at], strict=True)
            features = " ".join(f"{j}:{v:.6g}" for j, v in pairs)
            out.write(f"{1 if y[k] else -1} | {features}\n")
    command = [sys.executable, "-m", "vowpalwabbit", "--loss_function", "logistic", "--quiet"]
    command += ["--noconstant", "-b", "18", "-d", str(place / "rows.vw"), "-c"]
    subprocess.run(command, check=True)
    best = float("inf")
    for _ in range(REPEATS):
        before = os.times()
        subprocess.run(command, check=True)
        after = os.times()
        best = min(best, after.children_user - before.children_user)
    empty = place / "empty.vw"
    empty.write_text("")
    before = os.times()
    subprocess.run([*command[:-3], "-d", str(empty)], check=True)
    start_up = os.times().children_user - before.children_user
    rate = round(X.shape[0] / max(best - start_up, 1e-9))
    print(json.dumps({"learner": "Vowpal Wabbit", "rowsPerSecond": rate}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000)
    arguments = parser.parse_args()
    X = clicks(arguments.rows)
    d = X.shape[1]
    y = np.random.default_rng(1).random(arguments.rows) < 0.05
    cuts = range(0, arguments.rows, BLOCK)
    blocks = [(X[k : k + BLOCK], y[k : k + BLOCK]) for k in cuts]
    sample = blocks[: max(len(blocks) // 20, 1)]

    def learn(learner: SOLAM | DSGD | OPAUC | OPAUCr | OAM | FTRL, parts: list) -> None:
        for part in parts:
            learner.learn(*part)

    with threadpool_limits(1):
        show("SOLAM", arguments.rows, lambda: learn(SOLAM(d, 1.0, 10.0, 1.001), blocks))
        show("DSGD (steps)", arguments.rows, lambda: learn(DSGD(d, 0.1), blocks))
        show("FTRL", arguments.rows, lambda: learn(FTRL(d), blocks))
        count = sum(part[1].size for part in sample)
        show("OAM, buffers of 100", count, lambda: learn(OAM(d), sample))
        show("OPAUCr, tau 50", count, lambda: learn(OPAUCr(d, 0.01, 1e-3, 50), sample))
        dense = np.random.default_rng(2).normal(size=(BLOCK, 100))
        show("OPAUC, dense d = 100", BLOCK, lambda: learn(OPAUC(100), [(dense, y[:BLOCK])]))
        peer = SGDClassifier(loss="log_loss", max_iter=1, tol=None, shuffle=False)
        show("scikit-learn SGDClassifier", arguments.rows, lambda: peer.fit(X, y))
    try:
        import vowpalwabbit  # noqa: F401
    except ImportError:
        print(json.dumps({"learner": "Vowpal Wabbit", "leftOut": "not installed"}))
        return
    place = Path(tempfile.mkdtemp())
    try:
        vowpal_wabbit(X, y, place)
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
