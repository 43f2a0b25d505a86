"""Drift of a period: its moments and scores beside those of the rows before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.core.moments.class_moments import ClassMoments
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.types import Float
from spark_auc.errors import ConfigError

# Columns of the Mahalanobis distance: those of largest variance, and ten rows for each.
_MOST_COLUMNS, _ROWS_PER_COLUMN = 512, 10
# Least eigenvalue of a correlation matrix that is no rounding error.
_EIGENVALUE = 1e-8
_BINS = 10
# Columns that a report names.
_NAMED = 10


@dataclass(frozen=True)
class Limits:
    """Values from which on drift warns or stops.

    Parameters
    ----------
    z, shift
        A column warns if the difference of its means exceeds ``z`` standard errors and ``shift``
        standard deviations.
    distance
        Squared Mahalanobis distance of the means of a class at which it warns.
    prevalence
        Relative change of the share of positive rows at which it warns, if it also exceeds ``z``
        standard errors.
    psi, stopPSI
        Population stability index of the scores at which it warns, and at which it stops.
    """

    z: float = 6.0
    shift: float = 0.25
    distance: float = 0.1
    prevalence: float = 0.2
    psi: float = 0.1
    stopPSI: float = 0.25

    def __post_init__(self) -> None:
        if invalid := [f.name for f in fields(self) if not getattr(self, f.name) > 0]:
            raise ConfigError(
                f"found {invalid[0]} = {getattr(self, invalid[0])}, expected a limit above 0; "
                "correct the limits of drift"
            )


class Shift(NamedTuple):
    """The difference of a column's means, in standard errors and in standard deviations.

    Both are infinite for a column of one value before and another value in the period.
    """

    column: int
    z: float
    deviations: float


@dataclass(frozen=True)
class Drift:
    """Differences between a period and the rows before it.

    Parameters
    ----------
    prevalence, reference_prevalence
        Share of positive rows.
    prevalence_z
        Difference of the shares in standard errors.
    shifts
        The columns of the largest shifts, largest first.
    distance
        Squared Mahalanobis distance of the means of a class, the larger of both classes, without
        the part that is due to sampling; None if a class has too few rows.
    psi
        Population stability index of the scores in ten bins of equal weight of the reference,
        without the part that is due to sampling; None without scores.
    warnings, stops
        One sentence for each limit that is exceeded.
    """

    prevalence: float
    reference_prevalence: float
    prevalence_z: float
    shifts: tuple[Shift, ...]
    distance: float | None
    psi: float | None
    warnings: tuple[str, ...]
    stops: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON types; None for an infinite shift."""
        shifts = [
            {k: v if np.isfinite(v) else None for k, v in shift._asdict().items()}
            for shift in self.shifts
        ]
        return asdict(self) | {"shifts": shifts}


def drift(
    reference: PairMoments,
    period: PairMoments,
    scores: tuple[ScoreHistogram, ScoreHistogram] | None = None,
    limits: Limits | None = None,
    parts: Sequence[tuple[float, int, int]] = (),
    names: Sequence[str] | None = None,
) -> Drift:
    """Compare a period with the rows before it.

    Parameters
    ----------
    reference, period
        Moments of the rows before and of the period.
    scores
        Scores of one model on both.
    limits
        Default: those of `Limits`.
    parts
        If the weights of the rows before decay: the factor of each period's weights, and its
        numbers of positive and of negative rows.
    names
        Names of the columns, for the sentences.
    """
    limits = limits or Limits()
    before, now = reference.columns(), period.columns()
    rows = _Rows.of(parts or [(1.0, int(before.rows[0]), int(before.rows[1]))])
    shares, share_z = _prevalence(rows, now.rows)
    shifts = _shifts(before, now, rows.total)
    distances = [
        _distance(a, b, n)
        for a, b, n in (
            (reference.positive, period.positive, rows.positive),
            (reference.negative, period.negative, rows.negative),
        )
    ]
    known = [d for d in distances if d is not None]
    distance = max(known) if known else None
    psi = None if scores is None else stability_index(*scores)
    warnings, stops = list[str](), list[str]()
    if not min(now.rows):
        stops.append(f"{now.rows[0]:.0f} positive and {now.rows[1]:.0f} negative rows")
    change = abs(shares[1] - shares[0])
    if change > limits.prevalence * shares[0] and abs(share_z) > limits.z:
        warnings.append(f"{shares[1]:.3%} of the rows are positive, before {shares[0]:.3%}")
    moved = [s for s in shifts if abs(s.z) > limits.z and abs(s.deviations) > limits.shift]
    if moved:
        most = f"column {moved[0].column}" if names is None else repr(names[moved[0].column])
        warnings.append(
            f"the means of {len(moved)} columns moved by more than {limits.shift:g} standard "
            f"deviations, most that of {most} (by {moved[0].deviations:.2f})"
        )
    if distance is not None and distance > limits.distance:
        warnings.append(f"the means of a class moved by a squared distance of {distance:.3f}")
    if psi is not None and psi > limits.stopPSI:
        stops.append(f"the scores' stability index is {psi:.3f}, above {limits.stopPSI:g}")
    elif psi is not None and psi > limits.psi:
        warnings.append(f"the scores' stability index is {psi:.3f}, above {limits.psi:g}")
    return Drift(
        shares[1],
        shares[0],
        share_z,
        tuple(shifts[:_NAMED]),
        distance,
        psi,
        tuple(warnings),
        tuple(stops),
    )


