"""Rankers of segments, each shrunk to the ranker of all rows, from moments by segment and fold."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.gaussian import (
    Line,
    class_ratio_threshold,
    estimated_auc,
    log_odds_line,
    mapped,
    mixture_auc,
)
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.segments import SegmentWeights
from spark_auc.core.types import Float
from spark_auc.solvers.candidates import Candidate
from spark_auc.solvers.path import solve
from spark_auc.training.fold_moments import FoldMoments
from spark_auc.training.settings import TrainingSettings

_log = logging.getLogger(__name__)

# Weight of a row of any segment beside weight 1 of a segment's own row, from weak to strong.
STRENGTHS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
# Least number of rows of each class in a segment: its line has as many observations.
LEAST_ROWS = 50
# Name of the rows of no segment.
REST = ""
# Moments in memory during a solve, beside the two that `MemoryBudget.check_folds` adds to those of
# the folds: of the training rows, of the segment's among them, scaled ones, and temporary tiles.
OF_A_SOLVE = 4
_GLOBAL = "global"

# By segment and strength (0: the ranker of all rows), of each fold; of `REST` for 0 only.
_Scores: TypeAlias = dict[str, list[list[ColumnMoments]]]


class SegmentRankers(NamedTuple):
    """The result of `segment_rankers`.

    Parameters
    ----------
    weights
        Weights on the scale of log odds; None if the ranker of all rows is as good.
    threshold
        Scores above it are predicted positive: as large a share as is positive.
    selection
        Estimated AUC of each strength and of each segment, as JSON types.
    """

    weights: SegmentWeights | None
    threshold: float
    selection: dict[str, Any]


def segment_rankers(
    everyone: FoldMoments,
    parts: Mapping[str, FoldMoments],
    w: Float,
    candidate: Candidate,
    settings: TrainingSettings,
) -> SegmentRankers:
    """Shrink the ranker of each segment to that of all rows, as far as held-out folds ask for it.

    The moments of a segment's ranker are those of its rows, of weight 1, merged with those of all
    rows, of weight ``tau``: pairs of all rows pull the weights to those of the ranker of all rows.
    One ``tau`` of `STRENGTHS` serves all segments. It has the best AUC within segments (of Gaussian
    scores, `estimated_auc`, mean over segments by weight) on the folds, unless the gain over the
    ranker of all rows is at most one standard error, or the AUC over all rows is lower.

    Of ``S`` segments, ``k`` folds and ``d`` features, the choice takes ``(6 S + 1) k`` solves of
    O(d^3) time each. Beside the moments of the arguments it has those of `OF_A_SOLVE` + 2 folds in
    memory: in memory themselves (`FoldsInMemory`), the arguments are those of ``(S + 2) k`` folds.

    Scores of a segment become log odds by a line of their own, from the moments of the held-out
    scores (`log_odds_line`), so that rows of different segments are comparable. The rows of no
    segment have a line too; if they are few, it is that of all rows.

    Parameters
    ----------
    everyone
        Moments of all rows.
    parts
        Moments of the rows of each segment, and under `REST` those of no segment, if any.
    w : (d,)
        Weights of the ranker of all rows.
    candidate
        The penalty of all rankers.
    settings
        Standardization and solver.

    Raises
    ------
    ConvergenceError
        The solver did not reach its tolerance.
    """
    names = [name for name in sorted(parts) if name != REST and is_usable(parts[name])]
    if few := sorted({*parts} - {*names, REST}):
        _log.info("segments of too few rows, ranked like all rows: %s", ", ".join(few))
    if not names:
        return SegmentRankers(None, 0.0, {"chosen": _GLOBAL, "segments": {}})
    scores = _held_out(everyone, parts, names, candidate, settings)
    chosen, selection = _choice(names, scores)
    if not chosen:
        return SegmentRankers(None, 0.0, selection)
    lines = _lines(scores, chosen)
    whole, ranked = everyone.total(), [name for name in names if lines[name].slope > 0]
    W = [w * lines[REST].slope]
    for name in reversed(ranked):
        own, tau = parts[name].total(), STRENGTHS[chosen - 1]
        own_w = _solved(own.merge(whole.scale(tau)), candidate, settings)
        W.insert(0, lines[name].slope * own_w)
    intercept = [lines[name].intercept for name in (*ranked, REST)]
    weights = SegmentWeights(tuple(ranked), np.array(W), np.array(intercept))
    threshold = class_ratio_threshold(_merged(_on_one_scale(scores, lines, chosen)))
    return SegmentRankers(weights, threshold, selection)


def is_usable(part: FoldMoments) -> bool:
    """Whether a segment has `LEAST_ROWS` rows of each class, and rows of both in each fold."""
    counts = np.array([part.rows(k) for k in range(part.folds)])
    return bool((counts > 0).all() and (counts.sum(axis=0) >= LEAST_ROWS).all())


def _held_out(
    everyone: FoldMoments,
    parts: Mapping[str, FoldMoments],
    names: Sequence[str],
    candidate: Candidate,
    settings: TrainingSettings,
) -> _Scores:
    """Moments of the scores of each fold's rows by the rankers of the other folds."""
    scores: _Scores = {name: [[] for _ in (None, *STRENGTHS)] for name in names}
    scores[REST] = [[]]
    for k in range(everyone.folds):
        training = everyone.complement(k)
        w = _solved(training, candidate, settings)
        for name, part in parts.items():
            held_out = part.fold(k)
            if name not in names:
                scores[REST][0].append(held_out.along(w))
                continue
            own = part.complement(k)
            scores[name][0].append(held_out.along(w))
            for strength, of_strength in zip(STRENGTHS, scores[name][1:], strict=True):
                shrunk = _solved(own.merge(training.scale(strength)), candidate, settings)
                of_strength.append(held_out.along(shrunk))
        _log.info("ranked %d segments of fold %d of %d", len(names), k + 1, everyone.folds)
    return scores


