"""Rankers of segments from the stored moments of a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spark_auc.solvers.candidates import Candidate
from spark_auc.store.moment_store import MomentStore
from spark_auc.store.windows import MergedFolds
from spark_auc.training.segments import REST, segment_rankers
from spark_auc.training.settings import TrainingSettings

if TYPE_CHECKING:
    from spark_auc.pipeline.models import FittedRecipe, Ranker


def settings_of(params: Mapping[str, Any], recipe: FittedRecipe | None) -> TrainingSettings:
    """The settings of a choice from stored folds.

    Parameters
    ----------
    params
        Params of MBASelector.
    recipe
        The fitted recipe; None for prepared features.
    """
    from spark_auc.pipeline.estimators import MBASelectingEstimator
    from spark_auc.pipeline.recipe_ranker import suited

    return suited(MBASelectingEstimator(**params), recipe).settings_on_moments()


def with_segments(
    ranker: Ranker,
    store: MomentStore,
    chosen: MergedFolds,
    excluded: Sequence[str],
    candidate: Candidate,
    settings: TrainingSettings,
) -> Ranker:
    """The ranker of a window with rankers of its segments; as it is, if none are stored.

    Parameters
    ----------
    ranker
        The ranker of all rows of the window.
    store
        The store.
    chosen
        The merged folds of all rows of the window.
    excluded
        Periods that the window leaves out.
    candidate
        The penalty.
    settings
        Standardization, tolerance and iterations.

    Raises
    ------
    ConvergenceError
        The solver did not reach its tolerance.
    """
    facts = store.facts
    if facts.segment_column is None:
        return ranker
    stored = {c.segment for c in store.contents() if c.period in chosen.periods}
    names = sorted(stored & {*facts.segments, REST})
    merged = store.windows(
        [chosen.window], newest=chosen.periods[-1], excluded=excluded, segments=names
    )
    try:
        parts = dict(zip(names, merged, strict=True))
        made = segment_rankers(chosen, parts, ranker.scorer.w, candidate, settings)
    finally:
        for part in merged:
            part.close()
    return ranker.with_segments(facts.segment_column, made)
