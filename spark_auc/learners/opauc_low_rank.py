"""OPAUCr: OPAUC on low-rank random sketches of the covariances (Gao et al., 2013)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from spark_auc.core.kernels import compiled
from spark_auc.core.noise import fill_normal
from spark_auc.core.state.rules import NOT_0
from spark_auc.core.state.schema import Fields, Size, reals
from spark_auc.core.types import Bool, Float, Index, Rows
from spark_auc.core.validation import check_above, check_at_least, check_whole
from spark_auc.learners.learner import entries, unweighted
from spark_auc.learners.linear import Linear

_SMALLEST_SCALE = 1e-3


@dataclass(eq=False)
class OPAUCr(Linear):
    """OPAUC whose covariances are approximated by matrices of rank ``tau``.

    Each row draws ``r ~ N(0, I)/sqrt(tau)``, a function of the seed and the row's number. With
    ``Z = sum x r'``, ``s = sum r`` and the mean ``c`` over the ``n`` rows of a class, ``S w`` is
    replaced by ``A A' w / n``, ``A = Z - c s'`` [1]_ (Eq. 8-11). This is unbiased and positive
    semidefinite; the printed ``Z Z'/n`` minus the square of the sketched mean is neither.

    The weights are stored as ``scale z + B_- p_- + B_+ p_+`` with ``B = (Z, n c)``. A row changes
    only the lines of ``B`` of its non-zeros, and the products ``B'w`` and ``B'B`` are updated with
    it. A row, dense or sparse, takes O(tau non-zeros + tau^2) time instead of O(tau d). Every
    ``d`` rows the weights are gathered into ``z`` in O(tau d), which bounds the rounding error.
    O(tau d + tau^2) memory.

    Parameters
    ----------
    dimension
        Number of features ``d``.
    eta
        Step size > 0; the paper searches ``2^-12 .. 2^10``.
    lambda2
        Penalty ``lambda2/2 |w|^2``; the paper searches ``2^-10 .. 2^2``.
    tau
        Rank; 50 in the paper.
    seed
        Seed of the draws, at least 0.

    Attributes
    ----------
    rows
        Number of learned rows.
    sums : (2, tau + 1)
        ``s`` of the negative and of the positive class; the last entry is the number of rows.
    sketch : (d, 2, tau + 1)
        ``B`` of both classes: ``Z``, and the sum of the rows as last column.
    gram : (2, 2, tau + 1, tau + 1)
        Products ``B'B`` between the columns of the classes.
    products : (2, tau + 1)
        ``B'w``.
    scale, z, p : float, (d,) and (2, tau + 1)
        The weights, as above.

    References
    ----------
    .. [1] W. Gao, R. Jin, S. Zhu, Z.-H. Zhou. One-Pass AUC Optimization. ICML 2013.
    """

    FIELDS: ClassVar[Fields] = {
        "tau": Size("tau", 1),
        "scale": reals(rule=NOT_0),
        "sums": reals(2, "tau+1"),
        "sketch": reals("d", 2, "tau+1"),
        "gram": reals(2, 2, "tau+1", "tau+1"),
        "products": reals(2, "tau+1"),
        "z": reals("d"),
        "p": reals(2, "tau+1"),
    }

    eta: float = 2.0**-6
    lambda2: float = 2.0**-10
    tau: int = 50
    seed: int = 0
    rows: int = field(init=False, default=0)
    scale: float = field(init=False, default=1.0)
    sums: Float = field(init=False, repr=False)
    sketch: Float = field(init=False, repr=False)
    gram: Float = field(init=False, repr=False)
    products: Float = field(init=False, repr=False)
    z: Float = field(init=False, repr=False)
    p: Float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_above("eta", self.eta, 0)
        check_at_least("lambda2", self.lambda2, 0)
        check_whole("tau", self.tau, 1)
        check_whole("seed", self.seed, 0)
        width = self.tau + 1
        self.sums, self.products, self.p = (np.zeros((2, width)) for _ in range(3))
        self.sketch = np.zeros((self.dimension, 2, width))
        self.gram = np.zeros((2, 2, width, width))
        self.z = np.zeros(self.dimension)

    def learn(self, X: Rows, y: Bool, weight: Float | None = None) -> None:
        """Learn rows; see `spark_auc.learners.learner.Learner.learn`."""
        unweighted(weight, "OPAUCr")
        self.scale = _learn(
            *entries(X, self.dimension),
            y,
            self.eta,
            self.lambda2,
            self.seed,
            self.rows,
            self.scale,
            self.sums,
            self.sketch,
            self.gram,
            self.products,
            self.z,
            self.p,
        )
        self.rows += y.size

    @property
    def w(self) -> Float:
        """Weights ``(d,)``."""
        gathered = self.sketch.reshape(self.dimension, -1) @ self.p.ravel()
        return np.asarray(self.scale * self.z + gathered)

    def start(self, w: Float) -> None:
        """Begin with the weights ``w`` ``(d,)``."""
        self.z = w.copy()


@compiled(fastmath={"reassoc", "contract"})
def _learn(
    values: Float,
    indices: Index,
    starts: Index,
    positive: Bool,
    eta: float,
    lambda2: float,
    seed: int,
    rows: int,
    scale: float,
    sums: Float,
    sketch: Float,
    gram: Float,
    products: Float,
    z: Float,
    p: Float,
) -> float:
    d, _, width = sketch.shape
    tau = width - 1
    draw = np.ones(width)
    along, move = np.empty((2, width)), np.empty(width)
    for row in range(positive.size):
        rows += 1
        own = 1 if positive[row] else 0
        other = 1 - own
        x = values[starts[row] : starts[row + 1]]
        at = indices[starts[row] : starts[row + 1]]
        fill_normal(seed, rows, draw[:tau])
        for c in range(tau):
            draw[c] /= np.sqrt(tau)
        score = _multiply(x, at, scale, z, p, sketch, along)
        _join(x, at, own, draw, scale, z, p, sketch, gram, along)
        for c in range(width):
            products[own, c] += score * draw[c]
            sums[own, c] += draw[c]
        n = sums[other, tau]
        if n == 0.0:
            continue
        mean_score = products[other, tau] / n
        residual = score - mean_score - (2.0 * own - 1.0)
        deviation = 0.0
        for c in range(tau):
            deviation += sums[other, c] * (products[other, c] - sums[other, c] * mean_score)
        # A loop of its own: otherwise the order of the sum depends on the alignment of the arrays.
        for c in range(tau):
            move[c] = -eta / n * (products[other, c] - sums[other, c] * mean_score)
        move[tau] = eta / n * (residual + deviation / n)
        keep = 1.0 - eta * lambda2
        scale *= keep
        _shift(gram, other, move, keep, -eta * residual, along, products, p)
        if rows % d == 0 or abs(scale) < _SMALLEST_SCALE:
            _gather(scale, z, p, sketch)
            scale = 1.0
        step = eta * residual / scale
        for e in range(x.size):
            z[at[e]] -= step * x[e]
    return scale


@compiled(fastmath={"reassoc", "contract"})
def _multiply(
    x: Float, at: Index, scale: float, z: Float, p: Float, sketch: Float, along: Float
) -> float:
    """Set ``along`` to ``B'x`` of both classes; return ``w'x``."""
    score = 0.0
    for k in range(2):
        for c in range(p.shape[1]):
            along[k, c] = 0.0
    for e in range(x.size):
        score += scale * x[e] * z[at[e]]
        for k in range(2):
            line = sketch[at[e], k]
            for c in range(line.size):
                along[k, c] += x[e] * line[c]
    for k in range(2):
        for c in range(p.shape[1]):
            score += p[k, c] * along[k, c]
    return score


@compiled(fastmath={"reassoc", "contract"})
def _join(
    x: Float,
    at: Index,
    own: int,
    draw: Float,
    scale: float,
    z: Float,
    p: Float,
    sketch: Float,
    gram: Float,
    along: Float,
) -> None:
    """Add ``x draw'`` to ``B`` of the row's class, and correct ``z`` so that ``w`` is unchanged."""
    coefficient, length = 0.0, 0.0
    for c in range(draw.size):
        coefficient += draw[c] * p[own, c] / scale
    for e in range(x.size):
        length += x[e] * x[e]
        z[at[e]] -= coefficient * x[e]
        line = sketch[at[e], own]
        for c in range(draw.size):
            line[c] += x[e] * draw[c]
    other = 1 - own
    for c in range(draw.size):
        within, across, back = gram[own, own, c], gram[own, other, c], gram[other, own, c]
        factor = along[own, c] + length * draw[c]
        for f in range(draw.size):
            within[f] += factor * draw[f] + draw[c] * along[own, f]
            across[f] += draw[c] * along[other, f]
            back[f] += along[other, c] * draw[f]
    for c in range(draw.size):
        along[own, c] += length * draw[c]


@compiled(fastmath={"reassoc", "contract"})
def _shift(
    gram: Float,
    other: int,
    move: Float,
    keep: float,
    change: float,
    along: Float,
    products: Float,
    p: Float,
) -> None:
    """Move the weights to ``keep w + B_other move``, and the products for ``+ change x`` too."""
    for k in range(2):
        for c in range(move.size):
            p[k, c] *= keep
            line = gram[k, other, c]
            total = 0.0
            for f in range(move.size):
                total += line[f] * move[f]
            products[k, c] = keep * products[k, c] + change * along[k, c] + total
    for c in range(move.size):
        p[other, c] += move[c]


@compiled(fastmath={"reassoc", "contract"})
def _gather(scale: float, z: Float, p: Float, sketch: Float) -> None:
    """Gather the weights into ``z`` and set ``p`` to 0."""
    for j in range(z.size):
        total = scale * z[j]
        for k in range(2):
            for c in range(p.shape[1]):
                total += sketch[j, k, c] * p[k, c]
        z[j] = total
    for k in range(2):
        for c in range(p.shape[1]):
            p[k, c] = 0.0
