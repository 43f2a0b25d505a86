"""Test AUC of one pass of the online learners at their defaults, compared with ridge.

Needs SPARK_AUC_DATA, a directory with the LIBSVM reference sets. Prints one JSON object per set and
learner: the test AUC of one pass minus that of ridge in points, as mean and minimum over random
orders of the rows, and the number of orders for which the learner warned that it falls short.
Ridge is exact on all pairs, with the penalty that cross-validation chose; for the three sets with
many features it is a stored result. The rows of these sets have unit length; the columns of the
other sets are standardised. The estimators run on rows in memory, without a Spark session.
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
from spark_auc.spark.data.prepared import RowOrder, SequentialRows
from spark_auc.spark.estimators.online import OnlineEstimator, Pass

DATA = Path(os.environ.get("SPARK_AUC_DATA", "../shared/data")).resolve()
LEARNERS = {
    "SOLAM": SOLAMClassifier,
    "NSAUC": NSAUCClassifier,
    "AdaDSG": AdaDSGClassifier,
    "OPAUC": lambda **to: OPAUCClassifier(parallelism="sequential", **to),
    "OAM": OAMClassifier,
}
# What their defaults are held against.
OTHERS = {"SOLAM, not centred": lambda **to: SOLAMClassifier(centering=False, **to)}
# Ridge factors on standardised columns.
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
# Sets with many features: number of features, and test AUC of ridge.
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
    X_train, X_test, y_train, y_test = train_test_split(
        X, positive, test_size=0.5, stratify=y, random_state=0
    )
    return Batch(X_train, y_train), Batch(X_test, y_test)


def prepared(
    rows: Batch, seed: int, standardization: bool, centering: bool = True
) -> SequentialRows:
    """The rows as an estimator prepares them, in an order drawn by ``seed``."""
    surveyed = ColumnMoments.of(rows)
    d = rows.X.shape[1]
    scale = surveyed.standard_deviation() if standardization else np.ones(d)
    local = ArrayRows([rows.take(np.random.default_rng(seed).permutation(rows.y.size))], d)
    order = RowOrder(None, None, seed)  # type: ignore[arg-type]
    labels = LabelCounts({0.0: int((~rows.y).sum()), 1.0: int(rows.y.sum())})
    columns = SimpleNamespace(key=None)
    prepared_rows = SequentialRows(
        columns,  # type: ignore[arg-type]
        local,  # type: ignore[arg-type]
        order,
        surveyed,
        labels,
        scale,
        centering,
        keyed=True,
    )
    return replace(prepared_rows, ordered_rows=prepared_rows.rows_scaled)


def one_pass(estimator: OnlineEstimator, rows: SequentialRows) -> Pass:
    """The learner after one pass of the estimator."""
    *_, last = estimator.passes(rows, estimator.learner(rows))
    return last


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
    """The rows; as a dense array if at least half of the entries are nonzero."""
    X = sparse.csr_matrix(rows.X)
    is_sparse = X.nnz < 0.5 * X.shape[0] * X.shape[1]
    return rows._replace(X=X if is_sparse else X.toarray())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=3)
    parser.add_argument("--sets", nargs="*", default=[*PENALTIES, *MANY])
    parser.add_argument("--learners", nargs="*", default=[*LEARNERS, *OTHERS])
    arguments = parser.parse_args()
    for name in arguments.sets:
        train, test = map(dense, halves(name))
        best = ridge(name, train, test)
        for learner in arguments.learners:
            if learner == "OPAUC" and name in MANY:
                continue
            above, warned = [], 0
            for seed in range(arguments.orders):
                drawing = learner.partition(",")[0] not in ("SOLAM", "OPAUC")
                kind = {**LEARNERS, **OTHERS}[learner]
                estimator = kind(**({"seed": seed} if drawing else {}))
                centering = estimator.values().get("centering", True)
                rows = prepared(train, seed, name not in MANY, centering)
                result = one_pass(estimator, rows)
                w = result.learner.w / rows.scale
                above.append(100 * (float(roc_auc_score(test.y, test.X @ w)) - best))
                warned += result.held_out is not None and result.held_out.short
            figures = {"mean": np.mean(above), "worst": np.min(above), "ridge": 100 * best}
            facts = {k: round(float(v), 2) for k, v in figures.items()}
            row = {"set": name, "learner": learner, **facts, "warned": warned}
            print(json.dumps(row | {"of": arguments.orders}), flush=True)


if __name__ == "__main__":
    main()
