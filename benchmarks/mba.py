"""MBA on many rows, selection, sampled pairs and penalty paths, compared with other packages.

Prints one JSON object per measurement, all of one run. Seconds are wall time of warm runs.
Machines are noisy: compare the ratios.

exact       2M clicks, d = 10,000: one fit against Spark ML logistic regression, 100 iterations
rows        the same at 0.5M to 4M rows: seconds and the memory of all Python processes
selection   25 penalties in 5 folds against CrossValidator over logistic regression, whose time is
            extrapolated from a few fits
drawn       d = 1,000: all pairs of 200,000 draws of each class against exact and Spark ML
path        50 elastic-net penalties from one Gram matrix at d = 10,000 against skglm
"""

from __future__ import annotations

import argparse
import json
import tempfile
from typing import Any

import numpy as np
from pyspark.ml.classification import LogisticRegression
from pyspark.sql import DataFrame, SparkSession

from benchmarks.main_job import auc, compare, stored, table
from benchmarks.measuring import SETTINGS, PeakMemory, seconds
from spark_auc import MBAClassifier, MBASelector
from spark_auc.core.moments.objective import ElasticNet
from spark_auc.solvers.path import path
from spark_auc.spark.data.session import session
from spark_auc.spark.data.synthetic import click_data

MILLION = 1_000_000
PLANTED = {"positive_rate": 0.05, "ceiling": 0.75, "seed": 1}
PENALTIES, FOLDS = list(np.logspace(-7, -2, 25)), 5
# Indices of the penalties whose fits are timed, of the 25 x 5 fits and the final fit.
TIMED = (0, 12, 24)


def show(result: dict[str, Any]) -> None:
    print(json.dumps(result), flush=True)


def clicks(spark: SparkSession, rows: int, dimension: int, work: str) -> tuple[DataFrame, ...]:
    frame = click_data(spark, rows + 100_000, dimension, **PLANTED)
    train = stored(frame.filter(f"id < {rows}"), f"{work}/{dimension}-{rows}")
    return train, stored(frame.filter(f"id >= {rows}"), f"{work}/{dimension}-test-{rows}")


def exact(spark: SparkSession, scale: float, work: str) -> None:
    train, test = clicks(spark, int(2 * MILLION * scale), 10_000, work)
    exact_result = compare("exact", train, test, mba=1e-5, lr=0.0, tol=1e-15, standardization=False)
    table([exact_result])


def rows(spark: SparkSession, scale: float, work: str) -> None:
    mba = MBAClassifier(regParam=1e-5, standardization=False)
    for millions in (0.5, 1, 2, 4):
        count = int(millions * MILLION * scale)
        frame = click_data(spark, count, 10_000, **PLANTED)
        train = stored(frame, f"{work}/rows-{millions}")
        mba.fit(train)
        with PeakMemory() as peak:
            taken, model = seconds(lambda train=train: mba.fit(train))
        show(
            {
                "benchmark": "rows",
                "rows": count,
                "fit": taken,
                "phases": model.summary.seconds,
                "workersMiB": peak.workers,
                "driverMiB": peak.driver,
            }
        )


def selection(spark: SparkSession, scale: float, work: str) -> None:
    train, test = clicks(spark, int(MILLION * scale), 1_000, work)
    once = MBAClassifier(regParam=1e-5, standardization=False)
    selector = MBASelector(regParams=PENALTIES, numFolds=FOLDS, standardization=False)
    once.fit(train)
    fit_seconds, _ = seconds(lambda: once.fit(train))
    selector_seconds, model = seconds(lambda: selector.fit(train))
    cached = train.cache()
    cached.count()
    peer_seconds = 0.0
    for k in TIMED:
        lr = LogisticRegression(regParam=PENALTIES[k], standardization=False, maxIter=100)
        peer_seconds += seconds(lambda lr=lr: lr.fit(cached))[0]
    cached.unpersist()
    # The fit of a fold reads the rows of the other folds; the final fit reads all rows.
    per_fit = peer_seconds / len(TIMED)
    extrapolated = per_fit * (len(PENALTIES) * FOLDS * (FOLDS - 1) / FOLDS + 1)
    show(
        {
            "benchmark": "selection",
            "fit": fit_seconds,
            "selection": selector_seconds,
            "selection/fit": selector_seconds / fit_seconds,
            "phases": model.summary.seconds,
            "chosen": model.summary.reg_param,
            "auc": auc(model.transform(test), "rawPrediction"),
            "lrFitsTimed": len(TIMED),
            "lrPerFit": per_fit,
            "lrExtrapolated": extrapolated,
            "lrExtrapolated/selection": extrapolated / selector_seconds,
        }
    )


