"""The composition of feature maps, such as a scale and the map of a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

from spark_auc.core.state.codec import kind_of
from spark_auc.core.state.schema import Parts, Schema
from spark_auc.core.types import Rows
from spark_auc.errors import ConfigError
from spark_auc.features.embedding import Embedding, Mixing
from spark_auc.features.restore import classes, restore


@dataclass(frozen=True, eq=False)
class Composition(Mixing):
    """Feature maps that are applied one after another.

    Parameters
    ----------
    maps
        One or more maps, in the order of their application.

    Raises
    ------
    ConfigError
        There is no map, or a map takes another number of features than the map before it makes.
    """

    maps: tuple[Embedding, ...]

    def __post_init__(self) -> None:
        for before, after in pairwise(self.maps):
            if before.dimension != after.input_dimension:
                raise ConfigError(
                    f"found a map to {before.dimension} features before a map of "
                    f"{after.input_dimension}, expected equal numbers; fit the maps one after "
                    "another"
                )
        if not self.maps:
            raise ConfigError("found no maps, expected one or more; compose fitted maps")

    @property
    def input_dimension(self) -> int:
        """Number of features ``d`` of the first map."""
        return self.maps[0].input_dimension

    @property
    def dimension(self) -> int:
        """Number of features ``F`` of the last map."""
        return self.maps[-1].dimension

    @property
    def takes_missing(self) -> bool:
        """Whether the first map takes missing values."""
        return self.maps[0].takes_missing

    def names(self, columns: Sequence[str]) -> tuple[str, ...] | None:
        """See `Embedding.names`; None if a map has no names."""
        names: Sequence[str] | None = columns
        for part in self.maps:
            if names is not None:
                names = part.names(names)
        return None if names is None else tuple(names)

    def transform(self, X: Rows) -> Rows:
        """Map rows ``(n, d)`` to ``(n, F)`` by all maps; see `Embedding.transform`."""
        for part in self.maps:
            X = part.transform(X)
        return X

    def to_bytes(self) -> bytes:
        """Versioned bytes of the maps."""
        return _SCHEMA.encode({"maps": self.maps})

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The maps from the bytes of `to_bytes`; `ModelFormatError` if they are invalid."""
        return _SCHEMA.restore(data, cls._restored)

    @classmethod
    def _restored(cls, maps: tuple[bytes, ...]) -> Self:
        # A composition in a composition has no use, and could be nested to any depth.
        kinds = classes().keys() - {cls.__name__}
        for part in maps:
            kind_of(part, kinds)
        return cls(tuple(map(restore, maps)))


_SCHEMA = Schema("Composition", 1, {"maps": Parts(None)})
