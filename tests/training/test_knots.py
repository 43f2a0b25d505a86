"""The choice of the number of knots: the rule, ties, bounds and failures."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_auc.training.knots import KnotSelection


def selection(auc: float, uncertainty: float = 0.0) -> dict[str, Any]:
    """Two penalties, of which the second is chosen."""
    worse = {"regParam": 9.0, "elasticNetParam": 0.0, "auc": auc - 0.1, "standardError": 0.2}
    chosen = {"regParam": 0.5, "elasticNetParam": 0.0, "auc": auc, "standardError": 0.01}
    folds = {"folds": [auc - 0.01, auc + 0.01]}
    return {"chosen": 1, "uncertainty": uncertainty, "candidates": [worse | folds, chosen | folds]}


@pytest.mark.parametrize(
    ("aucs", "uncertainty", "chosen"),
    [
        ((0.7, 0.8, 0.75), 0.0, 1),
        ((0.8, 0.7, 0.75), 0.0, 0),
        ((0.7, 0.75, 0.8), 0.0, 2),
        ((0.8, 0.8, 0.8), 0.0, 0),
        ((0.8, 0.8 + 1e-12, 0.8 + 2e-12), 0.0, 0),
        ((0.8, 0.8 + 1e-6, 0.8), 0.0, 1),
        ((0.8, 0.801, 0.8), 0.001, 0),
        ((0.8, 0.803, 0.8), 0.001, 1),
    ],
)
def test_the_best_number_is_chosen_and_fewer_knots_of_equals(
    aucs: tuple[float, ...], uncertainty: float, chosen: int
) -> None:
    choice = KnotSelection()
    taken = None
    for k, auc in enumerate(aucs):
        if choice.add(2 + k, selection(auc, uncertainty)):
            taken = k
    assert choice.chosen == taken == chosen
    found = choice.as_dict()
    assert json.loads(json.dumps(found)) == found
    assert [c["numKnots"] for c in found["candidates"]] == [2, 3, 4]
    assert [c["auc"] for c in found["candidates"]] == list(aucs)
    assert {c["regParam"] for c in found["candidates"]} == {0.5}
    assert f"{2 + chosen} knots: mean AUC {aucs[chosen]:.4f}" in choice.sentence(chosen)


def test_a_failed_number_is_left_out() -> None:
    choice = KnotSelection()
    choice.leave_out(2, "no memory")
    assert choice.chosen is None
    assert choice.add(3, selection(0.6))
    choice.leave_out(4, "no memory")
    assert choice.chosen == 1
    assert [c["leftOut"] for c in choice.candidates] == ["no memory", None, "no memory"]
    assert choice.candidates[0].keys() == choice.candidates[1].keys()
