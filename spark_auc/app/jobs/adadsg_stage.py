"""The checkpoint of the job ``adadsg``: the state after its last stage."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import NonNegativeInt

from spark_auc.app.config.jobs import Adadsg
from spark_auc.app.config.sections import Section
from spark_auc.app.jobs.stored_json import as_json, json_of
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.state.schema import TEXT, Part, Schema, array, reals
from spark_auc.core.types import Float
from spark_auc.errors import ConfigError
from spark_auc.learners.dsgd import DSGD
from spark_auc.learners.held_out import HeldOut
from spark_auc.publication.directory import Directory
from spark_auc.publication.redaction import names_secret, redacted

_FILE = "stage.bin"


@dataclass(frozen=True, eq=False)
class StoredStage:
    """State after a stage, from which a job resumes.

    Parameters
    ----------
    settings
        Settings of the job as JSON; a job with other settings cannot resume.
    rows : (10,)
        Fingerprint of the training rows; see `fingerprint`.
    log
        Rows, steps, AUC, interval, objective with its standard error, and seconds of each stage.
    learner
        The learner after the stage.
    held_out
        How it ranked rows before it took them; None if that was not measured.
    before : (d,), optional
        Its weights before the stage. Checkpoints of earlier versions have neither.
    """

    settings: str
    rows: list[float]
    log: list[dict[str, Any]]
    learner: DSGD
    held_out: HeldOut | None = None
    before: Float | None = None

    def to_bytes(self) -> bytes:
        """Versioned bytes."""
        return _SCHEMA.encode(vars(self) | {"log": as_json(self.log)})

    @classmethod
    def from_bytes(cls, data: bytes) -> StoredStage:
        """Decode the bytes of `to_bytes`; `ModelFormatError` for other bytes."""
        return _SCHEMA.restore(
            data,
            lambda settings, rows, log, **others: cls(
                settings, rows.tolist(), _read_log(log), **others
            ),
        )


def _read_log(stored: Any) -> list[dict[str, Any]]:
    return [stage.model_dump() for stage in _decode_log(stored)]


class _StageLog(Section):
    """Log of a stage."""

    rows: NonNegativeInt
    steps: NonNegativeInt
    auc: float
    interval: tuple[float, float]
    objective: float
    objectiveError: float | None = None
    seconds: float


_decode_log = json_of(list[_StageLog])
_SCHEMA = Schema(
    "AdaDSGStage",
    1,
    {
        "settings": TEXT,
        "rows": reals(10),
        "log": array("|u1", "n"),
        "learner": Part(DSGD),
        "held_out": Part(HeldOut, optional=True),
        "before": array("<f8", "d", optional=True),
    },
)


def fingerprint(surveyed: ColumnMoments) -> list[float]:
    """Fingerprint ``(10,)`` of rows: counts of each class, and random projections of moments."""
    share = np.random.default_rng(0).random(surveyed.mean.shape[1])
    mixed = [surveyed.mean @ share, np.abs(surveyed.mean) @ share, surveyed.variance @ share]
    return [float(v) for part in (surveyed.rows, surveyed.entries, *mixed) for v in part]


def _same_rows(rows: Sequence[float], expected: Sequence[float]) -> bool:
    """Whether two fingerprints are equal up to the rounding of another order of summation."""
    if rows[:4] != expected[:4]:
        return False
    scale = np.abs(expected[4:]).max(initial=0.0)
    return bool(np.allclose(rows[4:], expected[4:], rtol=0.0, atol=1e-9 * scale))


def _identity(settings: dict[str, Any]) -> str:
    """Settings that must not change between runs, as JSON; credentials may change."""
    fixed = dict(settings)
    # Checkpoints from before these keys do not have them.
    new = {"loss": "squared", "pairs": "mixed", "schedule": None}
    fixed["training"] = {
        key: value
        for key, value in settings["training"].items()
        if key not in new or value != new[key]
    }
    for name in ("data", "validation"):
        source = settings[name]
        options = {key: value for key, value in source["options"].items() if not names_secret(key)}
        absent = {key for key in ("where", "select") if source[key] is None}
        kept = {key: value for key, value in source.items() if key not in absent}
        fixed[name] = kept | {"options": options}
    return json.dumps(redacted(fixed), sort_keys=True)


@dataclass(frozen=True)
class StageCheckpoint:
    """The state after the last stage, in one file that is replaced atomically.

    Parameters
    ----------
    directory
        Directory of the file.
    settings
        Settings that must not change; see `_identity`.
    rows
        Fingerprint of the training rows; see `fingerprint`. Empty before they were read.
    """

    directory: Directory
    settings: str
    rows: Sequence[float] = ()

    @classmethod
    def of(cls, config: Adadsg) -> StageCheckpoint:
        """The checkpoint of a configuration."""
        names = {"data", "validation", "columns", "training"}
        # Checkpoints from before these keys do not have them.
        names |= {"features"} if config.features else set()
        names |= {"embeddings"} if config.embeddings else set()
        fixed = config.model_dump(mode="json", include=names)
        return cls(Directory.of(config.checkpoint), _identity(fixed))

    def load(self) -> StoredStage | None:
        """The state after the last stage; None before the first.

        Raises
        ------
        ConfigError
            The checkpoint is from a job with other settings, or the training rows changed.
        ModelFormatError
            The checkpoint is damaged.
        """
        if _FILE not in self.directory.names():
            return None
        stored = StoredStage.from_bytes(self.directory.read(_FILE))
        if stored.settings != self.settings:
            raise ConfigError(
                "found a checkpoint of other data, validation, columns or training in "
                f"{self.directory.uri}, expected one of this configuration; set another "
                "adadsg.checkpoint, or remove it to start again"
            )
        if self.rows and not _same_rows(self.rows, stored.rows):
            raise ConfigError(
                f"found {self.rows[0]:.0f} positive and {self.rows[1]:.0f} negative rows, expected "
                f"the {stored.rows[0]:.0f} and {stored.rows[1]:.0f} rows in the checkpoint "
                f"in {self.directory.uri} with equal values; restore the rows, set another "
                "adadsg.checkpoint, or remove it to start again"
            )
        return stored

    def commit(
        self,
        learner: DSGD,
        held_out: HeldOut | None,
        before: Float | None,
        log: Sequence[dict[str, Any]],
    ) -> None:
        """Replace the state of the previous stage; see `StoredStage`."""
        stage = StoredStage(self.settings, list(self.rows), list(log), learner, held_out, before)
        self.directory.replace(_FILE, stage.to_bytes())

    def clear(self) -> None:
        """Remove the state after the model is published."""
        if _FILE in self.directory.names():
            self.directory.filesystem.delete_file(f"{self.directory.path}/{_FILE}")
