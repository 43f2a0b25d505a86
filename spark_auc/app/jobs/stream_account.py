"""Spark's account of a stream's batches, made to agree with what was learned.

Structured Streaming writes to ``offsets`` what a batch is before it is handed over, to ``commits``
that it was, and to ``sources`` which files a source has seen. It does not wait for the disk, so a
machine that loses its power may leave the last of these files torn or missing. Spark then plans a
batch of the same number anew, with rows in it that came later. What the state of a batch keeps of
the account puts the files back, or tells that they are those of other batches.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spark_auc.app.directory import Directory
from spark_auc.errors import ConfigError

_log = logging.getLogger(__name__)

_METADATA = "metadata"
_NUMBER = re.compile(r"(\d+)(\.compact)?")
# Every tenth list of a source's files names them all; of a long one a hash is kept.
_LARGEST_KEPT = 1 << 20
_HASH = "sha256:"
# Only bytes that Spark wrote, whatever they are.
_ENCODING = "latin-1"


@dataclass(frozen=True)
class Account:
    """The directory of Spark's account.

    Parameters
    ----------
    directory
        It.
    """

    directory: Directory

    def batches(self) -> list[int]:
        """Numbers of the batches that were planned."""
        return [number for number, _ in self._numbered("offsets")]

    def committed(self) -> list[int]:
        """Numbers of the batches that are done for Spark."""
        return [number for number, _ in self._numbered("commits")]

    def kept(self, batch: int) -> dict[str, str]:
        """What Spark needs of its account to go on after this batch, which is the last planned.

        It is on disk when this returns: what is committed with it must not outlive it.
        """
        names = [_METADATA, *(f"offsets/{k}" for k in (batch - 1, batch) if k >= 0)]
        for source in self._sources():
            names += [f"{source}/{name}" for _, name in self._numbered(source)[-1:]]
        for place in {name.rpartition("/")[0] for name in names}:
            self.directory.flush(place)
        return {name: self._described(name) for name in names}

    def _described(self, name: str) -> str:
        self.directory.flush(name)
        return _described(self.directory.read(name))

    def check(self, kept: Mapping[str, str]) -> None:
        """`ConfigError` where Spark's batches are not those of which this was kept."""
        for name, expected in kept.items():
            if name.startswith("offsets/") and _described(self._read(name)) != expected:
                raise self._other(name)

    def align(self, batch: int, kept: Mapping[str, str]) -> None:
        """Let Spark go on after the batch that was learned last, and with nothing else.

        Parameters
        ----------
        batch
            Its number; -1 before the first.
        kept
            What was kept of the account then.

        Raises
        ------
        ConfigError
            The account is of other batches, or lacks more than can be put back.
        """
        if batch >= 0 and not kept:
            # A checkpoint of an earlier version keeps nothing of the account to compare with.
            return
        planned = self.batches()
        if batch >= 2 and not {batch - 2, batch - 1, batch} & set(planned):
            raise self._other(f"batch {max(planned, default='none')} as the last one")
        for name, expected in kept.items():
            self._restore(name, expected)
        torn = self._remove_torn(kept)
        if not _is_json(self._read(_METADATA).decode(_ENCODING)):
            # Nothing was learned yet. Spark wants none of its files without this one.
            torn = True
            self._remove([_METADATA])
        ahead = [k for k in self.batches() if k > batch]
        self._remove(f"offsets/{k}" for k in ahead if torn or k > batch + 1)
        self._remove(f"offsets/{k}" for k in ahead if self._is_torn(f"offsets/{k}"))
        done = self.committed()
        if again := [k for k in done if k > batch]:
            _log.warning("batches %s are learned again, after batch %d", again, batch)
        self._remove(f"commits/{k}" for k in done if k > batch or self._is_torn(f"commits/{k}"))

    def _restore(self, name: str, expected: str) -> None:
        found = self._read(name)
        if _described(found) == expected:
            return
        content = expected.encode(_ENCODING)
        if expected.startswith(_HASH):
            source, _, last = name.rpartition("/")
            later = [n for k, n in self._numbered(source) if k > int(last.split(".")[0])]
            if found or not any(n.endswith(".compact") for n in later):
                raise self._other(name)
            return
        if not content.startswith(found.rstrip(b"\0")):
            raise self._other(name)
        _log.warning("%s of %s was lost and is put back", name, self.directory.uri)
        self._remove([name])
        self.directory.replace(name, content)

    def _remove_torn(self, kept: Mapping[str, str]) -> bool:
        """Remove lists of files that were not learned where torn; whether there were any."""
        learned = {
            name.rpartition("/")[0]: int(name.rpartition("/")[2].split(".")[0])
            for name in kept
            if name.startswith("sources/")
        }
        torn = [
            f"{source}/{name}"
            for source in self._sources()
            for number, name in self._numbered(source)
            if number > learned.get(source, -1) and self._is_torn(f"{source}/{name}")
        ]
        self._remove(torn)
        return bool(torn)

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            place, _, last = name.rpartition("/")
            there = self.directory / place if place else self.directory
            # A checksum of what was there before would refuse what comes.
            for file in {last, f".{last}.crc"} & set(there.names()):
                _log.info("removed %s/%s", there.uri, file)
                there.filesystem.delete_file(f"{there.path}/{file}")

    def _is_torn(self, name: str) -> bool:
        """Whether a file of Spark's is not whole; another's is taken for whole unless empty."""
        text = self._read(name).decode(_ENCODING).lstrip("\0")
        version, *lines = text.rstrip("\n").split("\n")
        if not re.fullmatch(r"v\d*", version):
            return not version
        # What holds for the whole batch, and a line for each source.
        needed = {"offsets": 2, "commits": 1}.get(name.partition("/")[0], 0)
        return version == "v" or len(lines) < needed or not all(map(_is_json, lines))

    def _read(self, name: str) -> bytes:
        try:
            return self.directory.read(name)
        except FileNotFoundError:
            return b""

    def _sources(self) -> list[str]:
        return [f"sources/{name}" for name in sorted((self.directory / "sources").names())]

    def _numbered(self, place: str) -> list[tuple[int, str]]:
        """Numbers and names of the files of a directory, in order."""
        found = (_NUMBER.fullmatch(name) for name in (self.directory / place).names())
        return sorted((int(match[1]), match[0]) for match in found if match)

    def _other(self, what: str) -> ConfigError:
        return ConfigError(
            f"found {what} in {self.directory.uri}, expected the batches that the state beside it "
            "has learned; restore the whole directory opauc.stream.checkpoint from one copy, or "
            "set another to begin again"
        )


def _described(content: bytes) -> str:
    if len(content) > _LARGEST_KEPT:
        return _HASH + hashlib.sha256(content).hexdigest()
    return content.decode(_ENCODING)


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        # What Spark writes for a source that has none yet.
        return line == "-"
    return True
