"""Random Fourier features, whose inner products approximate the Gaussian kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from spark_auc.core.kernels import compiled
from spark_auc.core.products import settled_product
from spark_auc.core.state.rules import NOT_EMPTY
from spark_auc.core.state.schema import Fields, reals
from spark_auc.core.types import Float, Rows
from spark_auc.core.validation import check_above, check_whole
from spark_auc.features.embedding import Stored, check_columns, generator


@dataclass(frozen=True, eq=False)
class FourierMap(Stored):
    """``phi(x) = sqrt(2 / F) cos(Omega'x + phase)`` (Rahimi and Recht [1]_).

    With ``Omega ~ N(0, 2 / b)`` and phases uniform in [0, 2 pi), the expectation of
    ``phi(x)'phi(y)`` is the Gaussian `Kernel` ``exp(-|x - y|^2 / b)`` of bandwidth ``b``; the
    standard error is at most ``1 / sqrt(F)``. O(d F) time per row.

    The constructor is `random`.

    Parameters
    ----------
    frequencies : (d, F)
        ``Omega``.
    phases : (F,)
        Phases in radians.

    References
    ----------
    .. [1] A. Rahimi, B. Recht. Random Features for Large-Scale Kernel Machines. NIPS 2007.
    """

    FIELDS: ClassVar[Fields] = {
        "frequencies": reals("d", "F"),
        "phases": reals("F", rule=NOT_EMPTY),
    }

    frequencies: Float
    phases: Float

    @classmethod
    def random(
        cls, input_dimension: int, bandwidth: float, features: int = 500, seed: int = 0
    ) -> Self:
        """Draw random features; MBA uses 500 (Section IV-C).

        Parameters
        ----------
        input_dimension
            Number of input features ``d``.
        bandwidth
            Bandwidth ``b`` > 0 of the Gaussian kernel, in squared feature units.
        features
            Number of features ``F``.
        seed
            A whole number of at least 0.

        Raises
        ------
        ConfigError
            The bandwidth is not above 0, or ``features`` is below 1.
        """
        rng = generator(seed)
        check_above("bandwidth", bandwidth, 0)
        check_whole("features", features, 1)
        normal = rng.standard_normal((input_dimension, features))
        return cls(normal * np.sqrt(2.0 / bandwidth), rng.uniform(0.0, 2.0 * np.pi, features))

    def of_columns(self, scale: Float) -> Self:
        """The same map of raw columns; this map takes columns divided by ``scale`` ``(d,)``."""
        return replace(self, frequencies=self.frequencies / scale[:, None])

    @property
    def input_dimension(self) -> int:
        """Number of features ``d``."""
        return int(self.frequencies.shape[0])

    @property
    def dimension(self) -> int:
        """Number of features ``F``."""
        return int(self.phases.size)

    def transform(self, X: Rows) -> Float:
        """Map rows ``(n, d)`` to dense ``(n, F)``; see `Embedding.transform`."""
        check_columns(X, self.input_dimension)
        out = settled_product(X, self.frequencies)
        _to_cosine(self.phases, np.sqrt(2.0 / self.dimension), out)
        return out


@compiled()
def _to_cosine(phases: Float, height: float, out: Float) -> None:
    for i in range(out.shape[0]):
        for k in range(out.shape[1]):
            out[i, k] = height * math.cos(out[i, k] + phases[k])
