"""The leaves of rows in frozen trees against LightGBM's pred_leaf, each on one thread.

Needs lightgbm. Prints one JSON object per model of 100 trees, with CPU nanoseconds per row and
tree, the least of some repeats. The leaves of all rows are compared.

numbers     numeric columns
missing     the same, a tenth of the values NaN and a tenth 0, with zero_as_missing
categories  half of the columns are categories
moments     numeric columns, and the CPU seconds of 10^6 rows for leaves and their pair moments
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np
from scipy import sparse

from spark_auc.core.batch import Batch
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.trees.leaves import leaves
from spark_auc.trees.lightgbm_models import from_lightgbm

TREES = 100
GROWN_FROM = 20_000
# Rows of a task's batch.
BATCH = 10_000


def cpu(run: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Least CPU seconds over repeats, and the last result."""
    best, result = float("inf"), run()
    for _ in range(repeats):
        start = time.process_time()
        result = run()
        best = min(best, time.process_time() - start)
    return best, result


def made(rows: int, columns: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, columns))
    score = np.sin(2 * X[:, :5]).sum(axis=1) + X[:, 0] * X[:, 1]
    if kind == "categories":
        X[:, ::2] = rng.integers(0, 30, X[:, ::2].shape)
        score += np.isin(X[:, 0], [1, 4, 5, 9]) * np.isin(X[:, 2], range(0, 30, 3))
    y = score + rng.normal(size=rows) > 0
    if kind == "missing":
        X[rng.random(X.shape) < 0.1] = np.nan
        X[rng.random(X.shape) < 0.1] = 0.0
    return X, y.astype(float)


def measured(kind: str, size: int, columns: int, rows: int, repeats: int) -> None:
    X, y = made(rows, columns, kind)
    settings = {"objective": "binary", "verbose": -1, "num_threads": 1, "num_leaves": size}
    settings["zero_as_missing"] = kind == "missing"
    chosen = list(range(0, columns, 2)) if kind == "categories" else "auto"
    data = lightgbm.Dataset(X[:GROWN_FROM], y[:GROWN_FROM], categorical_feature=chosen)
    model = lightgbm.train(settings, data, TREES)
    forest = from_lightgbm(model.model_to_string())

    def found() -> list[sparse.csr_matrix]:
        return [leaves(forest, X[k : k + BATCH]) for k in range(0, rows, BATCH)]

    ours, batches = cpu(found, repeats)
    theirs, labels = cpu(lambda: model.predict(X, pred_leaf=True, num_threads=1), repeats)
    indices = np.concatenate([batch.indices for batch in batches]).reshape(rows, TREES)
    assert (forest.labels[indices] == labels).all()
    each = 1e9 / rows / TREES
    result = {"kind": kind, "leaves": size, "columns": columns, "ns": round(ours * each, 1)}
    print(json.dumps(result | {"lightgbm": round(theirs * each, 1)}), flush=True)
    if kind == "moments":
        classes = np.split(y > 0, range(BATCH, rows, BATCH))
        made_of = [Batch(*batch) for batch in zip(batches, classes, strict=True)]
        moments, _ = cpu(lambda: PairMoments.fold(made_of, forest.leaves), 1)
        seconds = {"leaves": round(ours / rows * 1e6, 1), "moments": round(moments / rows * 1e6, 1)}
        print(json.dumps({"CPU seconds of 10^6 rows": seconds}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    cases = [("moments", 15, 10), ("numbers", 31, 10), ("numbers", 63, 10), ("numbers", 15, 60)]
    cases += [("numbers", 255, 60), ("missing", 15, 10), ("categories", 15, 10)]
    for case in cases:
        measured(*case, arguments.rows, arguments.repeats)


if __name__ == "__main__":
    main()
