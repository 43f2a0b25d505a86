"""Wall time of the phases of a training run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any


class PhaseTimer:
    """Measures the wall time of consecutive phases.

    Parameters
    ----------
    seconds
        Wall time in seconds of each phase that ended before, by name.
    """

    def __init__(self, seconds: Mapping[str, float] | None = None) -> None:
        self.seconds = dict(seconds or {})
        self._start = time.perf_counter()

    def end(self, phase: str) -> None:
        """Add the time since the end of the last phase to ``phase``."""
        now = time.perf_counter()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._start
        self._start = now

    def as_dict(self) -> dict[str, Any]:
        """Wall time of all phases together and of each, as JSON types."""
        phases = {name: round(seconds, 3) for name, seconds in self.seconds.items()}
        return {"seconds": round(sum(self.seconds.values()), 3), "phases": phases}
