"""The gate: its decisions by cases, and its rate of wins where no model is better."""

import itertools
import json
import math

import numpy as np
import pytest

from spark_auc.core.evaluation.delong import auc_interval
from spark_auc.core.evaluation.paired_auc import PairedAUC
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.errors import ConfigError
from spark_auc.retraining.gate import Gate

MANY = (500, 5000)


def paired(*z, auc=0.7):
    """AUCs of the challenger and of others, to which its test statistics are ``z``."""
    error = 0.01
    aucs = np.array([auc, *(auc - error * value for value in z)])
    # The challenger's AUC has no variance, each of the others that of the difference.
    covariance = np.diag([0.0, *[error**2] * len(z)])
    return PairedAUC(aucs, covariance, False)


@pytest.mark.parametrize(
    ("z", "age", "warned", "strict", "outcome", "won"),
    [
        ([1.7], 1, False, False, "promoted", True),
        ([1.6], 1, False, False, "kept", False),
        ([1.6], 6, False, False, "kept", False),
        ([1.6], 7, False, False, "promoted", False),
        ([-1.6], 7, False, False, "promoted", False),
        ([-1.7], 7, False, False, "kept", False),
        ([-1.7], 700, False, False, "kept", False),
        ([0.0], 7, True, False, "kept", False),
        ([0.0], 700, False, True, "kept", False),
        ([1.7], 1, True, False, "promoted", True),
        ([1.7], 1, False, True, "promoted", True),
        ([1.7, -1.7], 9, False, False, "kept", False),
        ([0.0, -1.7], 9, False, False, "kept", False),
        ([0.0, -1.6], 9, False, False, "promoted", False),
        ([1.7, 0.0], 1, False, False, "promoted", True),
    ],
)
def test_decides_by_significance_age_and_anchor(z, age, warned, strict, outcome, won):
    decision = Gate(strict=strict).decide(paired(*z), MANY, age, warned)
    assert (decision.outcome, decision.won) == (outcome, won), decision
    assert decision.z == pytest.approx(z[0])
    json.dumps(decision.as_dict(), allow_nan=False)


@pytest.mark.parametrize("rows", [(199, 5000), (5000, 199), (0, 0)])
def test_few_rows_decide_nothing(rows):
    decision = Gate().decide(paired(9.0), rows, 99)
    assert decision.outcome == "kept"
    assert str(rows[0]) in decision.reason
    assert Gate().first(interval(0.9), rows).outcome == "stored"


def interval(auc, rows=400):
    rng = np.random.default_rng(0)
    y = np.arange(2 * rows) % 2 == 0
    scores = rng.normal(size=y.size) + y * 2**0.5 * np.sqrt(2) * (auc - 0.5) * 2
    return auc_interval(ScoreTable.of(scores, y))


def test_the_first_champion_ranks_better_than_chance():
    better, chance = interval(0.9), interval(0.5)
    assert better.lower > 0.5 >= chance.lower
    gate = Gate()
    assert gate.first(better, MANY).outcome == "promoted"
    assert gate.first(better, MANY).won
    assert gate.first(chance, MANY).outcome == "stored"


def test_equal_rankings_are_no_win():
    y = np.arange(1000) % 2 == 0
    scores = np.random.default_rng(0).normal(size=1000) + y
    both = PairedAUC.of(np.column_stack([2 * scores, scores]), y)
    assert Gate().decide(both, (500, 500), 1).outcome == "kept"
    assert Gate().decide(both, (500, 500), 7).outcome == "promoted"


def test_a_perfect_ranking_beats_a_constant_one():
    y = np.arange(1000) % 2 == 0
    both = PairedAUC.of(np.column_stack([y * 1.0, np.zeros(1000)]), y)
    decision = Gate().decide(both, (500, 500), 1)
    assert (decision.outcome, decision.won, decision.z) == ("promoted", True, math.inf)
    assert decision.as_dict()["z"] is None
    swapped = PairedAUC.of(np.column_stack([np.zeros(1000), y * 1.0]), y)
    assert Gate().decide(swapped, (500, 500), 70).outcome == "kept"


def test_wins_without_a_difference_have_the_level():
    """Two rankings of one quality, with errors of their own, on 1,000 gates."""
    rng = np.random.default_rng(7)
    wins = 0
    for _ in range(1000):
        y = rng.random(1500) < 0.2
        common = rng.normal(size=y.size) + y
        scores = common[:, None] + 0.5 * rng.normal(size=(y.size, 2))
        rows = int(y.sum()), int((~y).sum())
        wins += Gate(strict=True).decide(PairedAUC.of(scores, y), rows, 1).won
    assert 30 <= wins <= 70


@pytest.mark.parametrize(
    "values",
    [{"level": 0.0}, {"level": 0.5}, {"level": math.nan}, {"oldest": 0}, {"least": 1}],
)
def test_impossible_rules_are_refused(values):
    with pytest.raises(ConfigError, match=next(iter(values))):
        Gate(**values)


def test_losses_never_add_up():
    """A challenger a little worse each time is stopped by the anchor, whatever the champion."""
    gate, loss, error = Gate(), 0.3, 0.01
    quality, anchor, promotions = 0.0, 0.0, 0
    for _ in range(40):
        z, to_anchor = -loss, (quality - loss * error - anchor) / error
        if gate.decide(paired(z, to_anchor), MANY, 7).outcome == "promoted":
            quality, promotions = quality - loss * error, promotions + 1
    assert promotions == 5
    assert quality >= -1.645 * error


def test_outcomes_cover_all_cases():
    for z, a, age in itertools.product([-2.0, 0.0, 2.0], [-2.0, 0.0, 2.0], [1, 8]):
        decision = Gate().decide(paired(z, a), MANY, age)
        promoted = a > -1.7 and (z > 1.7 or (z > -1.7 and age >= 7))
        assert (decision.outcome == "promoted") is promoted
