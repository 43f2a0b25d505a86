"""Training on the rows that grew a recipe's trees.

Leaves know the labels of the rows that grew them: folds of these rows would choose a penalty that
is too weak. The penalty is therefore transferred. Trees grown from a share of the rows give
features whose moments are those of the same rows, and each penalty is measured on the other rows.
Trees grown from all rows are then trained with the penalty and the centre that were chosen.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from spark_auc.core.batch import Batch
from spark_auc.core.evaluation.paired_auc import PairedAUC
from spark_auc.core.labels import LabelCounts
from spark_auc.core.moments.operator import labelled_pair_moments
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.products import settled_product
from spark_auc.core.row_source import RowSource, batchwise, rows_where
from spark_auc.core.sampling.folds import Folds
from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.core.types import Float
from spark_auc.errors import ConfigError, DataError, ResourceError
from spark_auc.solvers.candidates import Selection
from spark_auc.training.cross_validation import CrossValidation
from spark_auc.training.prior import Prior
from spark_auc.training.result import TrainingResult
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.timer import PhaseTimer
from spark_auc.training.train import train, train_on_moments

_log = logging.getLogger(__name__)


class GrownRows(NamedTuple):
    """All rows, mapped by a recipe whose trees were grown from some or all of them.

    Parameters
    ----------
    rows
        The rows. Their groups are those of the sample that grew the trees: with a recipe, rows of
        equal features are not always of equal raw values.
    prior
        The values of the leaves; see `Prior.of_trees`.
    """

    rows: RowSource
    prior: Prior


def train_on_same_rows(
    grown: Callable[[KeySample | None], GrownRows], sample: KeySample, settings: TrainingSettings
) -> TrainingResult:
    """Train on the rows that grow the trees, with the values of the leaves as the prior.

    Each penalty is measured with the centre at the prior and at 0, by its AUC on the rows outside
    of the sample. The strongest penalty with the centre at the prior ranks almost as the trees
    themselves do. Another one is chosen only if its AUC is higher by one standard error of their
    difference. The default penalties are relative to the trace of ``Sigma``, and are those of the
    second growth for the final weights. A single penalty needs no choice, and one growth.

    Parameters
    ----------
    grown
        Grows the trees from the rows of a sample, or from all rows (None), and maps all rows.
    sample
        The rows that grow the trees by which the penalty is chosen, such as 80% of the rows.
    settings
        The candidates and the solver. The prior is that of the trees; there are no folds.

    Raises
    ------
    ConfigError
        The settings have a prior or ask for draws.
    DataError
        A value is unusable, or the rows inside or outside of the sample are of one class.
    ResourceError
        The moments or the rows outside of the sample do not fit in memory.
    ConvergenceError
        The solver did not reach its tolerance.
    """
    if settings.prior is not None or settings.sampling.estimator != "exact":
        raise ConfigError(
            "found a prior, or draws of pairs, for training on the rows that grew the trees, "
            "expected all pairs and the prior of the trees; leave out both settings"
        )
    if settings.candidate:
        rows, prior = grown(None)
        return train(rows, replace(settings, prior=prior))
    timer = PhaseTimer()
    selection = _selection(grown(sample), sample, settings)
    timer.end("select")
    rows, prior = grown(None)
    moments, labels = _moments(rows)
    timer.end("moments")
    chosen = settings.candidates(lambda: moments.quadratic(settings.scale(moments.columns())))
    candidate = chosen[selection.chosen % len(chosen)]
    fixed = replace(settings, prior=prior).of(replace(candidate, prior=selection.candidate.prior))
    result = train_on_moments(moments, labels, fixed)
    if result.prior is None:
        result = replace(result, prior=prior.report(None))
    seconds = PhaseTimer(timer.seconds | result.seconds).seconds
    result = replace(result, selection=selection, seconds=seconds)
    _log.info(result.sentence())
    return result


def _selection(grown: GrownRows, sample: KeySample, settings: TrainingSettings) -> Selection:
    """The AUC of each penalty on the rows outside of the sample, and the choice."""
    rows, prior = grown
    moments, _ = _moments(rows.changed(rows_where(sample.inside)))
    scale = settings.scale(moments.columns())
    quadratic = moments.quadratic(scale)
    candidates = replace(settings, prior=prior).candidates(lambda: quadratic)
    compared: list[PairedAUC] = []

    def held_out(weights: Sequence[Float]) -> tuple[Float, float]:
        compared.append(_compared(rows.changed(rows_where(sample.outside)), weights[0]))
        return compared[0].auc[:, None], 0.0

    transfer = CrossValidation(
        Folds.named(("the rows outside of the sample",)),
        settings.tol,
        settings.max_iter,
        one_standard_error=False,
        at_once=1,
        prior=prior,
    )
    selection = transfer.select(candidates, [(quadratic, scale)], held_out)
    chosen = _chosen(selection, compared[0])
    candidate, found = candidates[chosen], selection.mean
    _log.info("chose %s by rows that grew no trees: AUC %.4f", candidate, found[chosen])
    return replace(selection, chosen=chosen)


def _chosen(selection: Selection, compared: PairedAUC) -> int:
    """The best penalty, or that of the trees themselves if it is not better by an error."""
    solved = [i for i, reason in enumerate(selection.left_out) if reason is None]
    priors = [k for k, i in enumerate(solved) if selection.candidates[i].prior]
    best = int(np.argmax(compared.auc))
    if not priors:
        return solved[best]
    trees = max(priors, key=lambda k: selection.candidates[solved[k]].regParam)
    try:
        is_better = compared.compare(best, trees).z >= 1.0
    except DataError:
        # A perfect ranking differs without variance.
        is_better = True
    return solved[best if is_better else trees]


def _compared(rows: RowSource, W: Float) -> PairedAUC:
    """The AUC of each penalty on some rows."""

    def score(batch: Batch) -> Batch:
        return batch._replace(X=settled_product(batch.X, W))

    limit = rows.memory.rows_limit
    gathered = rows.changed(batchwise(score), W.shape[1]).gathered_within(limit)
    if gathered is None:
        raise ResourceError(
            f"found scores of {W.shape[1]} penalties for the rows outside of the sample that grows "
            f"trees, expected at most {limit / 2**20:.0f} MiB; set fewer penalties or regParam, or "
            "let fewer rows grow the trees"
        )
    scored = gathered.joined()
    if scored.y.all() or not scored.y.any():
        raise DataError(
            f"found {scored.y.size} rows of one class outside of the sample that grows trees, "
            "expected rows of both; set another seed of trees.grow, or regParam"
        )
    return PairedAUC.of(np.asarray(scored.X), scored.y, scored.weight)


def _moments(rows: RowSource) -> tuple[PairMoments, LabelCounts]:
    rows.memory.check(
        PairMoments.nbytes(rows.dimension), f"moments of {rows.dimension} features of trees"
    )
    return labelled_pair_moments(rows)
