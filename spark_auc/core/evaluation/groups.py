"""AUC by the values of a column, for any number of groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.evaluation.group_sums import GroupMeasures

# Most groups that a report lists; of more, it lists this many with the lowest and highest AUCs.
_LISTED = 100
_EXTREMES = 20
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


class GroupAUC(NamedTuple):
    """AUC among the rows of one group; None if it or its interval is not defined.

    Parameters
    ----------
    value
        Value of the group column.
    positive, negative
        Numbers of rows.
    weight
        Total weight of the rows.
    auc, lower, upper
        AUC and its confidence interval.
    """

    value: str | None
    positive: int
    negative: int
    weight: float
    auc: float | None
    lower: float | None
    upper: float | None


@dataclass(frozen=True, eq=False)
class Groups(Sequence[GroupAUC]):
    """AUC by value of a column: a sequence of `GroupAUC`, stored as arrays.

    Parameters
    ----------
    column
        Name of the column.
    values : (g,)
        Values of the column as text, ascending; None, for null, is last.
    measures
        Measures of the groups.
    """

    column: str
    values: NDArray[np.object_]
    measures: GroupMeasures

    def __len__(self) -> int:
        return self.values.size

    @overload
    def __getitem__(self, index: int) -> GroupAUC: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[GroupAUC, ...]: ...
    def __getitem__(self, index: int | slice) -> GroupAUC | tuple[GroupAUC, ...]:
        if isinstance(index, slice):
            return self._chosen(np.arange(len(self))[index])
        return self._chosen(np.array([range(len(self))[index]]))[0]

    @property
    def rows(self) -> tuple[GroupAUC, ...]:
        """All groups as objects, some hundred bytes each; `arrays` has the same as arrays."""
        return self[:]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The fields of `GroupAUC` as arrays ``(g,)``, nan for None.

        ``pandas.DataFrame(groups.arrays())`` is the table of all groups.
        """
        return {"value": self.values, **self.measures._asdict()}

    @property
    def gauc(self) -> float | None:
        """Group AUC: mean of the groups' AUCs, weighted by the weight of their rows.

        Without a weight column that is the number of rows: impressions, where groups are users
        (Zhu et al. 2017, Eq. 1). Groups of one class have no AUC and are left out with their
        weight; None if all groups have one class.
        """
        defined = self._measured()
        if not defined.any():
            return None
        weight = self.measures.weight[defined]
        return float(self.measures.auc[defined] @ weight / weight.sum())

    def as_dict(self) -> dict[str, Any]:
        """The groups for JSON: all of up to 100; of more, those of the lowest and highest AUCs.

        The lowest are those whose interval has the lowest upper end, and the highest those whose
        interval has the highest lower end: a group of few rows has a wide interval, and is not
        listed for its luck.
        """
        known = np.flatnonzero(~np.isnan(self.measures.lower))
        measured, defined = self._measured(), self.measures.auc[self._measured()]
        quantiles = np.quantile(defined, _QUANTILES) if defined.size else [None] * len(_QUANTILES)
        lowest, highest = (
            known[np.argsort(ends[known], kind="stable")[:_EXTREMES]]
            for ends in (self.measures.upper, -self.measures.lower)
        )
        few = len(self) <= _LISTED
        return {
            "column": self.column,
            "count": len(self),
            "measured": int(measured.sum()),
            "gauc": self.gauc,
            "gaucWeight": float(self.measures.weight[measured].sum()),
            "quantiles": {
                f"{share:g}": None if value is None else float(value)
                for share, value in zip(_QUANTILES, quantiles, strict=True)
            },
            "rows": [group._asdict() for group in self] if few else [],
            "lowest": [] if few else [group._asdict() for group in self._chosen(lowest)],
            "highest": [] if few else [group._asdict() for group in self._chosen(highest)],
        }

    def _measured(self) -> NDArray[np.bool_]:
        measured: NDArray[np.bool_] = ~np.isnan(self.measures.auc)
        return measured

    def _chosen(self, groups: NDArray[np.intp]) -> tuple[GroupAUC, ...]:
        counts = [values[groups].tolist() for values in (self.values, *self.measures[:3])]
        measures = [
            [None if np.isnan(x) else x for x in values[groups].tolist()]
            for values in self.measures[3:]
        ]
        return tuple(map(GroupAUC, *counts, *measures))
