"""Names of features of a recipe; those of hashed features are tokens of a sample of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, overload

import numpy as np

from spark_auc.core.state.rules import COUNTS, INCREASING
from spark_auc.core.state.schema import Schema, array
from spark_auc.core.types import Int
from spark_auc.errors import DataError
from spark_auc.features.raw_columns import Columns
from spark_auc.features.recipe import Recipe
from spark_auc.features.token_hits import Hit, hits

# Tokens can be e-mail addresses. A token is shown if the sample has so many rows of it, and at most
# so many tokens of a feature, of so many characters.
LEAST, MOST, LENGTH = 10, 5, 60


def _inconsistent(state: Mapping[str, Any]) -> str | None:
    features, owners, ends = state["features"], state["owners"], state["ends"]
    if not np.isin(owners, features).all() or (state["counts"] < 1).any():
        return "its tokens have no rows, or features that are not counted"
    if (np.diff(ends, prepend=0) < 0).any() or ends[-1:].sum() != state["text"].size:
        return "its ends do not ascend to the size of the text"
    tokens = list(_tokens(state))
    return None if tokens == sorted(set(tokens)) else "its tokens are not in ascending order"


def _tokens(state: Mapping[str, Any]) -> Iterable[tuple[int, str]]:
    text, ends = state["text"].tobytes(), [0, *state["ends"].tolist()]
    words = (text[start:end].decode() for start, end in pairwise(ends))
    return zip(state["owners"].tolist(), words, strict=True)


_SCHEMA = Schema(
    "TokenCounts",
    1,
    {
        "features": array("<i8", "k", rule=INCREASING),
        "owners": array("<i8", "t"),
        "counts": array("<i8", "t", rule=COUNTS),
        "ends": array("<i8", "t", rule=COUNTS),
        "text": array("|u1", "b"),
    },
    _inconsistent,
)


@dataclass(frozen=True)
class TokenCounts:
    """Numbers of rows of a sample in which each token falls into a hashed feature.

    Counts are exact, so that the state depends on the rows only, in any order and any partition.
    Its size is bounded by the tokens of the sample. It holds all of them: store `tokens`, not the
    state.

    Parameters
    ----------
    features : (k,)
        Indices of the counted features, ascending.
    counts
        Number of rows by feature and token. The token of a cross is the text of both features.
    """

    features: Int
    counts: Mapping[tuple[int, str], int] = field(default_factory=dict)

    @classmethod
    def of(cls, recipe: Recipe, features: Int, columns: Columns) -> TokenCounts:
        """The counts of some rows.

        Raises
        ------
        DataError
            As in `Recipe.transform`.
        """
        counted: Counter[tuple[int, str]] = Counter()
        names = recipe.names()
        for hit in hits(recipe, features, columns):
            counted[hit.feature, _token(recipe, names, columns, hit)] += hit.rows
        return cls(features, dict(counted))

    def merge(self, other: TokenCounts) -> TokenCounts:
        """The counts of both sets of rows; `DataError` for counts of other features."""
        if not np.array_equal(self.features, other.features):
            raise DataError(
                f"found counts of {self.features.size} and {other.features.size} features, "
                "expected the same features; merge counts of one model"
            )
        return TokenCounts(self.features, dict(Counter(self.counts) + Counter(other.counts)))

    def to_bytes(self) -> bytes:
        """Versioned bytes."""
        tokens = sorted(self.counts)
        words = [word.encode() for _, word in tokens]
        return _SCHEMA.encode(
            {
                "features": self.features,
                "owners": np.array([feature for feature, _ in tokens], np.int64),
                "counts": np.array([self.counts[token] for token in tokens], np.int64),
                "ends": np.array(list(accumulate(map(len, words))), np.int64),
                "text": np.frombuffer(b"".join(words), np.uint8),
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> TokenCounts:
        """The counts that `to_bytes` stored; raises `ModelFormatError` for other bytes."""
        state = _SCHEMA.decode(data)
        counts = zip(_tokens(state), state["counts"].tolist(), strict=True)
        return cls(state["features"], dict(counts))

    def tokens(self) -> dict[int, list[tuple[str, int]]]:
        """At most 5 tokens of each feature with their rows, most rows first.

        Tokens with less than 10 rows are left out, and features without tokens.
        """
        frequent = [(f, -rows, word) for (f, word), rows in self.counts.items() if rows >= LEAST]
        shown: dict[int, list[tuple[str, int]]] = {}
        for feature, rows, word in sorted(frequent):
            of_feature = shown.setdefault(feature, [])
            if len(of_feature) < MOST:
                of_feature.append((printable(word), -rows))
        return shown

    def names(self) -> dict[int, str]:
        """Names of features by index, such as "mostly C3=68fd1e64 (412), C7=a (31)"."""
        return {
            feature: "mostly " + ", ".join(f"{word} ({rows})" for word, rows in tokens)
            for feature, tokens in self.tokens().items()
        }


@dataclass(frozen=True)
class FeatureNames(Sequence[str]):
    """Names of all features of a recipe, made when they are read.

    Numeric features have the names of `Recipe.names`. Hashed features without known tokens are
    called by their number in their block: "token 1234", "cross 99".

    Parameters
    ----------
    recipe
        The recipe.
    known
        Names of some hashed features by index, as of `TokenCounts.names`.
    """

    recipe: Recipe
    known: Mapping[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.recipe.size

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        places = range(len(self))[index]
        if isinstance(places, range):
            return [self._name(place) for place in places]
        return self._name(places)

    def place(self, name: str) -> int | None:
        """Index of a hashed feature that is called by its number; None for other names."""
        word, _, number = name.partition(" ")
        first = dict(zip(("token", "cross"), self.recipe.starts[-3:-1], strict=True)).get(word)
        place = None if first is None or not number.isdecimal() else first + int(number)
        return place if place is not None and self._name(place) == name else None

    @cached_property
    def _numeric(self) -> tuple[str, ...]:
        return self.recipe.names()

    def _name(self, index: int) -> str:
        tokens, crosses = self.recipe.starts[-3:-1]
        if index < tokens:
            return self._numeric[index]
        unknown = f"token {index - tokens}" if index < crosses else f"cross {index - crosses}"
        return self.known.get(index, unknown)


def printable(token: str) -> str:
    """A token of at most 60 characters, without control characters."""
    cut = token if len(token) <= LENGTH else f"{token[: LENGTH - 1]}…"
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in cut)


def _token(recipe: Recipe, names: Sequence[str], columns: Columns, hit: Hit) -> str:
    words = []
    for part in hit.parts:
        if part >= 0:
            words.append(names[part])
        else:
            hashed = recipe.tokens[-1 - part]
            words.append(hashed.token(columns[hashed.name], hit.row))
    return " x ".join(words)
