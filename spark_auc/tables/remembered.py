"""Columns of files that this process keeps in memory after their first conversion."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

import pyarrow as pa

from spark_auc.core.memory import available_memory
from spark_auc.tables.arrow_table import ArrowTable, Read
from spark_auc.tables.table import Batches

# Share of the available memory for the columns.
_SHARE = 0.0625


def remembered(table: ArrowTable) -> ArrowTable:
    """The table, which reads each column of a part once while a share of the memory lasts.

    Later passes over the rows then parse no text again. Rows beyond the share are read again in
    each pass.
    """
    available = available_memory()
    limit = float("inf") if available is None else _SHARE * available
    return replace(table, read=_Memory(table.read, limit).read)


@dataclass
class _Memory:
    """Columns of parts, as batches of the same rows.

    Parameters
    ----------
    source
        Reads the others.
    left
        Bytes that further columns may take; none as soon as some do not fit.
    """

    source: Read
    left: float
    parts: dict[int, dict[str, list[pa.Array]]] = field(default_factory=lambda: defaultdict(dict))
    lock: Lock = field(default_factory=Lock)

    def read(self, part: int, names: Sequence[str]) -> Batches:
        known, distinct = self.parts[part], [*dict.fromkeys(names)]
        new = [name for name in distinct if name not in known]
        if new and self.left <= 0:
            yield from self.source(part, names)
            return
        found = {name: known[name] for name in distinct if name in known}
        if new:
            batches = [*self.source(part, new)]
            made = {name: [batch.column(name) for batch in batches] for name in new}
            size = sum(batch.nbytes for batch in batches)
            with self.lock:
                if size <= self.left:
                    self.left -= size
                    known |= made
                else:
                    self.left = 0
            found |= made
        for arrays in map(list, zip(*(found[name] for name in names), strict=True)):
            yield pa.RecordBatch.from_arrays(arrays, [*names])
