"""Random threshold features: indicators that a column exceeds a threshold."""

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

    MBA's random thresholds (Gultekin et al., Section IV-C), the decision stumps of Rahimi and
    Recht [1]_, with uniform columns and Gaussian thresholds. (Their stumps are -1 and 1; for a
    pairwise loss this only changes the scale of ``w``.) The feature of a missing value (NaN) is 0.
    O(F) time per row.

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
        """Draw columns uniformly, and thresholds from a Gaussian with the column's moments.

        Neither paper prints the Gaussian; with the column's moments, its unit does not matter.

        Parameters
        ----------
        mean, deviation : (d,)
            Mean and standard deviation of each column.
        features
            Number of features ``F``; 500 in MBA (1,000 for mnist).
        seed
            A whole number of at least 0.

        Raises
        ------
        ConfigError
            ``features`` is below 1.
        DataError
            A mean or standard deviation is not finite.
        """
        rng = generator(seed)
        check_whole("features", features, 1)
        if not (np.isfinite(mean).all() and np.isfinite(deviation).all()):
            raise DataError(
                "found a mean or standard deviation that is not finite, expected finite numbers; "
                "compute them without missing values"
            )
        columns = rng.integers(mean.size, size=features)
        normal = rng.standard_normal(features)
        return cls(mean.size, columns, mean[columns] + deviation[columns] * normal)

    @property
    def dimension(self) -> int:
        """Number of features ``F``."""
        return int(self.thresholds.size)

    def transform(self, X: Rows) -> Float:
        """Map rows ``(n, d)`` to dense ``(n, F)``; see `Embedding.transform`."""
        check_columns(X, self.input_dimension)
        values = X[:, self.columns]
        dense = values if isinstance(values, np.ndarray) else values.toarray()
        return (dense > self.thresholds).astype(float)
