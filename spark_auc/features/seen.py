"""The hashed features that occurred in the rows of a fit, as one bit each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from spark_auc.core.state.schema import Schema, Size, array
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.core.types import Bool
from spark_auc.errors import DataError
from spark_auc.features.recipe import Recipe


def _too_long(state: Mapping[str, Any]) -> str | None:
    bits, dimension = state["bits"], state["dimension"]
    unused = 8 * bits.size - dimension
    if not 0 <= unused < 8 or (unused and bits[-1] & ((1 << unused) - 1)):
        return f"its bits are not those of {dimension} features"
    return None


@dataclass(frozen=True, eq=False)
class Seen(SchemaState):
    """Which features of the block of tokens occurred in some rows.

    A token whose feature did not occur is new. The reverse does not hold: a new token may fall into
    a feature that occurred, so that few new tokens are recognised where the dimension is below the
    number of tokens.

    Parameters
    ----------
    dimension
        Number of features of the tokens.
    bits : (ceil(dimension / 8),)
        A bit for each feature, the first in the highest bit of the first byte.
    """

    SCHEMA: ClassVar[Schema] = Schema(
        "Seen", 1, {"dimension": Size("h"), "bits": array("|u1", "b")}, _too_long
    )

    dimension: int
    bits: NDArray[np.uint8]

    @classmethod
    def zero(cls, recipe: Recipe) -> Seen:
        """The features of no rows."""
        return cls.of_occurred(recipe, np.zeros(recipe.size, np.bool_))

    @classmethod
    def of(cls, recipe: Recipe, X: sparse.csr_matrix) -> Seen:
        """The features of the rows ``(n, F)`` that the recipe made."""
        occurred = np.zeros(recipe.size, np.bool_)
        occurred[X.indices] = True
        return cls.of_occurred(recipe, occurred)

    @classmethod
    def of_occurred(cls, recipe: Recipe, occurred: Bool) -> Seen:
        """The features that are True in ``occurred`` ``(F,)``.

        The features of tokens are at least 0. Those of the rows of a fit are thus those whose mean
        is above 0 in one of the classes.
        """
        first, end = recipe.starts[-3:-1]
        return cls(end - first, np.packbits(occurred[first:end]))

    def merge(self, other: Seen) -> Seen:
        """The features of both sets of rows; `DataError` for features of another dimension."""
        if self.dimension != other.dimension:
            raise DataError(
                f"found {self.dimension} and {other.dimension} features, expected equal numbers; "
                "merge the features of one recipe"
            )
        return Seen(self.dimension, self.bits | other.bits)
