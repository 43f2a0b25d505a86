"""The features of columns before they are joined, and the kernel that joins them to CSR rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.batch import mix
from spark_auc.core.kernels import compiled
from spark_auc.core.types import Float, Index, Int
from spark_auc.features.crosses import sort_by_key
from spark_auc.features.kinds.hashed import FillTokens
from spark_auc.features.kinds.numeric import FillNumbers
from spark_auc.features.tokens import Slots

# Separates hashes of tokens from indices of numeric features, which are below 2^31.
_TOKEN = np.uint64(1 << 32)


class Entries(NamedTuple):
    """The features of some rows before they are joined, a number of slots for each column.

    Parameters
    ----------
    indices : (s, at least m)
        Index of the feature in each slot, or -1 for an empty slot.
    values : (t, at least m)
        Values of the first ``t`` slots, which are those of numeric columns. The value of a token,
        in the other slots, is 1.
    hashes : (s - t, at least m) or (0, at least m)
        Hashes of the tokens, if there are crosses.
    """

    indices: NDArray[np.int32]
    values: Float
    hashes: Index


class Layout(NamedTuple):
    """The blocks of features.

    Parameters
    ----------
    tokens
        First index of the tokens.
    shift
        ``(index - tokens) >> shift`` is the bucket of a token.
    buckets
        Number of buckets.
    pairs : (p, 2)
        Pairs of slots that are crossed.
    crosses
        First index of the crosses.
    bits
        Logarithm of the number of crosses.
    salt
        See `spark_auc.features.crosses.salt_of`.
    unit
        Whether rows are divided by their norm.
    """

    tokens: int
    shift: int
    buckets: int
    pairs: NDArray[np.int64]
    crosses: int
    bits: int
    salt: np.uint64
    unit: bool


def fill_numbers(fill: FillNumbers, own: slice, begin: int, rows: int, entries: Entries) -> None:
    """Fill the slots ``own`` of a numeric column with the features of rows from ``begin`` on."""
    fill(begin, entries.indices[own, :rows], entries.values[own, :rows])


def fill_tokens(
    fill: FillTokens,
    slot: int,
    place: int,
    block: tuple[int, int],
    begin: int,
    rows: int,
    entries: Entries,
) -> None:
    """Fill the slot of the hashed column at a place; ``block`` is as in `Slots`."""
    hashes = entries.hashes[place, :rows] if entries.hashes.size else np.empty(0, np.uint32)
    fill(begin, Slots(entries.indices[slot, :rows], hashes, *block))


@compiled()
def join(
    entries: Entries,
    layout: Layout,
    stored: int,
    data: Float,
    columns: NDArray[np.int32],
    indptr: NDArray[np.int32],
) -> int:
    """Append rows to CSR arrays: indices ascending, equal indices added, zeros left out.

    Parameters
    ----------
    entries
        The features of ``m`` rows.
    layout
        The blocks.
    stored
        Number of entries that the arrays hold already.
    data, columns
        Receive values and indices, from ``stored`` on.
    indptr : (m,)
        Receives the end of each row.

    Returns
    -------
    int
        The number of entries stored, or ``-1 - row`` for a row whose norm is not finite.
    """
    numeric, slots = entries.values.shape[0], entries.indices.shape[0]
    tokens, places = np.empty(slots, np.int32), np.empty(layout.buckets + 1, np.int64)
    pairs = layout.pairs.shape[0]
    keys, products = np.empty((2, pairs), np.int64), np.empty((2, pairs))
    for i in range(indptr.size):
        begin = stored
        for s in range(numeric):
            if entries.indices[s, i] >= 0 and entries.values[s, i] != 0.0:
                columns[stored], data[stored] = entries.indices[s, i], entries.values[s, i]
                stored += 1
        if slots > numeric:
            count = _sort_tokens(entries.indices[numeric:, i], layout, places, tokens)
            stored = _append_tokens(tokens, count, stored, data, columns)
        if pairs:
            count = _cross(entries, i, layout, keys, products)
            line = sort_by_key(keys, products, count, layout.bits)
            crossed = keys[line, :count], products[line, :count]
            stored = _append_crosses(crossed, layout.crosses, stored, data, columns)
        if layout.unit and not _divide(data[begin:stored]):
            return -1 - i
        indptr[i] = stored
    return stored


@compiled()
def _append_tokens(
    tokens: NDArray[np.int32],
    count: int,
    stored: int,
    data: Float,
    columns: NDArray[np.int32],
) -> int:
    last = -1
    for k in range(count):
        if tokens[k] == last:
            data[stored - 1] += 1.0
        else:
            last = tokens[k]
            columns[stored], data[stored] = last, 1.0
            stored += 1
    return stored


@compiled()
def _append_crosses(
    crossed: tuple[Int, Float],
    first: int,
    stored: int,
    data: Float,
    columns: NDArray[np.int32],
) -> int:
    keys, products = crossed
    last = -1
    for k in range(keys.size):
        if keys[k] == last:
            data[stored - 1] += products[k]
        else:
            last = keys[k]
            columns[stored], data[stored] = first + last, products[k]
            stored += 1
    return stored


@compiled()
def _divide(values: Float) -> bool:
    """Divide the values of a row by their norm; False if the norm is not finite."""
    squared = 0.0
    for k in range(values.size):
        squared += values[k] * values[k]
    if not np.isfinite(squared):
        return False
    # Products with the reciprocal would differ in the last bit.
    norm = np.sqrt(squared)
    if norm > 0.0:
        for k in range(values.size):
            values[k] /= norm
    return True


@compiled()
def _sort_tokens(
    indices: NDArray[np.int32],
    layout: Layout,
    places: NDArray[np.int64],
    out: NDArray[np.int32],
) -> int:
    """Write the indices that are not -1 in ascending order; returns their number.

    Indices are hashes, so that few lie in one of as many buckets as there are slots. Insertion
    sort then moves few of them.
    """
    for b in range(places.size):
        places[b] = 0
    for s in range(indices.size):
        if indices[s] >= 0:
            places[((indices[s] - layout.tokens) >> layout.shift) + 1] += 1
    for b in range(1, places.size):
        places[b] += places[b - 1]
    count = int(places[places.size - 1])
    for s in range(indices.size):
        if indices[s] >= 0:
            b = (indices[s] - layout.tokens) >> layout.shift
            out[places[b]] = indices[s]
            places[b] += 1
    for k in range(1, count):
        index, at = out[k], k
        while at > 0 and out[at - 1] > index:
            out[at] = out[at - 1]
            at -= 1
        out[at] = index
    return count


@compiled()
def _cross(
    entries: Entries, row: int, layout: Layout, keys: NDArray[np.int64], products: Float
) -> int:
    """Write hashes and products of the crossed slots of a row; returns their number."""
    count = 0
    for p in range(layout.pairs.shape[0]):
        key, product = cross(entries, row, layout, p)
        if product != 0.0:
            keys[0, count] = key
            products[0, count] = product
            count += 1
    return count


@compiled()
def cross(entries: Entries, row: int, layout: Layout, pair: int) -> tuple[np.uint64, float]:
    """Hash and product of a pair of slots of a row; the product is 0 if one of them is empty."""
    indices, values, hashes = entries
    numeric, mask = values.shape[0], np.uint64((1 << layout.bits) - 1)
    a, b = layout.pairs[pair, 0], layout.pairs[pair, 1]
    if indices[a, row] < 0 or indices[b, row] < 0:
        return np.uint64(0), 0.0
    product = 1.0
    if a < numeric:
        first = np.uint64(indices[a, row])
        product *= values[a, row]
    else:
        first = _TOKEN | np.uint64(hashes[a - numeric, row])
    if b < numeric:
        second = np.uint64(indices[b, row])
        product *= values[b, row]
    else:
        second = _TOKEN | np.uint64(hashes[b - numeric, row])
    return mix(mix(layout.salt ^ first) ^ second) & mask, product
