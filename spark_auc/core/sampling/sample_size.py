"""Number of pairs to draw: the bound of MBA's Theorem 2, and an estimate from the draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from spark_auc.core.batch import Batch
from spark_auc.core.products import settled_scores
from spark_auc.core.state.rules import FROM_0_ON, Rule
from spark_auc.core.state.schema import Schema, reals
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.core.types import Float, Rows
from spark_auc.errors import ConfigError


def sufficient_pairs(
    epsilon: float,
    probability: float,
    dimension: int,
    spectral_norm: float,
    squared_row_norm: float,
    squared_weight_norm: float,
    *,
    printed: bool = False,
) -> int | None:
    """Number of pairs for an objective within epsilon of that of all pairs (MBA, Theorem 2).

    Eq. 18 with the constants of its proof: the second term's 4 becomes 32, because its epsilon is
    halved and Lemma 1(ii) needs ``sqrt(2 R_x)``, and its log(4/p) becomes log(2/p). The bound is
    loose: thousands of times the number that `estimated_suboptimality` suggests. None if the number
    is not finite in double precision.

    As printed it has no proof: for ``x = +-1`` with equal probability, the mean of 50 differences
    is .8 from its expectation with a probability of 7.85e-5, where Eq. 35 allows 1.96e-5.

    Parameters
    ----------
    epsilon
        Greatest allowed ``L_N(w_S) - L_N(w_N)``, in units of the objective (Eq. 14), which is 0 at
        ``w = 0`` and at least -1/2 everywhere.
    probability
        Probability of failure ``p``, in (0, 1).
    dimension
        Number of features ``d``.
    spectral_norm
        ``|Sigma_N|_2``, in squared feature units.
    squared_row_norm
        ``R_x``, an upper bound on ``|x|^2`` of all rows, in squared feature units.
    squared_weight_norm
        ``R_w``, an upper bound on ``|w|^2`` at both optima, such as ``1 / (4 lambda2)``.
    printed
        Whether to take the constants of Eq. 18 as they are printed.

    Raises
    ------
    ConfigError
        An argument is out of range.
    """
    sizes = (epsilon, dimension, spectral_norm, squared_row_norm, squared_weight_norm)
    if not (all(0 < value < math.inf for value in sizes) and 0 < probability < 1):
        raise ConfigError(
            f"found epsilon, dimension and norms {sizes} and probability {probability}, expected "
            "finite numbers > 0 and a probability in (0, 1); with a ridge, 1 / (4 lambda2) "
            "bounds the squared norm of the weights"
        )
    # Numbers of NumPy: the powers of small or large Python numbers raise errors.
    accuracy, rows, weights = np.array((epsilon, squared_row_norm, squared_weight_norm))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        squared_score = rows * weights
        sigma_factor = spectral_norm * squared_score * weights + accuracy * squared_score / 3
        sigma_term = 32 * math.log(4 * dimension / probability) * sigma_factor / accuracy**2
        factor, numerator = (4, 4) if printed else (32, 2)
        root = math.sqrt(2 * math.log(numerator / probability)) + 1
        mean_term = factor * squared_score / accuracy**2 * root**2
        bound = float(np.maximum(sigma_term, mean_term))
    return math.ceil(bound) if math.isfinite(bound) else None


@dataclass(frozen=True)
class LargestNorm(SchemaState):
    """The largest squared norm of a row, ``R_x`` of `sufficient_pairs`."""

    SCHEMA: ClassVar[Schema] = Schema(
        "LargestNorm", 1, {"squared": reals(rule=Rule("at least 0", lambda a: bool(a >= 0)))}
    )

    squared: float = 0.0

    @classmethod
    def of(cls, X: Rows, scale: Float | None = None) -> LargestNorm:
        """The largest squared norm of rows ``(n, d)``, with columns divided by ``scale``."""
        squares = X**2 if isinstance(X, np.ndarray) else X.multiply(X)
        norms = squares @ (np.ones(X.shape[1]) if scale is None else scale**-2.0)
        return cls(float(norms.max(initial=0.0)))

    def merge(self, other: LargestNorm) -> LargestNorm:
        """The largest squared norm of both sets of rows."""
        return LargestNorm(max(self.squared, other.squared))


@dataclass(frozen=True, eq=False)
class GroupSums(SchemaState):
    """Sums over the draws of each of ``g`` groups, from which the groups' gradients follow.

    Parameters
    ----------
    weight, score : (g, 2)
        Number of draws of each class, and the sum of their scores ``z = x'w``.
    row, product : (g, 2, d)
        Sums of ``x`` and of ``z x``.
    """

    SCHEMA: ClassVar[Schema] = Schema(
        "GroupSums",
        1,
        {
            "weight": reals("g", 2, rule=FROM_0_ON),
            "score": reals("g", 2),
            "row": reals("g", 2, "d"),
            "product": reals("g", 2, "d"),
        },
    )

    weight: Float
    score: Float
    row: Float
    product: Float

    @classmethod
    def fold(cls, batches: Iterable[Batch], groups: int, w: Float) -> GroupSums:
        """The sums over all batches.

        Parameters
        ----------
        batches
            The draws; the key of a row is its group, from 0 to ``groups - 1``.
        groups
            Number of groups ``g``.
        w : (d,)
            Weights of the scores.
        """
        weight, score = np.zeros((2, groups, 2))
        row, product = np.zeros((2, groups, 2, w.size))
        for batch in batches:
            z, u = settled_scores(batch.X, w), batch.weights
            cell = batch.keys().astype(np.int64) * 2 + ~batch.y
            entries = (cell, np.arange(cell.size))
            for factor, totals, row_sums in ((u, weight, row), (u * z, score, product)):
                selection = sparse.csr_matrix((factor, entries), shape=(2 * groups, cell.size))
                sums = selection @ batch.X
                dense = sums.toarray() if sparse.issparse(sums) else sums
                row_sums += dense.reshape(row_sums.shape)  # noqa: PLW2901
                totals += np.bincount(cell, factor, 2 * groups).reshape(groups, 2)  # noqa: PLW2901
        return cls(weight, score, row, product)

    def merge(self, other: GroupSums) -> GroupSums:
        """The sums over both sets of draws."""
        return GroupSums(*(a + vars(other)[name] for name, a in vars(self).items()))

    def gradients(self) -> Float:
        """Gradient ``Sigma_t w - mu_t`` ``(g, d)`` of the pairs of each group ``t``.

        See `PairOperator.matvec` for the formula.
        """
        share = 1.0 / np.maximum(self.weight, 1.0)
        mean, z = self.row * share[..., None], self.score * share
        within: Float = (self.product * share[..., None]).sum(axis=1)
        between: Float = mean[:, 0] * z[:, 1, None] + mean[:, 1] * z[:, 0, None]
        return within - between - (mean[:, 0] - mean[:, 1])


def estimated_suboptimality(gradients: Float, solve: Callable[[Float], Float]) -> float:
    """Expected increase of the objective by sampling: ``tr(H^-1 V) / (2 T)`` from T groups.

    ``V`` is the covariance of the gradients of the independent groups.

    Parameters
    ----------
    gradients : (T, d)
        ``Sigma_t w - mu_t`` of each group of draws, at the solution ``w`` of all draws.
    solve
        Product of ``H^-1`` with a vector ``(d,)``; ``H`` is the Hessian on the active features.
    """
    groups = len(gradients)
    deviations = gradients - gradients.mean(axis=0)
    total = sum(float(g @ solve(g)) for g in deviations)
    return total / (groups - 1) / (2 * groups)
