"""The choice of window and penalty from stored moments of folds, without rows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from spark_auc.core.moments.gaussian import estimated_auc
from spark_auc.core.moments.objective import Quadratic
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.sampling.folds import Folds
from spark_auc.core.types import Float
from spark_auc.errors import ConfigError, DataError
from spark_auc.solvers.candidates import TIE, Candidate, Selection
from spark_auc.training.cross_validation import CrossValidation
from spark_auc.training.settings import TrainingSettings

_log = logging.getLogger(__name__)


class Choice(NamedTuple):
    """The window and penalty of a challenger.

    Parameters
    ----------
    window
        Name of the window.
    candidate
        The penalty.
    selections
        Held-out AUC of each penalty and fold, by window.
    """

    window: str
    candidate: Candidate
    selections: dict[str, Selection]


def choose(
    windows: Sequence[str],
    training: Callable[[str, int], PairMoments],
    newest: Sequence[PairMoments],
    settings: TrainingSettings,
) -> Choice:
    """Choose the window and the penalty that rank the newest rows best.

    Each window and penalty is trained on the other folds of the window, the newest periods
    included, and measured on the fold of the newest periods. All windows are thus measured on the
    same rows, which none of them was trained on. The AUC is that of Gaussian scores
    (`estimated_auc`), as rows are not at hand.

    Parameters
    ----------
    windows
        Names of the windows. Of windows of equal AUC the first is chosen.
    training
        Moments of a window's rows outside of a fold. Those of two folds are in memory at a time.
    newest
        Moments of the newest periods' rows by fold, each of both classes.
    settings
        Penalties, standardization, solver and rule. The number of folds is that of ``newest``.

    Raises
    ------
    ConfigError
        There are no windows, or fewer than two folds.
    DataError
        A fold has rows of one class only.
    ConvergenceError
        The solver did not reach its tolerance.
    """
    count = len(newest)
    if not windows or count < 2:
        raise ConfigError(
            f"found {len(windows)} windows and {count} folds, expected at least one window and two "
            "folds; add windows, or store more folds"
        )
    for k, moments in enumerate(newest):
        rows = moments.positive.rows, moments.negative.rows
        if not min(rows):
            raise DataError(
                f"found {rows[0]} positive and {rows[1]} negative rows in fold {k + 1} of the "
                "newest periods, expected both classes; pool more periods"
            )
    validation = CrossValidation(
        Folds(count),
        settings.tol,
        settings.max_iter,
        settings.one_standard_error,
        at_once=1,
        prior=settings.prior,
    )

    def held_out(weights: Sequence[Float]) -> tuple[Float, float]:
        auc = [
            [estimated_auc(moments.along(w)) for w in W.T]
            for moments, W in zip(newest, weights, strict=True)
        ]
        return np.array(auc).T, 0.0

    def quadratics(window: str) -> Iterator[tuple[Quadratic, Float | None]]:
        for k in range(count):
            moments = training(window, k)
            scale = settings.scale(moments.columns())
            yield moments.quadratic(scale), scale

    # One grid serves all windows and folds.
    candidates = settings.candidates(lambda: next(quadratics(windows[0]))[0])
    selections = {}
    for window in windows:
        selections[window] = validation.select(candidates, quadratics(window), held_out)
        best = float(np.nanmax(selections[window].mean))
        _log.info("window %s: held-out AUC %.4f by moments", window, best)
    means = {name: float(np.nanmax(selection.mean)) for name, selection in selections.items()}
    window = next(name for name in windows if means[name] >= max(means.values()) - TIE)
    return Choice(window, selections[window].candidate, selections)
