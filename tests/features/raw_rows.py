"""Raw columns made of lists, and the features of a recipe worked out row by row in Python."""

from __future__ import annotations

import datetime
import itertools
import math
import re

import numpy as np

from spark_auc.features.raw_columns import Numbers, Text
from tests.trees.forests import descended

WORD = 0xFFFFFFFF
EPOCH = datetime.datetime(1970, 1, 1)


def murmur3(data: bytes, seed: int = 42) -> int:
    """MurmurHash3_x86_32, as a signed number."""

    def turned(x: int, by: int) -> int:
        return ((x << by) | (x >> (32 - by))) & WORD

    def scrambled(k: int) -> int:
        return turned(k * 0xCC9E2D51 & WORD, 15) * 0x1B873593 & WORD

    h, whole = seed, len(data) // 4 * 4
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little")
        h = (turned(h ^ scrambled(k), 13) * 5 + 0xE6546B64) & WORD
    h ^= scrambled(int.from_bytes(data[whole:], "little")) ^ len(data)
    h = (h ^ (h >> 16)) * 0x85EBCA6B & WORD
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & WORD
    h ^= h >> 16
    return h - 2**32 if h >= 2**31 else h


def text(values, offset=np.int32, skipped=b"", nulls=True):
    """A column of text; ``skipped`` are bytes before those of the first row."""
    parts = [b"" if v is None else v.encode() if isinstance(v, str) else v for v in values]
    offsets = len(skipped) + np.cumsum([0, *map(len, parts)])
    data = np.frombuffer(skipped + b"".join(parts) + b"behind", np.uint8)
    valid = np.array([v is not None for v in values], bool) if nulls else None
    return Text.of_offsets(offsets.astype(offset), data, valid)


def numbers(values, dtype=float):
    """A column of numbers, with None where they are missing."""
    valid = np.array([v is not None for v in values], bool)
    return Numbers(np.array([0 if v is None else v for v in values], dtype), valid)


def times(values):
    """A column of times, of which None becomes NaT."""
    return Numbers(np.array(values, "datetime64[us]"))


def tokens(column, row):
    """The words of the tokens of a column in a row; an empty one of missing values."""
    if type(column).__name__ == "Words":
        return words_of(row[column.name]) or [""]
    return [token(column, row[column.name])]


def words_of(value):
    """The first 16 words of a text: letters and digits, and all characters beyond ASCII."""
    found = re.findall(r"[0-9A-Za-z\u0080-\U0010ffff]+", value or "")
    return [re.sub("[A-Z]", lambda letter: letter[0].lower(), word) for word in found[:16]]


def take(column, rows):
    """A slice of a column, over the same bytes."""
    valid = None if column.validity is None else column.validity[rows]
    if isinstance(column, Text):
        return Text(column.starts[rows], column.ends[rows], column.data, valid)
    return Numbers(column.values[rows], valid)


def token(column, value):
    """The text of a value; '' where it is missing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.datetime):
        return str(value.hour if type(column).__name__ == "Hour" else value.isoweekday())
    listed = getattr(column, "values", None)
    if listed is not None and str(value) not in ("", *listed):
        return "other"
    if type(column).__name__ == "Log" and value != "" and int(value) > 2:
        return f"log^2 {math.floor(math.log(int(value)) ** 2)}"
    return str(value)


def hats(x, knots):
    """Values of the hats by definition."""
    x = min(max(x, knots[0]), knots[-1])
    for k in range(len(knots) - 1):
        if knots[k] <= x < knots[k + 1]:
            share = (x - knots[k]) / (knots[k + 1] - knots[k])
            return {k: 1.0 - share, k + 1: share}
    return {len(knots) - 1: 1.0}


def mix(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & (2**64 - 1)
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & (2**64 - 1)
    return x ^ (x >> 31)


def crosses(settings, found):
    """Keys, products and parts of the crosses of the features of a row, by column."""
    salt = mix(0xC5 + 0x9E3779B97F4A7C15)
    pairs = settings.pairs or itertools.combinations({column.name for column, _ in found}, 2)
    crossed = [set(pair) for pair in pairs]
    for one, other in itertools.combinations(found, 2):
        if {one[0].name, other[0].name} in crossed:
            for a, b in itertools.product(one[1], other[1]):
                parts = (one[0], a[0]), (other[0], b[0])
                yield mix(mix(salt ^ a[2]) ^ b[2]) % 2**settings.bits, a[1] * b[1], parts


def double(value):
    """A number, or the days of a time; NaN if it is missing."""
    if isinstance(value, datetime.datetime):
        return (value - EPOCH) / datetime.timedelta(days=1)
    return math.nan if value is None else float(value)


def entries(recipe, row):
    """The features of one row, a mapping from names to values, before equal ones are added.

    Each is its index, its value and its parts: the columns and the indices of their features. A
    leaf has no parts.
    """
    missing, first = recipe.missing == "indicator", 0
    # The column and the features (index, value, key of crosses) of each entry.
    found = []
    for column in recipe.numeric:
        x, here = double(row[column.name]), []
        has_indicator = missing and column.name not in {other.name for other, _ in found}
        width = len(column.knots) if hasattr(column, "knots") else 1
        if math.isnan(x):
            here += [(first + width, 1.0)] if has_indicator else []
        elif hasattr(column, "knots"):
            here += [(first + k, v) for k, v in hats(x, column.knots).items()] if width else []
        else:
            here.append((first, (x - column.mean) / column.deviation))
        found.append((column, [(j, v, j) for j, v in here]))
        first += width + has_indicator
    surfaces = []
    for pair in recipe.pairs:
        values = [double(row[pair.first.name]), double(row[pair.second.name])]
        if not any(map(math.isnan, values)):
            one, other = hats(values[0], pair.first.knots), hats(values[1], pair.second.knots)
            for (k, v), (m, w) in itertools.product(one.items(), other.items()):
                j = first + k * len(pair.second.knots) + m
                surfaces.append((j, v * w, ((pair.first, j), (pair.second, j))))
        first += len(pair.first.knots) * len(pair.second.knots)
    leaves = []
    if recipe.trees:
        values = np.array([[double(row[column.name]) for column in recipe.trees.columns]])
        leaves = (first + descended(recipe.trees.forest, values)[0]).tolist()
        first += recipe.trees.forest.leaves
    for column in recipe.hashed:
        kind = type(column).__name__
        part = {"Hour": ": hour", "Weekday": ": weekday", "Words": ": word"}.get(kind, "")
        for word in [word for word in tokens(column, row) if word or missing]:
            hashed = murmur3(f"{column.name}{part}={word}".encode())
            feature = (first + hashed % recipe.dimension, 1.0, 2**32 | hashed & WORD)
            found.append((column, [feature]))
    first += recipe.dimension if recipe.hashed else 0
    made = [(j, v, ((column, j),)) for column, here in found for j, v, _ in here] + surfaces
    made += [(leaf, 1.0, ()) for leaf in leaves]
    if recipe.crosses:
        made += [(first + key, v, parts) for key, v, parts in crosses(recipe.crosses, found)]
    return [entry for entry in made if entry[1]]


def features(recipe, row):
    """Indices and values of the features of one row, a mapping from names to values."""
    added: dict = {}
    for j, v, _ in entries(recipe, row):
        added[j] = added.get(j, 0.0) + v
    norm = math.sqrt(math.fsum(v * v for v in added.values()))
    if recipe.unit and norm:
        added = {j: v / norm for j, v in added.items()}
    return dict(sorted(added.items()))
