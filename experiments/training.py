"""Rankers that are trained on the rows of experiments."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.batch import Batch, divided
from spark_auc.core.evaluation.roc import auc
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.moments.operator import column_moments
from spark_auc.core.products import settled_scores
from spark_auc.core.row_source import ArrayRows
from spark_auc.core.sampling.draws import FirstArrivals
from spark_auc.core.sampling.folds import Folds
from spark_auc.core.sampling.repeats import distinct_keys
from spark_auc.core.types import Float
from spark_auc.solvers.candidates import Candidate
from spark_auc.training.result import TrainingResult
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.survey import Sampling
from spark_auc.training.train import train

_FOLDS = 5


@dataclass(frozen=True, eq=False)
class Ranker:
    """A linear ranker of raw columns.

    Parameters
    ----------
    w : (d,)
        Weights of raw columns.
    regParam
        Penalty on columns of unit variance.
    seconds
        Wall time of drawing, moments, solution and score moments; not of the penalty search.
    """

    w: Float
    regParam: float
    seconds: float

    def auc(self, rows: Batch) -> float:
        """AUC on rows in percent."""
        return percent(settled_scores(rows.X, self.w), rows.y)


def percent(scores: Float, y: NDArray[np.bool_]) -> float:
    """AUC of scores ``(n,)`` in percent."""
    return 100 * auc(ScoreTable.of(scores, y))


def exact(
    rows: Batch, seed: int, mixes: tuple[float, ...] = (0.0,), *, standardize: bool = True
) -> Ranker:
    """MBA on all pairs, with the penalty of the best mean AUC in cross-validation.

    Shares of the lasso in the penalty are ``mixes``: ridge by default. With ``standardize`` the
    penalty is of columns of unit variance.
    """
    settings = TrainingSettings(
        folds=Folds(_FOLDS, seed), elastic_net_params=mixes, standardize=standardize
    )
    return _trained(rows, _with(settings, _chosen(rows, settings)))


def sampled(rows: Batch, pairs: int, seed: int) -> dict[str, Ranker]:
    """Ridge on ``pairs`` draws of each class, by the estimators "complete" and "paired".

    The penalty is chosen on folds of the drawn rows alone. As in the Spark estimators, "paired"
    uses the penalty of "complete", because the rows of a drawn pair can be in two folds.
    """
    # Half of the draws are positive. Scaling by the deviations of all rows gives the penalty the
    # same unit on the draws and on all rows.
    scale = column_moments(_local(rows)).standard_deviation()
    scaled = rows._replace(X=divided(rows.X, scale))
    settings = TrainingSettings(standardize=False, folds=Folds(_FOLDS, seed), batch_size=1)
    (keyed_rows,) = distinct_keys()(iter([scaled]))
    draws = FirstArrivals.zero(pairs).update(keyed_rows, seed).draws(seed, pairs)
    settings = _with(settings, _chosen(draws.drawn(keyed_rows), settings))
    rankers = {}
    for estimator in ("complete", "paired"):
        sampling = Sampling(estimator, pairs, seed)
        ranker = _trained(scaled, replace(settings, sampling=sampling))
        rankers[estimator] = replace(ranker, w=ranker.w / scale)
    return rankers


def _local(rows: Batch) -> ArrayRows:
    return ArrayRows((rows,), rows.X.shape[1])


def _chosen(rows: Batch, settings: TrainingSettings) -> Candidate:
    """The penalty that cross-validation chooses."""
    return _result(rows, settings)[1]


def _with(settings: TrainingSettings, candidate: Candidate) -> TrainingSettings:
    """The settings with a penalty that is chosen, whose training is timed alone."""
    reg, mix = candidate.regParam, candidate.elasticNetParam
    return replace(settings, reg_params=(reg,), elastic_net_params=(mix,))


def _trained(rows: Batch, settings: TrainingSettings) -> Ranker:
    result, candidate = _result(rows, settings)
    return Ranker(result.w, candidate.regParam, sum(result.seconds.values()))


def _result(rows: Batch, settings: TrainingSettings) -> tuple[TrainingResult, Candidate]:
    result = train(_local(rows), settings)
    assert result.penalty is not None
    return result, result.penalty
