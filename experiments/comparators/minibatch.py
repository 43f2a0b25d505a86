"""MB-PHL and MB-PSL: gradient steps on the pairs within mini-batches (Gultekin et al.)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy import sparse

from experiments.comparators.linear import Linear
from spark_auc.core.state.rules import not_csr
from spark_auc.core.state.schema import Fields, Values, array, reals
from spark_auc.core.types import Bool, Float, Index
from spark_auc.core.validation import check_above, check_at_least, check_whole


def _buffer_fault(values: Values) -> str | None:
    rows = values["waiting_positive"].size
    if rows >= values["batch"]:
        return f"it buffers {rows} rows for a batch of {values['batch']}"
    starts = values["waiting_starts"].astype(np.int64)
    return not_csr(values["waiting_indices"], starts, rows, values["dimension"])


@dataclass(eq=False)
class MiniBatch(Linear):
    """Pairwise hinge or squared loss over all mixed pairs of each batch of consecutive rows.

    The ``t``-th batch with both classes makes the step

        w <- w - eta / sqrt(t) (lambda2 w - mean D [w'D < 1])           MB-PHL
        w <- w - eta / sqrt(t) (lambda2 w - mean D (1 - w'D))           MB-PSL

    with the mean over the batch's pairs ``D = x_+ - x_-``; MB-PSL steps along the gradient of
    MBA's objective. A batch of one class makes no step. Rows that do not fill a batch are buffered
    in the state, so that the batches do not depend on the calls of `learn`; rows that remain in the
    buffer at the end have no effect.

    No pair is formed: time is O(s) per row for ``s`` stored entries, plus O(log batch) for the
    hinge, and O(d) per batch; memory is O(d + batch s).

    Parameters
    ----------
    dimension
        Number of features ``d``.
    hinge
        True for MB-PHL, False for MB-PSL.
    eta
        First step size > 0.
    lambda2
        Ridge factor.
    batch
        Number of rows of a batch.

    References
    ----------
    Gultekin, Saha, Ratnaparkhi, Paisley: MBA, Mini-Batch AUC Optimization, Section IV.
    """

    FIELDS: ClassVar[Fields] = {
        "waiting_values": reals("entries"),
        "waiting_indices": array("<u4", "entries"),
        "waiting_starts": array("<u4", "rows+1"),
        "waiting_positive": array("|b1", "rows"),
    }
    RELATIONS = (_buffer_fault,)

    hinge: bool = True
    eta: float = 0.5
    lambda2: float = 0.0
    batch: int = 100
    steps: int = field(init=False, default=0)
    waiting_values: Float = field(init=False, repr=False)
    waiting_indices: Index = field(init=False, repr=False)
    waiting_starts: Index = field(init=False, repr=False)
    waiting_positive: Bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_above("eta", self.eta, 0)
        check_at_least("lambda2", self.lambda2, 0)
        check_whole("batch", self.batch, 2)
        super().__post_init__()
        self._buffer(sparse.csr_matrix((0, self.dimension)), np.zeros(0, np.bool_))

    def _buffer(self, X: sparse.csr_matrix, y: Bool) -> None:
        self.waiting_values = X.data
        self.waiting_indices = X.indices.astype(np.uint32)
        self.waiting_starts = X.indptr.astype(np.uint32)
        self.waiting_positive = y.copy()

    def _take(self, values: Float, indices: Index, starts: Index, y: Bool) -> None:
        starts_before = self.waiting_starts
        X = sparse.csr_matrix(
            (
                np.concatenate([self.waiting_values, values]),
                np.concatenate([self.waiting_indices, indices]),
                np.concatenate([starts_before, starts[1:] + starts_before[-1]]),
            ),
            shape=(self.waiting_positive.size + y.size, self.dimension),
        )
        y = np.concatenate([self.waiting_positive, y])
        full = y.size - y.size % self.batch
        for start in range(0, full, self.batch):
            part = slice(start, start + self.batch)
            self._step(X[part], y[part])
        self._buffer(X[full:], y[full:])

    def _step(self, X: sparse.csr_matrix, y: Bool) -> None:
        if y.all() or not y.any():
            return
        self.steps += 1
        slopes = (_hinge_slopes if self.hinge else _squared_slopes)(X @ self.w, y)
        gradient = self.lambda2 * self.w + X.T @ slopes
        self.w = self.w - self.eta / np.sqrt(self.steps) * gradient


def _hinge_slopes(scores: Float, y: Bool) -> Float:
    """The derivative ``(n,)`` by each score of the mean of ``max(0, 1 - s_+ + s_-)`` over pairs."""
    shifted, negative = scores[y] - 1.0, scores[~y]
    slopes = np.empty(scores.size)
    # Both sides compare the same floating-point numbers, so that the slopes sum to 0.
    slopes[y] = np.searchsorted(np.sort(negative), shifted, "right") - negative.size
    slopes[~y] = np.searchsorted(np.sort(shifted), negative, "left")
    return slopes / (shifted.size * negative.size)


def _squared_slopes(scores: Float, y: Bool) -> Float:
    """The derivative ``(n,)`` by each score of the mean of ``(1 - s_+ + s_-)^2 / 2`` over pairs."""
    positive, negative = scores[y], scores[~y]
    slopes = np.empty(scores.size)
    slopes[y] = (positive - negative.mean() - 1.0) / positive.size
    slopes[~y] = (negative - positive.mean() + 1.0) / negative.size
    return slopes
