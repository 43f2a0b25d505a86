"""Comparison of the AUCs of models on the same rows, by DeLong's covariance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import erfc, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.evaluation.delong import (
    SMALL_CLASS,
    auc_covariance,
    effective_rows,
    normal_quantile,
    placement_products,
)
from spark_auc.core.evaluation.roc import auc
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.types import Float
from spark_auc.errors import DataError


class AUCDifference(NamedTuple):
    """The difference of two AUCs, its confidence interval, and the test that it is 0.

    Parameters
    ----------
    difference
        First AUC minus second AUC.
    lower, upper
        Ends of the confidence interval.
    z, p_value
        Test statistic and two-sided p-value.
    """

    difference: float
    lower: float
    upper: float
    z: float
    p_value: float


@dataclass(frozen=True, eq=False)
class PairedAUC:
    """AUCs of k models on the same rows, and their covariance.

    Parameters
    ----------
    auc : (k,)
        The AUCs.
    covariance : (k, k)
        DeLong's covariance.
    small_sample
        See `AUCInterval`.
    """

    auc: Float
    covariance: Float
    small_sample: bool

    @classmethod
    def of(cls, scores: Float, y: NDArray[np.bool_], weight: Float | None = None) -> PairedAUC:
        """Compare the columns of a matrix of scores.

        Parameters
        ----------
        scores : (n, k)
            Scores of each model.
        y : (n,)
            True for positive rows.
        weight : (n,), optional
            Row weights. Default: 1.

        Raises
        ------
        DataError
            See `ScoreTable.of` and `auc_covariance`.
        """
        tables = [ScoreTable.of(column, y, weight) for column in scores.T]
        u = np.ones(y.shape) if weight is None else weight
        products = placement_products(tables, scores, np.where((y, ~y), u * u, 0.0))
        return cls.from_products(tables, products)

    @classmethod
    def from_products(cls, tables: Sequence[ScoreTable], products: Float) -> PairedAUC:
        """The comparison from the tables of all rows and the sum of `placement_products`."""
        aucs = np.array([auc(table) for table in tables])
        return cls.from_sums(aucs, tables[0].class_sums(), products)

    @classmethod
    def from_sums(cls, aucs: Float, class_sums: Float, products: Float) -> PairedAUC:
        """The comparison from the AUCs, the class sums and the sum of `placement_products`."""
        small = bool(effective_rows(class_sums).min() < SMALL_CLASS)
        return cls(aucs, auc_covariance(class_sums, products), small)

    def compare(self, first: int = 0, second: int = 1, level: float = 0.95) -> AUCDifference:
        """Two-sided test of AUC[first] - AUC[second] = 0 by the normal approximation.

        For models with the same ranking the difference is 0 with variance 0; then z = 0 and p = 1.

        Parameters
        ----------
        first, second
            Indices of the models.
        level
            Confidence level of the interval, in (0, 1).

        Raises
        ------
        ConfigError
            ``level`` is not in (0, 1).
        DataError
            The AUCs differ with a variance of 0, as those of a perfect and of a constant model do;
            z is then undefined.
        """
        difference = float(self.auc[first] - self.auc[second])
        variances = self.covariance[first, first] + self.covariance[second, second]
        variance = float(variances - 2 * self.covariance[first, second])
        if variance <= 1e-14 * variances:  # an exact 0 up to rounding
            if abs(difference) > 1e-14:
                raise DataError(
                    f"found AUCs that differ by {difference:g} with a DeLong variance of 0, "
                    "expected scores that are neither perfect nor constant; report the AUCs alone"
                )
            return AUCDifference(0.0, 0.0, 0.0, 0.0, 1.0)
        error = sqrt(variance)
        z, reach = difference / error, normal_quantile(level) * error
        p_value = erfc(abs(z) / sqrt(2))
        return AUCDifference(difference, difference - reach, difference + reach, z, p_value)
