"""Draws of rows with replacement, as a function of a seed and the row's key.

Each row has a Poisson process of arrivals, whose rate is the row's weight and whose randomness is a
hash of the seed and the row's key. The arrivals of a class are then a Poisson process whose rate is
the weight of the class, and each arrival is an independent draw in proportion to the weights. The
draws up to an arrival time are computed from each row alone, on any machine and in any pass. More
draws mean a later time, so that a larger sample contains the smaller one.

Rows with the same key have the same arrivals, which draws with replacement would not have. Equal
rows therefore get different keys before they are drawn; see `spark_auc.core.sampling.repeats`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from spark_auc.core.batch import Batch, mix, mixed
from spark_auc.core.kernels import compiled
from spark_auc.core.state.rules import ASCENDING
from spark_auc.core.state.schema import COUNT, Schema, Values, reals
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.core.types import Float, Int, Keys

# Salt: different uses of one seed must not share random numbers.
_DRAWS = np.uint64(0xD1)


@dataclass(frozen=True)
class Draws:
    """The draws of each class up to an arrival time.

    Parameters
    ----------
    seed
        Any 64-bit integer.
    positive, negative
        End (excluded) of the arrival times of each class. A class of weight ``n_k`` has ``S`` draws
        on average before ``S / n_k``.
    """

    seed: int
    positive: float
    negative: float

    def arrivals(self, batch: Batch) -> tuple[Int, Float]:
        """Row numbers ``(m,)`` of the draws from a batch, ascending, and their times ``(m,)``."""
        salt = mixed(np.array([self.seed], np.int64).view(np.uint64) ^ _DRAWS)[0]
        ends = np.where(batch.y, self.positive, self.negative)
        counts = np.zeros(batch.y.size, np.int64)
        keys, weights = batch.keys(), batch.weights
        _arrive(keys, salt, weights, ends, counts, np.empty(0))
        times = np.empty(counts.sum())
        _arrive(keys, salt, weights, ends, counts, times)
        return np.repeat(np.arange(counts.size), counts), times

    def drawn(self, batch: Batch) -> Batch:
        """The rows drawn, each once; its weight is the number of its draws."""
        rows, counts = np.unique(self.arrivals(batch)[0], return_counts=True)
        return batch._replace(key=batch.keys()).take(rows, counts.astype(float))


def _limited(values: Values) -> str | None:
    count, limit = max(values["positive"].size, values["negative"].size), values["limit"]
    return None if max(count, 1) <= limit else f"it has {count} draws of at most {limit}"


@dataclass(frozen=True, eq=False)
class FirstArrivals(SchemaState):
    """The times of the first draws of each class.

    Parameters
    ----------
    positive, negative : (at most limit,)
        Arrival times of each class, ascending.
    limit
        Greatest number of arrivals kept for each class.
    """

    SCHEMA: ClassVar[Schema] = Schema(
        "FirstArrivals",
        1,
        {
            "positive": reals("n", rule=ASCENDING),
            "negative": reals("m", rule=ASCENDING),
            "limit": COUNT,
        },
        _limited,
    )

    positive: Float
    negative: Float
    limit: int

    @classmethod
    def zero(cls, limit: int) -> FirstArrivals:
        """The arrivals of no rows."""
        return cls(np.empty(0), np.empty(0), limit)

    def update(self, batch: Batch, seed: int) -> FirstArrivals:
        """The first arrivals including those of a batch."""
        added = []
        featureless = Batch(np.empty((batch.y.size, 0)), batch.y, batch.weight, batch.keys())
        for in_class, earlier in ((batch.y, self.positive), (~batch.y, self.negative)):
            rows = featureless.take(np.flatnonzero(in_class))
            times, weight = np.empty(0), float(rows.weights.sum())
            last = float(earlier[-1]) if earlier.size == self.limit else np.inf
            # In steps: the rows may have far more than ``limit`` arrivals before ``last``.
            end, horizon = 0.0, (self.limit + 10.0 * np.sqrt(self.limit)) / (weight or 1.0)
            while weight and times.size < self.limit and end < last:
                end = min(horizon, last)
                times = Draws(seed, end, end).arrivals(rows)[1]
                horizon *= 2.0
            added.append(np.sort(times))
        return self.merge(FirstArrivals(added[0], added[1], self.limit))

    def merge(self, other: FirstArrivals) -> FirstArrivals:
        """The first arrivals of the union of both sets of rows."""

        def first(a: Float, b: Float) -> Float:
            # The stable sort merges sorted runs in linear time.
            return np.sort(np.concatenate([a, b]), kind="stable")[: self.limit]

        return FirstArrivals(
            first(self.positive, other.positive), first(self.negative, other.negative), self.limit
        )

    def tied(self) -> bool:
        """Whether two draws of a class have the same time, as draws of rows with one key have.

        The test of the first ``count`` draws needs ``count + 1`` times.
        """
        return any((np.diff(times) == 0.0).any() for times in (self.positive, self.negative))

    def draws(self, seed: int, count: int) -> Draws:
        """The first ``count`` draws of each class, including ties with the last of them."""
        ends = [
            float(np.nextafter(times[count - 1], np.inf))
            for times in (self.positive, self.negative)
        ]
        return Draws(seed, ends[0], ends[1])

    def cuts(self, count: int, parts: int) -> tuple[Float, Float]:
        """Times that split the first ``count`` draws of each class into ``parts`` equal parts."""
        places = np.linspace(0, count, min(parts, count) + 1).astype(int)[1:-1]
        return self.positive[places], self.negative[places]


@compiled()
def _arrive(
    keys: Keys, salt: np.uint64, rates: Float, ends: Float, counts: Int, times: Float
) -> None:
    """Count each row's arrivals before its end, and store their times unless ``times`` is empty."""
    position = 0
    for i in range(keys.size):
        start = mix(keys[i] ^ salt)
        time, number, count = 0.0, np.uint64(0), 0
        while True:
            number += np.uint64(1)
            hashed = mix(start + number * np.uint64(0x9E3779B97F4A7C15))
            uniform = (np.float64(hashed >> np.uint64(11)) + 0.5) * 2.0**-53
            time -= np.log(uniform) / rates[i]
            if time >= ends[i]:
                break
            if times.size:
                times[position] = time
                position += 1
            count += 1
        counts[i] = count
