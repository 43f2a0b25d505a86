"""The regularised all-pairs squared loss: a quadratic and an elastic-net penalty.

``L(w) = 1/2 w' Sigma w - w' mu + lambda1 |w|_1 + 1/2 lambda2 |w|^2`` (Gultekin et al., MBA,
Eq. 14); the mean pairwise squared loss is ``1 - 2 w' mu + w' Sigma w``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.moments.tiles import SymmetricTiles
from spark_auc.core.types import Float


class Matrix(Protocol):
    """The operations of a symmetric matrix ``(d, d)`` that the solvers use."""

    @property
    def dimension(self) -> int:
        """``d``."""

    def matvec(self, vector: Float) -> Float:
        """Product with a vector ``(d,)``."""

    def matmat(self, vectors: Float) -> Float:
        """Products ``(d, k)`` with the columns of ``vectors`` ``(d, k)``."""

    def diagonal(self) -> Float:
        """The diagonal ``(d,)``."""

    def restricted(self, features: NDArray[np.int64]) -> SymmetricTiles:
        """The matrix ``(k, k)`` between ``k`` features."""


@dataclass(frozen=True)
class ElasticNet:
    """The penalty ``l1 |w|_1 + 1/2 l2 |w|^2``, both factors >= 0."""

    l1: float
    l2: float

    @classmethod
    def of(cls, reg_param: float, elastic_net_param: float) -> ElasticNet:
        """The penalty for Spark ML's Params: ``l1 = regParam a``, ``l2 = regParam (1 - a)``."""
        return cls(reg_param * elastic_net_param, reg_param * (1 - elastic_net_param))

    def value(self, w: Float) -> float:
        """The penalty of ``w``."""
        return float(self.l1 * np.abs(w).sum() + self.l2 / 2 * (w @ w))

    def kkt(self, w: Float, smooth_gradient: Float) -> Float:
        """Violation ``(d,)`` of the optimality (KKT) condition of each coordinate.

        At an optimum the smooth gradient is ``-l1 sign(w_j)`` where ``w_j`` is not 0, and at most
        ``l1`` in size where it is 0.

        Parameters
        ----------
        w : (d,)
            Weights.
        smooth_gradient : (d,)
            ``Sigma w - mu + l2 w``.
        """
        return np.where(
            w != 0,
            np.abs(smooth_gradient + self.l1 * np.sign(w)),
            np.maximum(np.abs(smooth_gradient) - self.l1, 0.0),
        )


@dataclass(frozen=True, eq=False)
class Origin:
    """Weights ``p`` from which a quadratic counts its weights: ``w = p + u``.

    Parameters
    ----------
    w : (d,)
        The weights ``p``.
    mu : (d,)
        Linear term of the quadratic in ``w``. That in ``u`` is ``mu - Sigma p``.
    value
        The quadratic in ``w`` at ``p``.
    square
        Upper bound, by rounding only, on the mean square ``1 - 2 p' mu + p' Sigma p`` of what the
        scores ``p' D`` of the pairs leave of their target 1.
    rounding
        Bound on the rounding error of ``(Sigma p)_j``, in units of ``sqrt(Sigma_jj)``.
    """

    w: Float
    mu: Float
    value: float
    square: float
    rounding: float


