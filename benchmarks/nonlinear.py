"""Nonlinear rankers against scikit-learn, and RankSVM's time by number of rows.

Prints one JSON object per measurement, all of one run. Machines are noisy: compare the ratios.

magic       magic04, 80/20: seconds to fit the embedding and the learner, and test AUC, of Spark
            pipelines, of scikit-learn's Nystroem with as many landmarks, and of its SVC with the
            same bandwidth. Spark runs on two cores, scikit-learn on one. The seconds of a Spark
            learner include embedding the rows in each pass, or once if it caches them;
            scikit-learn's learners get embedded rows. Needs SPARK_AUC_DATA or --data.
rows        10k, 50k and 250k rows of 200 embedded features: CPU seconds of the solver on one
            thread, and wall time of a warm Spark fit; both also relative to n log n
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

from benchmarks.measuring import SETTINGS, seconds
from spark_auc import (
    EmbeddingModel,
    MBAClassifier,
    NSAUCClassifier,
    NystroemEmbedding,
    RankSVMClassifier,
    SplineBasis,
)
from spark_auc.core.batch import Batch
from spark_auc.core.hinge.pair_hinge import PairHinge
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import ArrayRows
from spark_auc.features.kernels import Kernel
from spark_auc.features.nystroem import NystroemMap
from spark_auc.solvers.truncated_newton import truncated_newton
from spark_auc.spark.data.session import session

# Rows per batch, as in Arrow batches.
BLOCK = 10_000
COUNTS = (10_000, 50_000, 250_000)
# Penalties: the best powers of ten by test AUC at 400 landmarks, for each kind of learner.
REG, SPLINE_REG, COST = 1e-6, 1e-4, 100.0
TOL = 1e-4


def arguments(doc: str | None, choices: Iterable[str], landmarks: int) -> argparse.Namespace:
    """Parse ``--data``, ``--landmarks`` and ``--only``, which defaults to all choices."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    where, names = Path(os.environ.get("SPARK_AUC_DATA", "../shared/data")), list(choices)
    parser.add_argument("--data", type=Path, default=where)
    parser.add_argument("--landmarks", type=int, default=landmarks)
    parser.add_argument("--only", choices=names, nargs="+", default=names)
    return parser.parse_args()


def show(result: dict[str, Any]) -> None:
    print(json.dumps(result), flush=True)


def frame(spark: SparkSession, X: np.ndarray, y: np.ndarray) -> tuple[Any, list[str]]:
    names = [f"c{j}" for j in range(X.shape[1])]
    columns = dict(zip(names, X.T, strict=True)) | {"label": y.astype(float)}
    rows = spark.createDataFrame(pa.table(columns)).repartition(2).cache()
    rows.count()
    return rows, names


def magic_rows(data: Path, benchmark: str) -> list[np.ndarray] | None:
    """Training rows, test rows, training labels and test labels; None without the file."""
    where = data / "magic04.csv"
    if not where.exists():
        show({"benchmark": benchmark, "leftOut": f"no {where}: set SPARK_AUC_DATA or --data"})
        return None
    table = np.loadtxt(where, delimiter=",", dtype=str)
    X, y = table[:, :10].astype(float), table[:, 10] == "g"
    return list(train_test_split(X, y, test_size=0.2, stratify=y, random_state=0))


