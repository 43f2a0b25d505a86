"""MBA beyond one fit: many rows, choosing a penalty, drawn pairs and paths, beside the peers.

Prints one JSON object per measurement, all of one run. Seconds are wall time of warm runs;
machines are noisy, so read the ratios.

exact       2M clicks, d = 10,000: one fit beside Spark ML logistic regression at 100 iterations
rows        the same at 0.5M to 4M rows: seconds and the memory of all Python processes
selection   25 penalties in 5 folds beside CrossValidator over logistic regression, of which a few
            fits are timed and the others extrapolated
drawn       d = 1,000: all pairs of 200,000 draws of each class beside exact and the peer
path        50 elastic-net penalties from one Gram at d = 10,000 beside skglm
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
# Of the 25 x 5 fits and the last one, which penalties' fits are timed.
TIMED = (0, 12, 24)


def show(result: dict[str, Any]) -> None:
    print(json.dumps(result), flush=True)


def clicks(spark: SparkSession, rows: int, dimension: int, work: str) -> tuple[DataFrame, ...]:
    made = click_data(spark, rows + 100_000, dimension, **PLANTED)
    train = stored(made.filter(f"id < {rows}"), f"{work}/{dimension}-{rows}")
    return train, stored(made.filter(f"id >= {rows}"), f"{work}/{dimension}-test-{rows}")


def exact(spark: SparkSession, scale: float, work: str) -> None:
    train, test = clicks(spark, int(2 * MILLION * scale), 10_000, work)
    found = compare("exact", train, test, mba=1e-5, lr=0.0, tol=1e-15, standardization=False)
    table([found])


def rows(spark: SparkSession, scale: float, work: str) -> None:
    mba = MBAClassifier(regParam=1e-5, standardization=False)
    for millions in (0.5, 1, 2, 4):
        count = int(millions * MILLION * scale)
        made = click_data(spark, count, 10_000, **PLANTED)
        train = stored(made, f"{work}/rows-{millions}")
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
    # A fold's fit reads the other folds' rows; the last fit reads all.
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
    found = compare("drawn", train, test, mba=1e-5, lr=0.0, tol=1e-15, standardization=False)
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
            "complete/exact": taken / found["fit"],
            "lr/complete": found["lr"] / taken,
            "auc": auc(model.transform(test), "rawPrediction"),
            "exactAUC": found["auc"],
            "lrAUC": found["lrAUC"],
            "samplingSuboptimality": model.summary.sampling_suboptimality,
        }
    )


def paths(spark: SparkSession, scale: float, work: str) -> None:
    from skglm.datafits import QuadraticHessian
    from skglm.penalties import L1_plus_L2
    from skglm.solvers import AndersonCD

    made = click_data(spark, int(0.5 * MILLION * scale), 10_000, **PLANTED)
    train = stored(made, f"{work}/path")
    mba = MBAClassifier(regParam=1e-5, standardization=False, keepMoments=True)
    quadratic = mba.fit(train).moments.quadratic()
    mix, tol = 0.9, 1e-6
    strengths = quadratic.lambda1_max / mix * np.logspace(0, -2, 51)[1:]
    penalties = [ElasticNet.of(strength, mix) for strength in strengths]
    tolerance = tol * quadratic.lambda1_max
    gram = np.asfortranarray(quadratic.Sigma.toarray())

    def ours() -> list[Any]:
        return list(path(quadratic, penalties, tol=tol, max_iter=10_000))

    def theirs() -> list[Any]:
        solver = AndersonCD(tol=tolerance, fit_intercept=False, warm_start=True)
        datafit, found, w = QuadraticHessian(), [], np.zeros(quadratic.dimension)
        for strength in strengths:
            # The solver wants the product with the weights it starts from.
            w, *_ = solver.solve(
                gram, -quadratic.mu, datafit, L1_plus_L2(strength, mix), w.copy(), gram @ w
            )
            found.append(w)
        return found

    seconds(ours)
    our_seconds, solutions = seconds(ours)
    seconds(theirs)
    their_seconds, others = seconds(theirs)
    worst = max(s.certificate.kkt for s in solutions)
    off = 0.0
    for penalty, w in zip(penalties, others, strict=True):
        off = max(off, float(penalty.kkt(w, quadratic.gradient(w, penalty, gram @ w)).max()))
    show(
        {
            "benchmark": "path",
            "penalties": len(penalties),
            "nonzeros": [int(np.count_nonzero(solutions[k].w)) for k in (0, 24, 49)],
            "ours": our_seconds,
            "skglm": their_seconds,
            "skglm/ours": their_seconds / our_seconds,
            "kktAskedFor": tolerance,
            "ourWorstKKT": worst,
            "skglmWorstKKT": off,
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
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows")
    parser.add_argument("--only", choices=BENCHMARKS, nargs="+", default=list(BENCHMARKS))
    given = parser.parse_args()
    for name in given.only:
        with session("benchmark", SETTINGS) as spark, tempfile.TemporaryDirectory() as work:
            spark.sparkContext.setLogLevel("ERROR")
            BENCHMARKS[name](spark, given.scale, work)


if __name__ == "__main__":
    main()