@dataclass(frozen=True, eq=False)
class Quadratic:
    """``1/2 w' Sigma w - w' mu``.

    Parameters
    ----------
    Sigma : (d, d)
        Second moment of the differences of a positive and a negative row.
    mu : (d,)
        Mean of these differences.
    mu_rounding
        Bound on the rounding error of ``mu_j``, in units of ``sqrt(Sigma_jj)``; see
        `difference_rounding`.
    blur : (d,), optional
        Bound on the relative rounding error of ``Sigma_jj``, besides that of ``mu``. The error of
        ``Sigma_ij`` is at most ``sqrt(Sigma_ii Sigma_jj)`` times the sum of ``sqrt(blur_i blur_j)``
        and twice ``mu_rounding``.
    origin
        Weights from which ``w`` is counted; None for 0. See `spark_auc.solvers.prior.centred`.
    product_rounding
        Bound on the rounding error of ``(Sigma v)_j`` as a product by passes over the rows, in
        units of ``sqrt(Sigma_jj v' Sigma v)``.
    """

    Sigma: Matrix
    mu: Float
    mu_rounding: float = 0.0
    blur: Float | None = None
    origin: Origin | None = None
    product_rounding: float = 0.0

    @property
    def dimension(self) -> int:
        """Number of features ``d``."""
        return self.Sigma.dimension

    @cached_property
    def diagonal(self) -> Float:
        """The diagonal of ``Sigma`` ``(d,)``."""
        return self.Sigma.diagonal()

    def occurring(self) -> NDArray[np.int64]:
        """The features ``(k,)`` with curvature, slope or an origin, in ascending order.

        The others are constant, or never other than 0.
        """
        some = (self.diagonal != 0.0) | (self.mu != 0.0)
        if self.origin is not None:
            some |= (self.origin.w != 0.0) | (self.origin.mu != 0.0)
        return np.flatnonzero(some)

    def restricted(self, features: NDArray[np.int64]) -> Quadratic:
        """The quadratic in the weights of some features ``(k,)``, with weights 0 of all others."""
        origin = self.origin
        if origin is not None:
            origin = replace(origin, w=origin.w[features], mu=origin.mu[features])
        return replace(
            self,
            Sigma=self.Sigma.restricted(features),
            mu=self.mu[features],
            blur=None if self.blur is None else self.blur[features],
            origin=origin,
        )

    def units(self, penalty: ElasticNet) -> Float:
        """The unit ``h_j = sqrt(Sigma_jj + l2)`` of each coordinate of the gradient, ``(d,)``.

        Columns divided by ``h`` have a Hessian of unit diagonal, so that measures in these units do
        not depend on the units of the columns. The unit is 1 for a coordinate without curvature.
        """
        curvature = self.diagonal + penalty.l2
        return np.sqrt(np.where(curvature > 0, curvature, 1.0))

    def hidden(self, scaled: Float) -> float:
        """Bound on the error of the gradient at ``w`` by rounding of the moments, in its `units`.

        ``scaled`` ``(d,)`` is ``h_j |w_j|``, the size of ``w`` in its units.
        """
        root = np.zeros_like(scaled) if self.blur is None else np.sqrt(self.blur)
        hidden = self.mu_rounding * (1.0 + float(scaled.sum())) + float(
            root.max(initial=0.0) * root @ scaled
        )
        return hidden if self.origin is None else hidden + self.origin.rounding

    def curvature_rounding(self, vector: Float) -> float:
        """Bound on the error of ``v' Sigma v`` by rounding of the moments, for ``v`` ``(d,)``."""
        if self.blur is None:
            return 0.0
        size = np.sqrt(self.blur * np.maximum(self.diagonal, 0.0)) @ np.abs(vector)
        return float(size * size)

    @property
    def eigenvalue_rounding(self) -> float:
        """Bound on the error of the eigenvalues of ``Sigma`` by rounding of the moments."""
        return 0.0 if self.blur is None else float(self.blur @ np.maximum(self.diagonal, 0.0))

    def scaled_rounding(self, features: NDArray[np.int64] | slice = slice(None)) -> float:
        """The bound for the matrix of some features, scaled to unit diagonal."""
        return 0.0 if self.blur is None else float(self.blur[features].sum())

    @property
    def lambda1_max(self) -> float:
        """The least l1 factor for which ``w = 0`` is optimal."""
        return float(np.abs(self.mu).max(initial=0.0))

    def value(self, w: Float, Sigma_w: Float) -> float:
        """The quadratic at ``w`` ``(d,)``, from the product ``Sigma w`` ``(d,)``."""
        return float(w @ Sigma_w / 2 - w @ self.mu)

    def gradient(self, w: Float, penalty: ElasticNet, Sigma_w: Float) -> Float:
        """Gradient ``Sigma w - mu + l2 w`` ``(d,)`` of the smooth part, from ``Sigma w``."""
        return Sigma_w - self.mu + penalty.l2 * w

    def dual(self, w: Float, penalty: ElasticNet, Sigma_w: Float) -> float:
        """A lower bound on the least objective, from ``w`` ``(d,)``: the greater of two duals.

        The first is the Fenchel dual of the quadratic and the elastic net (needs ``l2 > 0``, tight
        at the optimum). The second is that of the squared loss of pairs and the l1 penalty (needs
        ``l1 > 0``, tight for ``l2 = 0``). Without a penalty the bound is ``-inf``.

        With an `origin` the pairs have the target ``1 - p' D`` instead of 1. The second bound
        decreases with its mean square, so that it holds for an upper bound on this too.
        """
        l1, l2 = penalty.l1, penalty.l2
        square = 1.0 if self.origin is None else self.origin.square
        residual = self.mu - Sigma_w
        bounds = [-np.inf]
        if l2 > 0:
            excess = np.maximum(0.0, np.abs(residual) - l1)
            bounds.append(float(-w @ Sigma_w / 2 - excess @ excess / (2 * l2)))
        if l1 > 0:
            margin = float(square - w @ self.mu)
            squared = float(square - 2 * (w @ self.mu) + w @ Sigma_w)
            steepest = float(np.abs(residual).max(initial=0.0))
            limit = l1 / steepest if steepest else np.inf
            t = float(np.clip(margin / squared if squared > 0 else np.inf, -limit, limit))
            if np.isfinite(t):
                bounds.append(t * margin - t * t * squared / 2 - square / 2)
        return max(bounds)


def difference_rounding(mean: Float, diagonal: Float) -> float:
    """Bound on the rounding error of the difference of the class means.

    The greatest over the columns, in units of ``sqrt(Sigma_jj)``. It is large for columns whose
    mean is far from its origin compared with their deviation.

    Parameters
    ----------
    mean : (2, d)
        Class means from their origins.
    diagonal : (d,)
        Diagonal of ``Sigma``.
    """
    varying = diagonal > 0
    size = np.abs(mean).max(axis=0)[varying] / np.sqrt(diagonal[varying])
    return 4 * float(np.finfo(float).eps) * (1 + float(size.max(initial=0.0)))
