"""The settings of a training run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.curves import MOST_HEIGHTS, Curves
from spark_auc.core.moments.objective import Quadratic
from spark_auc.core.sampling.folds import Folds
from spark_auc.core.types import Float
from spark_auc.errors import ConfigError
from spark_auc.solvers.candidates import Candidate, default_grid
from spark_auc.solvers.ridge import LARGEST_FACTORISED
from spark_auc.solvers.solution import OnFailure
from spark_auc.training.approximation import Approximation
from spark_auc.training.costs import CountedWork, Work
from spark_auc.training.prior import Prior
from spark_auc.training.second_step import TOP
from spark_auc.training.survey import Sampling

# Number of values of a default grid.
_GRID = 25


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of `spark_auc.training.train.train`.

    Parameters
    ----------
    sampling
        Which pairs to train on. With "paired" and "complete", 0 pairs choose the number of draws
        automatically.
    pair_tolerance
        Largest cost of sampling, in units of the objective, for an automatic number of draws.
    batch_size
        The number of draws is rounded up to a multiple of it.
    reg_params, elastic_net_params
        Candidate penalties: all combinations. Without reg_params the candidates are the grid of
        `default_grid`.
    prior
        Centre of the penalty: a single penalty has it, and a choice by folds tries each penalty
        with this centre and with the centre 0. Its rows must be others than those trained on, or
        their held-out AUC is too high. It needs all pairs ("exact").
    folds, one_standard_error
        Folds and rule for choosing the penalty; see `CrossValidation`.
    standardize
        Whether the penalty applies to columns of unit variance.
    tol, max_iter, on_failure
        See `path` and `Solution.checked`.
    keep_moments
        Whether the result holds the pair moments.
    max_fpr
        Greatest false positive rate that matters, in (0, 0.2): a second step trains again, with the
        same penalty, on rows of which the negatives of the highest scores count more often; see
        `spark_auc.training.second_step`. It needs all pairs ("exact"). Default: one step.
    approximation
        How covariances are approximated. Other kinds than "full" need all pairs ("exact"), and go
        with no prior, kept moments or ``max_fpr``.
    curves, smoothness
        Blocks of weights whose roughness has a penalty, and the factors of it to choose from; see
        `spark_auc.core.moments.curves.Curves`. They need a matrix of all pairs ("exact") and no
        l1. Default: roughness has no penalty.
    chosen
        Whether folds of such rows chose the penalty before: the rows are gathered as they were
        then, and without features that do not occur.

    Raises
    ------
    ConfigError
        A number is out of range.
    """

    sampling: Sampling = field(default_factory=Sampling)
    pair_tolerance: float = 1e-3
    batch_size: int = 1024
    reg_params: tuple[float, ...] | None = None
    elastic_net_params: tuple[float, ...] = (0.0,)
    prior: Prior | None = None
    folds: Folds = field(default_factory=lambda: Folds(5))
    one_standard_error: bool = False
    standardize: bool = True
    tol: float = 1e-6
    max_iter: int = 1000
    on_failure: OnFailure = "raise"
    keep_moments: bool = False
    max_fpr: float | None = None
    approximation: Approximation = field(default_factory=Approximation)
    curves: Curves = field(default_factory=Curves)
    smoothness: tuple[float, ...] = ()
    chosen: bool = False

    def __post_init__(self) -> None:
        regs, mixes = self.reg_params, self.elastic_net_params
        if not (
            (regs is None or regs)
            and mixes
            and all(0 <= reg < np.inf for reg in regs or ())
            and all(0 <= mix <= 1 for mix in mixes)
        ):
            raise ConfigError(
                f"found regParam {regs} and elasticNetParam {mixes}, expected at least one value "
                "of each, regParam >= 0 and elasticNetParam in [0, 1]; change these values"
            )
        if self.prior is not None and self.sampling.estimator != "exact":
            raise ConfigError(
                f"found a prior with the estimator {self.sampling.estimator!r}, expected 'exact': "
                "the cost of sampling is not known with a prior; leave out one of them"
            )
        if self.folds.count < 2:
            raise ConfigError(
                f"found numFolds {self.folds.count}, expected 2 or more; raise numFolds"
            )
        if not (self.batch_size >= 1 and self.pair_tolerance > 0):
            raise ConfigError(
                f"found batchSize {self.batch_size} and pairTol {self.pair_tolerance}, expected "
                "batchSize >= 1 and pairTol > 0; raise the value that is out of range"
            )
        if self.max_fpr is not None:
            if not 0 < TOP * self.max_fpr < 1:
                raise ConfigError(
                    f"found maxFPR {self.max_fpr}, expected a rate above 0 and below {1 / TOP:g}; "
                    "change it, or leave it out to train for all rates"
                )
            if self.sampling.estimator != "exact":
                raise ConfigError(
                    f"found maxFPR {self.max_fpr} with the estimator "
                    f"{self.sampling.estimator!r}, expected 'exact'; leave out one of them"
                )
        without = {
            "estimator": self.sampling.estimator != "exact",
            "prior": self.prior is not None,
            "keepMoments": self.keep_moments,
            "maxFPR": self.max_fpr is not None,
        }
        if self.approximation.kind != "full" and any(without.values()):
            named = next(name for name, is_set in without.items() if is_set)
            raise ConfigError(
                f"found {named} with covariance {self.approximation.kind!r}, expected 'full', for "
                f"it needs exact covariances of all pairs; leave out {named} or covariance"
            )
        if self.smoothness and (without["estimator"] or without["prior"] or any(mixes)):
            raise ConfigError(
                f"found smoothness {list(self.smoothness)} with draws of pairs, a prior or an l1 "
                "penalty, expected all pairs, the centre 0 and elasticNetParam 0; leave out one of "
                "them"
            )
        check_solver(self.tol, self.max_iter)

    @property
    def candidate(self) -> Candidate | None:
        """The penalty if it is fixed; None if it is to be chosen."""
        regs, mixes = self.reg_params or (), self.elastic_net_params
        if not len(regs) == len(mixes) == 1 or len(self.smoothness) > 1:
            return None
        return Candidate(regs[0], mixes[0], self.prior is not None, self._smoothness[0])

    @property
    def _smoothness(self) -> tuple[float | None, ...]:
        return self.smoothness or (None,)

    def of(self, candidate: Candidate) -> TrainingSettings:
        """The settings with a penalty that is chosen already."""
        return replace(
            self,
            reg_params=(candidate.regParam,),
            elastic_net_params=(candidate.elasticNetParam,),
            prior=self.prior if candidate.prior else None,
            smoothness=() if candidate.smoothness is None else (candidate.smoothness,),
            chosen=True,
        )

    def scale(self, columns: ColumnMoments) -> Float | None:
        """Divisors ``(d,)`` of the columns by which the penalty applies; None for 1."""
        return columns.standard_deviation() if self.standardize else None

    def work(self, candidate: Candidate | None = None) -> Work | None:
        """What is solved: a penalty, or all candidates in all folds; None if it needs a matrix."""
        smoothness = candidate.smoothness if candidate else self.smoothness
        if self.keep_moments or (smoothness and self.curves.features.size > MOST_HEIGHTS):
            return None
        if candidate is not None:
            return Work(has_l1=candidate.penalty.l1 > 0)
        mixes, values, centres = self.elastic_net_params, self.reg_params, 1 + bool(self.prior)
        count = len(mixes) * (_GRID if values is None else len(values)) * centres
        return Work(count, self.folds.count, any(mixes))

    def candidates(self, quadratic: Callable[[], Quadratic]) -> list[Candidate]:
        """The penalties to choose from, those with the centre 0 first.

        Parameters
        ----------
        quadratic
            Makes the loss, from which a default grid is computed.
        """
        mixes, values = self.elastic_net_params, self.reg_params
        if values is None:
            loss = quadratic()
            pairs = [(mix, value) for mix in mixes for value in default_grid(loss, mix, _GRID)]
        else:
            pairs = [(mix, value) for mix in mixes for value in values]
        centres = (False,) if self.prior is None else (False, True)
        kinds = [(centre, smoothness) for centre in centres for smoothness in self._smoothness]
        return [Candidate(float(value), mix, *kind) for kind in kinds for mix, value in pairs]


