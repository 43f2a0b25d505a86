"""Counts of the label values, and the choice of the positive class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from spark_auc.core.state.rules import COUNTS
from spark_auc.core.state.schema import Field, Schema, array
from spark_auc.errors import DataError

Label: TypeAlias = float | str

# Values that are counted, and those that a message shows.
_MOST_VALUES, _SHOWN = 1000, 10


@dataclass(frozen=True)
class LabelCounts:
    """Number of rows of each label value, for at most the 1,000 smallest values.

    Parameters
    ----------
    rows
        Number of rows by label value.
    """

    rows: Mapping[Label, int] = field(default_factory=dict)

    def merge(self, other: LabelCounts) -> LabelCounts:
        """The counts of both sets of rows."""
        total = Counter(dict(self.rows)) + Counter(dict(other.rows))
        smallest = sorted(total, key=lambda v: (isinstance(v, str), v))[:_MOST_VALUES]
        return LabelCounts({value: total[value] for value in smallest})

    def to_bytes(self) -> bytes:
        """Versioned bytes."""
        values = list(self.rows)
        text = any(isinstance(v, str) for v in values)
        return _SCHEMA.encode(
            {
                "values": np.array(values, dtype="U" if text else float),
                "rows": np.array(list(self.rows.values()), np.int64),
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> LabelCounts:
        """The counts that `to_bytes` stored; raises `ModelFormatError` for other bytes."""
        arrays = _SCHEMA.decode(data)
        return cls(dict(zip(arrays["values"].tolist(), arrays["rows"].tolist(), strict=True)))

    def classes(self, positive: Label | None) -> tuple[Label, Label]:
        """The positive and the negative label value.

        Parameters
        ----------
        positive
            The positive value; None for labels 0/1 or -1/+1, whose positive value is 1. Of more
            than two values, all others are the negative class, whose label is that of `rest_of`.

        Raises
        ------
        DataError
            There are not two classes, or ``positive`` is not among the values.
        """
        shown = [*self.rows.items()][:_SHOWN]
        counts = ", ".join(f"{value!r} ({rows} rows)" for value, rows in shown)
        if not self.rows:
            raise DataError("found no rows, expected rows of two classes; check the input's filter")
        if len(self.rows) > 2 and positive is None:
            raise DataError(
                f"found {len(self.rows)} label values (or more): {counts}; expected two; "
                "set positiveLabel, to rank it against the rest, or keep the rows of two classes"
            )
        if positive is None and not (
            self.rows.keys() <= {0.0, 1.0} or self.rows.keys() <= {-1.0, 1.0}
        ):
            raise DataError(
                f"found labels {counts}; expected 0 and 1 or -1 and 1; set positiveLabel"
            )
        if len(self.rows) == 1:
            raise DataError(
                f"found one class only: {counts}; expected two; "
                "check the label column and how the rows were selected or split"
            )
        if positive is None:
            positive = 1.0
        if positive not in self.rows:
            raise DataError(
                f"found labels {counts}; expected one to be positiveLabel {positive!r}; set it to "
                "one of them"
            )
        if len(self.rows) > 2:
            return positive, rest_of(positive)
        (negative,) = self.rows.keys() - {positive}
        # Booleans are counted as numbers.
        return positive, type(positive)(negative)


def rest_of(positive: Label) -> Label:
    """The label of the rows that are not of one of several classes."""
    return f"not {positive}" if isinstance(positive, str) else float(positive == 0)


_SCHEMA = Schema(
    "LabelCounts",
    1,
    {"values": Field(("<f8", "U"), ("n",)), "rows": array("<i8", "n", rule=COUNTS)},
    lambda a: None if len({*a["values"].tolist()}) == a["rows"].size else "a label is repeated",
)
