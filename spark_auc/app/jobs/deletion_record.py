"""What a request to delete rows has done, in a file beside the decisions."""

from __future__ import annotations

import json
from typing import Any

from spark_auc.app.config.retraining import Retrain
from spark_auc.errors import ConfigError, ModelFormatError
from spark_auc.publication.directory import Directory

_DIRECTORY = "deletions"


class DeletionRecord:
    """The state of a request; every change is written at once.

    Parameters
    ----------
    config
        The section, with the part delete.

    Raises
    ------
    ModelFormatError
        The file is damaged.
    """

    def __init__(self, config: Retrain) -> None:
        assert config.delete is not None
        self._directory = Directory.of(config.history) / _DIRECTORY
        self._name = f"{config.delete.request}.json"
        self.exists = self._name in self._directory.names()
        self.values = (
            _read(self._directory, self._name) if self.exists else _new(config.delete.request)
        )

    def write(self, **changes: Any) -> None:
        """Write changed values."""
        self.values |= changes
        text = json.dumps(self.values, indent=2, allow_nan=False) + "\n"
        self._directory.replace(self._name, text.encode())
        self.exists = True

    def note(self, period: str, **facts: Any) -> None:
        """Write facts about a period."""
        periods = self.values["periods"]
        self.write(periods=periods | {period: periods.get(period, {}) | facts})

    def period(self, period: str) -> dict[str, Any]:
        """The facts of a period; empty before the first."""
        return dict(self.values["periods"].get(period, {}))

    def is_done(self, period: str) -> bool:
        """Whether the rows of a period are deleted."""
        return bool(self.period(period).get("done"))


def containing(config: Retrain) -> set[str]:
    """Names of the versions of champions whose rows were deleted since.

    Raises
    ------
    ModelFormatError
        A record is damaged.
    """
    directory = Directory.of(config.history) / _DIRECTORY
    # A write that was killed leaves a file with another ending.
    names = [name for name in directory.names() if name.endswith(".json")]
    return {version for name in names for version in _read(directory, name)["containing"]}


def _new(request: str) -> dict[str, Any]:
    return {
        "request": request,
        "periods": {},
        "dropped": {},
        "containing": [],
        "champion": None,
        "completed": False,
    }


def _read(directory: Directory, name: str) -> dict[str, Any]:
    try:
        values = json.loads(directory.read(name))
        if not isinstance(values, dict) or values.keys() != _new("").keys():
            raise ValueError("it has other fields")
    except ValueError as error:
        raise ModelFormatError(
            f"found a damaged record {name} in {directory.uri} ({error}), expected the JSON of a "
            "deletion; restore it: without it, rows could be subtracted twice"
        ) from None
    return values


def check_deletion(config: Retrain) -> None:
    """Check the request before Spark starts.

    Raises
    ------
    ConfigError
        The rows of a period cannot be found, the request was begun for other periods, or the run
        is to change nothing.
    """
    section = config.delete
    assert section is not None
    if config.dryRun:
        raise ConfigError(
            "found retrain.dryRun with --delete, expected one of them: a deletion changes the "
            "store and the champion; leave out dryRun to delete the rows"
        )
    record, periods = DeletionRecord(config), [p.isoformat() for p in section.periods]
    if others := sorted({*record.values["periods"]} ^ {*periods} if record.exists else ()):
        raise ConfigError(
            f"found the request {section.request!r} begun for the periods "
            f"{sorted(record.values['periods'])}, expected {sorted(periods)}; give a request for "
            f"{others[0]} a name of its own"
        )
    for period in periods:
        # The rows may be deleted since the subtraction, which a record with a digest began.
        if not record.period(period):
            section.rows_of(period).check()
