"""The published champion of a retraining: its model, the anchor, and the scores at its gate.

Beside the files of a published model, a champion has ``champion.json`` (its gate and window),
``scores`` (the histogram of its scores on the gate's rows) and, if it did not win itself,
``anchor``: the last champion that won, a `RankerPipelineModel`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_auc.app.directory import Directory
from spark_auc.app.jobs.published_model import KIND, write_model
from spark_auc.app.manifest import MANIFEST
from spark_auc.app.publish import current
from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.errors import ModelFormatError

if TYPE_CHECKING:
    from spark_auc.app.config.retraining import Retrain
    from spark_auc.spark.pipeline import RankerPipelineModel

_FACTS, _SCORES, _ANCHOR = "champion.json", "scores", "anchor"


class Champion(NamedTuple):
    """A champion.

    Parameters
    ----------
    model
        The model.
    record
        The record of the period at whose gate it was promoted.
    scores
        Its scores on the gate's rows.
    anchor
        The last champion that won; None if it is this one.
    """

    model: RankerPipelineModel
    record: dict[str, Any]
    scores: ScoreHistogram
    anchor: RankerPipelineModel | None = None

    @property
    def period(self) -> str:
        """The period at whose gate it was promoted."""
        return str(self.record["period"])


def read_champion(location: str) -> Champion | None:
    """The champion; None if nothing is published at the location.

    Raises
    ------
    ConfigError
        Something else is published there.
    ModelFormatError
        A file is missing or damaged, or the model is no champion.
    """
    from spark_auc.spark.pipeline import RankerPipelineModel

    if (version := _published(location)) is None:
        return None
    model: RankerPipelineModel = RankerPipelineModel.load(f"{version.uri}/model")
    anchor: RankerPipelineModel | None = None
    if _ANCHOR in version.names():
        anchor = RankerPipelineModel.load(f"{version.uri}/{_ANCHOR}")
    scores = ScoreHistogram.from_bytes(version.read(_SCORES))
    return Champion(model, json.loads(version.read(_FACTS)), scores, anchor)


def published_record(location: str) -> dict[str, Any] | None:
    """The record of the champion; None if nothing is published at the location."""
    version = _published(location)
    return None if version is None else dict(json.loads(version.read(_FACTS)))


def _published(location: str) -> Directory | None:
    if MANIFEST not in Directory.of(location).names():
        return None
    version = current(location, KIND)
    if _FACTS not in version.names():
        raise ModelFormatError(
            f"found a published model without {_FACTS} at {location!r}, expected one that a "
            "retraining published; set another retrain.output.path"
        )
    return version


def write_champion(version: Directory, champion: Champion, config: Retrain) -> None:
    """Write the files of a champion."""
    write_model(version, champion.model, config)
    version.write_json(_FACTS, champion.record)
    version.write(_SCORES, champion.scores.to_bytes())
    if champion.anchor is not None:
        champion.anchor.save(f"{version.uri}/{_ANCHOR}")
