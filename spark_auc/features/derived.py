"""Columns of numbers that are derived from columns of times, for all kinds of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from spark_auc.core.types import Float
from spark_auc.features.kinds.named import Named
from spark_auc.features.kinds.numeric import Onnx
from spark_auc.features.raw_columns import Column, Columns, Numbers

# Most columns of times of which columns are derived.
MOST_TIMES = 4


@dataclass(frozen=True)
class Time(Named):
    """A column of times of which only derived columns are features."""

    TYPES: ClassVar[tuple[str, ...]] = ("time",)


@dataclass(frozen=True)
class Derived:
    """A column of numbers by columns of times, whose names are its fields."""

    # Its name in recipes, and what it holds.
    KIND: ClassVar[str]
    NOTE: ClassVar[str]

    @property
    def kind(self) -> str:
        """Its name in recipes."""
        return self.KIND

    @property
    def name(self) -> str:
        """The name of the column."""
        raise NotImplementedError

    @property
    def inputs(self) -> tuple[Time, ...]:
        """The columns of times."""
        raise NotImplementedError

    def is_told_by(self, days: Mapping[str, Float]) -> bool:
        """Whether rows tell it, by days since 1970-01-01 of their times ``(n,)`` by name."""
        return True

    def of(self, columns: Columns) -> Numbers:
        """The numbers of some rows, NaN for none; `DataError` for columns that are not of times."""
        raise NotImplementedError

    def of_row(self, row: Mapping[str, Any], zone: str) -> float:
        """The number of one row; `DataError` for values that are not times."""
        raise NotImplementedError

    def onnx(self, graph: Onnx, *days: str) -> str:
        """The numbers ``(n, 1)`` by the days since 1970-01-01 ``(n, 1)`` of its inputs."""
        raise NotImplementedError

    def _times(self, columns: Columns) -> list[Numbers]:
        """The columns of its inputs, checked."""
        for time in self.inputs:
            time.check(columns[time.name])
        return [cast(Numbers, columns[time.name]) for time in self.inputs]


def with_derived(columns: Columns, derived: Sequence[Derived]) -> dict[str, Column]:
    """The columns with those derived of them."""
    return {**columns, **{each.name: each.of(columns) for each in derived}}
