"""The decision about a challenger: the rule of the gate, applied to its rows and the champion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from spark_auc.app.config.retraining import Retrain
from spark_auc.app.jobs.challenger import Challenger
from spark_auc.app.jobs.champion import Champion
from spark_auc.app.jobs.gate_rows import CHALLENGER, GateRows
from spark_auc.app.jobs.retrain_history import History
from spark_auc.retraining.drift import Drift
from spark_auc.retraining.gate import Decision, Gate, Outcome


def decided(
    config: Retrain,
    history: History,
    gate: GateRows,
    champion: Champion | None,
    judged: Champion | None,
    trained: Challenger | None,
    pooled: Sequence[str],
    found: Drift,
) -> Decision:
    """The decision about the challenger of a period.

    Parameters
    ----------
    config, history
        The section and the records.
    gate
        The scored rows.
    champion, judged
        The champion, and the same if the rows can be scored by it.
    trained
        The challenger; None without stored periods of both classes.
    pooled, found
        The periods of the gate, of which the last is judged, and its drift.
    """
    decision = _beside(config, history, gate, judged, trained, pooled, found)
    if champion is not None and judged is None:
        outcome: Outcome = "promoted" if decision.outcome == "promoted" else "kept"
        reason = f"the rows lack columns of the champion; {decision.reason}"
        decision = replace(decision, outcome=outcome, reason=reason)
    return decision if config.pinned is None else decision.pinned()


def _beside(
    config: Retrain,
    history: History,
    gate: GateRows,
    champion: Champion | None,
    trained: Challenger | None,
    pooled: Sequence[str],
    found: Drift,
) -> Decision:
    rule = config.gate
    judge = Gate(rule.strict, rule.level, rule.oldest, rule.least)
    outcome: Outcome = "stored" if champion is None else "kept"
    if trained is None:
        return Decision(outcome, "no earlier periods with rows of both classes are stored")
    if not judge.enough(gate.rows):
        return Decision(outcome, judge.few(gate.rows))
    if champion is None:
        return judge.first(gate.interval(CHALLENGER), gate.rows)
    age = (date.fromisoformat(pooled[-1]) - date.fromisoformat(champion.since)).days
    earlier = history.warned() & {*trained.periods, *pooled[:-1]}
    warned = bool(found.warnings or found.stops or earlier)
    return judge.decide(gate.paired(), gate.rows, age, warned)
