"""What a deletion of rows does to champions: train the published one again, list the others."""

from __future__ import annotations

import json
from typing import Any

from spark_auc.app.config.retraining import Retrain
from spark_auc.app.directory import Directory
from spark_auc.app.jobs.champion import Champion, publish_champion, read_champion
from spark_auc.app.jobs.retrain_history import History
from spark_auc.app.jobs.window_segments import settings_of, with_segments
from spark_auc.app.manifest import VERSIONS
from spark_auc.solvers.candidates import Candidate
from spark_auc.spark.features.recipe import FeatureRecipeModel
from spark_auc.spark.retraining import retrained
from spark_auc.store.moment_store import MomentStore
from spark_auc.store.windows import Window

_CHAMPION = "champion.json"
_CHOSEN = {"regParams", "elasticNetParams", "selectionRule"}


def retrained_champion(
    config: Retrain,
    history: History,
    store: MomentStore,
    recipe: FeatureRecipeModel | None,
    periods: list[str],
) -> dict[str, Any]:
    """Train the champion again if its window has one of the periods, and publish it.

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
    if config.delete.request in requests:
        return told | {"trained": True}
    if not any(made["from"] <= period <= made["to"] for period in periods):
        return told | {"reason": "its window has none of the periods"}
    if champion.record["schemaId"] != store.schema_id:
        reason = "its moments have an earlier schema id: a challenger has to replace it"
        return told | {"reason": reason}
    excluded = sorted(history.excluded() & {*store.periods()} - {made["to"]})
    (merged,) = store.windows([_window(made["window"])], newest=made["to"], excluded=excluded)
    moments = merged.total()
    section = config.columns
    params = config.training.model_dump(exclude_unset=True)
    fixed = {k: v for k, v in params.items() if k not in _CHOSEN} | {
        "regParam": made["regParam"],
        "elasticNetParam": made["elasticNetParam"],
        "featuresCol": section.features,
        "labelCol": section.label,
        "positiveLabel": section.positiveLabel,
        "weightCol": section.weight,
    }
    model = retrained(champion.model, moments, fixed)
    candidate = Candidate(made["regParam"], made["elasticNetParam"])
    settings = settings_of(params, recipe)
    ranker = with_segments(model.ranker, store, merged, excluded, candidate, settings)
    merged.close()
    if ranker.summary.segments is not None:
        made = made | {"segments": ranker.summary.segments}
    # Lines of segments change the scale of scores.
    is_rescored = bool(ranker.scorer.segments or champion.model.ranker.scorer.segments)
    rows = [moments.positive.rows, moments.negative.rows]
    new = champion.record | {
        "challenger": made | {"rows": rows, "periods": len(merged.periods)},
        "deletions": [*requests, config.delete.request],
        **({"rescored": max(history.decided())} if is_rescored else {}),
    }
    # The anchor may contain the rows; it cannot be trained again.
    made_again = Champion(model.with_ranker(ranker), new, champion.scores)
    _publish(config, made_again, champion)
    return told | {"trained": True, "anchorDropped": champion.anchor is not None}


def _publish(config: Retrain, made: Champion, before: Champion) -> None:
    # The condition of the rows may name the person.
    publish_champion(config.model_copy(update={"delete": None}), made, before)


def _window(name: str) -> Window:
    """The window of a name such as "30", "all" or "30, half-life 7"."""
    periods, _, half_life = name.partition(", half-life ")
    return Window(
        None if periods == "all" else int(periods), float(half_life) if half_life else None
    )


def containing_versions(location: str, periods: list[str]) -> list[str]:
    """The versions of champions on disk whose window has one of the periods."""
    versions = Directory.of(location) / VERSIONS
    found = []
    for name in sorted(versions.names()):
        version = versions / name
        if not name.startswith(".") and _CHAMPION in version.names():
            made = json.loads(version.read(_CHAMPION))["challenger"]
            if any(made["from"] <= period <= made["to"] for period in periods):
                found.append(name)
    return found
