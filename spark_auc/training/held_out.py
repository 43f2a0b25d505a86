"""AUC of each penalty on the held-out rows of each fold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.batch import Batch
from spark_auc.core.evaluation.chosen_auc import deviations
from spark_auc.core.evaluation.roc import auc
from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.core.products import settled_product
from spark_auc.core.row_source import ArrayRows, Fold, Folding, RowSource, State, rows_where
from spark_auc.core.sampling.folds import Folds
from spark_auc.core.types import Bool, Float
from spark_auc.errors import DataError

# Scores (n, l), labels (n,) and weights (n,) of the held-out rows of a fold.
_Scored = tuple[Float, NDArray[np.bool_], Float | None]

# Largest number of scores sorted at once, and of bytes of weights sent to the tasks at once.
_SCORES = 1 << 23
_WEIGHT_BYTES = 1 << 26


def held_out_auc(
    weights: Sequence[Float], rows: Folding, held_out: Folds, max_bins: int
) -> tuple[Float, float]:
    """AUC of each penalty on each fold, from one pass over the rows if the weights allow.

    Parameters
    ----------
    weights : (d, l)
        For each of the first ``k`` folds, the weights of ``l`` penalties, trained on the others.
    rows
        All rows.
    held_out
        The fold of each row.
    max_bins
        Number of distinct scores per fold and penalty up to which the AUC is exact.

    Returns
    -------
    auc : (l, k)
        AUC of each penalty on each fold.
    uncertainty
        Half the width of the widest AUC bounds; 0 if all AUCs are exact.

    Raises
    ------
    DataError
        A fold has rows of one class only.
    """
    folds_per_pass = max(1, _WEIGHT_BYTES // weights[0].nbytes)
    states: dict[str, State] = {}
    for start in range(0, len(weights), folds_per_pass):
        stop = min(start + folds_per_pass, len(weights))
        part = {k: weights[k] for k in range(start, stop)}
        states |= rows.fold(
            _score_fold(part, held_out, max_bins),
            (ScoreHistogram,),
            state_bytes=len(part) * weights[0].shape[1] * 56 * max_bins,
            what=f"validation scores of {len(part) * weights[0].shape[1]} models",
        ).states
    table = np.empty((weights[0].shape[1], len(weights)))
    widest = 0.0
    for name, state in states.items():
        k, i = map(int, name.split("/"))
        histogram = cast(ScoreHistogram, state)
        if not (histogram.table.weight.sum(axis=1) > 0).all():
            raise single_class(k, held_out)
        low, high = histogram.auc_bounds()
        widest = max(widest, (high - low) / 2)
        table[i, k] = auc(histogram.table)
    return table, widest


def _score_fold(weights: dict[int, Float], folds: Folds, max_bins: int) -> Fold:
    """The fold that makes the score histogram ``k/i`` of each fold ``k`` and penalty ``i``."""
    models = max(W.shape[1] for W in weights.values())
    size = _SCORES // (models * len(weights))

    def histograms(k: int, parts: list[_Scored]) -> Iterator[tuple[str, State]]:
        scores, y = (np.concatenate([part[j] for part in parts]) for j in range(2))
        u = None if parts[0][2] is None else np.concatenate([u for _, _, u in parts])
        for i in range(scores.shape[1]):
            yield f"{k}/{i}", ScoreHistogram.of(scores[:, i].copy(), y, u, max_bins)

    def fold(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
        total: dict[str, State] = {}
        buffers: dict[int, list[_Scored]] = {k: [] for k in weights}

        def flush(k: int) -> None:
            if buffers[k]:
                for name, state in histograms(k, buffers[k]):
                    total[name] = total[name].merge(state) if name in total else state
                buffers[k].clear()

        for batch in batches:
            fold_of_row = folds.of(batch)
            for k, W in weights.items():
                held_out = batch.take(np.flatnonzero(fold_of_row == k))
                scores = settled_product(held_out.X, W)
                buffers[k].append((scores, held_out.y, held_out.weight))
                if sum(y.size for _, y, _ in buffers[k]) >= size:
                    flush(k)
        for k in weights:
            flush(k)
        yield from total.items()

    return fold


def held_out_measures(
    weights: Sequence[Float], rows: RowSource, held_out: Folds, max_bins: int
) -> tuple[Float, float, list[Float] | str]:
    """AUC of each penalty on each fold, and what each group of held-out rows adds to it.

    The AUCs of rows in memory are exact.

    Parameters
    ----------
    weights, rows, held_out, max_bins
        See `held_out_auc`.

    Returns
    -------
    auc, uncertainty
        See `held_out_auc`.
    deviations : (g, l)
        For each of the ``k`` folds, or why they are not known; see
        `spark_auc.core.evaluation.chosen_auc.deviations`.

    Raises
    ------
    DataError
        A fold has rows of one class only.
    """
    if not isinstance(rows, ArrayRows):
        reason = "the rows do not fit in this process's memory"
        return *held_out_auc(weights, rows, held_out, max_bins), reason
    aucs, added = list[Float](), list[Float | str]()
    for k, W in enumerate(weights):
        held = rows.changed(rows_where(partial(_inside, held_out, k))).joined()
        step, groups = max(1, _SCORES // max(held.y.size, 1)), held.groups()
        starts = range(0, max(W.shape[1], 1), step)
        try:
            own, parts = zip(
                *(
                    deviations(settled_product(held.X, part), held.y, held.weight, groups)
                    for part in (W[:, start : start + step] for start in starts)
                ),
                strict=True,
            )
        except DataError:
            raise single_class(k, held_out) from None
        aucs.append(np.concatenate(own))
        why = next((part for part in parts if isinstance(part, str)), None)
        added.append(why or np.concatenate(parts, axis=1))
    unknown = next((part for part in added if isinstance(part, str)), None)
    known = [part for part in added if not isinstance(part, str)]
    return np.stack(aucs, axis=1), 0.0, known if unknown is None else unknown


def _inside(held_out: Folds, k: int, batch: Batch) -> Bool:
    inside: Bool = held_out.of(batch) == k
    return inside


def single_class(fold: int, folds: Folds) -> DataError:
    """The error for a fold that lacks rows of one class."""
    return DataError(
        f"found rows of one class only in fold {folds.name(fold)}, expected both in every fold; "
        + (
            "join it with another fold in foldCol"
            if folds.names
            else "use fewer folds, or set regParam"
        )
    )
