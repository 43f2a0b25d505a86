"""Files and directories of files that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from os import fspath
from uuid import uuid4

from pyarrow import fs

from spark_auc.core.types import AnyPath
from spark_auc.errors import ConfigError
from spark_auc.publication.directory import Directory


def write_new(location: AnyPath, content: bytes | Mapping[str, bytes]) -> None:
    """Write a new file, or a new directory of files.

    Parameters
    ----------
    location
        A path, or a URI that Arrow's file systems reach.
    content
        The content of the file, or of the files of the directory by their relative names. Elsewhere
        than on a local file system they appear in their order, as no directory can be renamed.

    Raises
    ------
    ConfigError
        The location exists, or cannot be reached or written.
    """
    location = fspath(location)
    target = Directory.of(location)
    above = target.parent()
    try:
        kind = target.filesystem.get_file_info(target.path).type
        if above is None or kind != fs.FileType.NotFound:
            raise ConfigError(
                f"found something at {location!r} already, expected a new path; remove it or "
                "choose another path"
            )
        directory, name = above
        if target.local:
            _rename(directory, name, content)
        elif isinstance(content, bytes):
            directory.write(name, content)
        else:
            _write(target, content)
    except OSError as failure:
        raise ConfigError(
            f"found that {location!r} cannot be written ({failure}), expected a path in a "
            "directory that this process may write to; change the path"
        ) from None


def _rename(directory: Directory, name: str, content: bytes | Mapping[str, bytes]) -> None:
    """Write under another name on a local file system, and rename."""
    # Spark and Arrow ignore names that begin with a dot.
    temporary = directory / f".{name}.{uuid4().hex}"
    try:
        if isinstance(content, bytes):
            directory.write(os.path.basename(temporary.path), content)
            directory.flush(os.path.basename(temporary.path))
        else:
            _write(temporary, content)
            temporary.synchronize()
        os.rename(temporary.path, (directory / name).path)
        directory.flush()
    finally:
        shutil.rmtree(temporary.path, ignore_errors=True)
        with suppress(FileNotFoundError, IsADirectoryError):
            os.unlink(temporary.path)


def _write(directory: Directory, content: Mapping[str, bytes]) -> None:
    for name, data in content.items():
        directory.write(name, data)
