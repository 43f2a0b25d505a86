"""The decision about a challenger, without Spark."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from spark_auc.app.jobs import decision
from spark_auc.app.jobs.decision import decided

TRAINED = ("2026-03-01", "2026-03-02")


@pytest.mark.parametrize(
    ("warned_period", "pooled", "warned"),
    [
        (None, ["2026-03-09"], False),
        ("2026-03-02", ["2026-03-09"], True),
        ("2026-03-08", ["2026-03-09"], False),
        ("2026-03-08", ["2026-03-08", "2026-03-09"], True),
    ],
)
def test_a_warned_period_of_window_or_gate_turns_off_the_rule_of_age(
    monkeypatch, warned_period, pooled, warned
):
    calls = []
    rule = SimpleNamespace(
        enough=lambda _: True, decide=lambda *given: calls.append(given) or "decision"
    )
    monkeypatch.setattr(decision, "Gate", lambda *_: rule)
    config = SimpleNamespace(
        gate=SimpleNamespace(strict=False, level=0.05, oldest=7, least=200), pinned=None
    )
    history = SimpleNamespace(warned=lambda: {warned_period} - {None})
    gate = SimpleNamespace(rows=(200, 200), paired=lambda: "pairs")
    champion = SimpleNamespace(since="2026-03-01")
    trained = SimpleNamespace(periods=TRAINED)
    drift = SimpleNamespace(warnings=[], stops=[])
    made = decided(config, history, gate, champion, champion, trained, pooled, drift)
    assert made == "decision"
    assert calls == [("pairs", (200, 200), 8, warned)]
