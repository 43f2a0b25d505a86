"""What a person at a terminal reads of a result: the AUC, where the report is, what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

_SCORE = "to score new rows: spark-auc score --model {model} --data NEW_FILE --output NEW_DIRECTORY"
# What to do after a job or a command, with values of its result.
_NEXT = {
    "prepare": "to train: set train.data.path to {data} or a part of it, and run spark-auc train",
    "train": _SCORE,
    "opauc": _SCORE,
    "adadsg": _SCORE,
    "retrain": _SCORE,
    "evaluate": "open the report in a browser",
}
# Keys of results that name what was written, in the order of which the first is told.
_PLACES = ("report", "output", "model", "data", "history")


def told(job: str, result: Mapping[str, Any]) -> list[str]:
    """The lines for a person, at most three.

    Parameters
    ----------
    job
        Name of the job or the command.
    result
        Its result, without an error.
    """
    lines = [text for text in (_outcome(job, result), _place(result)) if text]
    texts = {name: shlex.quote(value) for name, value in result.items() if isinstance(value, str)}
    try:
        return [*lines, _NEXT[job].format(**texts)]
    except KeyError:
        # Nothing follows, or there is no model yet.
        return lines


def _outcome(job: str, result: Mapping[str, Any]) -> str | None:
    if job == "score":
        return f"scores of {result['rows']:,} rows: {result['scores']}"
    if job == "retrain" and "decision" in result:
        reason = f": {result['reason']}" if result.get("reason") else ""
        return f"{result['decision'] or 'no new period'}{reason}"
    if result.get("auc") is not None:
        rows = (result.get("refit") or {}).get("publishedRows")
        trained = f"; the model of all {rows:,} rows is published" if rows else ""
        interval = _interval(result.get("interval"))
        return f"AUC {result['auc']:.4f} of held-out rows{interval}{trained}"
    if result.get("estimatedAUC") is not None:
        return (
            f"AUC {result['estimatedAUC']:.4f}, estimated from the training rows; train.holdout "
            "or spark-auc evaluate measures it"
        )
    return None


def _interval(interval: Any) -> str:
    level = 0.95
    if isinstance(interval, Mapping):
        level = interval.get("level", level)
        interval = [interval.get("lower"), interval.get("upper")]
    if not interval or None in interval:
        return ""
    return f", {100 * level:g}% interval {interval[0]:.4f} to {interval[1]:.4f}"


def _place(result: Mapping[str, Any]) -> str | None:
    name = next((name for name in _PLACES if result.get(name)), None)
    return f"{name}: {result[name]}" if name else None
