"""Ranking each fold's own rows by the weights that the other folds trained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.batch import Batch
from spark_auc.core.evaluation.roc import auc
from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.core.products import settled_product
from spark_auc.core.row_source import Fold, Folding, State
from spark_auc.core.sampling.folds import Folds
from spark_auc.core.types import Float
from spark_auc.errors import DataError

_Scored = tuple[Float, NDArray[np.bool_], Float | None]

# Scores that are sorted together, and bytes of weights that travel to the tasks at once.
_SCORES = 1 << 23
_WEIGHT_BYTES = 1 << 26


def held_out_auc(
    weights: Sequence[Float], rows: Folding, held_out: Folds, max_bins: int
) -> tuple[Float, float]:
    """AUC ``(l, k)`` of each penalty on each fold, and half the widest bounds on it.

    Parameters
    ----------
    weights : (d, l)
        Of each fold: the weights of each penalty, trained on the other folds.
    rows
        All rows.
    held_out
        Which fold each row is of.
    max_bins
        Distinct scores per fold and penalty up to which AUC is exact.

    Raises
    ------
    DataError
        A fold has rows of one class only.
    """
    together = max(1, _WEIGHT_BYTES // weights[0].nbytes)
    found: dict[str, State] = {}
    for start in range(0, held_out.count, together):
        part = {k: weights[k] for k in range(start, min(start + together, held_out.count))}
        found |= rows.fold(
            _scoring(part, held_out, max_bins),
            (ScoreHistogram,),
            state_bytes=len(part) * weights[0].shape[1] * 56 * max_bins,
            what=f"validation scores of {len(part) * weights[0].shape[1]} models",
        ).states
    table = np.empty((weights[0].shape[1], held_out.count))
    widest = 0.0
    for name, state in found.items():
        k, i = map(int, name.split("/"))
        histogram = cast(ScoreHistogram, state)
        if not (histogram.table.weight.sum(axis=1) > 0).all():
            raise one_class(k, held_out)
        low, high = histogram.auc_bounds()
        widest = max(widest, (high - low) / 2)
        table[i, k] = auc(histogram.table)
    return table, widest


def _scoring(weights: dict[int, Float], folds: Folds, max_bins: int) -> Fold:
    models = max(W.shape[1] for W in weights.values())
    size = _SCORES // (models * len(weights))

    def tabulated(k: int, parts: list[_Scored]) -> Iterator[tuple[str, State]]:
        scores, y = (np.concatenate([part[k] for part in parts]) for k in range(2))
        u = None if parts[0][2] is None else np.concatenate([u for _, _, u in parts])
        for i in range(scores.shape[1]):
            yield f"{k}/{i}", ScoreHistogram.of(scores[:, i].copy(), y, u, max_bins)

    def fold(batches: Iterator[Batch]) -> Iterator[tuple[str, State]]:
        total: dict[str, State] = {}
        waiting: dict[int, list[_Scored]] = {k: [] for k in weights}

        def add(k: int) -> None:
            if waiting[k]:
                for name, state in tabulated(k, waiting[k]):
                    total[name] = total[name].merge(state) if name in total else state
                waiting[k].clear()

        for batch in batches:
            mine = folds.of(batch)
            for k, W in weights.items():
                held_out = batch.take(np.flatnonzero(mine == k))
                scores = settled_product(held_out.X, W)
                waiting[k].append((scores, held_out.y, held_out.weight))
                if sum(y.size for _, y, _ in waiting[k]) >= size:
                    add(k)
        for k in weights:
            add(k)
        yield from total.items()

    return fold


def one_class(fold: int, folds: Folds) -> DataError:
    """The error of a fold without rows of both classes."""
    return DataError(
        f"found rows of one class only in fold {folds.name(fold)}, expected both in every fold; "
        + (
            "join it with another fold in foldCol"
            if folds.names
            else "use fewer folds, or set regParam"
        )
    )
