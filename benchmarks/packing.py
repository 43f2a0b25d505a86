"""Moments packed and compressed for transport, beside general compressors alone.

Prints one JSON object per state and codec: bytes, and CPU seconds to encode and compress and to
decompress and decode all tiles, the least of some repeats. ``total`` adds the transport at 500 MB
a second; ``ratio`` compares it with that of the codec in use, above 1 where the latter is faster.

clicks      sparse hashed clicks of unit length, whose products repeat: few distinct sums
numbers     the same places with a real number in each: many zeros, no sum twice
crosses     clicks of eight fields and their hashed pairs
splines     hats of twenty numeric columns
dense       Gaussian rows: no zeros, no sum twice
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

from spark_auc.core.batch import Batch
from spark_auc.core.moments.moments_tile import MomentsTile
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.state import codec
from spark_auc.core.types import Rows
from spark_auc.features.crosses import CrossMap
from spark_auc.features.splines import Splines
from spark_auc.spark.data.synthetic import _Clicks

BYTES_PER_SECOND = 500e6
POSITIVE_RATE = 0.05
CHUNK = 2**14
# The first is in use.
CODECS = (("packed", "lz4"), ("zeros", "lz4"), ("plain", "lz4"), ("plain", "zstd"))
# Name, columns, rows in the state.
STATES = (
    ("clicks", 2_000, 60_000),
    ("clicks", 2_000, 1_000_000),
    ("clicks", 10_000, 60_000),
    ("clicks", 10_000, 1_000_000),
    ("numbers", 10_000, 60_000),
    ("crosses", 4_096, 60_000),
    ("splines", 220, 60_000),
    ("dense", 200, 20_000),
    ("dense", 2_000, 20_000),
)


def chunk(name: str, dimension: int, ids: np.ndarray, rng: np.random.Generator) -> Rows:
    """Some rows."""
    if name == "dense":
        return rng.normal(size=(ids.size, dimension))
    if name == "splines":
        columns = dimension // 11
        normal = np.random.default_rng(0).normal(size=(1000, columns))
        knots = np.quantile(normal, np.linspace(0, 1, 10), axis=0).T
        return Splines.of_knots(list(knots)).transform(rng.normal(size=(ids.size, columns)))
    if name == "crosses":
        own = dimension // 2
        crosses = CrossMap(own, (dimension - own).bit_length() - 1)
        return crosses.transform(_Clicks(own, 8, 1).features(ids))
    X = _Clicks(dimension, 39, 1).features(ids)
    if name == "numbers":
        X.data = rng.lognormal(size=X.data.size)
    return X


def tiles_of(name: str, dimension: int, rows: int) -> list[MomentsTile]:
    """The tiles of both classes."""

    def batches() -> Iterator[Batch]:
        rng = np.random.default_rng(1)
        for start in range(0, rows, CHUNK):
            ids = np.arange(start, min(start + CHUNK, rows))
            X = chunk(name, dimension, ids, rng)
            yield Batch(X, rng.random(ids.size) < POSITIVE_RATE)

    return [tile for _, tile in PairMoments.fold_parts(batches(), dimension)]


@contextmanager
def layout(name: str) -> Iterator[None]:
    """Encode with all layouts, without tables, or arrays as they are."""
    with mock.patch.multiple(
        codec,
        tabulated=codec.tabulated if name == "packed" else lambda words: None,
        _WORTH_PACKING=2**62 if name == "plain" else codec._WORTH_PACKING,
    ):
        yield


def measured(tiles: list[MomentsTile], compressor: str) -> dict[str, float]:
    """Bytes, and CPU seconds of the way there and back."""
    size, encode, decode = 0, 0.0, 0.0
    for tile in tiles:
        start = time.process_time()
        plain = tile.to_bytes()
        payload = pa.compress(plain, codec=compressor, asbytes=True)
        middle = time.process_time()
        again = pa.decompress(payload, len(plain), codec=compressor, asbytes=True)
        MomentsTile.from_bytes(again)
        encode, decode = encode + middle - start, decode + time.process_time() - middle
        size += len(payload)
    total = encode + decode + size / BYTES_PER_SECOND
    return {"bytes": size, "encode": encode, "decode": decode, "total": total}


def compare(name: str, dimension: int, rows: int, repeats: int) -> None:
    tiles = tiles_of(name, dimension, rows)
    used: dict[str, float] = {}
    for packing, compressor in CODECS:
        with layout(packing):
            measured(tiles[:1], compressor)
            runs = [measured(tiles, compressor) for _ in range(repeats)]
        found: dict[str, Any] = min(runs, key=lambda run: run["total"])
        used = used or found
        found |= {"ratio": found["total"] / used["total"]}
        facts = {"state": name, "d": dimension, "rows": rows, "codec": f"{packing}+{compressor}"}
        short = {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in found.items()}
        print(json.dumps(facts | short), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    for state in STATES:
        compare(*state, repeats)


if __name__ == "__main__":
    main()