def magic(spark: SparkSession, data: Path, landmarks: int) -> None:
    loaded = magic_rows(data, "magic")
    if loaded is None:
        return
    X, Z, y, z = loaded
    train, names = frame(spark, X, y)
    columns, plain = {"inputCol": names}, {"featuresCol": "embedded", "standardization": False}
    settings = {"numLandmarks": landmarks, "scaling": "standard", "seed": 1}
    nystroem = NystroemEmbedding(**columns, **settings)
    rank_svm = RankSVMClassifier(**plain, regParam=REG)
    mba = MBAClassifier(**plain, regParam=REG)
    nsauc = NSAUCClassifier(**plain, rounds=10, regParam=REG, stepSize=1.0)
    behind = {"RankSVM (NBAUC)": rank_svm, "MBA": mba, "NSAUC": nsauc}
    splines, spline_mba = (
        SplineBasis(**columns),
        MBAClassifier(featuresCol="embedded", regParam=SPLINE_REG),
    )
    results: dict[str, dict[str, float]] = {}

    def time_pipeline(label: str, basis: Any, learners: dict[str, Any]) -> NystroemMap:
        taken, model = seconds(lambda: basis.fit(train))
        mapped, at_test = model.transform(train), model.embedding.transform(Z)
        for name, learner in learners.items():
            learning, fitted = seconds(partial(learner.fit, mapped))
            results[name] = {"embed": taken, "learn": learning, "fit": taken + learning}
            certificate = fitted.summary.certificate or {}
            auc = 100 * roc_auc_score(z, at_test @ fitted.scorer.w)
            facts = {"features": fitted.numFeatures, "auc": auc}
            steps = {"iterations": certificate.get("iterations")}
            show(
                {
                    "benchmark": "magic",
                    "ours": f"{label} + {name}",
                    **facts,
                    **steps,
                    **results[name],
                }
            )
        return model.embedding

    time_pipeline("SplineBasis", splines, {"MBA of splines": spline_mba})
    embedding = time_pipeline("NystroemEmbedding", nystroem, behind)

    def time_peer(name: str, basis: float, scores: Callable[[], np.ndarray]) -> None:
        learning, scored = seconds(scores)
        result = {"embed": basis, "learn": learning, "fit": basis + learning}
        ratios = {f"fit/{own}": result["fit"] / f["fit"] for own, f in results.items()}
        auc = 100 * roc_auc_score(z, scored)
        show({"benchmark": "magic", "peer": name, "auc": auc, **result, **ratios})

    scale = X.std(axis=0, ddof=1)
    A, B, gamma = X / scale, Z / scale, 1 / float((X / scale).var(axis=0).sum())
    with threadpool_limits(1):
        peer = Nystroem(gamma=gamma, n_components=landmarks, random_state=0)
        taken, mapped = seconds(lambda: peer.fit_transform(A))
        at_test = peer.transform(B)
        svc = LinearSVC(C=COST, dual=False)
        time_peer(
            "Nystroem + LinearSVC", taken, lambda: svc.fit(mapped, y).decision_function(at_test)
        )
        logistic = LogisticRegression(C=COST, max_iter=1000)
        time_peer(
            "Nystroem + LogisticRegression",
            taken,
            lambda: logistic.fit(mapped, y).decision_function(at_test),
        )
        own, own_test = embedding.transform(A * scale), embedding.transform(Z)
        time_peer(
            "our features + LogisticRegression",
            results["RankSVM (NBAUC)"]["embed"],
            lambda: logistic.fit(own, y).decision_function(own_test),
        )
        time_peer(
            "our features + our solver, without Spark",
            results["RankSVM (NBAUC)"]["embed"],
            lambda: own_test @ local([Batch(own, y)]).w,
        )
        kernel = SVC(C=COST, gamma=gamma, cache_size=1000)
        time_peer("SVC", 0.0, lambda: kernel.fit(A, y).decision_function(B))


def rows(spark: SparkSession, data: Path, landmarks: int) -> None:
    rng = np.random.default_rng(0)
    largest = max(COUNTS)
    X = rng.normal(size=(largest, 10))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + rng.normal(size=largest) > 1.5
    embedding = NystroemMap.of_landmarks(X[:200], Kernel("gaussian", 10.0))
    mapped = embedding.transform(X)
    first: dict[str, float] = {}
    for n in COUNTS:
        cuts = range(0, n, BLOCK)
        batches = [Batch(mapped[k : min(k + BLOCK, n)], y[k : min(k + BLOCK, n)]) for k in cuts]
        with threadpool_limits(1):
            local(batches[:1])
            start = time.process_time()
            solution = local(batches)
            taken = time.process_time() - start
        train, names = frame(spark, X[:n], y[:n])
        embedded = EmbeddingModel(embedding).setParams(inputCol=names).transform(train)
        estimator = RankSVMClassifier(
            featuresCol="embedded", regParam=REG, standardization=False, tol=TOL
        )
        through, model = seconds(partial(estimator.fit, embedded), 2 if n == COUNTS[0] else 1)
        train.unpersist()
        figures = {"cpu": taken, "spark": through}
        first = first or {name: value / (n * np.log(n)) for name, value in figures.items()}
        growth = {f"{k}/(n log n)": v / (n * np.log(n)) / first[k] for k, v in figures.items()}
        facts = {"iterations": solution.certificate.iterations, "phases": model.summary.seconds}
        show(
            {"benchmark": "rows", "rows": n, "d": embedding.dimension, **figures, **growth, **facts}
        )


def local(batches: list[Batch]) -> Any:
    """Moments and RankSVM on rows in memory."""
    d = batches[0].X.shape[1]
    moments = PairMoments.fold(batches, d)
    hinge = PairHinge(ArrayRows(batches, d), moments.columns(), REG)
    return truncated_newton(hinge, moments.quadratic(), tol=TOL, max_iter=500)


BENCHMARKS = {"magic": magic, "rows": rows}


def main() -> None:
    options = arguments(__doc__, BENCHMARKS, 1600)
    with session("benchmark", SETTINGS) as spark:
        spark.sparkContext.setLogLevel("ERROR")
        for name in options.only:
            BENCHMARKS[name](spark, options.data, options.landmarks)


if __name__ == "__main__":
    main()
