"""Flush the commits of a Delta table to a local disk, which the deltalake package leaves out."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

_LOG = "_delta_log"


def local_path(location: str) -> Path | None:
    """The path of a location on a local disk; None for the URI of an object store."""
    if location.startswith("file://"):
        return Path(unquote(location.removeprefix("file://")))
    return None if "://" in location else Path(location)


def flush_commits(root: Path, version: int) -> int:
    """Flush all that the last checkpoint does not cover, up to a version, and that checkpoint.

    Earlier entries were flushed before the checkpoint was written. Entries of other writers are
    flushed too: without them, this writer's entry would not be readable after a power failure.

    Returns
    -------
    int
        Version of the last checkpoint; -1 without one.
    """
    log = root / _LOG
    names = sorted(os.listdir(log))
    checkpoints = [name for name in names if ".checkpoint" in name and name[:20].isdigit()]
    covered = max((int(name[:20]) for name in checkpoints), default=-1)
    entries = [
        name
        for name in names
        if name.endswith(".json") and name[:20].isdigit() and covered < int(name[:20]) <= version
    ]
    files = [root / path for name in entries for path in _added(log / name)]
    last = [name for name in checkpoints if int(name[:20]) == covered]
    files += [log / name for name in [*last, *entries]]
    if last:
        files.append(log / "_last_checkpoint")
    _flush_files(root, files)
    return covered


def flush_checkpoint(root: Path) -> None:
    """Flush the checkpoint that was just written."""
    log = root / _LOG
    names = [n for n in os.listdir(log) if ".checkpoint" in n or n == "_last_checkpoint"]
    _flush_files(root, [log / name for name in names])


def flush_deletions(root: Path, paths: Iterable[str]) -> None:
    """Flush the directories of deleted files, which would return after a power failure."""
    for directory in sorted({(root / unquote(path)).parent for path in paths}):
        _flush(directory)


def _flush_files(root: Path, files: Iterable[Path]) -> None:
    """Flush the files that exist, and the directories from each of them to the parent of root.

    The directory of the log comes last: no entry is on disk before the data that it names.
    """
    top, log = root.resolve(), (root / _LOG).resolve()
    directories = {top.parent, top}
    for file in files:
        # A file may have been superseded and deleted since its commit.
        if _flush(file):
            directories |= {p for p in file.resolve().parents if p.is_relative_to(top)}
    for directory in (*sorted(directories - {log}, reverse=True), log):
        _flush(directory)


def _flush(path: Path) -> bool:
    try:
        number = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        os.fsync(number)
    finally:
        os.close(number)
    return True


def _added(entry: Path) -> list[str]:
    """The paths of the data files that a log entry adds."""
    actions = [json.loads(line) for line in entry.read_text().splitlines() if line]
    return [unquote(action["add"]["path"]) for action in actions if "add" in action]
