"""SOLAM: online AUC maximization as a saddle point problem (Ying et al., 2016)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np

from spark_auc.core.kernels import compiled
from spark_auc.core.state.rules import COUNTS, FROM_0_ON, NOT_0
from spark_auc.core.state.schema import Fields, array, reals
from spark_auc.core.types import Bool, Float, Index, Rows
from spark_auc.core.validation import check_above, check_whole
from spark_auc.errors import DataError
from spark_auc.learners.learner import entries
from spark_auc.learners.linear import SMALLEST_SCALE, Linear

_Numbers = tuple[float, float, float, float, float, float, float, float, float, float]
_ROUNDING = 1.0 + 1e-9


@dataclass(eq=False)
class SOLAM(Linear):
    """Descent in ``(w, a, b)`` and ascent in ``alpha`` on the saddle function of the squared loss.

    Row ``t`` moves all four variables along the gradients of ``F`` [1]_ (Eq. 12, Table 1) by a
    step of size ``zeta / sqrt(t)``, where ``p`` is the positive rate of rows 1 to ``t``, and
    projects them onto ``|w| <= radius``, ``|a|, |b| <= radius kappa`` and
    ``|alpha| <= 2 radius kappa``. The weights are the average of the iterates before each step,
    weighted by the step sizes. O(non-zeros) time per row: the iterate is a scaled vector, and the
    average is updated lazily. O(d) memory.

    The row weight ``u`` multiplies the row's gradients, and ``p`` is the weighted positive rate;
    steps and average count the row once.

    If the number of rows is known, constant steps have the same convergence rate and weight the
    rows of a short pass more evenly [2]_. With ``horizon``, the step size is
    ``zeta / sqrt(horizon)`` up to that row, and as published after it.

    Parameters
    ----------
    dimension
        Number of features ``d``.
    zeta
        First step size > 0; the paper searches 1, 10, 19, .. 100.
    radius
        Bound on ``|w|``; the paper searches ``10^-1 .. 10^5``.
    kappa
        Bound on the length ``|x|`` of every row.
    horizon
        Number of rows with constant step size; 1 as published.

    Attributes
    ----------
    scale, z : float and (d,)
        The iterate is ``scale z``.
    squared
        Squared length of the iterate.
    gain, lag, total : float, (d,) and float
        The average is ``(gain z - lag) / total``; ``total`` is the sum of the step sizes.
    a, b, alpha
        The other variables of the saddle function.
    rows, seen, positive
        Number of learned rows, their total weight, and the weight of the positive rows.
    sums : (3,)
        Sums of ``a``, ``b`` and ``alpha`` before each step, times its size; None in a state of an
        earlier version, which has none.

    References
    ----------
    .. [1] Y. Ying, L. Wen, S. Lyu. Stochastic Online AUC Maximization. NIPS 2016.
    .. [2] A. Nemirovski, A. Juditsky, G. Lan, A. Shapiro. Robust Stochastic Approximation Approach
       to Stochastic Programming. SIAM J. Optim. 19(4), 2009.
    """

    FIELDS: ClassVar[Fields] = {
        "z": reals("d"),
        "lag": reals("d"),
        "scale": reals(rule=NOT_0),
        "rows": reals(rule=COUNTS),
        "seen": reals(rule=FROM_0_ON),
        "positive": reals(rule=FROM_0_ON),
        "sums": array("<f8", 3, optional=True),
    }

    zeta: float = 10.0
    radius: float = 10.0
    kappa: float = 1.0
    horizon: int = 1
    z: Float = field(init=False, repr=False)
    lag: Float = field(init=False, repr=False)
    scale: float = field(init=False, default=1.0)
    squared: float = field(init=False, default=0.0)
    gain: float = field(init=False, default=0.0)
    total: float = field(init=False, default=0.0)
    a: float = field(init=False, default=0.0)
    b: float = field(init=False, default=0.0)
    alpha: float = field(init=False, default=0.0)
    rows: float = field(init=False, default=0.0)
    seen: float = field(init=False, default=0.0)
    positive: float = field(init=False, default=0.0)
    sums: Float | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("zeta", "radius", "kappa"):
            check_above(name, getattr(self, name), 0)
        check_whole("horizon", self.horizon, 1)
        self.z, self.lag = np.zeros(self.dimension), np.zeros(self.dimension)
        self.sums = np.zeros(3)

    def learn(self, X: Rows, y: Bool, weight: Float | None = None) -> None:
        """Learn rows; see `spark_auc.learners.learner.Learner.learn`.

        `DataError` for a row longer than ``kappa``, too; the rows before it have been learned.
        """
        learned, numbers = _learn(
            *entries(X, self.dimension),
            y,
            np.empty(0) if weight is None else weight,
            self.zeta,
            self.radius,
            self.kappa,
            self.horizon,
            self.z,
            self.lag,
            np.empty(0) if self.sums is None else self.sums,
            (
                self.scale,
                self.squared,
                self.gain,
                self.total,
                self.a,
                self.b,
                self.alpha,
                self.rows,
                self.seen,
                self.positive,
            ),
        )
        self.scale, self.squared, self.gain, self.total = numbers[:4]
        self.a, self.b, self.alpha, self.rows, self.seen, self.positive = numbers[4:]
        if learned < y.size:
            raise DataError(
                f"found row {learned} of the batch longer than kappa = {self.kappa}, expected "
                "lengths up to kappa; set kappa to the largest length of a row, or scale the rows"
            )

    @property
    def iterate(self) -> Float:
        """The current iterate ``(d,)``, which the next step moves."""
        return self.scale * self.z

    @property
    def w(self) -> Float:
        """Averaged weights ``(d,)``; 0 before the first row."""
        return (self.gain * self.z - self.lag) / (self.total or 1.0)

    @property
    def averages(self) -> dict[str, float] | None:
        """Averages of ``a``, ``b`` and ``alpha``, weighted as those of ``w``.

        At the saddle point they are the mean score of the positive rows, that of the negative rows,
        and their difference ``b - a`` [1]_ (Eq. 9-11). None before the first row.
        """
        if self.sums is None or not self.total:
            return None
        return dict(zip(("a", "b", "alpha"), (self.sums / self.total).tolist(), strict=True))

    def start(self, w: Float) -> None:
        """Begin with the weights ``w`` ``(d,)``, which are shortened to ``radius`` if longer."""
        self.z = w * min(1.0, self.radius / (float(np.linalg.norm(w)) or 1.0))
        self.squared = float(self.z @ self.z)

    def merge(self, other: Self, start: Self | None = None) -> Self:
        """Average two learners that learned different rows; see `AveragedIterate.merge`.

        Iterates and averages are weighted by the number of rows of each learner, and the numbers
        of rows are added. This approximates one learner of all rows.
        """
        merged, _, share = self._joined(other, start, "rows", "seen", "positive")

        def averaged(a: Float, b: Float) -> Float:
            return share * a + (1.0 - share) * b

        merged.z = averaged(self.iterate, other.iterate)
        merged.squared = float(merged.z @ merged.z)
        for name in ("total", "a", "b", "alpha"):
            setattr(merged, name, float(averaged(getattr(self, name), getattr(other, name))))
        merged.lag = -merged.total * averaged(self.w, other.w)
        merged.sums = None
        if self.sums is not None and other.sums is not None:
            own, others = self.sums / (self.total or 1.0), other.sums / (other.total or 1.0)
            merged.sums = merged.total * averaged(own, others)
        return merged


@compiled()
def _clipped(value: float, bound: float) -> float:
    return min(max(value, -bound), bound)


@compiled(fastmath={"reassoc", "contract"})
def _learn(
    values: Float,
    indices: Index,
    starts: Index,
    y: Bool,
    weight: Float,
    zeta: float,
    radius: float,
    kappa: float,
    horizon: int,
    z: Float,
    lag: Float,
    sums: Float,
    numbers: _Numbers,
) -> tuple[int, _Numbers]:
    """Learn rows up to the first row longer than ``kappa``.

    Returns
    -------
    learned, numbers
        Number of learned rows, and the new values of ``numbers``.
    """
    scale, squared, gain, total, a, b, alpha, rows, seen, positive = numbers
    learned = 0
    for row in range(y.size):
        product, length = 0.0, 0.0
        for p in range(starts[row], starts[row + 1]):
            product += values[p] * z[indices[p]]
            length += values[p] * values[p]
        if length > kappa * kappa * _ROUNDING:
            break
        learned += 1
        u = weight[row] if weight.size else 1.0
        rows += 1.0
        seen += u
        if y[row]:
            positive += u
        gamma = zeta / np.sqrt(max(rows, horizon))
        rate = positive / seen
        score = scale * product
        gain += gamma * scale
        total += gamma
        if sums.size:
            sums[0] += gamma * a
            sums[1] += gamma * b
            sums[2] += gamma * alpha
        move = 2.0 * gamma * u
        if y[row]:
            move *= 1.0 - rate
            change = -move * (score - a - 1.0 - alpha)
            a = _clipped(a + move * (score - a), radius * kappa)
            alpha = _clipped(alpha - move * (score + rate * alpha), 2.0 * radius * kappa)
        else:
            move *= rate
            change = -move * (score - b + 1.0 + alpha)
            b = _clipped(b + move * (score - b), radius * kappa)
            alpha = _clipped(alpha + move * (score - (1.0 - rate) * alpha), 2.0 * radius * kappa)
        squared += change * (2.0 * score + change * length)
        step = change / scale
        for p in range(starts[row], starts[row + 1]):
            z[indices[p]] += step * values[p]
            lag[indices[p]] += gain * step * values[p]
        if squared > radius * radius:
            scale *= radius / np.sqrt(squared)
            squared = radius * radius
            if scale < SMALLEST_SCALE:
                squared = 0.0
                for j in range(z.size):
                    lag[j] -= gain * z[j]
                    z[j] *= scale
                # A loop of its own: otherwise the order of the sum depends on the alignment of
                # the arrays.
                for j in range(z.size):
                    squared += z[j] * z[j]
                gain, scale = 0.0, 1.0
    return learned, (scale, squared, gain, total, a, b, alpha, rows, seen, positive)
