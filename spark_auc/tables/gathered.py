"""Rows on their way from tasks to one process: parts of Arrow's stream format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_auc.core.state.schema import Schema, array
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.tables.arrow_columns import flat

EXCEEDED = "exceeded"
# Most bytes of a part, which is one row of a result.
_PART = 1 << 24


@dataclass(frozen=True, eq=False)
class RowsPart(SchemaState):
    """Some rows in Arrow's stream format. Each part has a key of its own and is not merged."""

    SCHEMA: ClassVar[Schema] = Schema("RowsPart", 1, {"data": array("|u1", "bytes")})

    data: NDArray[np.uint8]


def packed(batches: Iterable[pa.RecordBatch], most: int | None) -> Iterator[tuple[str, RowsPart]]:
    """The rows of a task as named parts, in their order.

    Parameters
    ----------
    batches
        The rows.
    most
        Most bytes. Of more rows, there is one part without rows, named `EXCEEDED`.
    """
    kept, size = list[pa.RecordBatch](), 0
    for batch in batches:
        if not batch.num_rows:
            continue
        size += batch.nbytes
        if most is not None and size > most:
            yield EXCEEDED, RowsPart(np.empty(0, np.uint8))
            return
        own = [flat(column) for column in batch.columns]
        kept.append(pa.RecordBatch.from_arrays(own, batch.schema.names))
    if not kept:
        return
    table = pa.Table.from_batches(kept)
    rows = max(1, int(_PART * table.num_rows / max(table.nbytes, 1)))
    for number, start in enumerate(range(0, table.num_rows, rows)):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table.slice(start, rows))
        yield f"{number:08}", RowsPart(np.frombuffer(sink.getvalue(), np.uint8))


def unpacked(parts: Iterable[RowsPart], schema: pa.Schema) -> pa.Table:
    """The rows of parts, with the names of a schema; those of no part have its types."""
    tables = [pa.ipc.open_stream(pa.py_buffer(part.data)).read_all() for part in parts]
    if not tables:
        return schema.empty_table()
    return pa.concat_tables(tables).rename_columns(schema.names)
