"""The gate: whether a challenger replaces the champion, by their AUCs on the same new rows."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from statistics import NormalDist
from typing import Any, Literal, TypeAlias

from spark_auc.core.evaluation.delong import AUCInterval
from spark_auc.core.evaluation.paired_auc import PairedAUC
from spark_auc.errors import ConfigError, DataError

Outcome: TypeAlias = Literal["promoted", "kept", "stored"]


@dataclass(frozen=True)
class Decision:
    """What becomes of a challenger.

    Parameters
    ----------
    outcome
        "promoted": the challenger is published. "kept": the champion remains. "stored": there is no
        champion and none is published.
    reason
        One sentence.
    won
        Whether the challenger is significantly better, or the first champion. It is the anchor of
        the decisions that follow.
    difference, z
        AUC of the challenger minus that of the champion, and its test statistic; None without a
        champion or with too few rows.
    anchor_z
        Test statistic against the anchor; None without one.
    """

    outcome: Outcome
    reason: str
    won: bool = False
    difference: float | None = None
    z: float | None = None
    anchor_z: float | None = None

    def pinned(self) -> Decision:
        """The decision under a pinned champion, which remains."""
        if self.outcome != "promoted":
            return self
        reason = f"the champion is pinned; else the challenger is promoted: {self.reason}"
        return replace(self, outcome="kept", reason=reason, won=False)

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON types; None for an infinite statistic."""
        fields = asdict(self)
        return {k: None if v in (math.inf, -math.inf) else v for k, v in fields.items()}


@dataclass(frozen=True)
class Gate:
    """The rule by which a challenger replaces the champion.

    The challenger is trained without the gate's rows. It is promoted if it is significantly better
    than the champion (paired DeLong, one-sided), or if it is not significantly worse and the
    champion is old. It is never promoted if it is significantly worse than the anchor, the last
    champion that won: otherwise many small losses would add up.

    Parameters
    ----------
    strict
        Whether a challenger has to be significantly better, whatever the champion's age.
    level
        One-sided level of the tests, in (0, 0.5).
    oldest
        Age of the champion, in periods, from which on a challenger need not be better.
    least
        Least number of rows of each class.
    """

    strict: bool = False
    level: float = 0.05
    oldest: int = 7
    least: int = 200

    def __post_init__(self) -> None:
        if not (0 < self.level < 0.5 and self.oldest >= 1 and self.least >= 2):
            raise ConfigError(
                f"found level {self.level}, oldest {self.oldest} and least {self.least}, expected "
                "0 < level < 0.5, oldest >= 1 and least >= 2; correct the rule"
            )

    def enough(self, rows: tuple[int, int]) -> bool:
        """Whether the positive and the negative rows suffice for a decision."""
        return min(rows) >= self.least

    def first(self, interval: AUCInterval, rows: tuple[int, int]) -> Decision:
        """The decision without a champion.

        Parameters
        ----------
        interval
            AUC of the challenger on the gate's rows.
        rows
            Number of positive and of negative rows.
        """
        if not self.enough(rows):
            return Decision("stored", self.few(rows))
        if interval.lower <= 0.5:
            return Decision(
                "stored",
                f"the interval of the challenger's AUC {interval.auc:.4f} begins at "
                f"{interval.lower:.4f}, not above 0.5",
            )
        return Decision("promoted", f"the first champion, AUC {interval.auc:.4f}", won=True)

    def decide(
        self, paired: PairedAUC, rows: tuple[int, int], age: int, warned: bool = False
    ) -> Decision:
        """The decision about a challenger.

        Parameters
        ----------
        paired
            AUCs of the challenger, the champion and, if it is another model, the anchor, in this
            order, on the gate's rows.
        rows
            Number of positive and of negative rows.
        age
            Number of periods since the champion was published.
        warned
            Whether drift warned of a period that the challenger was trained or is judged on: then
            it has to be better.
        """
        if not self.enough(rows):
            return Decision("kept", self.few(rows))
        bound = NormalDist().inv_cdf(1.0 - self.level)
        difference = float(paired.auc[0] - paired.auc[1])
        z = _statistic(paired, 1)
        anchor_z = _statistic(paired, 2) if paired.auc.size > 2 else None

        undecided = f"not significantly different (z = {z:.2f})"
        cases: list[tuple[bool, Outcome, str, bool]] = [
            (
                anchor_z is not None and anchor_z < -bound,
                "kept",
                f"significantly worse than the anchor (z = {anchor_z or 0.0:.2f})",
                False,
            ),
            (z > bound, "promoted", f"significantly better (z = {z:.2f} > {bound:.2f})", True),
            (z < -bound, "kept", f"significantly worse (z = {z:.2f} < -{bound:.2f})", False),
            (self.strict, "kept", f"{undecided}, and the rule is strict", False),
            (
                age < self.oldest,
                "kept",
                f"{undecided}, and the champion's age is {age} of {self.oldest} periods",
                False,
            ),
            (
                warned,
                "kept",
                f"{undecided}, and drift warned of a period of its window or its gate",
                False,
            ),
            (True, "promoted", f"{undecided}, and the champion is {age} periods old", False),
        ]
        _, outcome, reason, won = next(case for case in cases if case[0])
        return Decision(outcome, reason, won, difference, z, anchor_z)

    def few(self, rows: tuple[int, int]) -> str:
        """The reason for which too few rows decide nothing."""
        return f"{rows[0]} positive and {rows[1]} negative rows, fewer than {self.least} of a class"


def _statistic(paired: PairedAUC, other: int) -> float:
    """DeLong's z of the first AUC minus another."""
    try:
        return paired.compare(0, other).z
    except DataError:
        # A variance of 0 with different AUCs: one ranking is perfect, the other constant.
        return math.copysign(math.inf, float(paired.auc[0] - paired.auc[other]))
