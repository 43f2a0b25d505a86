"""Counts of the label values seen, and which of them is the positive class."""

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

# A third value already is an error; a few more make its message helpful.
_MOST_VALUES = 10


@dataclass(frozen=True)
class LabelCounts:
    """Number of rows of each label value, up to the first ten values."""

    rows: Mapping[Label, int] = field(default_factory=dict)

    def merge(self, other: LabelCounts) -> LabelCounts:
        """The counts of both sets of rows."""
        total = Counter(dict(self.rows)) + Counter(dict(other.rows))
        kept = sorted(total, key=lambda v: (isinstance(v, str), v))[:_MOST_VALUES]
        return LabelCounts({value: total[value] for value in kept})

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
        """The counts that `to_bytes` stored; `ModelFormatError` if they are none."""
        a = _SCHEMA.decode(data)
        return cls(dict(zip(a["values"].tolist(), a["rows"].tolist(), strict=True)))

    def classes(self, positive: Label | None) -> tuple[Label, Label]:
        """The positive and the negative value.

        Parameters
        ----------
        positive
            The positive value; None for the convention of 0/1 or -1/+1.

        Raises
        ------
        DataError
            There are not exactly two values, or they are not those that were expected.
        """
        found = ", ".join(f"{value!r} ({rows} rows)" for value, rows in self.rows.items())
        if not self.rows:
            raise DataError("found no rows, expected rows of two classes; check the input's filter")
        if len(self.rows) > 2:
            raise DataError(
                f"found {len(self.rows)} label values or more: {found}; expected two; "
                "keep the rows of two classes or map the label to 0 and 1"
            )
        if positive is None and not (
            self.rows.keys() <= {0.0, 1.0} or self.rows.keys() <= {-1.0, 1.0}
        ):
            raise DataError(
                f"found labels {found}; expected 0 and 1 or -1 and 1; set positiveLabel"
            )
        if len(self.rows) == 1:
            raise DataError(
                f"found one class only: {found}; expected two; "
                "check the label column and how the rows were selected or split"
            )
        if positive is None:
            positive = 1.0
        if positive not in self.rows:
            raise DataError(f"found labels {found}; expected one to be positiveLabel {positive!r}")
        (negative,) = self.rows.keys() - {positive}
        return positive, negative


_SCHEMA = Schema(
    "LabelCounts",
    1,
    {"values": Field(("<f8", "U"), ("n",)), "rows": array("<i8", "n", rule=COUNTS)},
    lambda a: None if len({*a["values"].tolist()}) == a["rows"].size else "a label comes twice",
)
