"""Approximate covariances on real rows: AUC, memory and seconds against their size.

Each set is trained by `spark_auc.local.MBAClassifier` with ``standardization=False``, exactly and
with the approximations, in a process of its own; folds choose the penalty. Prints one JSON object
per fit: test AUC, wall seconds, and the peak memory of the process less that of the rows. A head of
one column is the diagonals alone. `benchmarks.many_features` does the same for generated clicks on
Spark.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys

import numpy as np
from scipy import sparse
from sklearn.metrics import roc_auc_score

from benchmarks.measuring import seconds
from spark_auc.local import MBAClassifier
from tests.data import libsvm

# Features, whether rows are divided by their lengths, and a file of test rows or their share.
SETS = {
    "reuters_earn": (1 << 16, True, "reuters_earn.t"),
    "20news.binary": (1 << 18, True, "20news.binary.t"),
    "criteo_80k_hash20.libsvm": (1 << 20, False, 0.25),
}
COVARIANCES = ("full", "head=1", "head=500", "head=2000", "head=4000", "lowRank=50")


def rows(name: str) -> list[tuple[sparse.csr_matrix, np.ndarray]]:
    """Rows and labels to train on, and to test on."""
    dimension, unit, test = SETS[name]
    X, y = libsvm(name, dimension)
    if isinstance(test, str):
        parts = [(X, y), libsvm(test, dimension)]
    else:
        last = np.random.default_rng(0).random(len(y)) < test
        parts = [(X[~last], y[~last]), (X[last], y[last])]
    if not unit:
        return parts
    lengths = [np.sqrt(X.multiply(X).sum(axis=1)).A1 for X, _ in parts]
    return [
        (sparse.csr_matrix(sparse.diags(1.0 / np.maximum(n, 1e-300)) @ X), y)
        for n, (X, y) in zip(lengths, parts, strict=True)
    ]


def fitted(name: str, covariance: str) -> None:
    """Fit once, and print the result."""
    (X, y), (X_test, y_test) = rows(name)
    kind, _, size = covariance.partition("=")
    sizes = {"head": "headSize", "lowRank": "covarianceRank"}
    params = {sizes[kind]: int(size)} if size else {}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ranker = MBAClassifier(standardization=False, covariance=kind, **params)
    spent, _ = seconds(lambda: ranker.fit(X, y))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    auc = roc_auc_score(y_test, ranker.decision_function(X_test))
    facts = {"auc": auc, "seconds": spent, "MiB": (peak - before) / 1024}
    print(json.dumps({"set": name, "covariance": covariance} | facts), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--covariances", nargs="+", default=list(COVARIANCES))
    parser.add_argument("--here", action="store_true", help="in this process")
    arguments = parser.parse_args()
    for name in arguments.sets:
        for covariance in arguments.covariances:
            if arguments.here:
                fitted(name, covariance)
                continue
            one = ["--here", "--sets", name, "--covariances", covariance]
            subprocess.run([sys.executable, "-m", "benchmarks.covariances", *one], check=False)


if __name__ == "__main__":
    main()
