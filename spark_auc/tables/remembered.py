"""Columns of files that this process keeps after their first conversion."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

import numpy as np
import pyarrow as pa

from spark_auc.core.memory import available_memory
from spark_auc.core.spill import IN_MEMORY, Place, Spill
from spark_auc.tables.arrow_table import ArrowTable, Read
from spark_auc.tables.table import Batches

# Share of the available memory that limits the columns.
_SHARE = 0.0625


def remembered(table: ArrowTable) -> ArrowTable:
    """The table, which reads each column of a part once, within a share of the memory.

    Later passes over the rows then parse no text again: a few of the columns are in memory, and
    the others in a temporary file. Rows beyond the share are read again in each pass.
    """
    available = available_memory()
    limit = float("inf") if available is None else _SHARE * available
    return replace(table, read=_Memory(table.read, limit, IN_MEMORY).read)


@dataclass
class _Memory:
    """Columns of parts, as batches of the same rows.

    Parameters
    ----------
    source
        Reads the others.
    left
        Bytes that further columns may take; none as soon as some do not fit.
    in_memory
        Bytes that further columns may take in memory; the others are in a file.
    """

    source: Read
    left: float
    in_memory: float
    parts: dict[int, dict[str, list[pa.Array] | Place]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    spill: Spill = field(default_factory=Spill)
    lock: Lock = field(default_factory=Lock)

    def read(self, part: int, names: Sequence[str]) -> Batches:
        known, distinct = self.parts[part], [*dict.fromkeys(names)]
        new = [name for name in distinct if name not in known]
        if new and self.left <= 0:
            yield from self.source(part, names)
            return
        found = {name: self._arrays(known[name]) for name in distinct if name in known}
        if new:
            batches = [*self.source(part, new)]
            made = {name: [batch.column(name) for batch in batches] for name in new}
            size = sum(batch.nbytes for batch in batches)
            with self.lock:
                if size <= self.left:
                    self.left -= size
                    self.in_memory -= size
                    fits = self.in_memory >= 0
                    known |= made if fits else {n: self._put(a) for n, a in made.items()}
                else:
                    self.left = 0
            found |= made
        for arrays in map(list, zip(*(found[name] for name in names), strict=True)):
            yield pa.RecordBatch.from_arrays(arrays, [*names])

    def _put(self, arrays: list[pa.Array]) -> list[pa.Array] | Place:
        """The place of a column in the file; the column where it does not fit."""
        if not arrays:
            return arrays
        sink = pa.BufferOutputStream()
        batches = [pa.record_batch([array], [""]) for array in arrays]
        with pa.ipc.new_stream(sink, batches[0].schema) as stream:
            for batch in batches:
                stream.write_batch(batch)
        return self.spill.put(np.frombuffer(sink.getvalue(), np.uint8)) or arrays

    def _arrays(self, kept: list[pa.Array] | Place) -> list[pa.Array]:
        """A column that is kept."""
        if isinstance(kept, list):
            return kept
        stream = pa.ipc.open_stream(pa.py_buffer(self.spill.get(kept)))
        return [batch.column(0) for batch in stream]
