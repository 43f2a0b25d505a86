"""A learner and its stage as a user adds them: one file, named by its path in a configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Unpack

import numpy as np

from spark_auc.core.state.schema import Fields, reals
from spark_auc.core.types import Bool, Float, Rows
from spark_auc.learners.learner import Stored
from spark_auc.learners.linear import scores
from spark_auc.pipeline.online_settings import ParallelSettings, RoundsSettings
from spark_auc.pipeline.settings import Range, Setting
from spark_auc.spark.data.prepared import SequentialRows
from spark_auc.spark.estimators.online import OnlineEstimator


@dataclass(eq=False)
class MeanDifference(Stored):
    """Weights are the difference of the classes' means, times ``shrink``."""

    FIELDS: ClassVar[Fields] = {"sums": reals(2, "d"), "counts": reals(2)}

    shrink: float = 1.0
    sums: Float = field(init=False)
    counts: Float = field(init=False)

    def __post_init__(self) -> None:
        self.sums, self.counts = np.zeros((2, self.dimension)), np.zeros(2)

    def learn(self, X: Rows, y: Bool, weight: Float | None = None) -> None:
        members = np.stack([~y, y]).astype(float)
        self.sums, self.counts = self.sums + members @ X, self.counts + members.sum(axis=1)

    @property
    def w(self) -> Float:
        negative, positive = self.sums / self.counts[:, None]
        return self.shrink * (positive - negative)

    def score(self, X: Rows) -> Float:
        return scores(X, self.w)

    def merge(self, other: MeanDifference, start: MeanDifference) -> MeanDifference:
        merged = MeanDifference(self.dimension, self.shrink)
        merged.sums = self.sums + other.sums - start.sums
        merged.counts = self.counts + other.counts - start.counts
        return merged


class MeanDifferenceSettings(RoundsSettings, ParallelSettings, total=False):
    shrink: Annotated[float, Setting("Factor of the weights.", 1.0, Range(gt=0))]


class MeanDifferenceClassifier(OnlineEstimator, settings=MeanDifferenceSettings):
    """Trains a linear ranker by the difference of the classes' means."""

    def __init__(self, **params: Unpack[MeanDifferenceSettings]) -> None:
        super().__init__(**params)

    def learner(self, rows: SequentialRows) -> MeanDifference:
        return MeanDifference(rows.rows.dimension, self.values()["shrink"])