def drawn(spark: SparkSession, scale: float, work: str) -> None:
    train, test = clicks(spark, int(2 * MILLION * scale), 1_000, work)
    exact_result = compare("drawn", train, test, mba=1e-5, lr=0.0, tol=1e-15, standardization=False)
    pairs = int(200_000 * scale)
    mba = MBAClassifier(regParam=1e-5, standardization=False, estimator="complete", numPairs=pairs)
    mba.fit(train)
    taken, model = seconds(lambda: mba.fit(train), 2)
    show(
        {
            "benchmark": "drawn",
            "pairs": pairs,
            "complete": taken,
            "phases": model.summary.seconds,
            "complete/exact": taken / exact_result["fit"],
            "lr/complete": exact_result["lr"] / taken,
            "auc": auc(model.transform(test), "rawPrediction"),
            "exactAUC": exact_result["auc"],
            "lrAUC": exact_result["lrAUC"],
            "samplingSuboptimality": model.summary.sampling_suboptimality,
        }
    )


def paths(spark: SparkSession, scale: float, work: str) -> None:
    from skglm.datafits import QuadraticHessian
    from skglm.penalties import L1_plus_L2
    from skglm.solvers import AndersonCD

    frame = click_data(spark, int(0.5 * MILLION * scale), 10_000, **PLANTED)
    train = stored(frame, f"{work}/path")
    mba = MBAClassifier(regParam=1e-5, standardization=False, keepMoments=True)
    quadratic = mba.fit(train).moments.quadratic()
    mix, tol = 0.9, 1e-6
    strengths = quadratic.lambda1_max / mix * np.logspace(0, -2, 51)[1:]
    penalties = [ElasticNet.of(strength, mix) for strength in strengths]
    tolerance = tol * quadratic.lambda1_max
    gram = np.asfortranarray(quadratic.Sigma.toarray())

    def solve_path() -> list[Any]:
        return list(path(quadratic, penalties, tol=tol, max_iter=10_000))

    def solve_skglm() -> list[Any]:
        solver = AndersonCD(tol=tolerance, fit_intercept=False, warm_start=True)
        datafit, weights, w = QuadraticHessian(), [], np.zeros(quadratic.dimension)
        for strength in strengths:
            # The solver needs the product with its initial weights.
            w, *_ = solver.solve(
                gram, -quadratic.mu, datafit, L1_plus_L2(strength, mix), w.copy(), gram @ w
            )
            weights.append(w)
        return weights

    seconds(solve_path)
    path_seconds, solutions = seconds(solve_path)
    seconds(solve_skglm)
    skglm_seconds, skglm_weights = seconds(solve_skglm)
    worst = max(s.certificate.kkt for s in solutions)
    skglm_worst = 0.0
    for penalty, w in zip(penalties, skglm_weights, strict=True):
        skglm_worst = max(
            skglm_worst, float(penalty.kkt(w, quadratic.gradient(w, penalty, gram @ w)).max())
        )
    show(
        {
            "benchmark": "path",
            "penalties": len(penalties),
            "nonzeros": [int(np.count_nonzero(solutions[k].w)) for k in (0, 24, 49)],
            "ours": path_seconds,
            "skglm": skglm_seconds,
            "skglm/ours": skglm_seconds / path_seconds,
            "kktAskedFor": tolerance,
            "ourWorstKKT": worst,
            "skglmWorstKKT": skglm_worst,
        }
    )


BENCHMARKS = {
    "exact": exact,
    "rows": rows,
    "selection": selection,
    "drawn": drawn,
    "path": paths,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the number of rows")
    parser.add_argument("--only", choices=BENCHMARKS, nargs="+", default=list(BENCHMARKS))
    arguments = parser.parse_args()
    for name in arguments.only:
        with session("benchmark", SETTINGS) as spark, tempfile.TemporaryDirectory() as work:
            spark.sparkContext.setLogLevel("ERROR")
            BENCHMARKS[name](spark, arguments.scale, work)


if __name__ == "__main__":
    main()
