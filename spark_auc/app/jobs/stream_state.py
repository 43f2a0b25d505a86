"""The stored state of a stream: statistics and the number of the last batch, in one file.

A checkpoint directory contains ``spark`` (Spark's checkpoint), ``state-<batch>.bin`` (the states
after the last two batches), ``schema.json``, ``status.jsonl`` (a line for each batch) and
``rejected`` (invalid files).
"""

from __future__ import annotations

import hashlib
import json
import logging
import posixpath
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any

from pyarrow import fs
from pydantic import Field, NonNegativeInt

from spark_auc.app.config.jobs import Opauc
from spark_auc.app.config.stream import Stream
from spark_auc.app.jobs.stored_json import as_json, json_of
from spark_auc.app.jobs.stream_account import Account
from spark_auc.app.jobs.stream_mirror import Mirror, mirrored
from spark_auc.core.state.schema import Part, Schema, array
from spark_auc.errors import ConfigError, ModelFormatError
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_json import map_json
from spark_auc.publication.directory import Directory
from spark_auc.training.stream_statistics import StreamStatistics

_log = logging.getLogger(__name__)

ACCOUNT = "spark"
REJECTED = "rejected"
_SCHEMA = "schema.json"
_STATUS = "status.jsonl"
_STATE = re.compile(r"state-(\d{8,})\.bin")


@dataclass(frozen=True)
class Progress:
    """The state of a stream without its statistics.

    Parameters
    ----------
    batch
        Number of the last learned batch; -1 before the first.
    files, rejected
        Numbers of learned and of rejected files.
    newest
        Latest time of change of a learned file, in hours since 1970.
    refused
        Rejected files of the last batch, with the reasons.
    status
        Line of the last batch in ``status.jsonl``.
    settings
        Settings that must not change between runs.
    account
        Copies of files of Spark's checkpoint after the last batch; see `Account.kept`.
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
    """The state after a batch; statistics are None before the first row."""

    progress: Progress = Progress()
    statistics: StreamStatistics | None = None

    def to_bytes(self) -> bytes:
        """Versioned bytes."""
        return _STORED.encode(vars(self) | {"progress": as_json(asdict(self.progress))})

    @classmethod
    def from_bytes(cls, data: bytes) -> StreamState:
        """Decode the bytes of `to_bytes`; `ModelFormatError` for other bytes."""
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
    """The checkpoint of a stream.

    Parameters
    ----------
    directory
        Directory of the checkpoint.
    rejected
        Directory for invalid files.
    arriving
        Directory or pattern of the arriving files; None for a source without files.
    mirror
        Spark's checkpoint on the driver's disk, if the directory is in an object store.
    """

    directory: Directory
    rejected: Directory
    arriving: Directory | None
    mirror: Mirror | None = None

    @classmethod
    def of(cls, config: Opauc, stream: Stream) -> Checkpoint:
        """The checkpoint that a configuration names."""
        directory = Directory.of(stream.checkpoint)
        rejected = Directory.of(stream.rejected) if stream.rejected else directory / REJECTED
        rows = stream.source or config.data
        arriving = Directory.of(rows.path) if rows is not None and rows.path else None
        return cls(directory, rejected, arriving)

    def load(self) -> StreamState:
        """The last undamaged state; an empty one before the first batch.

        Raises
        ------
        ConfigError
            The state or Spark's checkpoint is missing.
        ModelFormatError
            All states are damaged.
        """
        numbers = sorted(self._numbers(), reverse=True)
        # Spark plans batch 0 again if it was not learned.
        begun = self.account.committed() or any(self.account.batches())
        if (numbers and not self.account.directory.names()) or (begun and not numbers):
            present, missing = (
                (f"state of batch {max(numbers)}", ACCOUNT) if numbers else (ACCOUNT, "state")
            )
            raise ConfigError(
                f"found {present} without {missing} in {self.directory.uri}, expected both, or "
                "neither before the first run; restore the directory, or set another "
                "opauc.stream.checkpoint to start again"
            )
        damage: ModelFormatError | None = None
        for number in numbers:
            try:
                return StreamState.from_bytes(self.directory.read(_name(number)))
            except ModelFormatError as error:
                name, place = _name(number), self.directory.uri
                _log.warning("cannot read %s in %s: %s", name, place, error)
                damage = damage or error
        if damage is not None:
            raise damage
        return StreamState()

    @property
    def account(self) -> Account:
        """Spark's checkpoint."""
        return Account(self.mirror.local if self.mirror else self.directory / ACCOUNT)

    @contextmanager
    def opened(self) -> Iterator[Checkpoint]:
        """The checkpoint, with Spark's part of it where Spark can write."""
        if not self.directory.object_store:
            yield self
            return
        with mirrored(self.directory / ACCOUNT) as mirror:
            yield replace(self, mirror=mirror)
            mirror.push()

    def _numbers(self) -> list[int]:
        matches = (_STATE.fullmatch(name) for name in self.directory.names())
        return [int(match[1]) for match in matches if match]

    def commit(self, state: StreamState) -> None:
        """Store a state atomically; the previous one is kept in case this file is damaged."""
        number = state.progress.batch
        if self.mirror:
            self.mirror.push()
        self.directory.replace(_name(number), state.to_bytes())
        self.directory.delete(*(_name(k) for k in self._numbers() if k < number - 1))

    def check_settings(self, stored: Mapping[str, Any], current: Mapping[str, Any]) -> None:
        """`ConfigError` if the last state has other settings; without a state there are none."""
        for name, value in current.items():
            if stored and name != "output" and stored.get(name) != value:
                raise ConfigError(
                    f"found a checkpoint of {name} {stored.get(name)!r} at {self.directory.uri}, "
                    f"expected {value!r}; set another opauc.stream.checkpoint to start again"
                )

    def move_refused(self, state: StreamState) -> None:
        """Move the rejected files of the state's batch, unless an earlier run moved them."""
        for path, reason in state.progress.refused.items():
            parent, _, name = path.rpartition("/")
            source = Directory.of(parent)
            target = posixpath.join(self.rejected.path, self._relative(f"{source.path}/{name}"))
            filesystem = self.rejected.filesystem
            if not source.filesystem.get_file_info(f"{source.path}/{name}").is_file:
                continue
            filesystem.create_dir(posixpath.dirname(target), recursive=True)
            with filesystem.open_output_stream(f"{target}.reason.txt") as stream:
                stream.write(f"{path}\n{reason}\n".encode())
            # A rename fails between different file systems.
            fs.copy_files(f"{source.path}/{name}", target, source.filesystem, filesystem)
            source.filesystem.delete_file(f"{source.path}/{name}")

    def _relative(self, path: str) -> str:
        """Path of a file, relative to the directory in which files arrive."""
        assert self.arriving is not None
        root = re.split(r"/[^/]*[*?\[{]", self.arriving.path, maxsplit=1)[0]
        return path[len(root) + 1 :] if path.startswith(f"{root}/") else posixpath.basename(path)

    def note(self, state: StreamState) -> None:
        """Append the state's status to ``status.jsonl``; an object store takes the whole file."""
        if self.directory.object_store:
            content = self.directory.read(_STATUS) if self.directory.has(_STATUS) else b""
            self.directory.write(_STATUS, content + _line(state))
            return
        path = f"{self.directory.path}/{_STATUS}"
        try:
            with self.directory.filesystem.open_append_stream(path) as stream:
                stream.write(_line(state))
        except NotImplementedError:
            _log.debug("no %s in %s: the file system cannot append", _STATUS, self.directory.uri)

    def repair_status(self, state: StreamState) -> None:
        """Make the state's status the last line of ``status.jsonl``, after a crash."""
        content = self.directory.read(_STATUS) if _STATUS in self.directory.names() else b""
        before = [line for line in content.splitlines(keepends=True) if _is_before(line, state)]
        repaired = b"".join(before) + (_line(state) if state.progress.batch >= 0 else b"")
        if repaired != content:
            self.directory.replace(_STATUS, repaired)

    def schema(self) -> str | None:
        """The schema of the first run, as JSON; None before it."""
        return self.directory.read(_SCHEMA).decode() if _SCHEMA in self.directory.names() else None

    def keep_schema(self, schema: str) -> None:
        """Store the schema for later runs."""
        self.directory.replace(_SCHEMA, schema.encode())


