"""Moments of a store or of a published model, with the facts that decide whether they merge."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_auc.app.config.jobs import Train
from spark_auc.app.config.moments import MomentsSection
from spark_auc.app.jobs.published_model import KIND, read_model
from spark_auc.core.labels import Label
from spark_auc.core.moments.moments_tile import MomentsTile, part_names
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.errors import ConfigError, DataError, ModelFormatError
from spark_auc.features.recipe_json import map_json
from spark_auc.publication.versions import current
from spark_auc.store.facts import Facts
from spark_auc.store.moment_store import MomentStore
from spark_auc.store.stored_labels import negative_label
from spark_auc.store.windows import MergedFolds, Window

MOMENTS = "moments.parquet"
# Published models have moments without folds; the folds of rows beside them decide nothing.
_FOLDS = 2
# Facts that decide how the moments are divided.
_OF_PARTS = ("folds:", "seed:", "segment_column:", "segments")


@dataclass(frozen=True)
class Stored:
    """Moments to merge with others.

    Parameters
    ----------
    name
        What they are, for messages.
    facts
        How they were made.
    folds
        The moments of each fold; one entry if the folds are not known.
    labels
        The positive and the negative label; None if they are not known.
    names
        Names of the features; None if they are not known.
    told
        Their source, for the summary.
    """

    name: str
    facts: Facts
    folds: Sequence[PairMoments]
    labels: tuple[Label, Label] | None
    names: tuple[str, ...] | None
    told: dict[str, Any]

    def total(self) -> PairMoments:
        """The moments of all rows."""
        return reduce(PairMoments.merge, self.folds)

    def complement(self, fold: int) -> PairMoments:
        """The moments of the rows outside of a fold."""
        others = (self.folds[k] for k in range(len(self.folds)) if k != fold)
        return reduce(PairMoments.merge, others)


class _Folds(Sequence[PairMoments]):
    """The folds of a window, read one by one."""

    def __init__(self, merged: MergedFolds) -> None:
        self._merged = merged

    def __len__(self) -> int:
        return self._merged.folds

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self._merged.fold(index)


@contextmanager
def stored_moments(section: MomentsSection) -> Iterator[list[Stored]]:
    """The moments that a configuration names, for use inside the block.

    Raises
    ------
    ConfigError
        A store has several schema ids and none is named, or a model has no moments.
    DataError
        A period is unknown.
    ModelFormatError
        Stored moments are damaged.
    """
    models = [_of_model(location) for location in section.models]
    if section.store is None:
        yield models
        return
    location = section.store_location()
    facts = _facts(location, section)
    store = MomentStore(location, facts)
    window = Window(section.window, section.halfLife)
    (merged,) = store.windows([window], newest=section.newest, excluded=section.exclude)
    told = {
        "store": section.store,
        "schemaId": facts.schema_id,
        "from": merged.periods[0],
        "to": merged.periods[-1],
        "periods": len(merged.periods),
    }
    try:
        negative = negative_label(location, facts)
        labels = None if negative is None else (facts.positive_label, negative)
        name = f"the store {section.store!r}"
        of_store = Stored(name, facts, _Folds(merged), labels, None, told)
        yield [of_store, *models]
    finally:
        merged.close()


def _facts(location: str, section: MomentsSection) -> Facts:
    """The facts of the schema id to read."""
    stored = MomentStore.stored_facts(location)
    chosen = [section.schemaId] if section.schemaId is not None else sorted(stored)
    if len(chosen) != 1 or chosen[0] not in stored:
        raise ConfigError(
            f"found the schema ids {sorted(stored)} in the store {section.store!r}, expected "
            f"{section.schemaId or 'one'}; set train.moments.schemaId to one of them"
        )
    return stored[chosen[0]]


def _of_model(location: str) -> Stored:
    """The moments that were published with a model."""
    version, model = current(location, KIND), read_model(location)
    if MOMENTS not in version.names() or model.embeddings:
        found = "with embeddings" if model.embeddings else "without moments"
        raise ConfigError(
            f"found a published model {found} at {location!r}, expected one with moments of its "
            "columns or recipe; train it with saveMoments and without embeddings"
        )
    scorer, config = model.ranker.scorer, json.loads(version.read("config.json"))
    facts = Facts(
        scorer.w.size,
        _FOLDS,
        0,
        scorer.positive,
        config["columns"]["weight"],
        None if model.recipe is None else map_json(model.recipe),
    )
    moments = _read(version.read(MOMENTS), scorer.w.size, location)
    labels = scorer.positive, scorer.negative
    told = {"model": location, "rows": dict(model.ranker.summary.rows)}
    return Stored(f"the model {location!r}", facts, [moments], labels, scorer.names, told)


def _read(data: bytes, dimension: int, location: str) -> PairMoments:
    try:
        table = pq.read_table(pa.BufferReader(data))
        values = zip(table["tile"].to_pylist(), table["moments"].to_pylist(), strict=True)
        parts = {name: MomentsTile.from_bytes(tile) for name, tile in values}
        if {*parts} != {*part_names(dimension)}:
            raise ValueError(f"{len(parts)} tiles")
    except (ValueError, KeyError, pa.ArrowException) as error:
        raise ModelFormatError(
            f"found damaged moments in {location!r} ({str(error)[:80]}), expected a row of each "
            f"tile of {dimension} features; train the model again"
        ) from None
    return PairMoments.of_parts(parts, dimension)


def same_facts(parts: Sequence[Stored]) -> None:
    """`ConfigError` unless the moments are of the same features and weights."""
    first = parts[0]
    for part in parts[1:]:
        fields = first.facts.differences(part.facts)
        # Models have no folds, and moments merge whatever the folds and segments of rows were.
        found = [text for text in fields if not text.startswith(_OF_PARTS)]
        if first.names and part.names and first.names != part.names:
            found.append(f"names: {first.names}, then {part.names}"[:300])
        if found:
            raise ConfigError(
                f"found other moments in {part.name} than in {first.name}: "
                f"{'; '.join(found[:8])}; expected those of equal features, labels and weights; "
                "leave one of them out"
            )


def known_labels(config: Train, parts: Sequence[Stored]) -> tuple[Label, Label]:
    """The positive and the negative label.

    Raises
    ------
    ConfigError
        The negative label is not known.
    DataError
        Parts have different labels.
    """
    section = config.moments
    assert section is not None
    known = {part.name: part.labels for part in parts if part.labels is not None}
    positive = parts[0].facts.positive_label
    if section.negativeLabel is not None:
        known["train.moments"] = (positive, section.negativeLabel)
    if not known:
        raise ConfigError(
            f"found moments with the positive label {positive!r} whose negative label no job "
            "stored, expected it for predictions; set train.moments.negativeLabel, such as 0 or -1"
        )
    if len({*known.values()}) > 1:
        raise DataError(
            f"found different labels (positive, negative): {known}, expected the same; leave out "
            "the moments or rows of other labels"
        )
    return next(iter(known.values()))
