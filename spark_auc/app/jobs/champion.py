"""The published champion of a retraining: its model, the anchor, and the scores at its gate.

Beside the files of a published model, a champion has ``champion.json`` (its gate and window),
``scores`` (the histogram of its scores on the gate's rows) and, if it did not win itself,
``anchor``: the last champion that won, a `RankerPipelineModel`.
"""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_auc.app.directory import Directory
from spark_auc.app.jobs.gate_rows import ANCHOR, CHALLENGER, CHAMPION
from spark_auc.app.jobs.published_model import KIND, write_model
from spark_auc.app.manifest import MANIFEST
from spark_auc.app.publish import current
from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.errors import ConfigError, DataError, ModelFormatError
from spark_auc.retraining.gate import Decision, Outcome

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_auc.app.config.retraining import Retrain
    from spark_auc.spark.pipeline import RankerPipelineModel

_log = logging.getLogger(__name__)

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


def scorable(champion: Champion | None, rows: DataFrame, config: Retrain) -> Champion | None:
    """The champion that rows can be scored by; None without one, if the configuration allows it.

    Raises
    ------
    ConfigError
        The rows lack columns of the champion or of the anchor, or have other types.
    """
    if champion is None:
        return None
    reason = _unscorable(champion.model, rows)
    if reason is None and champion.anchor is not None:
        reason = _unscorable(champion.anchor, rows)
    if reason is None:
        return champion
    if not config.gate.withoutChampion:
        raise ConfigError(
            f"found rows that the champion of {champion.period} or its anchor cannot score "
            f"({reason}), expected their columns until a challenger without them has won; add the "
            "columns, or set retrain.gate.withoutChampion to replace the champion without a "
            "comparison"
        )
    _log.warning("the champion of %s cannot score the rows: %s", champion.period, reason)
    return None


def without_comparison(decision: Decision) -> Decision:
    """The decision of a challenger beside a champion that cannot score the rows."""
    outcome: Outcome = "promoted" if decision.outcome == "promoted" else "kept"
    reason = f"the rows lack columns of the champion; {decision.reason}"
    return replace(decision, outcome=outcome, reason=reason)


def _unscorable(model: RankerPipelineModel, rows: DataFrame) -> str | None:
    """The reason why a model cannot score rows; None if it can."""
    try:
        model.features(rows)
    except (ConfigError, DataError) as error:
        return str(error)
    return None


def compared_models(
    challenger: RankerPipelineModel | None, champion: Champion | None
) -> dict[str, RankerPipelineModel]:
    """The models that the gate's rows are scored by, in the order of their comparison."""
    models = {} if challenger is None else {CHALLENGER: challenger}
    if champion is not None:
        models[CHAMPION] = champion.model
        if champion.anchor is not None:
            models[ANCHOR] = champion.anchor
    return models


def write_champion(version: Directory, champion: Champion, config: Retrain) -> None:
    """Write the files of a champion."""
    write_model(version, champion.model, config)
    version.write_json(_FACTS, champion.record)
    version.write(_SCORES, champion.scores.to_bytes())
    if champion.anchor is not None:
        champion.anchor.save(f"{version.uri}/{_ANCHOR}")
