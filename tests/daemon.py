"""Spark's daemon of Python workers, which is warm before it forks them.

A worker ends with a task that fails. Hundreds of tests look at such tasks, and a new worker would
take two seconds to import and load what it needs.
"""

import gc

import numpy as np
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager
from scipy import sparse

import spark_auc.spark.estimators.mba
import spark_auc.spark.evaluation.evaluate
import spark_auc.spark.features.embedding  # noqa: F401
from spark_auc.core.batch import Batch
from spark_auc.core.moments.pair_moments import PairMoments

if __name__ == "__main__":
    for rows in (np.eye(2), sparse.eye(2, format="csr")):
        PairMoments.fold([Batch(rows, np.array([True, False]))], 2)
    gc.collect()
    # Collections in workers would copy the pages that they share.
    gc.freeze()
    manager()
