"""The estimators on pair moments as stages of Spark ML."""

from __future__ import annotations

from spark_auc.pipeline.pair_moments_fit import PairMomentsFit
from spark_auc.spark.estimators.ranker import FoldsEstimator


class PairMomentsEstimator(PairMomentsFit, FoldsEstimator):
    """Trains on pair moments; its settings extend `PairMomentsSettings`."""
