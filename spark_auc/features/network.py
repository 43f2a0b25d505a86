"""The hidden layer of a tanh network, drawn at random or trained."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from scipy import optimize, special

from spark_auc.core.kernels import compiled
from spark_auc.core.products import settled_product
from spark_auc.core.state.rules import NOT_EMPTY
from spark_auc.core.state.schema import Fields, reals
from spark_auc.core.types import Bool, Float, Rows
from spark_auc.core.validation import check_above, check_at_least, check_whole
from spark_auc.errors import DataError
from spark_auc.features.embedding import Stored, check_columns, generator


@dataclass(frozen=True, eq=False)
class NetworkMap(Stored):
    """``tanh(W'x + b)``: MBA's RNN and NN features (Gultekin et al., Section IV-C).

    The constructors are `random` and `trained`. Both expect columns of unit variance: tanh is flat
    beyond a few units, and nearly linear well within one unit. O(d F) time per row.

    Parameters
    ----------
    weights : (d, F)
        ``W``.
    offsets : (F,)
        ``b``.
    """

    FIELDS: ClassVar[Fields] = {
        "weights": reals("d", "F"),
        "offsets": reals("F", rule=NOT_EMPTY),
    }

    weights: Float
    offsets: Float

    @classmethod
    def random(
        cls, input_dimension: int, features: int = 500, scale: float = 1.0, seed: int = 0
    ) -> Self:
        """RNN: a random layer with ``W ~ N(0, scale^2 / d)`` and ``b ~ N(0, scale^2)``.

        MBA uses 500 features (1,000 for mnist) and does not print the distribution. With this one,
        ``W'x`` and ``b`` both have standard deviation ``scale`` for columns of unit variance.

        Parameters
        ----------
        input_dimension
            Number of input features ``d``.
        features
            Width ``F`` of the layer.
        scale
            Standard deviation > 0.
        seed
            A whole number of at least 0.

        Raises
        ------
        ConfigError
            ``features`` is below 1, or the scale is not above 0.
        """
        rng = generator(seed)
        check_whole("features", features, 1)
        check_above("scale", scale, 0)
        weights = rng.standard_normal((input_dimension, features))
        return cls(
            weights * (scale / np.sqrt(max(input_dimension, 1))),
            scale * rng.standard_normal(features),
        )

    @classmethod
    def trained(
        cls,
        X: Rows,
        y: Bool,
        weight: Float | None = None,
        *,
        features: int | None = None,
        l2: float = 1e-4,
        max_iter: int = 200,
        seed: int = 0,
    ) -> Self:
        """NN: the hidden layer of a network with one output, trained by log loss on rows.

        Minimises ``mean log loss + l2 / 2 (|W|^2 + |v|^2)`` over ``W``, ``b`` and the output's
        weights ``v`` and offset, by L-BFGS from a random start. (The paper uses Adam, which needs
        a step size.) Training stops after at most ``max_iter`` iterations; the layer is a valid
        feature map before convergence too. The rows, usually a sample, stay in memory.

        Parameters
        ----------
        X : (n, d), dense or CSR
            Rows.
        y : (n,)
            True for positive rows.
        weight : (n,), optional
            Row weights > 0; 1 by default.
        features
            Width ``F``; by default ``d / 2`` as in the paper, and at least 1.
        l2
            Penalty of squared weights, at least 0.
        max_iter
            Largest number of iterations.
        seed
            Seed of the start.

        Raises
        ------
        ConfigError
            A setting is out of range.
        DataError
            One class has no rows, or a feature or weight is not finite.
        """
        width = max(X.shape[1] // 2, 1) if features is None else features
        rng = generator(seed)
        check_whole("features", width, 1)
        check_at_least("l2", l2, 0)
        check_whole("max_iter", max_iter, 1)
        if not 0 < y.sum() < y.size:
            raise DataError(
                f"found {y.size} rows of which {int(y.sum())} are positive, expected both "
                "classes; use more rows"
            )
        u = np.ones(y.size) if weight is None else weight
        values = X if isinstance(X, np.ndarray) else X.data
        if not (np.isfinite(values).all() and np.isfinite(u).all()):
            raise DataError(
                "found features or weights that are not finite, expected finite numbers; remove or "
                "replace NaN and infinities"
            )
        loss = _Loss(X, np.where(y, 1.0, -1.0), u / u.sum(), width, l2)
        minimum = optimize.minimize(
            loss, loss.start(rng), jac=True, method="L-BFGS-B", options={"maxiter": max_iter}
        )
        weights, offsets, _, _ = loss.unpacked(minimum.x)
        return cls(weights.copy(), offsets.copy())

    def of_columns(self, mean: Float, scale: Float) -> Self:
        """The same map of raw columns; this map takes ``(x - mean) / scale``, both ``(d,)``."""
        weights = self.weights / scale[:, None]
        return type(self)(weights, self.offsets - mean @ weights)

    @property
    def input_dimension(self) -> int:
        """Number of features ``d``."""
        return int(self.weights.shape[0])

    @property
    def dimension(self) -> int:
        """Number of features ``F``."""
        return int(self.offsets.size)

    def transform(self, X: Rows) -> Float:
        """Map rows ``(n, d)`` to dense ``(n, F)``; see `Embedding.transform`."""
        check_columns(X, self.input_dimension)
        return _hidden(X, self.weights, self.offsets)


def _hidden(X: Rows, weights: Float, offsets: Float) -> Float:
    out = settled_product(X, weights)
    _to_tangent(offsets, out)
    return out


@compiled()
def _to_tangent(offsets: Float, out: Float) -> None:
    for i in range(out.shape[0]):
        for k in range(out.shape[1]):
            out[i, k] = math.tanh(out[i, k] + offsets[k])


@dataclass(frozen=True, eq=False)
class _Loss:
    """Penalised log loss of a network and its gradient, both over one vector of parameters.

    Parameters
    ----------
    X : (n, d)
        Rows.
    sign : (n,)
        1 for positive rows, -1 for negative rows.
    share : (n,)
        Row weights, normalised to sum 1.
    width
        Width ``F`` of the hidden layer.
    l2
        Penalty factor.
    """

    X: Rows
    sign: Float
    share: Float
    width: int
    l2: float

    def start(self, rng: np.random.Generator) -> Float:
        """Random start: uniform weights that preserve variance (Glorot and Bengio, Eq. 16)."""
        d, width = self.X.shape[1], self.width
        weights = rng.uniform(-1, 1, (d, width)) * np.sqrt(6.0 / (d + width))
        output = rng.uniform(-1, 1, width) * np.sqrt(6.0 / (width + 1))
        return np.concatenate([weights.ravel(), np.zeros(width), output, np.zeros(1)])

    def unpacked(self, parameters: Float) -> tuple[Float, Float, Float, float]:
        """``W (d, F)``, ``b (F,)``, ``v (F,)`` and the output's offset."""
        weights, offsets, output, last = np.split(
            parameters, np.cumsum([self.X.shape[1] * self.width, self.width, self.width])
        )
        return weights.reshape(-1, self.width), offsets, output, float(last[0])

    def __call__(self, parameters: Float) -> tuple[float, Float]:
        """The loss and its gradient."""
        weights, offsets, output, last = self.unpacked(parameters)
        hidden = _hidden(self.X, weights, offsets)
        margin = self.sign * (hidden @ output + last)
        penalty = 0.5 * self.l2 * float((weights**2).sum() + output @ output)
        loss = float(self.share @ np.logaddexp(0.0, -margin)) + penalty
        by_score = -self.share * self.sign * special.expit(-margin)
        by_hidden = np.outer(by_score, output) * (1.0 - hidden**2)
        by_weights = np.asarray(self.X.T @ by_hidden) + self.l2 * weights
        by_output = by_score @ hidden + self.l2 * output
        parts = [by_weights.ravel(), by_hidden.sum(axis=0), by_output, [by_score.sum()]]
        return loss, np.concatenate(parts)
