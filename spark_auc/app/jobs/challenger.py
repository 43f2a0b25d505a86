"""The challenger: window and penalty chosen from stored moments, and the ranker of the window."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_auc.app.config.retraining import Retrain
from spark_auc.app.jobs.raw_rows import standardization
from spark_auc.core.labels import Label
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.retraining.choice import Choice, choose
from spark_auc.store.moment_store import MomentStore
from spark_auc.store.windows import MergedFolds, Window, ages
from spark_auc.training.segments import REST, segment_rankers
from spark_auc.training.settings import TrainingSettings

if TYPE_CHECKING:
    from spark_auc.spark.data.columns import TrainingColumns
    from spark_auc.spark.features.recipe import FeatureRecipeModel
    from spark_auc.spark.pipeline import RankerPipelineModel

# Params that the choice of window and penalty sets.
_CHOSEN = {"regParams", "elasticNetParams", "selectionRule"}


class Challenger(NamedTuple):
    """A challenger, the choice that made it, and the moments that it was trained on."""

    model: RankerPipelineModel
    choice: Choice
    periods: tuple[str, ...]
    moments: PairMoments

    def as_dict(self) -> dict[str, Any]:
        """Window, penalty, rows and certificate as JSON types."""
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
        } | ({} if segments is None else {"segments": segments})


def challenger(
    store: MomentStore,
    before: Sequence[str],
    excluded: Collection[str],
    config: Retrain,
    recipe: FeatureRecipeModel | None,
    labels: tuple[Label, Label],
    columns: TrainingColumns,
) -> Challenger | None:
    """The challenger of the periods before a gate.

    Parameters
    ----------
    store
        The store.
    before
        The stored periods before the gate, ascending.
    excluded
        Periods that no window takes.
    config
        Windows, penalties and columns.
    recipe
        The fitted recipe; None for prepared features.
    labels
        The positive and the negative label.
    columns
        Columns of the gate's rows.

    Returns
    -------
    Challenger, optional
        None if no periods before the gate have rows of both classes in every fold, or no window
        has them outside of every fold.
    """
    from spark_auc.spark.pipeline import RankerPipelineModel
    from spark_auc.spark.retraining import trained

    left_out = sorted({*excluded} & {*store.periods()})
    if not {*before} - {*left_out}:
        return None
    newest = _newest(store, before, left_out)
    if newest is None:
        return None
    windows = store.windows(_windows(config), newest=before[-1], excluded=left_out)
    merged = {_name(m.window): m for m in windows if _has_both_classes(m)}
    if not merged:
        return None
    params = standardization(config.features, config.training)
    params |= config.training.model_dump(exclude_unset=True)
    choice = choose(
        list(merged),
        lambda window, fold: merged[window].complement(fold),
        newest,
        _settings(params),
    )
    chosen = merged[choice.window]
    moments = chosen.total()
    section = config.columns
    fixed = {k: v for k, v in params.items() if k not in _CHOSEN} | {
        "regParam": choice.candidate.regParam,
        "elasticNetParam": choice.candidate.elasticNetParam,
        "featuresCol": section.features,
        "labelCol": section.label,
        "positiveLabel": section.positiveLabel,
        "weightCol": section.weight,
    }
    ranker = trained(moments, labels, columns, fixed)
    if store.facts.segment_column is not None:
        parts = _segments(store, chosen, before[-1], left_out)
        weights, settings = ranker.scorer.w, _settings(params)
        made = segment_rankers(chosen, parts, weights, choice.candidate, settings)
        ranker = ranker.with_segments(store.facts.segment_column, made)
        for part in parts.values():
            part.close()
    for window in windows:
        window.close()
    return Challenger(RankerPipelineModel(ranker, recipe), choice, chosen.periods, moments)


def _newest(
    store: MomentStore, before: Sequence[str], excluded: Sequence[str]
) -> list[PairMoments] | None:
    """Moments by fold of the newest periods that together have both classes in each fold."""
    included = [period for period in before if period not in excluded]
    age = ages(included)
    for period in reversed(included):
        # Ages are days: between two stored periods there may be others without rows.
        (merged,) = store.windows([Window(age[period] + 1)], newest=before[-1], excluded=excluded)
        try:
            if all(min(merged.rows(k)) for k in range(merged.folds)):
                return [merged.fold(k) for k in range(merged.folds)]
        finally:
            merged.close()
    return None


def _segments(
    store: MomentStore, chosen: MergedFolds, newest: str, excluded: Sequence[str]
) -> dict[str, MergedFolds]:
    """The merged folds of each segment of a window."""
    stored = {c.segment for c in store.contents() if c.period in chosen.periods}
    names = sorted(stored & {*store.facts.segments, REST})
    merged = store.windows([chosen.window], newest=newest, excluded=excluded, segments=names)
    return dict(zip(names, merged, strict=True))


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


def _settings(params: dict[str, Any]) -> TrainingSettings:
    """The settings of the choice, by the Params of MBASelector."""
    from spark_auc.spark.estimators.selector import MBASelector

    values: dict[str, Any] = MBASelector(**params).values()
    return TrainingSettings(
        reg_params=None if values["regParams"] is None else tuple(values["regParams"]),
        elastic_net_params=tuple(values["elasticNetParams"]),
        one_standard_error=values["selectionRule"] == "oneStandardError",
        standardize=values["standardization"],
        tol=values["tol"],
        max_iter=values["maxIter"],
        on_failure=values["whenNotConverged"],
    )
