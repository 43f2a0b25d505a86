"""What a stream has learned, on disk: committed whole with the number of the batch, or not at all.

A checkpoint directory holds ``spark`` (Spark's account of what belongs to which batch),
``state-<batch>.bin`` (all that the batches up to this one left, of the last two), ``schema.json``,
``status.jsonl`` (a line for each batch) and ``rejected`` (files that could not be used).
"""

from __future__ import annotations

import json
import logging
import posixpath
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from pyarrow import fs
from pydantic import Field, NonNegativeInt

from spark_auc.app.config.jobs import Opauc
from spark_auc.app.directory import Directory
from spark_auc.app.jobs.stored_json import as_json, json_of
from spark_auc.app.jobs.stream_account import Account
from spark_auc.core.state.schema import Part, Schema, array
from spark_auc.errors import ConfigError, ModelFormatError
from spark_auc.training.stream_statistics import StreamStatistics

_log = logging.getLogger(__name__)

ACCOUNT = "spark"
REJECTED = "rejected"
_SCHEMA = "schema.json"
_STATUS = "status.jsonl"
_STATE = re.compile(r"state-(\d{8,})\.bin")


@dataclass(frozen=True)
class Progress:
    """What a state holds beside statistics.

    Parameters
    ----------
    batch
        Number of the last batch learned; -1 before the first.
    files, rejected
        Numbers of files learned and rejected.
    newest
        Latest time of change of a file learned, in hours since 1970.
    refused
        Files of the last batch that are to be moved away, and why.
    status
        What was reported of the last batch.
    settings
        What must not change from one run to the next.
    account
        By which files of Spark's account the last batch is known; see `Account.kept`.
    """

    batch: Annotated[int, Field(ge=-1)] = -1
    files: NonNegativeInt = 0
    rejected: NonNegativeInt = 0
    newest: float | None = None
    refused: Mapping[str, str] = field(default_factory=dict)
    status: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    account: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class StreamState:
    """All that is known after a batch; the statistics are None before the first row."""

    progress: Progress = Progress()
    statistics: StreamStatistics | None = None

    def to_bytes(self) -> bytes:
        """Versioned bytes."""
        return _STORED.encode(vars(self) | {"progress": as_json(asdict(self.progress))})

    @classmethod
    def from_bytes(cls, data: bytes) -> StreamState:
        """The state that `to_bytes` stored; `ModelFormatError` if it is none."""
        return _STORED.restore(data, lambda progress, **rest: cls(_progress(progress), **rest))


_progress = json_of(Progress)
_STORED = Schema(
    "StreamState",
    1,
    {
        "progress": array("|u1", "characters"),
        "statistics": Part(StreamStatistics, optional=True),
    },
)


