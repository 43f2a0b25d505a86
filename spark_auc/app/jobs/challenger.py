"""The challenger: window and penalty chosen from stored moments, and the ranker of the window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spark_auc.app.config.retraining import Retrain
from spark_auc.app.jobs.champion import Champion
from spark_auc.app.jobs.champion_prior import champion_prior, prior_facts
from spark_auc.app.jobs.period_drift import window_counts
from spark_auc.app.jobs.retrain_history import History
from spark_auc.app.jobs.window_segments import settings_of, with_segments
from spark_auc.core.labels import Label
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.retraining.choice import Choice, choose
from spark_auc.solvers.candidates import Candidate
from spark_auc.store.files import SourceFile
from spark_auc.store.moment_store import MomentStore
from spark_auc.store.windows import MergedFolds, Window, ages

if TYPE_CHECKING:
    from spark_auc.pipeline.models import FittedRecipe, PipelineModel
    from spark_auc.tables.columns import TrainingColumns

# Params that the choice of window and penalty sets.
_CHOSEN = {"regParams", "elasticNetParams", "selectionRule"}
# Facts of a penalty in a record; see `Selection.as_dict`.
_LISTED = ("regParam", "elasticNetParam", "auc", "leftOut", "prior")


class Challenger(NamedTuple):
    """A challenger, the choice that made it, and the moments that it was trained on.

    Of a window with half-life, ``parts`` are the factor of each period's weights, and its rows.
    ``prior`` has the facts of the centre of its penalty; None for the centre 0.
    """

    model: PipelineModel
    choice: Choice
    periods: tuple[str, ...]
    moments: PairMoments
    parts: Sequence[tuple[float, int, int]] = ()
    prior: dict[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Window, penalty, rows, certificate and what they were chosen from, as JSON types."""
        candidate, segments = self.choice.candidate, self.model.ranker.summary.segments
        return {
            "window": self.choice.window,
            "periods": len(self.periods),
            "from": self.periods[0],
            "to": self.periods[-1],
            "regParam": candidate.regParam,
            "elasticNetParam": candidate.elasticNetParam,
            "rows": [self.moments.positive.rows, self.moments.negative.rows],
            "certificate": self.model.ranker.summary.as_dict()["certificate"],
            "selections": {
                window: [
                    {name: candidate[name] for name in _LISTED if name in candidate}
                    for candidate in selection.as_dict()["candidates"]
                ]
                for window, selection in self.choice.selections.items()
            },
            **({} if self.prior is None else {"prior": self.prior}),
        } | ({} if segments is None else {"segments": segments})


def challenger(
    store: MomentStore,
    before: Sequence[str],
    history: History,
    config: Retrain,
    recipe: FittedRecipe | None,
    labels: tuple[Label, Label],
    columns: TrainingColumns,
    champion: Champion | None = None,
) -> Challenger | None:
    """The challenger of the periods before a gate.

    Parameters
    ----------
    store
        The store.
    before
        The stored periods before the gate, ascending.
    history
        The records: no window takes periods that they exclude.
    config
        Windows, penalties and columns.
    recipe
        The fitted recipe; None for prepared features.
    labels
        The positive and the negative label.
    columns
        Columns of the gate's rows.
    champion
        The champion.

    Returns
    -------
    Challenger, optional
        None if no periods before the gate have rows of both classes in every fold, or no window
        has them outside of every fold.
    """
    from spark_auc.pipeline.models import PipelineModel
    from spark_auc.pipeline.retraining import trained

    left_out = sorted(history.excluded() & {*store.periods()})
    newest = _newest(store, [period for period in before if period not in left_out])
    if newest is None:
        return None
    read = [*_windows(config), newest]
    *windows, measured = store.windows(read, newest=before[-1], excluded=left_out)
    merged = {_name(m.window): m for m in windows if _has_both_classes(m)}
    if not merged:
        return None
    params = config.training.model_dump(exclude_unset=True)
    settings = settings_of(params, recipe)
    params["standardization"] = settings.standardize
    prior = None
    if champion is not None and config.prior:
        prior = champion_prior(champion, measured.periods[0], recipe, columns)
        settings = replace(settings, prior=prior)
    choice = choose(
        list(merged),
        lambda window, fold: merged[window].complement(fold),
        [measured.fold(k) for k in range(measured.folds)],
        settings,
    )
    chosen = merged[choice.window]
    moments = chosen.total()
    fixed = fixed_params(params, config, choice.candidate)
    ranker = trained(moments, labels, columns, fixed, prior if choice.candidate.prior else None)
    ranker = with_segments(ranker, store, chosen, left_out, choice.candidate, settings)
    parts = _parts(store, chosen)
    for window in (*windows, measured):
        window.close()
    if recipe is not None:
        # The recipe's own counts are of the period it was fitted to, and lost after that run.
        drift = window_counts(history, recipe.recipe, chosen.periods)
        recipe = recipe.replaced(recipe.recipe, drift)
    model = PipelineModel(ranker, recipe)
    facts = None
    if champion is not None and choice.candidate.prior:
        facts = prior_facts(champion)
    return Challenger(model, choice, chosen.periods, moments, parts, facts)


