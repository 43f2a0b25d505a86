"""RankSVM of arrays in memory: the all-pairs squared hinge, by truncated Newton steps."""

from __future__ import annotations

import logging
from dataclasses import replace

from spark_auc.core.row_source import ArrayRows
from spark_auc.errors import HoldOutError
from spark_auc.local.mba import middle_of_grid
from spark_auc.local.ranker import LinearRanker, check_choice
from spark_auc.solvers.solution import OnFailure
from spark_auc.training.ranksvm import train_hinge
from spark_auc.training.result import TrainingResult
from spark_auc.training.settings import HingeSettings, TrainingSettings

_log = logging.getLogger(__name__)


class RankSVMClassifier(LinearRanker):
    """Trains a linear ranker by the squared hinge over all pairs (PRSVM+, Khalid et al., 2018).

    Minimises ``regParam/2 |w|^2 + 1/2 E[max(0, 1 - w'(x+ - x-))^2]`` over every pair of a positive
    and a negative row. The weights are those of `spark_auc.RankSVMClassifier`.

    Parameters
    ----------
    regParam
        Ridge factor > 0. By default as `MBAClassifier` chooses it by 5 folds, or,
        without folds to hold out, as it does then.
    standardization
        Whether the penalty applies to columns of unit variance.
    tol
        Largest gradient element at which the solver stops, relative to that at ``w = 0``; element
        ``j`` has the unit ``sqrt(H_jj)``, with the Hessian ``H`` at 0.
    maxIter
        Largest number of Newton steps; above 2,048 features, of conjugate-gradient steps.
    whenNotConverged
        "raise" an error or "warn" if the solver does not reach tol.

    Examples
    --------
    >>> import numpy as np
    >>> from spark_auc.local import RankSVMClassifier
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array(["no", "no", "yes", "yes"])
    >>> RankSVMClassifier(regParam=0.1).fit(X, y).predict([[4.0]])
    array(['yes'], dtype='<U3')
    """

    def __init__(
        self,
        *,
        regParam: float | None = None,
        standardization: bool = True,
        tol: float = 1e-4,
        maxIter: int = 500,
        whenNotConverged: OnFailure = "raise",
    ) -> None:
        self.regParam = regParam
        self.standardization = standardization
        self.tol = tol
        self.maxIter = maxIter
        self.whenNotConverged = whenNotConverged

    def _train(self, rows: ArrayRows) -> TrainingResult:
        check_choice("whenNotConverged", self.whenNotConverged, "raise", "warn")
        settings = HingeSettings(
            self.regParam, self.standardization, self.tol, self.maxIter, self.whenNotConverged
        )
        try:
            return train_hinge(rows, settings)
        except HoldOutError as error:
            reg = middle_of_grid(rows, TrainingSettings(standardize=self.standardization))
            _log.warning(
                "regParam is %.3g, the middle of the grid, without a choice: %s", reg, error
            )
            return train_hinge(rows, replace(settings, reg_param=reg))
