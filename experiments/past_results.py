"""Results of a run, one JSON line each, so that an interrupted run can be resumed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Key = tuple[str, str, int, str]


@dataclass(frozen=True)
class Results:
    """A file of results; each has a part, a set, a split and a method.

    Several processes may append; a line that is being written is ignored.
    """

    path: Path

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """The results, in the order of the file."""
        if not self.path.exists():
            return
        for line in self.path.read_text().splitlines():
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                continue
            yield row

    def keys(self) -> set[Key]:
        """Part, set, split and method of the results."""
        return {(row["part"], row["set"], row["split"], row["method"]) for row in self.rows()}

    def add(self, key: Key, result: Mapping[str, Any]) -> None:
        """Append a result by one write, which other processes cannot interleave."""
        named = dict(zip(("part", "set", "split", "method"), key, strict=True))
        line = (json.dumps({**named, **result}) + "\n").encode()
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(file, line)
        finally:
            os.close(file)
