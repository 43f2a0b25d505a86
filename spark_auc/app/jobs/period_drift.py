"""Drift of a period in a retraining: by moments, scores of the champion, and raw columns."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from spark_auc.app.config.retraining import Retrain
from spark_auc.app.jobs.champion import Champion
from spark_auc.app.jobs.gate_rows import CHAMPION, GateRows
from spark_auc.app.jobs.retrain_history import History
from spark_auc.core.evaluation.score_histogram import ScoreHistogram
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.features.drift import COUNTED, Excess
from spark_auc.features.drift import Drift as Counts
from spark_auc.features.recipe import Recipe
from spark_auc.features.seen import Seen
from spark_auc.retraining.drift import Drift, Limits, drift, nearest

if TYPE_CHECKING:
    from spark_auc.pipeline.models import FittedRecipe
    from spark_auc.tables.table import Table

_log = logging.getLogger(__name__)

# Stored periods whose scores are references beside those of the champion's gate: one of each
# weekday. An accepted period is one of them at once.
_PERIODS = 7
_GATE = "gate"
# Raw columns that a warning names.
_NAMED = 3


class Before(Protocol):
    """The periods before one and their moments; a challenger has those of its window."""

    @property
    def periods(self) -> tuple[str, ...]:
        """The periods, ascending."""

    @property
    def moments(self) -> PairMoments:
        """Their merged moments."""

    @property
    def parts(self) -> Sequence[tuple[float, int, int]]:
        """Of a window with half-life, the factor of each period's weights, and its rows."""


class PeriodDrift(NamedTuple):
    """Differences between a period and those before, with what later periods are compared with.

    Parameters
    ----------
    found
        The measures, with all warnings and stops.
    reference
        The period whose scores are nearest, or "gate"; None without scores.
    scores
        Scores of the champion on the period's rows; None without a champion.
    counts
        Counts of the raw columns; None without a recipe.
    excesses
        Shares that exceed those of the window.
    names
        Names of the features.
    limits
        The section ``drift``.
    """

    found: Drift
    limits: Mapping[str, float]
    reference: str | None = None
    scores: ScoreHistogram | None = None
    counts: Counts | None = None
    excesses: tuple[Excess, ...] = ()
    names: Sequence[str] | None = None

    def as_dict(self) -> dict[str, Any]:
        """The keys ``drift`` and ``columns`` of a record, as JSON types."""
        result = self.found.as_dict()
        for shift in result["shifts"]:
            shift["feature"] = self.names[shift["column"]] if self.names else None
        result |= {
            "reference": self.reference,
            "excesses": [excess._asdict() for excess in self.excesses],
            "limits": dict(self.limits),
        }
        return {"drift": result, "columns": _listed(self.counts)}


def measured(
    config: Retrain,
    history: History,
    recipe: FittedRecipe | None,
    rows: Table,
    total: PairMoments,
    trained: Before | None,
    champion: Champion | None,
    gate: GateRows | None,
    names: Sequence[str] | None,
    without: str | None = None,
) -> PeriodDrift:
    """Measure the drift of a period; warnings and stops go to the log.

    Parameters
    ----------
    config, history, recipe
        The section, the records and the recipe.
    rows, total
        The rows of the period, and their moments.
    trained
        The challenger, or another window; it is the reference.
    champion, gate
        The champion, and the gate's rows; None without both classes.
    names
        Names of the features.
    without
        A period whose earlier scores are no reference.
    """
    section = config.drift.model_dump()
    scores = reference = pair = None
    if champion is not None and gate is not None:
        scores = gate.histogram(CHAMPION, newest=True)
        if references := _references(history, champion, without):
            reference = nearest(references, scores)
            pair = references[reference], scores
    before, parts = (total, ()) if trained is None else (trained.moments, trained.parts)
    limits = Limits(**{name: value for name, value in section.items() if name != "share"})
    found = drift(before, total, pair, limits, parts, names)
    counts, excesses = None, tuple[Excess, ...]()
    if recipe is not None:
        counts = _counted(recipe, rows, trained)
        periods = () if trained is None else trained.periods
        if expected := window_counts(history, recipe.recipe, periods):
            excesses = counts.excesses(expected, config.drift.share, config.drift.z)
    sentences = [excess.beside("in the window") for excess in excesses[:_NAMED]]
    if more := len(excesses) - len(sentences):
        sentences.append(f"and {more} more shares of raw columns")
    found = replace(found, warnings=(*found.warnings, *sentences))
    for sentence in (*found.warnings, *found.stops):
        _log.warning("drift: %s", sentence)
    return PeriodDrift(found, section, reference, scores, counts, excesses, names)


def _references(
    history: History, champion: Champion, without: str | None
) -> dict[str, ScoreHistogram]:
    """Scores of the champion at its gate, and on the newest stored periods after it.

    After a deletion the scores of a champion with segments have another scale: the first period
    then has no reference.
    """
    since = champion.record.get("rescored")
    if since is not None:
        return _later(history, champion, since, without)
    later = _later(history, champion, champion.period, without)
    return {_GATE: champion.scores} | later


def _later(
    history: History, champion: Champion, since: str, without: str | None
) -> dict[str, ScoreHistogram]:
    """Scores of the champion on the newest stored periods after one, without another."""
    left_out = history.excluded() | {without}
    periods = [
        period
        for period, record in history.records.items()
        if record["completed"] and period not in left_out and period > since
    ]
    found = ((p, history.scores(p, champion.period)) for p in reversed(periods))
    return dict(islice(((p, scores) for p, scores in found if scores is not None), _PERIODS))


def _counted(recipe: FittedRecipe, rows: Table, trained: Before | None) -> Counts:
    from spark_auc.pipeline.drift import drift_of

    return drift_of(
        rows,
        recipe.recipe,
        seen=None if trained is None else _seen(recipe.recipe, trained.moments),
    )


def _seen(recipe: Recipe, moments: PairMoments) -> Seen | None:
    """The features of tokens that occurred in the rows of moments; None without such columns."""
    if not recipe.hashed:
        return None
    means = [side.mean for side in (moments.positive, moments.negative)]
    return Seen.of_occurred(recipe, np.any(means, axis=0))


def window_counts(history: History, recipe: Recipe, periods: Iterable[str]) -> Counts | None:
    """Sum of the counts in the records of a window's periods, for the columns of a recipe.

    Records without counts, or with those of other columns, are left out; None if there is no other.
    """
    counts = Counts.zero(recipe)
    records = (history.records.get(period, {}).get("columns") for period in periods)
    parsed = [found for record in records if record and (found := _parsed(record, counts))]
    return reduce(Counts.merge, parsed) if parsed else None


def _listed(counts: Counts | None) -> list[dict[str, Any]] | None:
    if counts is None:
        return None
    return [
        {"column": name, "kind": kind, **dict(zip(COUNTED, row, strict=True))}
        for name, kind, row in zip(
            counts.names.tolist(), counts.kinds.tolist(), counts.counts.tolist(), strict=True
        )
    ]


def _parsed(listed: Sequence[Mapping[str, Any]], like: Counts) -> Counts | None:
    """The counts that `_listed` made; None if they are of other columns."""
    columns = [(row["column"], row["kind"]) for row in listed]
    if columns != list(zip(like.names.tolist(), like.kinds.tolist(), strict=True)):
        return None
    values = np.array([[row[name] for name in COUNTED] for row in listed], np.int64)
    return replace(like, counts=values.reshape(len(listed), len(COUNTED)))