@dataclass(frozen=True)
class Checkpoint:
    """The directory in which a stream's state is kept.

    Parameters
    ----------
    directory
        It.
    rejected
        Where files are moved that could not be used.
    arriving
        Where files arrive, or a pattern of it; None where rows come otherwise.
    """

    directory: Directory
    rejected: Directory
    arriving: Directory | None

    def load(self) -> StreamState:
        """The committed state, or that before the first batch.

        A damaged one is passed over for the one before it.

        Raises
        ------
        ConfigError
            State and Spark's account of the batches are not of one stream.
        ModelFormatError
            All states are damaged.
        """
        numbers = sorted(self._numbers(), reverse=True)
        # A first batch that was planned and not learned is planned again.
        begun = self.account.committed() or any(self.account.batches())
        if (numbers and not self.account.directory.names()) or (begun and not numbers):
            there, missing = (
                (f"state of batch {max(numbers)}", ACCOUNT) if numbers else (ACCOUNT, "state")
            )
            raise ConfigError(
                f"found {there} without {missing} in {self.directory.uri}, expected both, or "
                "neither before the first run; restore the directory, or set another "
                "opauc.stream.checkpoint to begin again"
            )
        damage: ModelFormatError | None = None
        for number in numbers:
            try:
                return StreamState.from_bytes(self.directory.read(_name(number)))
            except ModelFormatError as error:
                _log.warning("%s in %s: %s", _name(number), self.directory.uri, error)
                damage = damage or error
        if damage is not None:
            raise damage
        return StreamState()

    @property
    def account(self) -> Account:
        """Spark's account of the batches."""
        return Account(self.directory / ACCOUNT)

    def _numbers(self) -> list[int]:
        found = (_STATE.fullmatch(name) for name in self.directory.names())
        return [int(match[1]) for match in found if match]

    def commit(self, state: StreamState) -> None:
        """Make this the state; a process that dies before the end leaves the one before it.

        That one stays, for the case that this one is lost.
        """
        number = state.progress.batch
        self.directory.replace(_name(number), state.to_bytes())
        for old in self._numbers():
            if old < number - 1:
                self.directory.filesystem.delete_file(f"{self.directory.path}/{_name(old)}")

    def move_refused(self, state: StreamState) -> None:
        """Move the files that the state's batch refused, as far as that is still to be done."""
        for path, reason in state.progress.refused.items():
            parent, _, name = path.rpartition("/")
            source = Directory.of(parent)
            target = posixpath.join(self.rejected.path, self._kept_name(f"{source.path}/{name}"))
            there = self.rejected.filesystem
            if not source.filesystem.get_file_info(f"{source.path}/{name}").is_file:
                # An earlier run moved it, and wrote the reason beside it.
                continue
            there.create_dir(posixpath.dirname(target), recursive=True)
            with there.open_output_stream(f"{target}.reason.txt") as stream:
                stream.write(f"{path}\n{reason}\n".encode())
            # A rename would fail from one file system to another.
            fs.copy_files(f"{source.path}/{name}", target, source.filesystem, there)
            source.filesystem.delete_file(f"{source.path}/{name}")

    def _kept_name(self, path: str) -> str:
        """The file's name below the directory in which files arrive."""
        assert self.arriving is not None
        root = re.split(r"/[^/]*[*?\[{]", self.arriving.path, maxsplit=1)[0]
        return path[len(root) + 1 :] if path.startswith(f"{root}/") else posixpath.basename(path)

    def note(self, state: StreamState) -> None:
        """Append the state's line to the status file, where the file system can append."""
        path = f"{self.directory.path}/{_STATUS}"
        try:
            with self.directory.filesystem.open_append_stream(path) as stream:
                stream.write(_line(state))
        except NotImplementedError:
            _log.debug("%s has no status file", self.directory.uri)

    def repair_status(self, state: StreamState) -> None:
        """Let the status file end with the state's line, however a process left it."""
        found = self.directory.read(_STATUS) if _STATUS in self.directory.names() else b""
        before = [line for line in found.splitlines(keepends=True) if _is_before(line, state)]
        whole = b"".join(before) + (_line(state) if state.progress.batch >= 0 else b"")
        if whole != found:
            self.directory.replace(_STATUS, whole)

    def schema(self) -> str | None:
        """The schema that the first run found, as JSON."""
        return self.directory.read(_SCHEMA).decode() if _SCHEMA in self.directory.names() else None

    def keep_schema(self, schema: str) -> None:
        """Keep the schema for the runs to come."""
        self.directory.replace(_SCHEMA, schema.encode())


def settings(config: Opauc) -> dict[str, Any]:
    """What a checkpoint belongs to."""
    source = config.stream.source if config.stream else None
    rows: dict[str, Any] = {}
    if source is not None:
        # Options may change, such as addresses and the size of a batch, and may hold secrets.
        rows["source"] = source.model_dump(mode="json", exclude={"options"})
    elif config.data is not None:
        rows |= {"path": config.data.path, "format": config.data.format}
    return {
        **rows,
        "columns": config.columns.model_dump(mode="json"),
        "output": config.output.path,
    }


def _name(number: int) -> str:
    return f"state-{number:08d}.bin"


def _is_before(line: bytes, state: StreamState) -> bool:
    try:
        return bool(json.loads(line)["batch"] < state.progress.batch) and line.endswith(b"\n")
    except (ValueError, KeyError, TypeError):
        return False


def _line(state: StreamState) -> bytes:
    return json.dumps(state.progress.status, allow_nan=False).encode() + b"\n"
