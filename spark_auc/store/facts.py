"""The facts that decide whether two moments can be merged, and their hash, the schema id."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from spark_auc.core.state.rules import MOST_COLUMNS
from spark_auc.errors import ConfigError, ModelFormatError
from spark_auc.tables.hashes import HASHES

_FORMAT = "spark_auc store facts"
_MOST_DIFFERENCES = 8
_FIRST_HASHES = 1
_ABSENT = "nothing"


@dataclass(frozen=True)
class Facts:
    """How the moments of a store were made.

    Parameters
    ----------
    dimension
        Number of features ``d``.
    folds
        Number ``k`` of folds, at least 2.
    seed
        Seed of the folds.
    positive_label
        The label of positive rows. Equal numbers are equal labels.
    weight_column
        Name of the column of row weights; None without weights.
    recipe
        JSON of the fitted recipe; None for rows of vectors.
    segment_column
        Name of the column of segments; None for rows that are stored together.
    segments
        Its values that are segments; rows of other values are stored under the segment "".
    hashes
        Version of the hashes by which rows are in folds.

    Raises
    ------
    ConfigError
        A value is out of range, or the recipe is not JSON.
    """

    dimension: int
    folds: int
    seed: int = 0
    positive_label: str | float = 1.0
    weight_column: str | None = None
    recipe: str | None = None
    segment_column: str | None = None
    segments: tuple[str, ...] = ()
    hashes: int = HASHES

    def __post_init__(self) -> None:
        if not 1 <= self.dimension <= MOST_COLUMNS or not 2 <= self.folds <= 1000:
            raise ConfigError(
                f"found {self.dimension} features and {self.folds} folds, expected from 1 to "
                f"{MOST_COLUMNS} features and from 2 to 1000 folds; correct the settings"
            )
        if not isinstance(self.positive_label, str):
            object.__setattr__(self, "positive_label", float(self.positive_label))
        if self.recipe is not None:
            object.__setattr__(self, "recipe", _canonical(_parsed(self.recipe)))
        object.__setattr__(self, "segments", tuple(self.segments))

    @property
    def schema_id(self) -> str:
        """The first 32 hexadecimal digits of the SHA-256 of `to_json`."""
        return sha256(self.to_json().encode()).hexdigest()[:32]

    def to_json(self) -> str:
        """The facts as JSON of one spelling."""
        return _canonical({"format": _FORMAT} | self._values())

    @classmethod
    def from_json(cls, text: str | bytes) -> Facts:
        """The facts that `to_json` stored; raises `ModelFormatError` for other text."""
        try:
            values = json.loads(text)
            if values.pop("format") != _FORMAT:
                raise ValueError("it has another format")
            recipe = values.pop("recipe")
            values = {"hashes": _FIRST_HASHES} | values
            facts = cls(**values, recipe=None if recipe is None else _canonical(recipe))
            if facts.to_json().encode() != (text.encode() if isinstance(text, str) else text):
                raise ValueError("it has another spelling")
        except (ValueError, KeyError, TypeError, AttributeError, ConfigError) as error:
            raise ModelFormatError(
                f"found damaged facts of a store ({str(error)[:80]}), expected the facts that "
                "the first put stored; restore the table, or build the store again"
            ) from None
        return facts

    def differences(self, other: Facts) -> list[str]:
        """What differs, field by field: the value here, then the other's."""
        return list(_differences("", self._values(), other._values()))

    def _values(self) -> dict[str, Any]:
        values = asdict(self) | {
            "recipe": None if self.recipe is None else json.loads(self.recipe),
            "segments": list(self.segments),
        }
        # Ids of stores without segments, and of the first hashes, are those of versions without
        # these fields.
        without = set[str]() if self.segment_column else {"segment_column", "segments"}
        without |= {"hashes"} if self.hashes == _FIRST_HASHES else set()
        return {name: value for name, value in values.items() if name not in without}


def mismatch(facts: Facts, stored: Mapping[str, Facts]) -> ConfigError:
    """The error for facts that are not in the store: the difference from the closest stored."""
    by_count = {name: other.differences(facts) for name, other in sorted(stored.items())}
    closest = min(by_count, key=lambda name: len(by_count[name]))
    listed = by_count[closest][:_MOST_DIFFERENCES]
    more = len(by_count[closest]) - len(listed)
    return ConfigError(
        f"found moments of schema id {closest} in the store, expected {facts.schema_id} (stored "
        f"value, then the value of this run): {'; '.join(listed)}"
        f"{f'; and {more} more' if more else ''}; restore these settings, or build the store again "
        "with a full refresh"
    )


def _parsed(recipe: str) -> Any:
    try:
        return json.loads(recipe)
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"found a recipe that is not JSON ({error}), expected that of the fitted recipe; pass "
            "the text of recipe_json.to_json"
        ) from None


def _canonical(value: Any) -> str:
    return json.dumps(value, allow_nan=False, sort_keys=True, separators=(",", ":"))


def _differences(path: str, ours: Any, others: Any) -> Iterator[str]:
    """The differences of two JSON values, with the path of each."""
    if isinstance(ours, dict) and isinstance(others, dict):
        for name in sorted(ours.keys() | others.keys()):
            place = f"{path}.{name}" if path else name
            yield from _differences(place, ours.get(name, _ABSENT), others.get(name, _ABSENT))
    elif isinstance(ours, list) and isinstance(others, list) and len(ours) == len(others):
        for k, pair in enumerate(zip(ours, others, strict=True)):
            yield from _differences(f"{path}[{k}]", *pair)
    elif ours != others or type(ours) is not type(others):
        yield f"{path}: {_short(ours)}, {_short(others)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
