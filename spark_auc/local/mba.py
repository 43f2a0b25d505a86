"""Exact all-pairs AUC training of arrays in memory (Gultekin et al., MBA)."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from spark_auc.core.moments.operator import column_moments, operator_quadratic
from spark_auc.core.row_source import ArrayRows
from spark_auc.core.sampling.folds import Folds
from spark_auc.core.validation import check_whole
from spark_auc.errors import ConfigError, HoldOutError
from spark_auc.local.ranker import LinearRanker, check_choice
from spark_auc.solvers.candidates import default_grid
from spark_auc.solvers.solution import OnFailure
from spark_auc.training.approximation import Approximation, Covariance
from spark_auc.training.prior import Prior
from spark_auc.training.result import TrainingResult
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.survey import Estimation, Sampling
from spark_auc.training.train import train

_log = logging.getLogger(__name__)


class MBAClassifier(LinearRanker):
    """Trains a linear ranker for AUC on all pairs of a positive and a negative row.

    Minimises the squared loss over every pair, ``1/2 E[(1 - w'(x+ - x-))^2]``, with an elastic
    net (MBA, Eq. 8-14). The weights are those of `spark_auc.MBAClassifier`.

    Parameters
    ----------
    regParam, elasticNetParam
        l1 factor ``regParam * elasticNetParam``, l2 factor ``regParam * (1 - elasticNetParam)``.
        By default regParam is chosen from a grid by the AUC on held-out folds. If all rows of a
        class have equal features or one group, no fold can be held out; regParam is then the
        middle of the grid, and a warning is logged.
    numFolds, selectionRule
        Number of folds, and rule of choice: the "best" mean AUC, or the strongest penalty within
        "oneStandardError" of it.
    estimator
        Pairs to train on. "exact": all pairs. "paired": the k-th drawn positive with the k-th
        drawn negative row, for each k. "complete": all pairs of the drawn rows.
    numPairs
        Number of draws of each class. "auto" adds draws until the estimated cost of sampling is
        at most pairTol.
    batchSize
        numPairs is rounded up to a multiple of it.
    pairTol
        Largest cost of sampling, in units of the objective, for "auto".
    standardization
        Whether the penalty applies to columns of unit variance.
    tol
        KKT residual at which the solver stops, relative to the residual of ``w = 0``.
    maxIter
        Largest number of solver iterations.
    whenNotConverged
        "raise" an error or "warn" if the solver does not reach tol.
    seed
        Seed of draws and folds.
    prior : fitted ranker or array (d,), optional
        The penalty is that of the difference from ``c`` times its weights, with the ``c >= 0`` of
        least loss. Weights go by name if both rankers have ``feature_names_in_``. Folds choose
        between it and 0 for each penalty; the rows that it was trained on must be others, or their
        AUC is too high. `sklearn.base.clone` unfits a ranker: wrap it in
        `sklearn.frozen.FrozenEstimator`, or pass its ``coef_[0]``, for `cross_val_score` and the
        like.
    maxFPR : float in (0, 0.2), optional
        Greatest false positive rate that matters. A second step trains again, with the same
        penalty, on rows of which the negatives that the first ranker scores highest, 5 maxFPR of
        them, count 4 times. It needs the estimator "exact". By default all rates matter.
    covariance
        "full": exact covariances. "head": exact ones of the ``headSize`` columns with the largest
        second moments, and variances alone of all others. "lowRank": random sketches of rank
        ``covarianceRank``, as OPAUCr.
    headSize, covarianceRank
        Size of such a state.

    Examples
    --------
    >>> import numpy as np
    >>> from spark_auc.local import MBAClassifier
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
    >>> ranker = MBAClassifier(regParam=0.1).fit(X, y)
    >>> ranker.predict(X)
    array([0, 0, 1, 1])
    """

    def __init__(
        self,
        *,
        regParam: float | None = None,
        elasticNetParam: float = 0.0,
        numFolds: int = 5,
        selectionRule: Literal["best", "oneStandardError"] = "best",
        estimator: Estimation = "exact",
        numPairs: int | Literal["auto"] = "auto",
        batchSize: int = 1024,
        pairTol: float = 1e-3,
        standardization: bool = True,
        tol: float = 1e-6,
        maxIter: int = 1000,
        whenNotConverged: OnFailure = "raise",
        seed: int = 0,
        prior: Any = None,
        maxFPR: float | None = None,
        covariance: Covariance = "full",
        headSize: int = 4000,
        covarianceRank: int = 50,
    ) -> None:
        self.regParam = regParam
        self.elasticNetParam = elasticNetParam
        self.numFolds = numFolds
        self.selectionRule = selectionRule
        self.estimator = estimator
        self.numPairs = numPairs
        self.batchSize = batchSize
        self.pairTol = pairTol
        self.standardization = standardization
        self.tol = tol
        self.maxIter = maxIter
        self.whenNotConverged = whenNotConverged
        self.seed = seed
        self.prior = prior
        self.maxFPR = maxFPR
        self.covariance = covariance
        self.headSize = headSize
        self.covarianceRank = covarianceRank

    def _train(self, rows: ArrayRows) -> TrainingResult:
        check_choice("estimator", self.estimator, "exact", "paired", "complete")
        check_choice("selectionRule", self.selectionRule, "best", "oneStandardError")
        check_choice("whenNotConverged", self.whenNotConverged, "raise", "warn")
        pairs = 0 if self.numPairs == "auto" else self.numPairs
        if not isinstance(pairs, int | np.integer) or (pairs < 1 and self.numPairs != "auto"):
            raise ConfigError(
                f"found numPairs {self.numPairs!r}, expected a whole number > 0 or 'auto'; set "
                "numPairs to one of these"
            )
        check_whole("numFolds", self.numFolds, 2)
        settings = TrainingSettings(
            sampling=Sampling(self.estimator, int(pairs), self.seed),
            pair_tolerance=self.pairTol,
            batch_size=self.batchSize,
            reg_params=None if self.regParam is None else (self.regParam,),
            elastic_net_params=(self.elasticNetParam,),
            prior=self._prior(rows.dimension),
            folds=Folds(int(self.numFolds), self.seed),
            one_standard_error=self.selectionRule == "oneStandardError",
            standardize=self.standardization,
            tol=self.tol,
            max_iter=self.maxIter,
            on_failure=self.whenNotConverged,
            max_fpr=self.maxFPR,
            approximation=Approximation(
                self.covariance, self.headSize, self.covarianceRank, self.seed
            ),
        )
        try:
            return train(rows, settings)
        except HoldOutError as error:
            reg = middle_of_grid(rows, settings)
            _log.warning(
                "regParam is %.3g, the middle of the grid, without a choice: %s", reg, error
            )
            return train(rows, replace(settings, reg_params=(reg,)))

    def _prior(self, dimension: int) -> Prior | None:
        """The weights of the prior in the order of the columns; `ConfigError` if unusable."""
        if self.prior is None:
            return None
        names = None
        if hasattr(self.prior, "fit"):
            if not hasattr(self.prior, "coef_"):
                raise ConfigError(
                    f"found {type(self.prior).__name__} as a prior that is not fitted, expected a "
                    "fitted ranker; fit it, or wrap it in sklearn.frozen.FrozenEstimator where "
                    "estimators are cloned"
                )
            w = np.asarray(self.prior.coef_)[0]
            names = getattr(self.prior, "feature_names_in_", None)
        else:
            w = np.asarray(self.prior)
            if w.ndim != 1 or w.dtype.kind not in "fiu":
                raise ConfigError(
                    f"found a prior of shape {w.shape} and type {w.dtype}, expected a fitted "
                    f"ranker or {dimension} weights; pass one of these"
                )
        features = getattr(self, "feature_names_in_", None)
        return Prior.of(
            w.astype(float),
            None if names is None else list(names),
            dimension,
            None if features is None else list(features),
        )


def middle_of_grid(rows: ArrayRows, settings: TrainingSettings) -> float:
    """The middle value of the default grid of regParam, for rows of which no fold is held out."""
    scale = settings.scale(column_moments(rows))
    grid = default_grid(operator_quadratic(rows, scale), settings.elastic_net_params[0])
    # Constant columns have no weight with any penalty.
    return float(grid[len(grid) // 2]) or 1.0
