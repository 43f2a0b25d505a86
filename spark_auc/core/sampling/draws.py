"""Rows drawn with replacement: a function of a seed and the row's key alone.

Each row has arrivals in time, a Poisson process of its weight as rate that its key and the seed
make. The arrivals of a class are then a Poisson process whose rate is the class's weight, and who
arrives is an independent draw in proportion to the weights. Draws up to a moment are known by each
row for itself, whatever machine holds it and however often it is read; more draws are a later
moment, so that a larger sample contains the smaller one.

Rows of one key arrive together. That is no draw with replacement, so rows are told apart before
they are drawn; see `spark_auc.core.sampling.repeats`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_auc.core.batch import Batch, mix, mixed
from spark_auc.core.kernels import compiled
from spark_auc.core.state.rules import ASCENDING
from spark_auc.core.state.schema import COUNT, Schema, Values, reals
from spark_auc.core.types import Float, Int, Keys

# Different uses of one seed must not share their numbers.
_DRAWS = np.uint64(0xD1)


@dataclass(frozen=True)
class Draws:
    """The draws of each class up to a moment.

    Parameters
    ----------
    seed
        Any integer of 64 bits.
    positive, negative
        The moment (excluded) of each class. Before ``S / n_k`` there are ``S`` draws on average
        from a class of weight ``n_k``.
    """

    seed: int
    positive: float
    negative: float

    def arrivals(self, batch: Batch) -> tuple[Int, Float]:
        """Row numbers ``(m,)`` of the draws from these rows, ascending, and their moments."""
        salt = mixed(np.array([self.seed], np.int64).view(np.uint64) ^ _DRAWS)[0]
        ends = np.where(batch.y, self.positive, self.negative)
        counts = np.zeros(batch.y.size, np.int64)
        keys, weights = batch.keys(), batch.weights
        _arrive(keys, salt, weights, ends, counts, np.empty(0))
        moments = np.empty(counts.sum())
        _arrive(keys, salt, weights, ends, counts, moments)
        return np.repeat(np.arange(counts.size), counts), moments

    def drawn(self, batch: Batch) -> Batch:
        """The rows drawn, each once, weighing as often as it was drawn."""
        rows, times = np.unique(self.arrivals(batch)[0], return_counts=True)
        return batch._replace(key=batch.keys()).take(rows, times.astype(float))


@dataclass(frozen=True, eq=False)
class FirstArrivals:
    """The moments of the first draws of each class, ascending, at most ``limit`` of each."""

    positive: Float
    negative: Float
    limit: int

    @classmethod
    def zero(cls, limit: int) -> FirstArrivals:
        """The arrivals of no rows."""
        return cls(np.empty(0), np.empty(0), limit)

    def update(self, batch: Batch, seed: int) -> FirstArrivals:
        """The first arrivals when these rows are added."""
        found = []
        featureless = Batch(np.empty((batch.y.size, 0)), batch.y, batch.weight, batch.keys())
        for mine, known in ((batch.y, self.positive), (~batch.y, self.negative)):
            rows = featureless.take(np.flatnonzero(mine))
            moments, weight = np.empty(0), float(rows.weights.sum())
            last = float(known[-1]) if known.size == self.limit else np.inf
            # In steps: before the last known moment these rows may have far more arrivals.
            end, horizon = 0.0, (self.limit + 10.0 * np.sqrt(self.limit)) / (weight or 1.0)
            while weight and moments.size < self.limit and end < last:
                end = min(horizon, last)
                moments = Draws(seed, end, end).arrivals(rows)[1]
                horizon *= 2.0
            found.append(np.sort(moments))
        return self.merge(FirstArrivals(found[0], found[1], self.limit))

    def merge(self, other: FirstArrivals) -> FirstArrivals:
        """The first arrivals among both sets of rows."""

        def first(a: Float, b: Float) -> Float:
            # Stable, because this merges what is in order already.
            return np.sort(np.concatenate([a, b]), kind="stable")[: self.limit]

        return FirstArrivals(
            first(self.positive, other.positive), first(self.negative, other.negative), self.limit
        )

    def tied(self) -> bool:
        """Whether two draws of a class have one moment, as those of rows of one key have.

        To tell it of ``count`` draws takes ``count + 1`` moments.
        """
        return any((np.diff(moments) == 0.0).any() for moments in (self.positive, self.negative))

    def draws(self, seed: int, count: int) -> Draws:
        """The first ``count`` draws of each class, with any that tie with the last."""
        ends = [
            float(np.nextafter(moments[count - 1], np.inf))
            for moments in (self.positive, self.negative)
        ]
        return Draws(seed, ends[0], ends[1])

    def cuts(self, count: int, parts: int) -> tuple[Float, Float]:
        """Moments that part the first ``count`` draws of each class into as many equal parts."""
        places = np.linspace(0, count, min(parts, count) + 1).astype(int)[1:-1]
        return self.positive[places], self.negative[places]

    def to_bytes(self) -> bytes:
        """Versioned bytes."""
        return _SCHEMA.encode(vars(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> FirstArrivals:
        """The arrivals that `to_bytes` stored; `ModelFormatError` if they are none."""
        return _SCHEMA.restore(data, cls)


def _limited(values: Values) -> str | None:
    most, limit = max(values["positive"].size, values["negative"].size), values["limit"]
    return None if max(most, 1) <= limit else f"it has {most} draws of at most {limit}"


_SCHEMA = Schema(
    "FirstArrivals",
    1,
    {
        "positive": reals("n", rule=ASCENDING),
        "negative": reals("m", rule=ASCENDING),
        "limit": COUNT,
    },
    _limited,
)


@compiled()
def _arrive(
    keys: Keys, salt: np.uint64, rates: Float, ends: Float, counts: Int, moments: Float
) -> None:
    """Count each row's arrivals before its end, or note their moments where there is room."""
    place = 0
    for i in range(keys.size):
        start = mix(keys[i] ^ salt)
        moment, number, found = 0.0, np.uint64(0), 0
        while True:
            number += np.uint64(1)
            hashed = mix(start + number * np.uint64(0x9E3779B97F4A7C15))
            uniform = (np.float64(hashed >> np.uint64(11)) + 0.5) * 2.0**-53
            moment -= np.log(uniform) / rates[i]
            if moment >= ends[i]:
                break
            if moments.size:
                moments[place] = moment
                place += 1
            found += 1
        counts[i] = found
