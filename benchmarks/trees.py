"""The leaves of rows in frozen trees against LightGBM's pred_leaf, each on one thread.

Needs lightgbm. Prints one JSON object per model of 100 trees, with CPU nanoseconds per row and
tree, the least of some repeats. The leaves of all rows are compared.

numbers     numeric columns
missing     the same, a tenth of the values NaN and a tenth 0, with zero_as_missing
categories  half of the columns are categories
moments     20 numeric columns: CPU seconds of --moments-rows rows for the leaves, for what a
            recipe needs besides to make rows of features (CSR), for their pair moments, and for
            all, and these as multiples of pred_leaf in the same run
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

from spark_auc.core.moments.accumulator import PairAccumulator
from spark_auc.features.kinds.leaves import TreeLeaves
from spark_auc.features.raw_columns import Numbers
from spark_auc.features.recipe import Recipe
from spark_auc.trees.leaves import Plan, find, leaves
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


def with_moments(rows: int) -> dict[str, float]:
    """CPU seconds for 100 trees of 15 leaves of 20 columns, in batches as of a task."""
    X, y = made(rows, 20, "numbers")
    settings = {"objective": "binary", "verbose": -1, "num_threads": 1, "num_leaves": 15}
    data = lightgbm.Dataset(X[:GROWN_FROM], y[:GROWN_FROM])
    model = lightgbm.train(settings, data, TREES)
    forest = from_lightgbm(model.model_to_string())
    types = {f"x{k}": "float" for k in range(X.shape[1])}
    recipe = Recipe(trees=TreeLeaves.of(forest, types), unit=False)
    accumulator = PairAccumulator(forest.leaves)
    spent = dict.fromkeys(("pred_leaf", "indices", "CSR", "moments"), 0.0)

    def timed(name: str, run: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
        start = time.process_time()
        result = run(*arguments, **settings)
        spent[name] += time.process_time() - start
        return result

    for k in range(0, rows, BATCH):
        part, positive = X[k : k + BATCH], y[k : k + BATCH] > 0
        labels = timed("pred_leaf", model.predict, part, pred_leaf=True, num_threads=1)
        timed("indices", find, Plan.of(forest), part, 0, np.empty((TREES, len(part)), np.int32))
        numbers = np.ascontiguousarray(part.T)
        columns = {name: Numbers(line) for name, line in zip(types, numbers, strict=True)}
        made_rows = timed("CSR", recipe.transform, columns)
        assert (forest.labels[made_rows.indices].reshape(labels.shape) == labels).all()
        timed("moments", accumulator.add, made_rows, positive, None)
    timed("moments", lambda: dict(accumulator.parts()))
    spent["total"] = spent["CSR"] + spent["moments"]
    spent["CSR"] -= spent["indices"]
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--moments-rows", type=int, default=1_000_000)
    arguments = parser.parse_args()
    # Compiled code is loaded before.
    with_moments(BATCH)
    spent = with_moments(arguments.moments_rows)
    ratios = {name: round(seconds / spent["pred_leaf"], 2) for name, seconds in spent.items()}
    print(json.dumps({"kind": "moments", "CPU seconds": spent, "of pred_leaf": ratios}), flush=True)
    cases = [("numbers", 15, 10), ("numbers", 31, 10), ("numbers", 63, 10), ("numbers", 15, 60)]
    cases += [("numbers", 255, 60), ("missing", 15, 10), ("categories", 15, 10)]
    for case in cases:
        measured(*case, arguments.rows, arguments.repeats)


if __name__ == "__main__":
    main()
