"""Weights and scores of all rows by class, as a mergeable state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from spark_auc.core.batch import Batch
from spark_auc.core.products import settled_product, settled_scores
from spark_auc.core.state.rules import ABOVE_0
from spark_auc.core.state.schema import Schema, Values, reals
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.core.types import Float


def _weighed(values: Values) -> str | None:
    valid = all(ABOVE_0.holds(scores[:1]) for scores in values.values())
    return None if valid else f"its weights are not {ABOVE_0.words}"


@dataclass(frozen=True, eq=False)
class RowScores(SchemaState):
    """Weights and signed scores of the rows of each class, in any order.

    Parameters
    ----------
    positive, negative : (k + 1, n_class)
        The weights of the rows, then their signed scores by each of ``k`` vectors: ``-X v`` of
        positive rows and ``X v`` of negative rows.
    """

    SCHEMA: ClassVar[Schema] = Schema(
        "RowScores",
        1,
        {"positive": reals("vectors+1", "n"), "negative": reals("vectors+1", "m")},
        _weighed,
    )

    positive: Float
    negative: Float

    @classmethod
    def zero(cls, vectors: int) -> RowScores:
        """The scores of no rows by ``vectors`` vectors."""
        return cls(np.empty((vectors + 1, 0)), np.empty((vectors + 1, 0)))

    @classmethod
    def of(cls, batch: Batch, vectors: Float) -> RowScores:
        """The scores of a batch by vectors ``(k, d)``."""
        scores = settled_product(batch.X, vectors.T).T
        table = np.vstack([batch.weights, np.where(batch.y, -scores, scores)])
        return cls(table[:, batch.y], table[:, ~batch.y])

    @classmethod
    def union(cls, parts: Sequence[RowScores]) -> RowScores:
        """The scores of the rows of one or more parts."""
        return cls(
            np.concatenate([part.positive for part in parts], axis=1),
            np.concatenate([part.negative for part in parts], axis=1),
        )

    def merge(self, other: RowScores) -> RowScores:
        """The scores of both sets of rows."""
        return self.union([self, other])

    def combined(self, factors: Float) -> RowScores:
        """The scores by linear combinations ``(l, k)`` of the vectors, as `settled_product`."""
        return RowScores(
            *(
                np.vstack([side[:1], *(sum(map(np.multiply, own, side[1:])) for own in factors)])
                for side in (self.positive, self.negative)
            )
        )


def signed(batch: Batch, v: Float) -> Float:
    """Signed scores ``(n,)`` of a batch by a vector ``v`` ``(d,)``; see `settled_scores`."""
    out = settled_scores(batch.X, v)
    np.negative(out, out=out, where=batch.y)
    return out