@dataclass(frozen=True)
class HingeSettings:
    """Settings of `spark_auc.training.ranksvm.train_hinge`.

    Parameters
    ----------
    reg_param
        Ridge factor > 0. Without one, folds choose it by the squared loss.
    curves, smoothness
        Blocks of weights whose roughness has a penalty, and its factor; see
        `spark_auc.core.moments.curves.Curves`. They need a ``reg_param``.
    standardize
        Whether the penalty applies to columns of unit variance.
    tol, max_iter
        See `truncated_newton`.
    on_failure
        See `Solution.checked`.
    folds, one_standard_error
        Folds and rule for choosing the ridge factor; see `CrossValidation`.

    Raises
    ------
    ConfigError
        A number is out of range.
    """

    reg_param: float | None = None
    standardize: bool = True
    tol: float = 1e-4
    max_iter: int = 500
    on_failure: OnFailure = "raise"
    folds: Folds = field(default_factory=lambda: Folds(5))
    one_standard_error: bool = False
    curves: Curves = field(default_factory=Curves)
    smoothness: float | None = None

    def __post_init__(self) -> None:
        if self.reg_param is not None and not 0 < self.reg_param < np.inf:
            raise ConfigError(
                f"found regParam {self.reg_param}, expected regParam > 0; raise regParam"
            )
        check_solver(self.tol, self.max_iter)


@dataclass(frozen=True)
class MethodSettings:
    """Settings of `compare_methods`.

    Parameters
    ----------
    folds
        The folds; rows that taught features are in none (`Folds.never_held_out`).
    knowing
        Names of the blocks whose features know the labels of these rows, such as leaves. Candidates
        with one of them do not train on these rows; the others do.
    curves, smoothness
        See `TrainingSettings`.
    hinge
        Whether the squared hinge is tried.
    without_hinge
        The blocks of a candidate whose hinge is not tried.
    largest
        Greatest number of features of the union whose moments are computed.
    wide_rows
        Greatest number of rows for candidates with other features.
    work
        Counted work of candidates, and the budget for it. The simplest candidate is measured in any
        case.
    """

    folds: Folds = field(default_factory=lambda: Folds(5))
    knowing: frozenset[str] = frozenset()
    curves: Curves = field(default_factory=Curves)
    smoothness: tuple[float, ...] = ()
    hinge: bool = True
    without_hinge: tuple[str, ...] | None = None
    largest: int = LARGEST_FACTORISED
    wide_rows: int = 250_000
    work: CountedWork = field(default_factory=CountedWork)


def check_solver(tol: float, max_iter: int) -> None:
    """Check the tolerance and the iteration limit; `ConfigError` if one is out of range."""
    if not (tol > 0 and max_iter >= 1):
        raise ConfigError(
            f"found tol {tol} and maxIter {max_iter}, expected tol > 0 and maxIter >= 1; raise "
            "the value that is out of range"
        )