def fixed_params(params: dict[str, Any], config: Retrain, chosen: Candidate) -> dict[str, Any]:
    """The Params of an estimator of one penalty, with the columns of the configuration."""
    columns = config.columns
    return {name: value for name, value in params.items() if name not in _CHOSEN} | {
        "regParam": chosen.regParam,
        "elasticNetParam": chosen.elasticNetParam,
        "featuresCol": columns.features,
        "labelCol": columns.label,
        "positiveLabel": columns.positiveLabel,
        "weightCol": columns.weight,
    }


def _newest(store: MomentStore, included: Sequence[str]) -> Window | None:
    """The window of the newest periods that together have both classes in each fold."""
    age, rows = ages(included), np.zeros((store.facts.folds, 2), np.int64)
    by_period = _files(store)
    for period in reversed(included):
        rows += sum(file.rows() for file in by_period[period])
        if rows.all():
            # Ages are days: between two stored periods there may be others without rows.
            return Window(age[period] + 1)
    return None


def _parts(store: MomentStore, chosen: MergedFolds) -> list[tuple[float, int, int]]:
    """Factor and rows of each class of each source of decayed weights; empty without decay."""
    if chosen.window.half_life is None:
        return []
    age, by_period = ages(chosen.periods), _files(store)
    return [
        (chosen.window.factor(age[period]), *file.rows().sum(axis=0).tolist())
        for period in chosen.periods
        for file in by_period[period]
    ]


def _files(store: MomentStore) -> dict[str, list[SourceFile]]:
    by_period: dict[str, list[SourceFile]] = {}
    for file in store.files():
        by_period.setdefault(file.source.period, []).append(file)
    return by_period


def _has_both_classes(merged: MergedFolds) -> bool:
    """Whether the rows outside of each fold have both classes."""
    rows = [merged.rows(k) for k in range(merged.folds)]
    totals = [sum(counts) for counts in zip(*rows, strict=True)]
    return all(total > own for counts in rows for total, own in zip(totals, counts, strict=True))


def _windows(config: Retrain) -> list[Window]:
    return [
        Window(None if periods is None else int(periods), half_life)
        for periods in config.windows
        for half_life in config.halfLives
    ]


def _name(window: Window) -> str:
    periods = "all" if window.periods is None else str(window.periods)
    return periods if window.half_life is None else f"{periods}, half-life {window.half_life:g}"


def window_of(name: str) -> Window:
    """The window of a name such as "30", "all" or "30, half-life 7"."""
    periods, _, half_life = name.partition(", half-life ")
    return Window(
        None if periods == "all" else int(periods), float(half_life) if half_life else None
    )
