"""Rows whose tokens or crosses fall into some of the hashed features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.batch import mix
from spark_auc.core.kernels import compiled
from spark_auc.core.types import Bool, Int, Keys
from spark_auc.features.raw_columns import Columns, rows_of
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_rows import Entries, Layout, cross
from spark_auc.features.tokens import Slots

# Hits that are collected before they are counted.
_HITS = 2**16
# The second part of a token that is not crossed.
_NONE = np.iinfo(np.int64).min


class Hit(NamedTuple):
    """A token, or a pair of crossed features, in a feature.

    Parameters
    ----------
    feature
        Index of the feature.
    parts
        The token, or both crossed features: the index of a numeric feature, or ``-1 - place`` for
        the token of `Recipe.tokens` at a place.
    row
        The first row of the token.
    rows
        Number of rows.
    """

    feature: int
    parts: tuple[int, ...]
    row: int
    rows: int


def hits(recipe: Recipe, features: Int, columns: Columns) -> Iterator[Hit]:
    """The different tokens and pairs in some of the hashed features; ``features`` ascend."""
    codes, found = _codes(recipe, columns), list[NDArray[np.int64]]()
    wanted = np.zeros(recipe.size, np.bool_)
    wanted[features] = True
    pairs = len(recipe.slot_pairs)
    out = np.empty((5, max(_HITS, recipe.slots.size + pairs)), np.int64)
    for begin, count, entries in recipe.entries(columns):
        row = 0
        while row < count:
            row, stored = _collect(entries, row, count, begin, recipe.layout, codes, wanted, out)
            found.append(out[:, :stored].copy())
    together = np.concatenate([np.empty((5, 0), np.int64), *found], axis=1)
    # A row may have a token in several slots.
    together = together[:, np.lexsort((together[4], together[0]))]
    again = np.zeros(together.shape[1], np.bool_)
    again[1:] = (np.diff(together[0]) == 0) & (np.diff(together[4]) == 0)
    together = together[:, ~again]
    _, firsts, rows = np.unique(together[0], return_index=True, return_counts=True)
    for (feature, a, b, row), hit in zip(
        together[1:, firsts].T.tolist(), rows.tolist(), strict=True
    ):
        yield Hit(feature, (a,) if b == _NONE else (a, b), row, hit)


def _codes(recipe: Recipe, columns: Columns) -> Keys:
    """64 bits ``(h, n)`` of the tokens in each slot, which are equal for equal tokens only.

    Tokens of one feature agree in the hash modulo the dimension, so that the other bits of the hash
    alone would often be equal. These are two hashes after other prefixes.
    """
    rows = rows_of(columns[recipe.columns[0].name])
    indices, halves = np.empty(rows, np.int32), np.empty((2, rows), np.uint32)
    codes = np.empty((len(recipe.tokens), rows), np.uint64)
    for place, hashed in enumerate(recipe.tokens):
        for half, mark in zip(halves, "\0\1", strict=True):
            fill = replace(hashed, name=hashed.name + mark).filler(columns[hashed.name], True)
            fill(0, Slots(indices, half, 0, 1))
        codes[place] = halves[0] + (halves[1].astype(np.uint64) << np.uint64(32))
    return codes


@compiled()
def _collect(
    entries: Entries,
    row: int,
    rows: int,
    begin: int,
    layout: Layout,
    codes: Keys,
    wanted: Bool,
    out: NDArray[np.int64],
) -> tuple[int, int]:
    """Collect tokens and pairs in the wanted features from a row on, until ``out`` is full.

    ``out`` receives the hash of the token or pair, the feature, both parts and the row. Returns the
    next row and the number of hits.
    """
    numeric, slots, pairs = entries.values.shape[0], entries.indices.shape[0], layout.pairs.shape[0]
    stored = 0
    while row < rows and stored + slots + pairs <= out.shape[1]:
        for s in range(numeric, slots):
            feature = np.int64(entries.indices[s, row])
            if feature >= 0 and wanted[feature]:
                a, first = _part(entries, s, row, begin, codes)
                out[0, stored] = np.int64(mix(mix(np.uint64(feature)) ^ first))
                out[1, stored], out[2, stored], out[3, stored] = feature, a, _NONE
                out[4, stored] = begin + row
                stored += 1
        for p in range(pairs):
            key, product = cross(entries, row, layout, p)
            feature = np.int64(layout.crosses + np.int64(key))
            if product != 0.0 and wanted[feature]:
                a, first = _part(entries, layout.pairs[p, 0], row, begin, codes)
                b, second = _part(entries, layout.pairs[p, 1], row, begin, codes)
                hashed = mix(mix(mix(np.uint64(feature)) ^ first) ^ second)
                out[0, stored] = np.int64(hashed)
                out[1, stored], out[2, stored], out[3, stored] = feature, a, b
                out[4, stored] = begin + row
                stored += 1
        row += 1
    return row, stored


@compiled()
def _part(
    entries: Entries, slot: int, row: int, begin: int, codes: Keys
) -> tuple[np.int64, np.uint64]:
    """A crossed feature as in `Hit`, and 64 bits that separate it from others."""
    numeric = entries.values.shape[0]
    if slot < numeric:
        index = np.int64(entries.indices[slot, row])
        return index, np.uint64(index)
    place = slot - numeric
    return np.int64(-1 - place), mix(codes[place, begin + row])