class _Rows(NamedTuple):
    """Numbers of equally weighted rows whose means vary as those of decayed weights do.

    For weights ``w`` they are ``(sum w)^2 / sum w^2`` (Kish 1965).
    """

    positive: float
    negative: float
    total: float
    prevalence: float

    @classmethod
    def of(cls, parts: Sequence[tuple[float, int, int]]) -> _Rows:
        factor, counts = np.array([f for f, *_ in parts]), np.array([n for _, *n in parts], float)
        # Factors of 1 give the counts themselves.
        counts = np.column_stack([counts, counts.sum(axis=1)])
        sums, squares = factor @ counts, factor**2 @ counts
        rows = np.divide(sums, squares, out=np.zeros(3), where=squares > 0) * sums
        positive, negative, total = rows.tolist()
        return cls(positive, negative, total, float(sums[0] / sums[2]) if total else 0.0)


def _prevalence(before: _Rows, now: Float) -> tuple[tuple[float, float], float]:
    """Shares of positive rows, and their difference in standard errors."""
    rows = before.total, now.sum()
    shares = before.prevalence, float(now[0] / max(rows[1], 1.0))
    pooled = (shares[0] * rows[0] + now[0]) / max(rows[0] + rows[1], 1.0)
    variance = pooled * (1.0 - pooled) * sum(1.0 / max(n, 1.0) for n in rows)
    return shares, float((shares[1] - shares[0]) / np.sqrt(variance)) if variance else 0.0


def _shifts(before: ColumnMoments, now: ColumnMoments, rows: float) -> list[Shift]:
    """Shifts of the columns' means over both classes, the largest first."""
    if not (before.rows.sum() and now.rows.sum()):
        return []
    deviations = [np.where(_varies(m), m.standard_deviation(), 0.0) for m in (before, now)]
    difference = now.centre - before.centre
    error = np.sqrt(deviations[0] ** 2 / rows + deviations[1] ** 2 / now.rows.sum())
    # A column that was constant before has the deviation of the period.
    unit = np.where(deviations[0] > 0, deviations[0], deviations[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(difference == 0, 0.0, difference / error)
        shift = np.where(difference == 0, 0.0, difference / unit)
    order = np.argsort(-np.abs(shift), kind="stable")
    return [Shift(int(j), float(z[j]), float(shift[j])) for j in order]


def _varies(moments: ColumnMoments) -> np.ndarray[Any, np.dtype[np.bool_]]:
    spread = (moments.weight @ moments.variance) / moments.weight.sum()
    between = np.prod(moments.weight / moments.weight.sum()) * moments.delta**2
    return np.asarray(spread + between > 0)


def _distance(before: ClassMoments, now: ClassMoments, rows: float) -> float | None:
    """Squared Mahalanobis distance of a class's means without the expected part of sampling.

    Under equal means the plain distance is about ``d (1/n + 1/m)``. The covariance is that of the
    rows before, in the columns of largest variance; eigenvalues that are rounding errors do not
    count. None for too few rows.
    """
    if not (before.rows and now.rows):
        return None
    spread, _ = before.spread()
    most = min(_MOST_COLUMNS, int(rows / _ROWS_PER_COLUMN))
    count = min(most, int(np.count_nonzero(spread > 0)))
    if not count:
        return None
    chosen = np.sort(np.argsort(-spread, kind="stable")[:count])
    deviations = np.sqrt(spread[chosen] / before.weight)
    covariance = before.covariance(chosen) / np.outer(deviations, deviations)
    values, vectors = np.linalg.eigh(covariance)
    kept = values > _EIGENVALUE * count
    along = vectors[:, kept].T @ ((now.mean - before.mean)[chosen] / deviations)
    plain = float(np.sum(along**2 / values[kept]))
    return plain - int(kept.sum()) * (1.0 / rows + 1.0 / now.rows)


def nearest(references: Mapping[str, ScoreHistogram], now: ScoreHistogram) -> str:
    """Name of the scores from which the stability index of others is least."""
    return min(references, key=lambda name: stability_index(references[name], now))


def stability_index(before: ScoreHistogram, now: ScoreHistogram) -> float:
    """Population stability index of scores in ten bins, without the expected part of sampling.

    ``sum (p - q) ln(p / q)`` over bins of equal weight of the first scores. Half a row is added to
    each bin. For scores of one distribution its mean is about ``(bins - 1) (1/n + 1/m)``.
    """
    # Scores of one value are in one bin of both.
    shift = max(before.shift, now.shift)
    tables = before.coarsened(shift).table, now.coarsened(shift).table
    weights, counts = ([table.sums[k].sum(axis=0) for table in tables] for k in (0, 2))
    totals, rows = ([float(part.sum()) for part in parts] for parts in (weights, counts))
    if not min(totals):
        return 0.0
    ranks = np.cumsum(weights[0]) / totals[0]
    edges = np.unique(tables[0].score[np.searchsorted(ranks, np.arange(1, _BINS) / _BINS)])
    shares = []
    for table, weight, total, n in zip(tables, weights, totals, rows, strict=True):
        bins = np.bincount(np.searchsorted(edges, table.score, "left"), weight, edges.size + 1)
        shares.append((bins / total * n + 0.5) / (n + 0.5 * bins.size))
    p, q = shares
    index = float(np.sum((p - q) * np.log(p / q)))
    return index - edges.size * (1.0 / rows[0] + 1.0 / rows[1])
