"""Restore Spark's checkpoint of a stream to the last learned batch.

Before a batch, Structured Streaming writes its content to ``offsets``; after the batch, it writes
to ``commits``. In ``sources`` it lists the files that a source has read. Spark does not flush these
files, so after a power failure the last ones may be truncated or missing. Spark would then plan a
batch of the same number again, with other rows. The state of each batch therefore contains copies
of Spark's files, which restore them, or show that they belong to other batches.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spark_auc.errors import ConfigError
from spark_auc.publication.directory import Directory

_log = logging.getLogger(__name__)

_METADATA = "metadata"
_NUMBER = re.compile(r"(\d+)(\.compact)?")
# Every tenth list of a source contains all its files; of larger lists only a hash is stored.
_LARGEST_KEPT = 1 << 20
_HASH = "sha256:"
# Maps every byte to one character, so that any bytes of Spark can be stored as text.
_ENCODING = "latin-1"


@dataclass(frozen=True)
class Account:
    """Spark's checkpoint of a stream.

    Parameters
    ----------
    directory
        Directory of the checkpoint.
    """

    directory: Directory

    def batches(self) -> list[int]:
        """Numbers of the planned batches."""
        return [number for number, _ in self._numbered("offsets")]

    def committed(self) -> list[int]:
        """Numbers of the batches that Spark committed."""
        return [number for number, _ in self._numbered("commits")]

    def kept(self, batch: int) -> dict[str, str]:
        """Copy the files that Spark needs to continue after a batch, the last one planned.

        The files are flushed to disk first: after a power failure, they must not be older than the
        state that contains the copies.

        Parameters
        ----------
        batch
            Number of the batch.

        Returns
        -------
        dict
            Content of each file, or its hash, by relative name.
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
        """`ConfigError` if Spark's batches differ from the copies ``kept``."""
        for name, expected in kept.items():
            if name.startswith("offsets/") and _described(self._read(name)) != expected:
                raise self._other(name)

    def align(self, batch: int, kept: Mapping[str, str]) -> None:
        """Change Spark's checkpoint so that the next batch follows the last learned one.

        Parameters
        ----------
        batch
            Number of the last learned batch; -1 before the first.
        kept
            Result of `kept` after that batch.

        Raises
        ------
        ConfigError
            The checkpoint belongs to other batches, or lacks files that cannot be restored.
        """
        if batch >= 0 and not kept:
            # States of earlier versions contain no copies.
            return
        planned = self.batches()
        if batch >= 2 and not {batch - 2, batch - 1, batch} & set(planned):
            raise self._other(f"batch {max(planned, default='none')} as the last one")
        for name, expected in kept.items():
            self._restore(name, expected)
        torn = self._remove_torn(kept)
        if not _is_json(self._read(_METADATA).decode(_ENCODING)):
            # No batch was learned yet. Without this file Spark accepts no other file.
            torn = True
            self._remove([_METADATA])
        ahead = [k for k in self.batches() if k > batch]
        self._remove(f"offsets/{k}" for k in ahead if torn or k > batch + 1)
        self._remove(f"offsets/{k}" for k in ahead if self._is_torn(f"offsets/{k}"))
        committed = self.committed()
        if repeated := [k for k in committed if k > batch]:
            _log.warning(
                "batches %s run again: Spark committed them, but the last stored state is of "
                "batch %d",
                repeated,
                batch,
            )
        self._remove(
            f"commits/{k}" for k in committed if k > batch or self._is_torn(f"commits/{k}")
        )

    def _restore(self, name: str, expected: str) -> None:
        stored = self._read(name)
        if _described(stored) == expected:
            return
        content = expected.encode(_ENCODING)
        if expected.startswith(_HASH):
            source, _, last = name.rpartition("/")
            later = [n for k, n in self._numbered(source) if k > int(last.split(".")[0])]
            if stored or not any(n.endswith(".compact") for n in later):
                raise self._other(name)
            return
        if not content.startswith(stored.rstrip(b"\0")):
            raise self._other(name)
        _log.warning("restored the missing or truncated file %s of %s", name, self.directory.uri)
        self._remove([name])
        self.directory.replace(name, content)

    def _remove_torn(self, kept: Mapping[str, str]) -> bool:
        """Remove truncated lists of files that were not learned; True if there were any."""
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
            parent = self.directory / place if place else self.directory
            # The checksum of the old file would make Spark reject the new one.
            for file in {last, f".{last}.crc"} & set(parent.names()):
                _log.info(
                    "removed %s/%s, to continue after the last stored batch", parent.uri, file
                )
                parent.filesystem.delete_file(f"{parent.path}/{file}")

    def _is_torn(self, name: str) -> bool:
        """Whether a file of Spark is truncated; a file in another format only if it is empty."""
        text = self._read(name).decode(_ENCODING).lstrip("\0")
        version, *lines = text.rstrip("\n").split("\n")
        if not re.fullmatch(r"v\d*", version):
            return not version
        # An offsets file has a line of metadata, and one for each source.
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
        """Numbers and names of the files in a directory, sorted by number."""
        matches = (_NUMBER.fullmatch(name) for name in (self.directory / place).names())
        return sorted((int(match[1]), match[0]) for match in matches if match)

    def _other(self, name: str) -> ConfigError:
        return ConfigError(
            f"found {name} in {self.directory.uri}, expected the batches of the stored state; "
            "restore the complete directory opauc.stream.checkpoint from one copy, or set another "
            "directory to start again"
        )


def _described(content: bytes) -> str:
    if len(content) > _LARGEST_KEPT:
        return _HASH + hashlib.sha256(content).hexdigest()
    return content.decode(_ENCODING)


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        # Spark writes "-" for a source without an offset.
        return line == "-"
    return True
