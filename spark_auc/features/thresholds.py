"""Random thresholds: each feature tells whether one column is above one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.state.rules import outside
from spark_auc.core.state.schema import Fields, Size, array, reals
from spark_auc.core.types import Float, Rows
from spark_auc.core.validation import check_whole
from spark_auc.errors import DataError
from spark_auc.features.embedding import Stored, check_columns, generator


@dataclass(frozen=True, eq=False)
class ThresholdMap(Stored):
    """Features ``1 if x_c > t else 0`` of random columns ``c`` and thresholds ``t``.

    MBA's random thresholds (Gultekin et al., Section IV-C), which are the decision stumps of
    Rahimi and Recht [1]_: columns uniform, thresholds Gaussian. (Theirs are -1 and 1, which a
    pairwise loss cannot tell from 0 and 1 but for the scale of ``w``.) A missing value (NaN) is
    above nothing. O(F) a row.

    The constructor is `random`.

    Parameters
    ----------
    input_dimension
        Number of features ``d``.
    columns : (F,)
        Each feature's column.
    thresholds : (F,)
        Each feature's threshold, in the column's unit.

    References
    ----------
    .. [1] A. Rahimi, B. Recht. Weighted Sums of Random Kitchen Sinks. NIPS 2008.
    """

    FIELDS: ClassVar[Fields] = {
        "input_dimension": Size("d"),
        "columns": array("<i8", "F"),
        "thresholds": reals("F"),
    }
    RELATIONS = (lambda a: outside(a["columns"], a["input_dimension"]),)

    input_dimension: int
    columns: NDArray[np.int64]
    thresholds: Float

    @classmethod
    def random(cls, mean: Float, deviation: Float, features: int = 500, seed: int = 0) -> Self:
        """Draw columns uniformly, and thresholds as Gaussian as wide as the column is.

        Neither paper prints the Gaussian; the column's own makes the column's unit irrelevant.

        Parameters
        ----------
        mean, deviation : (d,)
            Mean and standard deviation of each column.
        features
            Number of features ``F``; 500 in MBA (1,000 for mnist).
        seed
            A whole number from 0 on.

        Raises
        ------
        ConfigError
            There is less than one feature.
        DataError
            A mean or standard deviation is not finite.
        """
        rng = generator(seed)
        check_whole("features", features, 1)
        if not (np.isfinite(mean).all() and np.isfinite(deviation).all()):
            raise DataError(
                "found a mean or standard deviation that is not finite, expected finite ones; "
                "take them over the values that are present"
            )
        columns = rng.integers(mean.size, size=features)
        normal = rng.standard_normal(features)
        return cls(mean.size, columns, mean[columns] + deviation[columns] * normal)

    @property
    def dimension(self) -> int:
        """Number of features ``F``."""
        return int(self.thresholds.size)

    def transform(self, X: Rows) -> Float:
        """Map rows ``(n, d)`` to dense ``(n, F)``.

        Raises
        ------
        DataError
            The rows are of another dimension.
        """
        check_columns(X, self.input_dimension)
        chosen = X[:, self.columns]
        dense = chosen if isinstance(chosen, np.ndarray) else chosen.toarray()
        return (dense > self.thresholds).astype(float)
