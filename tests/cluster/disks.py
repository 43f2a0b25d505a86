"""A small disk of its own, in memory, that can be full."""

from __future__ import annotations

import errno
import os
import subprocess
import tempfile
from pathlib import Path


class SmallDisk:
    """A file system in memory.

    Parameters
    ----------
    place
        Directory that shows it; made if it does not exist.
    size
        Its size, such as "64m".
    """

    def __init__(self, place: Path, size: str) -> None:
        place.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
        subprocess.run(command, check=True, capture_output=True)
        self.place, self._filling = place, place / "filling"

    def fill(self, left: int = 0) -> None:
        """Fill it, but for ``left`` bytes."""
        with self._filling.open("wb") as file:
            while (size := self._room() - left) > 0:
                try:
                    return os.posix_fallocate(file.fileno(), 0, size)
                except OSError as error:
                    # A job took some of the room since it was measured.
                    if error.errno != errno.ENOSPC:
                        raise

    def _room(self) -> int:
        """Bytes that are free."""
        found = os.statvfs(self.place)
        return found.f_bavail * found.f_frsize

    def free(self) -> None:
        """Make room again."""
        self._filling.unlink()

    def close(self) -> None:
        """Remove it and what is on it."""
        subprocess.run(["umount", "--lazy", str(self.place)], check=True, capture_output=True)


def lack() -> str | None:
    """Why there can be no small disks here; None if there can be."""
    with tempfile.TemporaryDirectory() as place:
        try:
            SmallDisk(Path(place), "64k").close()
        except (OSError, subprocess.CalledProcessError):
            return "found no right to mount a file system in memory"
    return None