def settings(config: Opauc, recipe: Recipe | None) -> dict[str, Any]:
    """Settings of a job that must not change between runs from one checkpoint.

    Of the recipe they have a hash: the same path may have another recipe later.
    """
    features = recipe and hashlib.sha256(map_json(recipe).encode()).hexdigest()
    source = config.stream.source if config.stream else None
    rows: dict[str, Any] = {}
    if source is not None:
        # Options such as addresses and batch sizes may change, and may contain secrets.
        rows["source"] = source.model_dump(mode="json", exclude={"options"})
    elif config.data is not None:
        rows |= {"path": config.data.path, "format": config.data.format}
    if config.learner != "MBAClassifier":
        # The state has gone on with these, and a model of it is not made anew from statistics.
        given = config.training.model_dump(mode="json", exclude_unset=True)
        rows["learner"] = {"learner": config.learner, "prior": config.prior, **given}
    return {
        **rows,
        "columns": config.columns.model_dump(mode="json"),
        "features": features,
        "output": config.output.path,
    }


def _name(number: int) -> str:
    return f"state-{number:08d}.bin"


def _is_before(line: bytes, state: StreamState) -> bool:
    try:
        return bool(json.loads(line)["batch"] < state.progress.batch) and line.endswith(b"\n")
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _line(state: StreamState) -> bytes:
    return json.dumps(state.progress.status, allow_nan=False).encode() + b"\n"
