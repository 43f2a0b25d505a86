"""Raw rows in memory, from which features are taught in each fold anew."""

from __future__ import annotations

from typing import NamedTuple

from spark_auc.core.types import Bool, Float, Int, Keys
from spark_auc.features.raw_columns import Columns, taken


class RawRows(NamedTuple):
    """Raw rows in memory.

    Parameters
    ----------
    columns
        Raw columns by name.
    y : (n,)
        True for positive rows.
    weight : (n,), optional
        Row weights. Default: 1.
    groups : (n,)
        Groups of the rows; see `spark_auc.core.sampling.folds`.
    """

    columns: Columns
    y: Bool
    weight: Float | None
    groups: Keys

    def take(self, rows: Int) -> RawRows:
        """The rows of these numbers."""
        weight = None if self.weight is None else self.weight[rows]
        return RawRows(taken(self.columns, rows), self.y[rows], weight, self.groups[rows])
