"""What a stage of AdaDSG leaves to the next one, as bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import NonNegativeInt

from spark_auc.app.config.sections import Section
from spark_auc.app.jobs.stored_json import as_json, json_of
from spark_auc.core.state.schema import TEXT, Part, Schema, array, reals
from spark_auc.learners.dsgd import DSGD


@dataclass(frozen=True, eq=False)
class StoredStage:
    """What a stage leaves.

    Parameters
    ----------
    settings
        What must be the same for a job to go on from it.
    rows
        What tells the training rows from others: see `_Checkpoint`.
    log
        What was noted of each stage.
    learner
        The learner after it.
    """

    settings: str
    rows: list[float]
    log: list[dict[str, Any]]
    learner: DSGD

    def to_bytes(self) -> bytes:
        """Versioned bytes."""
        return _SCHEMA.encode(vars(self) | {"log": as_json(self.log)})

    @classmethod
    def from_bytes(cls, data: bytes) -> StoredStage:
        """The stage that `to_bytes` stored; `ModelFormatError` if it is none."""
        return _SCHEMA.restore(
            data,
            lambda settings, rows, log, learner: cls(
                settings, rows.tolist(), _read_log(log), learner
            ),
        )


def _read_log(stored: Any) -> list[dict[str, Any]]:
    return [stage.model_dump() for stage in _logged(stored)]


class _Noted(Section):
    """What is noted of a stage."""

    rows: NonNegativeInt
    steps: NonNegativeInt
    auc: float
    interval: tuple[float, float]
    objective: float
    seconds: float


_logged = json_of(list[_Noted])
_SCHEMA = Schema(
    "AdaDSGStage",
    1,
    {"settings": TEXT, "rows": reals(10), "log": array("|u1", "n"), "learner": Part(DSGD)},
)
