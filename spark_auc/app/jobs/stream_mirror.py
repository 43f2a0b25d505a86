"""Spark's checkpoint of a stream whose state is in an object store.

Spark needs a rename for its checkpoint, and has no file system of most stores. It therefore writes
the checkpoint to the driver's disk, and each stored state follows a copy of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from spark_auc.publication.directory import Directory


@dataclass(frozen=True)
class Mirror:
    """A directory on the driver's disk, and its copy in an object store.

    Parameters
    ----------
    local, stored
        The directory and its copy.
    copied
        Content of the files in the copy, by name.
    """

    local: Directory
    stored: Directory
    copied: dict[str, bytes]

    def push(self) -> None:
        """Make the copy equal to the directory; `StorageError` if the store fails."""
        there = {name: self.local.read(name) for name in sorted(self.local.files())}
        for name, content in there.items():
            if self.copied.get(name) != content:
                self.stored.write(name, content)
                self.copied[name] = content
        for name in sorted(self.copied.keys() - there.keys()):
            self.stored.delete(name)
            del self.copied[name]


@contextmanager
def mirrored(stored: Directory) -> Iterator[Mirror]:
    """A directory on the driver's disk with the files of its copy; it is deleted at the end."""
    with TemporaryDirectory(prefix="spark_auc_stream_") as scratch:
        local = Directory.of(f"{scratch}/checkpoint")
        copied = {name: stored.read(name) for name in stored.files()}
        for name, content in copied.items():
            local.write(name, content)
        yield Mirror(local, stored, copied)
