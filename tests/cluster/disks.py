"""A small disk of its own, in memory, that can be full."""

from __future__ import annotations

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
        free = os.statvfs(self.place)
        with self._filling.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize - left)

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
