"""The published champion of a retraining: its model, the anchor, and the scores at its gate.

Beside the files of a published model, a champion has ``champion.json`` (its gate and window),
``scores`` (the histogram of its scores on the gate's rows) and, if it did not win itself,
``anchor``: the last champion that won, a `PipelineModel`.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_auc.app.jobs.deletion_record import containing
from spark_auc.app.jobs.gate_rows import ANCHOR, CHALLENGER, CHAMPION
from spark_auc.app.jobs.published_model import KIND, model_of, save_model, write_model
from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.errors import ConfigError, ConflictError, DataError, ModelFormatError
from spark_auc.pipeline.scored_rows import scores_of
from spark_auc.publication.directory import Directory
from spark_auc.publication.manifest import MANIFEST
from spark_auc.publication.publish import publication
from spark_auc.publication.versions import current, kept

if TYPE_CHECKING:
    from spark_auc.app.config.retraining import Retrain
    from spark_auc.pipeline.models import PipelineModel
    from spark_auc.tables.table import Table

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

    model: PipelineModel
    record: dict[str, Any]
    scores: ScoreHistogram
    anchor: PipelineModel | None = None

    @property
    def period(self) -> str:
        """The period at whose gate it was promoted."""
        return str(self.record["period"])

    @property
    def since(self) -> str:
        """The period after which it was published: that of its gate, or that of a rollback."""
        return str(self.record.get("rollback", {}).get("after", self.period))


def read_champion(location: str) -> Champion | None:
    """The champion; None if nothing is published at the location.

    Raises
    ------
    ConfigError
        Something else is published there.
    ModelFormatError
        A file is missing or damaged, or the model is no champion.
    """
    version = _published(location)
    return None if version is None else _champion(version)


def _champion(version: Directory) -> Champion:
    model = model_of(version)
    anchor = model_of(version, _ANCHOR) if _ANCHOR in version.names() else None
    scores = ScoreHistogram.from_bytes(version.read(_SCORES))
    return Champion(model, json.loads(version.read(_FACTS)), scores, anchor)


def published_record(location: str) -> dict[str, Any] | None:
    """The record of the champion; None if nothing is published at the location."""
    version = _published(location)
    return None if version is None else _record(version)


def _record(version: Directory) -> dict[str, Any]:
    return dict(json.loads(version.read(_FACTS)))


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


def check_champion(location: str, champion: Champion | None) -> None:
    """`ConflictError` if another job published a champion since this one read it."""
    if published_record(location) != (None if champion is None else champion.record):
        raise ConflictError(
            f"found another champion at {location!r} than at the start of this job, expected one "
            "job at a time; the other champion remains: run this job again"
        )


def publish_champion(config: Retrain, made: Champion, before: Champion | None) -> None:
    """Publish a champion in place of another.

    Raises
    ------
    ConflictError
        Another job published a champion since this one read ``before``.
    """
    output = config.output
    with publication(output.path, True, KIND, keep=config.keep) as version:
        # The publication replaces the version from its start: that may be of another job.
        check_champion(output.path, before)
        write_champion(version, made, config)


def scorable(champion: Champion | None, rows: Table, config: Retrain) -> Champion | None:
    """The champion that rows can be scored by; None without one, if the configuration allows it.

    Raises
    ------
    ConfigError
        The rows lack columns of the champion or of the anchor, or have other types.
    """
    if champion is None:
        return None
    reason = unscorable(champion.model, rows)
    if reason is None and champion.anchor is not None:
        reason = unscorable(champion.anchor, rows)
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


def unscorable(model: PipelineModel, rows: Table) -> str | None:
    """The reason why a model cannot score rows; None if it can."""
    try:
        # The rankers of segments need their column, too.
        scores_of(rows, model.ranker.scorer, model.features(rows))
    except (ConfigError, DataError) as error:
        return str(error)
    return None


def compared_models(
    challenger: PipelineModel | None, champion: Champion | None
) -> dict[str, PipelineModel]:
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
        save_model(version, champion.anchor, _ANCHOR)


def kept_champions(config: Retrain) -> list[str]:
    """The periods of earlier champions that are kept for a rollback, the latest first."""
    if _published(config.output.path) is None:
        return []
    periods = [_record(v)["period"] for v in _kept(config, hashes=False)]
    return list(dict.fromkeys(periods))


def check_pin(config: Retrain) -> None:
    """`ConfigError` if the champion of the pinned period is neither published nor kept."""
    if config.pinned is None:
        return
    pin, path = str(config.pinned), config.output.path
    record, others = published_record(path), kept_champions(config)
    if pin in others or (record is not None and record["period"] == pin):
        return
    published = "none" if record is None else f"that of {record['period']}"
    raise ConfigError(
        f"found no champion of {pin} at {path!r}, expected the published one ({published}) or one "
        f"of {len(others)} kept earlier ones ({', '.join(others) or 'none'}); set "
        "retrain.pinned to one of them, or leave it out"
    )


def pinned_champion(config: Retrain, champion: Champion | None, after: str) -> Champion:
    """The champion of the pinned period, published again if another one is published.

    Parameters
    ----------
    config
        The section, with a pin.
    champion
        The published champion.
    after
        The newest period that was decided.

    Returns
    -------
    Champion
        After a rollback its record has ``rollback``: the time, the period ``after`` which it
        happened, and the periods of both champions.

    Raises
    ------
    ConfigError
        The champion of the period is neither published nor kept.
    ConflictError
        Another job published a champion since this one read ``champion``.
    """
    check_pin(config)
    pin = str(config.pinned)
    assert champion is not None
    if champion.period == pin:
        return champion
    path = config.output.path
    sources = [v for v in _kept(config, hashes=True) if _record(v)["period"] == pin]
    if not sources:
        raise ModelFormatError(
            f"found changed files in the kept champion of {pin} at {path!r}, expected those that "
            "were published; restore them, or set retrain.pinned to another champion"
        )
    source = sources[0]
    restored = _champion(source)
    rollback = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "after": after,
        "from": champion.period,
        "to": pin,
    }
    restored = restored._replace(record=restored.record | {"rollback": rollback})
    if config.dryRun:
        return restored
    with publication(path, True, KIND, keep=config.keep) as version:
        check_champion(path, champion)
        for name in source.files():
            version.write(name, source.read(name))
        version.write_json(_FACTS, restored.record)
    return restored


def _kept(config: Retrain, *, hashes: bool) -> list[Directory]:
    """The kept versions of champions, but those whose rows were deleted since."""
    versions = kept(config.output.path, KIND, hashes=hashes)
    left_out = containing(config)
    return [
        version
        for version in versions
        if _FACTS in version.names() and version.path.rpartition("/")[-1] not in left_out
    ]