def _choice(names: Sequence[str], scores: _Scores) -> tuple[int, dict[str, Any]]:
    """The chosen strength, 0 for the ranker of all rows, and the AUCs."""
    weight = np.array([_merged(scores[name][0]).weight.sum() for name in names])
    auc = np.array([[[estimated_auc(s) for s in f] for f in scores[name]] for name in names])
    within = np.tensordot(weight / weight.sum(), auc, 1)
    overall = [mixture_auc(_on_one_scale(scores, _lines(scores, i), i)) for i in range(len(within))]
    # The ranker of all rows is compared as it is published: without lines. Its scores are mixed by
    # segment too: where segments differ in prevalence, one pair of Gaussians is off by points.
    overall[0] = mixture_auc([_merged(of[0]) for of in scores.values() if of[0]])
    gain = within - within[0]
    error = gain.std(axis=1, ddof=1) / np.sqrt(within.shape[1])
    allowed = (gain.mean(axis=1) > error) & (np.array(overall) >= overall[0])
    chosen = int(np.argmax(np.where(allowed, gain.mean(axis=1), 0.0)))
    strengths = [_GLOBAL, *STRENGTHS]
    return chosen, {
        "chosen": strengths[chosen],
        "strengths": [
            {"strength": strength, "within": float(w), "error": float(e), "overall": float(o)}
            for strength, w, e, o in zip(
                strengths, within.mean(axis=1), error, overall, strict=True
            )
        ],
        "segments": {
            name: {
                "positive": int(_merged(scores[name][0]).rows[0]),
                "negative": int(_merged(scores[name][0]).rows[1]),
                _GLOBAL: float(auc[i, 0].mean()),
                "auc": float(auc[i, chosen].mean()),
            }
            for i, name in enumerate(names)
        },
    }


def _lines(scores: _Scores, chosen: int) -> dict[str, Line]:
    """The line of each segment, and under `REST` that of the rows of no segment.

    If these are few, it is the line of all rows. Rows that are ranked backwards get equal scores.
    """
    lines = {name: log_odds_line(_merged(of[chosen])) for name, of in scores.items() if name}
    rest = _merged([s for of in scores.values() for s in of[0]])
    if scores[REST][0] and (own := _merged(scores[REST][0])).rows.min() >= LEAST_ROWS:
        rest = own
    line = log_odds_line(rest)
    if line.slope <= 0:
        line = Line(0.0, float(np.log(rest.weight[0] / rest.weight[1])))
    return lines | {REST: line}


def _on_one_scale(scores: _Scores, lines: Mapping[str, Line], chosen: int) -> list[ColumnMoments]:
    """The moments of the scores of each segment after its line."""
    mapped_scores = []
    for name, of in scores.items():
        is_ranked = name != REST and lines[name].slope > 0
        part, line = (of[chosen], lines[name]) if is_ranked else (of[0], lines[REST])
        if part:
            mapped_scores.append(mapped(_merged(part), line))
    return mapped_scores


def _merged(scores: Iterable[ColumnMoments]) -> ColumnMoments:
    return reduce(ColumnMoments.merge, scores)


def _solved(moments: PairMoments, candidate: Candidate, settings: TrainingSettings) -> Float:
    """The weights ``(d,)`` of raw columns."""
    scale = settings.scale(moments.columns())
    quadratic = moments.quadratic(scale)
    if settings.prior and candidate.prior:
        quadratic = settings.prior.centred(quadratic, scale).quadratic
    solution = solve(quadratic, candidate.penalty, tol=settings.tol, max_iter=settings.max_iter)
    solution.checked(settings.on_failure)
    return solution.w if scale is None else solution.w / scale
