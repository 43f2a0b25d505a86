"""A preconditioner for conjugate gradients, from the products of earlier steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from spark_auc.core.types import Float

# Number of Hessian products of the preconditioner; each takes two vectors.
_REMEMBERED = 20


@dataclass(frozen=True, eq=False)
class Product:
    """A vector ``v`` ``(d,)``, its Hessian product ``H v`` ``(d,)``, and ``v' H v``."""

    vector: Float
    product: Float
    curvature: float


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """An approximate inverse of the Hessian, exact for the last Hessian product.

    The products of one Newton step precondition the next (Morales and Nocedal, 2000), by the two
    loops of limited-memory BFGS. It is positive definite for products of any Hessians.
    """

    base: Callable[[Float], Float]
    products: tuple[Product, ...] = ()

    def __call__(self, residual: Float) -> Float:
        """An approximate solution ``(d,)`` for a residual ``(d,)``."""
        factors = []
        for p in reversed(self.products):
            factors.append(float(p.vector @ residual) / p.curvature)
            residual = residual - factors[-1] * p.product
        out = self.base(residual)
        for p, factor in zip(self.products, reversed(factors), strict=True):
            out = out + (factor - float(p.product @ out) / p.curvature) * p.vector
        return out

    def updated(self, products: list[Product]) -> Preconditioner:
        """The preconditioner with further products; of all, the last are kept."""
        curved = (p for p in products if p.curvature > 0)
        return replace(self, products=(*self.products, *curved)[-_REMEMBERED:])
