"""Pairs of numeric columns in a recipe: products of their hats."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import compiled
from spark_auc.core.types import Bool, Float
from spark_auc.errors import ConfigError
from spark_auc.features.kinds.numeric import FillNumbers
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.raw_columns import Columns
from spark_auc.features.splines import hat


@dataclass(frozen=True)
class Pair:
    """Products of the hats of two columns: a surface, bilinear between the knots [1]_.

    Feature ``k m + l`` of a row is the hat of knot ``k`` of the first column times that of knot
    ``l`` of the second, which has ``m`` knots. At most four products are nonzero at a row, and they
    sum to 1. A row in which one of the values is missing has none.

    Parameters
    ----------
    first, second
        The columns with their knots for this pair, at least one knot each.

    References
    ----------
    .. [1] C. de Boor. A Practical Guide to Splines. Springer, 1978. Chapter XVII.
    """

    slots: ClassVar[int] = 4

    first: Spline
    second: Spline

    def __post_init__(self) -> None:
        if self.first.name == self.second.name or not (self.first.knots and self.second.knots):
            raise ConfigError(
                f"found the pair of {self.first} and {self.second}, expected different columns "
                "with knots; change the pair"
            )

    @property
    def columns(self) -> tuple[Spline, Spline]:
        """Both columns."""
        return self.first, self.second

    @property
    def size(self) -> int:
        """Number of features."""
        return len(self.first.knots) * len(self.second.knots)

    def names(self) -> list[str]:
        """Names of the features by their knots, as "age x price [37.5, 120]"."""
        both = f"{self.first.name} x {self.second.name}"
        firsts, seconds = self.first.knot_texts(), self.second.knot_texts()
        return [f"{both} [{a}, {b}]" for a in firsts for b in seconds]

    def filler(self, columns: Columns, first: int) -> FillNumbers:
        """A function that fills the slots with features from index ``first`` on.

        Raises
        ------
        DataError
            A column has another type than in the rows of the fit.
        """
        one, other = (column.doubles(columns[column.name]) for column in self.columns)
        knots, others = np.array(self.first.knots, float), np.array(self.second.knots, float)

        def fill(begin: int, indices: NDArray[np.int32], out: Float) -> None:
            _products(*one, *other, begin, knots, others, first, indices, out)

        return fill


def check_pairs(pairs: Sequence[Pair], types: Collection[tuple[str, str]]) -> None:
    """`ConfigError` for a repeated pair, or a column that is not among ``(name, type)``."""
    sets = [frozenset(column.name for column in pair.columns) for pair in pairs]
    if len(set(sets)) < len(sets):
        raise ConfigError(
            f"found the pairs {[sorted(names) for names in sets]}, expected different pairs of "
            "columns; remove repetitions"
        )
    found = {(column.name, column.type) for pair in pairs for column in pair.columns}
    if unknown := sorted(found - set(types)):
        raise ConfigError(
            f"found a pair of the columns {unknown} (name and type), expected numeric columns of "
            f"the recipe, {sorted(types)}; change the pair, or add the columns"
        )


@compiled()
def _products(
    values: Float,
    validity: Bool,
    others: Float,
    other_validity: Bool,
    begin: int,
    knots: Float,
    other_knots: Float,
    first: int,
    indices: NDArray[np.int32],
    out: Float,
) -> None:
    """Fill four slots, indices ascending."""
    width = other_knots.size
    for row in range(indices.shape[1]):
        i = begin + row
        for s in range(4):
            indices[s, row], out[s, row] = -1, 0.0
        missing = np.isnan(values[i]) or np.isnan(others[i])
        if validity.size:
            missing |= not validity[i]
        if other_validity.size:
            missing |= not other_validity[i]
        if missing:
            continue
        low, share = hat(values[i], knots, np.int64(0), knots.size - 1)
        other_low, other_share = hat(others[i], other_knots, np.int64(0), width - 1)
        at = first + low * width + other_low
        indices[0, row], out[0, row] = at, (1.0 - share) * (1.0 - other_share)
        if other_share > 0.0:
            indices[1, row], out[1, row] = at + 1, (1.0 - share) * other_share
        if share > 0.0:
            indices[2, row], out[2, row] = at + width, share * (1.0 - other_share)
            if other_share > 0.0:
                indices[3, row], out[3, row] = at + width + 1, share * other_share
