"""What a local disk holds after a power failure, for tests of flushes."""

import os
from pathlib import Path


class Disk:
    """What a disk holds after a power failure: flushed files in flushed directories.

    A file that a flushed directory lists and that was not flushed is empty. What is below the root
    at the beginning is on the disk. Files are known by their inodes, so that a renamed file keeps
    its content.

    Parameters
    ----------
    root
        The directory.
    monkeypatch
        Replaces os.fsync.
    """

    def __init__(self, root, monkeypatch):
        self.root, self.flushed, self.images = root, [], []
        self.content, self.names, self._open = {}, {}, []
        for path in [root, *root.rglob("*")]:
            self._keep(path)

        def fsync(number):
            path = Path(os.readlink(f"/proc/self/fd/{number}"))
            self.flushed.append(path)
            if path == root or root in path.parents:
                self._keep(path)
                self.images.append((dict(self.content), dict(self.names)))

        monkeypatch.setattr(os, "fsync", fsync)

    def _keep(self, path):
        # An open file keeps its inode: no later file gets the same number.
        self._open.append(os.open(path, os.O_RDONLY))
        inode = os.stat(path).st_ino
        if path.is_dir():
            self.names[inode] = {
                entry.name: (os.stat(entry.path).st_ino, entry.is_dir())
                for entry in os.scandir(path)
            }
        else:
            self.content[inode] = path.read_bytes()

    def close(self):
        """Close the files that this object holds open."""
        while self._open:
            os.close(self._open.pop())

    def restore(self, image, target):
        """Make a directory with what an image holds."""
        content, names = image

        def copy(inode, is_directory, to):
            if is_directory:
                to.mkdir()
                for name, (entry, is_below) in names.get(inode, {}).items():
                    copy(entry, is_below, to / name)
            else:
                to.write_bytes(content.get(inode, b""))

        copy(os.stat(self.root).st_ino, True, target)
