"""Sources of a period: the rows of a batch, micro-batches of a stream, and those that count."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

# The rows of a period that were read at once, which are all rows of the period.
ROWS = "rows"
_STREAM = re.compile(r"stream\.([A-Za-z0-9_-]{1,40})\.(\d{8,20})(?:-(\d{8,20}))?")


class MicroBatches(NamedTuple):
    """The source of one micro-batch of a stream, or of consecutive ones that were merged.

    Parameters
    ----------
    stream
        Name of the stream: up to 40 letters, digits, "_" and "-".
    first, last
        Numbers of the first and the last batch.
    """

    stream: str
    first: int
    last: int

    @property
    def name(self) -> str:
        """The name of the source; names ascend as their first batches."""
        first, last = (f"{number:08d}" for number in (self.first, self.last))
        numbers = first if first == last else f"{first}-{last}"
        return f"stream.{self.stream}.{numbers}"

    @classmethod
    def of(cls, source: str) -> MicroBatches | None:
        """The batches of a source; None for the name of another source."""
        if (match := _STREAM.fullmatch(source)) is None:
            return None
        batches = cls(match[1], int(match[2]), int(match[3] or match[2]))
        return batches if batches.name == source else None

    def includes(self, other: MicroBatches) -> bool:
        """Whether all batches of the other source are among these."""
        return self.stream == other.stream and self.first <= other.first <= other.last <= self.last


def superseded(sources: Sequence[str]) -> set[str]:
    """The sources of a period that no window merges, since others contain their rows.

    The rows of a batch job are all rows of the period, so that they stand for those of every
    stream. Merged micro-batches stand for each of them. A reader applies this rule to what it
    finds: it is right between two commits, too.
    """
    parsed = {name: batches for name in sources if (batches := MicroBatches.of(name))}
    if ROWS in sources:
        return {*parsed}
    return {
        name
        for name, batches in parsed.items()
        if any(other.includes(batches) for key, other in parsed.items() if key != name)
    }
