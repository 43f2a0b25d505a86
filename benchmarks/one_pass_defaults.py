"""Test AUC of one pass at the defaults of the learners that take rows in turn, beside ridge's.

Needs SPARK_AUC_DATA, a directory of the LIBSVM reference sets. Prints one JSON object for each set
and learner: by how many points of test AUC one pass lies above ridge, on average of some orders
of the rows and at worst, and in how many of these the learner itself warned that it falls short by
more than one. Ridge is exact, of all pairs, at the penalty that cross-validation chose; where it
needs no matrix it is the figure of an independent computation. Rows of the three sets of many
features have unit length and are learnt in columns as they are; the others are standardised.
No Spark is started: the estimators run on rows in memory.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_files
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from experiments.oam_classifier import OAMClassifier
from spark_auc import (
    AdaDSGClassifier,
    NSAUCClassifier,
    OPAUCClassifier,
    SOLAMClassifier,
)
from spark_auc.core.batch import Batch
from spark_auc.core.labels import LabelCounts
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import ArrayRows
from spark_auc.spark.data.prepared import Order, SequentialRows
from spark_auc.spark.estimators.online import OnlineEstimator, Pass

DATA = Path(os.environ.get("SPARK_AUC_DATA", "../shared/data")).resolve()
LEARNERS = {
    "SOLAM": SOLAMClassifier,
    "NSAUC": NSAUCClassifier,
    "AdaDSG": AdaDSGClassifier,
    "OPAUC": lambda **to: OPAUCClassifier(parallelism="sequential", **to),
    "OAM": OAMClassifier,
}
# Ridge factor on standardised columns.
PENALTIES = {
    "a1a": 3,
    "a9a": 1e-4,
    "w1a": 10,
    "german.numer_scale": 1,
    "svmguide3": 3e-3,
    "diabetes_scale": 0.3,
    "fourclass_scale": 1,
    "splice_scale": 1,
    "mushrooms": 1e-6,
    "ijcnn1": 0.3,
    "madelon": 10,
    "usps.binary": 0.3,
}
# Sets of many features: how many, and the test AUC of ridge.
MANY = {
    "reuters_earn": (35_404, 0.9987),
    "20news.binary": (167_699, 0.9903),
    "criteo_80k_hash20.libsvm": (1 << 20, 0.7707),
}


def halves(name: str) -> tuple[Batch, Batch]:
    """Training and test rows."""
    paths = [str(DATA / name), str(DATA / f"{name}.t")]
    parts = [path for path in paths if Path(path).exists()]
    X, y, *test = load_svmlight_files(parts, n_features=MANY[name][0] + 1 if name in MANY else None)
    positive = y == y.max()
    if name in MANY:
        X = normalize(X)
        test = [normalize(test[0]), test[1]] if test else []
    if test:
        return Batch(X, positive), Batch(test[0], test[1] == y.max())
    if name in MANY:
        return Batch(X[:64_000], positive[:64_000]), Batch(X[64_000:], positive[64_000:])
    a, b, mine, theirs = train_test_split(X, positive, test_size=0.5, stratify=y, random_state=0)
    return Batch(a, mine), Batch(b, theirs)


def prepared(rows: Batch, seed: int, standardization: bool) -> SequentialRows:
    """The rows as an estimator prepares them, in an order drawn by ``seed``."""
    surveyed = ColumnMoments.of(rows)
    d = rows.X.shape[1]
    scale = surveyed.standard_deviation() if standardization else np.ones(d)
    local = ArrayRows([rows.take(np.random.default_rng(seed).permutation(rows.y.size))], d)
    order = Order(None, None, seed)  # type: ignore[arg-type]
    labels = LabelCounts({0.0: int((~rows.y).sum()), 1.0: int(rows.y.sum())})
    columns = SimpleNamespace(key=None)
    given = SequentialRows(columns, local, order, surveyed, labels, scale, keyed=True)  # type: ignore[arg-type]
    return replace(given, ordered_rows=given.rows_scaled)  # type: ignore[arg-type]


def one_pass(estimator: OnlineEstimator, given: SequentialRows) -> Pass:
    """What the estimator learns in one pass."""
    done = Pass(estimator.learner(given), None)
    for later in estimator.passes(given, done.learner):
        done = later
    return done


def ridge(name: str, train: Batch, test: Batch) -> float:
    """The test AUC of ridge."""
    if name in MANY:
        return MANY[name][1]
    moments = PairMoments.of(train.X, train.y)
    scale = moments.columns().standard_deviation()
    quadratic = moments.quadratic(scale)
    Sigma = quadratic.Sigma.restricted(np.arange(scale.size)).toarray()
    w = np.linalg.solve(Sigma + PENALTIES[name] * np.eye(scale.size), quadratic.mu) / scale
    return float(roc_auc_score(test.y, test.X @ w))


def dense(rows: Batch) -> Batch:
    """The rows, as an array where most entries are not 0."""
    X = sparse.csr_matrix(rows.X)
    few = X.nnz < 0.5 * X.shape[0] * X.shape[1]
    return rows._replace(X=X if few else X.toarray())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=3)
    parser.add_argument("--sets", nargs="*", default=[*PENALTIES, *MANY])
    parser.add_argument("--learners", nargs="*", default=[*LEARNERS])
    given = parser.parse_args()
    for name in given.sets:
        train, test = map(dense, halves(name))
        best = ridge(name, train, test)
        for learner in given.learners:
            if learner == "OPAUC" and name in MANY:
                continue
            above, warned = [], 0
            for seed in range(given.orders):
                rows = prepared(train, seed, name not in MANY)
                options = {} if learner in ("SOLAM", "OPAUC") else {"seed": seed}
                done = one_pass(LEARNERS[learner](**options), rows)
                w = done.learner.w / rows.scale
                above.append(100 * (float(roc_auc_score(test.y, test.X @ w)) - best))
                warned += done.held_out is not None and done.held_out.short
            figures = {"mean": np.mean(above), "worst": np.min(above), "ridge": 100 * best}
            facts = {k: round(float(v), 2) for k, v in figures.items()}
            result = {"set": name, "learner": learner, **facts, "warned": warned}
            print(json.dumps(result | {"of": given.orders}), flush=True)


if __name__ == "__main__":
    main()
