"""What a deletion of rows does to champions: train the published one again, list the others."""

from __future__ import annotations

import json
from typing import Any

from spark_auc.app.config.retraining import Retrain
from spark_auc.app.jobs.challenger import fixed_params, window_of
from spark_auc.app.jobs.champion import Champion, publish_champion, read_champion
from spark_auc.app.jobs.champion_prior import first_seen, without_prior
from spark_auc.app.jobs.retrain_history import History
from spark_auc.app.jobs.window_segments import settings_of, with_segments
from spark_auc.pipeline.models import FittedRecipe
from spark_auc.pipeline.retraining import retrained
from spark_auc.publication.directory import Directory
from spark_auc.publication.manifest import VERSIONS
from spark_auc.store.moment_store import MomentStore

_CHAMPION, _ANCHOR = "champion.json", "anchor"


def retrained_champion(
    config: Retrain,
    history: History,
    store: MomentStore,
    recipe: FittedRecipe | None,
    periods: list[str],
) -> dict[str, Any]:
    """Train the champion again if its window has one of the periods, and publish it.

    A champion with a prior is trained without it, by the best penalty with the centre 0: the prior
    was trained on earlier periods, and its weights remain those of the deleted rows.

    Its anchor cannot be trained again. If the window of the anchor may have one of the periods, the
    champion is published without the anchor.

    Raises
    ------
    ConflictError
        Another job published a champion at the same time.
    """
    assert config.delete is not None
    champion = read_champion(config.output.path)
    if champion is None:
        return {"period": None, "trained": False, "reason": "no champion is published"}
    told, made = {"period": champion.period, "trained": False}, champion.record["challenger"]
    requests = champion.record.get("deletions", [])
    is_made, is_trained = config.delete.request in requests, _has_any(champion.record, periods)
    if is_made and is_trained:
        return told | {"trained": True}
    named = {"deletions": [*requests, config.delete.request]}
    if not is_trained:
        told |= {"reason": "its window has none of the periods"}
        if champion.anchor is None or not _anchor_has_any(champion.record, history, periods):
            return told | ({"anchorDropped": True} if is_made else {})
        record = champion.record | named
        _publish(config, champion._replace(record=record, anchor=None), champion)
        return told | {"anchorDropped": True}
    candidate, is_stored = without_prior(made), champion.record["schemaId"] == store.schema_id
    if candidate is None or not is_stored:
        reason = (
            "no penalty was solved without its prior"
            if is_stored
            else "its moments have an earlier schema id"
        )
        return told | {"reason": f"{reason}: a challenger has to replace it"}
    made = {name: value for name, value in made.items() if name != "prior"}
    made |= {"regParam": candidate.regParam, "elasticNetParam": candidate.elasticNetParam}
    excluded = sorted(history.excluded() & {*store.periods()} - {made["to"]})
    (merged,) = store.windows([window_of(made["window"])], newest=made["to"], excluded=excluded)
    moments = merged.total()
    params = config.training.model_dump(exclude_unset=True)
    fixed = fixed_params(params, config, candidate)
    model = retrained(champion.model, moments, fixed)
    settings = settings_of(params, recipe)
    ranker = with_segments(model.ranker, store, merged, excluded, candidate, settings)
    merged.close()
    if ranker.summary.segments is not None:
        made = made | {"segments": ranker.summary.segments}
    # Lines of segments change the scale of scores, and so does a prior that is left out.
    has_lines = bool(ranker.scorer.segments or champion.model.ranker.scorer.segments)
    is_rescored = has_lines or "prior" in champion.record["challenger"]
    rows = [moments.positive.rows, moments.negative.rows]
    new = champion.record | {
        "challenger": made | {"rows": rows, "periods": len(merged.periods)},
        **named,
        **({"rescored": max(history.decided())} if is_rescored else {}),
    }
    made_again = Champion(model.with_ranker(ranker), new, champion.scores)
    _publish(config, made_again, champion)
    return told | {"trained": True, "anchorDropped": champion.anchor is not None}


def _publish(config: Retrain, made: Champion, before: Champion) -> None:
    # The condition of the rows may name the person.
    publish_champion(config.model_copy(update={"delete": None}), made, before)


def containing_versions(config: Retrain, history: History, periods: list[str]) -> list[str]:
    """The versions of champions on disk that contain rows of the request, ascending.

    Those whose window, or whose anchor's window, has one of the periods; without those that the
    request published. A version with a damaged record is listed, too.
    """
    assert config.delete is not None
    versions = Directory.of(config.output.path) / VERSIONS
    found = []
    for name in sorted(versions.names()):
        names = [] if name.startswith(".") else (versions / name).names()
        if _CHAMPION in names:
            try:
                record = json.loads((versions / name).read(_CHAMPION))
                requests = record.get("deletions", [])
                has_rows = _has_any(record, periods) or (
                    _ANCHOR in names and _anchor_has_any(record, history, periods)
                )
            except (ValueError, KeyError, TypeError, AttributeError):
                requests, has_rows = [], True
            if has_rows and config.delete.request not in requests:
                found.append(name)
    return found


def _has_any(record: dict[str, Any], periods: list[str]) -> bool:
    """Whether the window of a champion, or that of a prior before it, may have a period."""
    first, last = first_seen(record), record["challenger"]["to"]
    return any(first <= period <= last for period in periods)


def _anchor_has_any(record: dict[str, Any], history: History, periods: list[str]) -> bool:
    """Whether the window of a champion's anchor may have one of the periods.

    The anchor is one of the champions before, up to the last one that won. Without their records
    it may have any period.
    """
    seen = {record["period"]}
    while not record.get("won", False):
        earlier = history.records.get(record.get("champion") or "", {})
        if not earlier.get("challenger") or earlier["period"] in seen or _has_any(earlier, periods):
            return True
        seen.add(earlier["period"])
        record = earlier
    return False
