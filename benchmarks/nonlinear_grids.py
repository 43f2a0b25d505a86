"""The parameter grids of Khalid et al. with Spark's CrossValidator, three folds, on magic04.

Prints one JSON object per learner: the chosen parameters, the number of fits, held-out and test
AUC, and the seconds of all fits. The Nystroem embedding is computed once, before the folds; RFAUC
chooses the bandwidth of its kernel too and embeds in every pass. Two fits run at a time, and the
overhead of small Spark jobs is included. The split is 80/20. Needs SPARK_AUC_DATA or --data.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from pyspark.ml import Estimator, Pipeline
from pyspark.ml.param import Param
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder
from pyspark.sql import DataFrame, SparkSession

from benchmarks.measuring import SETTINGS, seconds
from benchmarks.nonlinear import TOL, arguments, frame, magic_rows, show
from experiments.oam_classifier import OAMClassifier
from spark_auc import (
    AUCEvaluator,
    NSAUCClassifier,
    NystroemEmbedding,
    RandomFourierFeatures,
    RankSVMClassifier,
    SOLAMClassifier,
)
from spark_auc.spark.data.session import session

EPOCHS = 15
FOLDS = 3
EMBEDDED = {"featuresCol": "embedded", "standardization": False}
Grid = dict[Param[Any], list[float]]
Tuned = tuple[Estimator[Any], Grid]


class Problem(NamedTuple):
    """Names of the raw columns, number of pairs of a fit, and number of embedded features."""

    names: list[str]
    pairs: float
    landmarks: int


def powers(base: float, first: int, last: int) -> list[float]:
    return [base**k for k in range(first, last + 1)]


def penalties(pairs: float) -> list[float]:
    """The paper's C from 2^-15 to 2^10 as values of regParam of `RankSVMClassifier`."""
    return [1 / (2 * c * pairs) for c in powers(2, -15, 10)]


def rank_svm(problem: Problem) -> Tuned:
    learner = RankSVMClassifier(featuresCol=problem.names, tol=TOL)
    return learner, {learner.regParam: penalties(problem.pairs)}


def nbauc(problem: Problem) -> Tuned:
    learner = RankSVMClassifier(**EMBEDDED, tol=TOL)
    return learner, {learner.regParam: penalties(problem.pairs)}


def rfauc(problem: Problem) -> Tuned:
    features = RandomFourierFeatures(inputCol=problem.names, scaling="standard", seed=1)
    features.setParams(numOutputs=problem.landmarks, outputCol="fourier")
    learner = RankSVMClassifier(featuresCol="fourier", standardization=False, tol=TOL)
    grid = {features.bandwidth: [1.0, 10.0, 100.0], learner.regParam: penalties(problem.pairs)}
    return Pipeline(stages=[features, learner]), grid


def nsauc(problem: Problem) -> Tuned:
    learner = NSAUCClassifier(**EMBEDDED, rounds=EPOCHS, stepSize=1.0, seed=1)
    return learner, {learner.regParam: powers(10, -10, -7)}


def nsolam(problem: Problem) -> Tuned:
    learner = SOLAMClassifier(**EMBEDDED, rounds=EPOCHS)
    steps = [float(k) for k in range(1, 101, 9)]
    return learner, {learner.stepSize: steps, learner.radius: powers(10, -1, 5)}


def noam(problem: Problem) -> Tuned:
    learner = OAMClassifier(**EMBEDDED, seed=1)
    return learner, {learner.penalty: powers(2, -10, 10)}


LEARNERS: dict[str, Callable[[Problem], Tuned]] = {
    "RankSVM": rank_svm,
    "NBAUC": nbauc,
    "RFAUC": rfauc,
    "NSAUC": nsauc,
    "NSOLAM": nsolam,
    "NOAM": noam,
}


def tuned(name: str, estimator: Estimator[Any], grid: Grid, rows: list[DataFrame]) -> None:
    builder, evaluator = ParamGridBuilder(), AUCEvaluator()
    for param, values in grid.items():
        builder = builder.addGrid(param, values)
    settings = builder.build()
    tuner = CrossValidator(
        estimator=estimator,
        estimatorParamMaps=settings,
        evaluator=evaluator,
        numFolds=FOLDS,
        seed=0,
        parallelism=2,
    )
    train, test = rows
    taken, tuning = seconds(partial(tuner.fit, train))
    best = int(np.argmax(tuning.avgMetrics))
    chosen = {param.name: value for param, value in settings[best].items()}
    show(
        {
            "benchmark": "grid",
            "ours": name,
            "fits": FOLDS * len(settings) + 1,
            "chosen": chosen,
            "heldOut": 100 * tuning.avgMetrics[best],
            "auc": 100 * evaluator.evaluate(tuning.bestModel.transform(test)),
            "seconds": taken,
        }
    )


def grids(spark: SparkSession, options: argparse.Namespace) -> None:
    loaded = magic_rows(options.data, "grid")
    if loaded is None:
        return
    X, Z, y, z = loaded
    train, names = frame(spark, X, y)
    test, _ = frame(spark, Z, z)
    # The number of pairs among two thirds of the rows.
    pairs = float(y.sum() * (~y).sum()) * 4 / 9
    made = NystroemEmbedding(inputCol=names, numLandmarks=options.landmarks, seed=1)
    nystroem = made.setParams(scaling="standard").fit(train)
    rows = [nystroem.transform(part).cache() for part in (train, test)]
    for name in options.only:
        tuned(name, *LEARNERS[name](Problem(names, pairs, options.landmarks)), rows)


def main() -> None:
    options = arguments(__doc__, LEARNERS, 200)
    with session("benchmark", SETTINGS) as spark:
        spark.sparkContext.setLogLevel("ERROR")
        grids(spark, options)


if __name__ == "__main__":
    main()
