"""The embedded engine: rows of this process's memory or of files, read by its threads."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_auc.core.memory import ProcessMemory, available_memory, give_back
from spark_auc.core.parallel import cpus, mapped
from spark_auc.core.progress import Progress
from spark_auc.core.row_source import State
from spark_auc.core.types import Bool
from spark_auc.features.time_zones import DEFAULT
from spark_auc.tables.arrow_columns import flat
from spark_auc.tables.hashes import xxhash64
from spark_auc.tables.names import differ_in_case
from spark_auc.tables.part_files import PartWriter, settle
from spark_auc.tables.table import Batches, Fold, field_of, fields_named, first_rows
from spark_auc.tables.types import without_view

if TYPE_CHECKING:
    from spark_auc.publication.directory import Directory

S = TypeVar("S")
R = TypeVar("R")
# The batches of a part, by its number, with the columns of some names. Whatever the names, they are
# of the same rows.
Read: TypeAlias = Callable[[int, Sequence[str]], Batches]

BATCH_ROWS = 10_000
# Groups of adjacent parts, each of which is folded into states of its own. They depend on neither
# threads nor processors, and so neither do the bits of a result.
_GROUPS, _GROUPS_OF_LARGE = 16, 4
_LARGE_STATE = 16 * 2**20
# Share of the available memory for rows that are kept or gathered; further kept rows go to disk.
_ROWS_SHARE = 0.25
_PLACE, _MATCH, _SIDE = "place", "part of a match", "side of a match"
_SPILL = "spark-auc-rows-"


def process_memory() -> ProcessMemory:
    """The memory of a table of this process."""
    available = available_memory()
    limit = float("inf") if available is None else _ROWS_SHARE * available
    return ProcessMemory(cpus(), limit)


@dataclass(frozen=True, eq=False)
class ArrowTable:
    """Rows in parts, which threads of this process read.

    Parameters
    ----------
    schema
        See `Table.schema`.
    parts
        Number of the parts.
    read
        See `Read`. The parts and their rows never change.
    cheap
        See `Table.cheap`.
    zone, memory
        See `Table`.
    """

    schema: pa.Schema
    parts: int
    read: Read
    cheap: bool = False
    zone: str = DEFAULT
    memory: ProcessMemory = field(default_factory=process_memory)

    @classmethod
    def of(cls, rows: pa.Table, part_rows: int | None = None) -> ArrowTable:
        """A table in memory.

        Parameters
        ----------
        rows
            The rows.
        part_rows
            Rows of a part. Default: one part has all.
        """
        for place, column in enumerate(rows.schema):
            # Arrow filters no views.
            if (plain := without_view(column)) is not column:
                rows = rows.set_column(place, plain, rows.column(place).cast(plain.type))
        size = part_rows or max(rows.num_rows, 1)
        ends = np.append(np.arange(0, rows.num_rows, size), rows.num_rows).tolist()
        return cls(rows.schema, len(ends) - 1, _slices(rows, ends), cheap=True)

    @property
    def is_ordered(self) -> bool:
        """See `Table.is_ordered`."""
        return True

    @cached_property
    def exact_names(self) -> bool:
        """See `Table.exact_names`: where nothing else tells two columns apart."""
        return differ_in_case(self.schema.names)

    def select(self, names: Sequence[str], *, placed: bool = False) -> ArrowTable:
        """See `Table.select`."""
        found = [field.name for field in fields_named(self, names)]
        fields = [self.schema.field(name) for name in found]
        schema = pa.schema([*fields, *([pa.field(_PLACE, pa.int64())] if placed else [])])
        source = self.read

        def read(part: int, wanted: Sequence[str]) -> Batches:
            own = [name for name in wanted if not (placed and name == _PLACE)]
            for batch in source(part, own):
                there = iter(batch.columns)
                place = pa.array(np.full(batch.num_rows, part)) if placed else None
                arrays = [place if placed and name == _PLACE else next(there) for name in wanted]
                yield pa.RecordBatch.from_arrays(arrays, [*wanted])

        return replace(self, schema=schema, read=read)

    def where(self, names: Sequence[str], keep: Callable[[Sequence[pa.Array]], Bool]) -> ArrowTable:
        """See `Table.where`; which rows of a part are kept is found out once."""
        return self.parted(names, lambda part: keep)[0]

    def parted(
        self, names: Sequence[str], keeper: Callable[[int], Callable[[Sequence[pa.Array]], Bool]]
    ) -> tuple[ArrowTable, ArrowTable]:
        """See `Table.parted`; both find out once which rows of a part are kept."""
        found, source = [field.name for field in fields_named(self, names)], self.read
        kept_of = dict[int, list[pa.Array]]()

        def read(part: int, wanted: Sequence[str], *, inverted: bool) -> Batches:
            known = kept_of.get(part)
            columns = [*dict.fromkeys([*wanted, *([] if known else found)])]
            masks, keep = list[pa.Array](), keeper(part)
            for number, batch in enumerate(source(part, columns)):
                if known:
                    mask = known[number]
                else:
                    mask = pa.array(keep([batch.column(name) for name in found]))
                    masks.append(mask)
                chosen = pc.invert(mask) if inverted else mask
                kept = [batch.column(name).filter(chosen) for name in wanted]
                yield pa.RecordBatch.from_arrays(kept, [*wanted])
            if not known:
                kept_of[part] = masks

        def table(inverted: bool) -> ArrowTable:
            return replace(self, read=partial(read, inverted=inverted), cheap=False)

        return table(False), table(True)

    def spread(self, most: int) -> tuple[ArrowTable, float]:
        """See `Table.spread`."""
        if self.parts <= most:
            return self, 1.0
        places, source = np.linspace(0, self.parts - 1, most).astype(int).tolist(), self.read
        some = replace(self, parts=most, read=lambda part, names: source(places[part], names))
        return some, most / self.parts

    def fold(
        self, fold: Fold, kinds: Iterable[type[State]], *, state_bytes: int, what: str
    ) -> dict[str, State]:
        """See `Table.fold`; a thread folds some adjacent parts."""
        self.memory.check(state_bytes, what)
        most = _GROUPS if state_bytes <= _LARGE_STATE else _GROUPS_OF_LARGE
        groups, merged = self._groups(most), dict[str, State]()

        progress = Progress(what, self.parts)

        def run(group: tuple[int, int]) -> dict[str, State]:
            parts = (progress.of(self._batches(part)) for part in range(*group))
            return dict(fold(chain.from_iterable(parts)))

        # A few at once: the states of all groups need not fit in memory together.
        for states in self._in_turn(run, groups):
            merged |= {k: merged[k].merge(s) if k in merged else s for k, s in states.items()}
        return merged

    def map(self, function: Callable[[Batches], Batches], schema: pa.Schema) -> ArrowTable:
        """See `Table.map`."""

        def read(part: int, names: Sequence[str]) -> Batches:
            places = [schema.get_field_index(name) for name in names]
            for batch in function(self._batches(part)):
                yield _of_places(batch, places, names)

        return replace(self, schema=schema, read=read, cheap=False)

    def cast(
        self, columns: Mapping[str, tuple[pa.Field, Callable[[pa.Array], pa.Array]]]
    ) -> ArrowTable:
        """See `Table.cast`."""
        source = self.read
        changed = (
            columns[field.name][0] if field.name in columns else field for field in self.schema
        )

        def read(part: int, names: Sequence[str]) -> Batches:
            distinct = [*dict.fromkeys(names)]
            for batch in source(part, distinct):
                pairs = zip(batch.columns, distinct, strict=True)
                made = {n: columns[n][1](array) if n in columns else array for array, n in pairs}
                yield pa.RecordBatch.from_arrays([made[name] for name in names], [*names])

        return replace(self, schema=pa.schema(list(changed)), read=read)

    def extended(
        self,
        names: Sequence[str],
        function: Callable[[Sequence[pa.Array]], Sequence[pa.Array]],
        fields: Sequence[pa.Field],
    ) -> ArrowTable:
        """See `Table.extended`."""
        found, source = [field.name for field in fields_named(self, names)], self.read
        new = {field.name: place for place, field in enumerate(fields)}

        def read(part: int, wanted: Sequence[str]) -> Batches:
            old = [name for name in wanted if name not in new]
            if len(old) == len(wanted):
                yield from source(part, wanted)
                return
            for batch in source(part, [*dict.fromkeys([*old, *found])]):
                made = function([batch.column(name) for name in found])
                arrays = [made[new[name]] if name in new else batch.column(name) for name in wanted]
                yield pa.RecordBatch.from_arrays(arrays, [*wanted])

        schema = pa.schema([*self.schema, *fields])
        return replace(self, schema=schema, read=read, cheap=False)

    def write(
        self, directory: Directory, names: Sequence[str], partition_by: Sequence[str] = ()
    ) -> int:
        """See `Table.write`; a thread writes some adjacent parts to a file."""
        rows, writer = self.select(names), PartWriter(directory.uri, tuple(partition_by))

        progress = Progress("rows to write", self.parts)

        def run(numbered: tuple[int, tuple[int, int]]) -> list[dict[str, object]]:
            number, group = numbered
            parts = (progress.of(rows._batches(part)) for part in range(*group))
            written = writer.write(number, chain.from_iterable(parts))
            return [] if written is None else written.to_pylist()

        found = mapped(run, enumerate(self._groups(_GROUPS)), self.memory.slots)
        kept = [field for field in rows.schema if field.name not in partition_by]
        return settle(directory, [*chain.from_iterable(found)], pa.schema(kept))

    def _groups(self, most: int) -> list[tuple[int, int]]:
        """Ranges of adjacent parts."""
        bounds = np.linspace(0, self.parts, min(most, self.parts) + 1).astype(int)
        return list(pairwise(bounds.tolist()))

    def union(self, others: Sequence[ArrowTable]) -> ArrowTable:
        """See `Table.union`."""
        tables = [self, *others]
        ends = np.cumsum([table.parts for table in tables])

        def read(part: int, names: Sequence[str]) -> Batches:
            k = int(np.searchsorted(ends, part, "right"))
            return tables[k].read(part - int(ends[k]) + tables[k].parts, names)

        return replace(self, parts=int(ends[-1]), read=read, cheap=all(t.cheap for t in tables))

    def cut(self, first: int | float) -> tuple[ArrowTable, ArrowTable]:
        """See `Table.cut`; a pass counts the rows of each part."""
        source, names = self.read, self.schema.names[:1]
        progress = Progress("numbers of rows", self.parts)

        def count(part: int) -> int:
            return sum(batch.num_rows for batch in progress.of(source(part, names)))

        ends = np.cumsum([0, *self._in_turn(count, range(self.parts))])
        rows = first_rows(first, int(ends[-1]))
        part = int(np.searchsorted(ends, rows)) - 1
        inside = rows - int(ends[part])

        def earlier(number: int, names: Sequence[str]) -> Batches:
            return _sliced(source(number, names), slice(inside if number == part else None))

        def later(number: int, names: Sequence[str]) -> Batches:
            return _sliced(source(part + number, names), slice(0 if number else inside, None))

        parts = self.parts - part
        return replace(self, parts=part + 1, read=earlier), replace(self, parts=parts, read=later)

    def matched(self, name: str, other: ArrowTable) -> ArrowTable:
        """See `Table.matched`; rows of equal values are sorted in one part, the other's first."""
        key = field_of(self, name)
        added = [field for field in other.schema if field.name != key.name]
        schema, parts = pa.schema([*self.schema, *added]), np.uint64(max(self.parts, 1))
        places = pa.schema([(_MATCH, pa.int64()), (_SIDE, pa.int8()), *schema])

        def placed(side: int) -> Callable[[Batches], Batches]:
            def made(batches: Batches) -> Batches:
                for batch in batches:
                    absent = {f.name: pa.nulls(batch.num_rows, f.type) for f in schema}
                    part = (xxhash64([batch.column(key.name)]) % parts).view(np.int64)
                    new = {_MATCH: part, _SIDE: np.full(batch.num_rows, side, np.int8)}
                    there = dict(zip(batch.schema.names, batch.columns, strict=True))
                    yield pa.RecordBatch.from_pydict(absent | there | new, places)

            return made

        def joined(batches: Batches) -> Batches:
            rows = pa.Table.from_batches(batches, places)
            values, is_own = (rows[n].to_numpy() for n in (key.name, _SIDE))
            last = np.maximum.accumulate(np.where(is_own, 0, np.arange(is_own.size)))
            found = np.flatnonzero((is_own > is_own[last]) & (values == values[last]))
            own = rows.select(self.schema.names).take(found).columns
            others = rows.select([field.name for field in added]).take(last[found]).columns
            yield from pa.table([*own, *others], schema).combine_chunks().to_batches(BATCH_ROWS)

        both = self.map(placed(1), places).union([other.map(placed(0), places)])
        return both.arranged(_MATCH, [key.name, _SIDE], int(parts)).map(joined, schema)

    def arranged(self, part: str, order: Sequence[str], parts: int) -> ArrowTable:
        """See `Table.arranged`; rows above a share of the memory are on the local disk.

        The rows of a part are in memory together, while they are read.
        """
        left = self.memory.rows_limit
        by = [(name, "ascending") for name in order if name != part]
        # The batches of each part, of which some are in files of several batches.
        found = defaultdict[int, list[pa.RecordBatch | tuple[Path, int]]](list)
        with ExitStack() as stack:
            directory = stack.enter_context(_spill_directory())
            divided = self._in_turn(lambda k: _divided(self._batches(k), part), range(self.parts))
            for number, rows in enumerate(divided):
                left -= sum(batch.nbytes for batch in rows.values())
                file = None if left > 0 else _spilled([*rows.values()], directory, number)
                for place, (value, batch) in enumerate(rows.items()):
                    found[value].append(batch if file is None else (file, place))
            arranged = [found[value] for value in sorted(found)]

            def read(number: int, names: Sequence[str]) -> Batches:
                own = [
                    some if isinstance(some, pa.RecordBatch) else _spilled_batch(*some)
                    for some in arranged[number]
                ]
                rows = pa.Table.from_batches(own)
                rows = rows.take(pc.sort_indices(rows, by)) if by else rows
                return iter(rows.select([*names]).combine_chunks().to_batches(BATCH_ROWS))

            # Tables of these rows have this function, and so the files for as long as they are. A
            # forked process that ends leaves the files to its parent.
            closed, process = stack.pop_all(), os.getpid()
            weakref.finalize(read, lambda: closed.close() if os.getpid() == process else None)
        return replace(self, parts=len(arranged), read=read, cheap=True)

    @contextmanager
    def kept(self, state_bytes: int = 0, *, spill: bool = False) -> Iterator[ArrowTable]:
        """See `Table.kept`; rows above a share of the memory are kept on the local disk."""
        left = self.memory.rows_limit
        with _spill_directory() as directory:
            kept = list[list[pa.RecordBatch] | Path]()
            for batches in self._in_turn(lambda k: [*self._batches(k)], range(self.parts)):
                left -= sum(batch.nbytes for batch in batches)
                is_spilled = batches and left <= 0
                kept.append(_spilled(batches, directory, len(kept)) if is_spilled else batches)

            def read(part: int, names: Sequence[str]) -> Batches:
                places = [self.schema.get_field_index(name) for name in names]
                rows = kept[part]
                for batch in _unspilled(rows) if isinstance(rows, Path) else rows:
                    yield _of_places(batch, places, names)

            yield replace(self, read=read, cheap=True)

    def gathered(self, limit: float | None = None) -> pa.Table | None:
        """See `Table.gathered`."""

        def own(batch: pa.RecordBatch) -> pa.RecordBatch:
            arrays = [flat(column) for column in batch.columns]
            return pa.RecordBatch.from_arrays(arrays, batch.schema.names)

        found = self.received(own, float("inf") if limit is None else limit)
        if found is None:
            return None
        return pa.Table.from_batches(found) if found else self.schema.empty_table()

    def received(self, receive: Callable[[pa.RecordBatch], R], limit: float) -> list[R] | None:
        """See `Table.received`."""
        left, found = limit, list[R]()
        for results in self._in_turn(
            lambda k: [(receive(batch), batch.nbytes) for batch in self._batches(k)],
            range(self.parts),
        ):
            for result, size in results:
                found.append(result)
                left -= size
            if left < 0:
                return None
        return found

    def head(self, names: Sequence[str], rows: int) -> pa.Table:
        """See `Table.head`."""
        table, found = self.select(names), list[pa.RecordBatch]()
        for batch in chain.from_iterable(map(table._batches, range(self.parts))):
            found.append(batch)
            if sum(some.num_rows for some in found) >= rows:
                break
        return pa.Table.from_batches(found)[:rows] if found else table.schema.empty_table()

    def _in_turn(self, function: Callable[[S], R], items: Sequence[S]) -> Iterator[R]:
        """Results of a function in the order of its arguments, of a few at once."""
        give_back()
        for first in range(0, len(items), self.memory.slots):
            yield from mapped(function, items[first : first + self.memory.slots])
        # The pool of Arrow keeps its memory too, which other arrays then do not find.
        pa.default_memory_pool().release_unused()
        give_back()

    def _batches(self, part: int) -> Batches:
        return (batch for batch in self.read(part, self.schema.names) if batch.num_rows)


def _slices(rows: pa.Table, ends: Sequence[int]) -> Read:
    """Parts of a table in memory, each from one end to the next."""

    def read(part: int, names: Sequence[str]) -> Batches:
        own = rows.select([*names])[ends[part] : ends[part + 1]]
        return iter(own.combine_chunks().to_batches(BATCH_ROWS))

    return read


def _divided(batches: Batches, name: str) -> dict[int, pa.RecordBatch]:
    """The rows of each value of a column of integers, in their order."""
    found = [*batches]
    if not found:
        return {}
    rows = pa.Table.from_batches(found)
    values = rows[name].to_numpy()
    order = np.argsort(values, kind="stable")
    (rows,) = rows.take(order).combine_chunks().to_batches()
    values = values[order]
    ends = [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist(), values.size]
    return {int(values[a]): rows[a:b] for a, b in pairwise(ends)}


def _sliced(batches: Batches, rows: slice) -> Batches:
    """The rows of a part from one place to another."""
    start, stop = rows.start or 0, rows.stop
    for batch in batches:
        yield batch[max(start, 0) : None if stop is None else max(stop, 0)]
        start, stop = start - batch.num_rows, None if stop is None else stop - batch.num_rows


def _of_places(
    batch: pa.RecordBatch, places: Sequence[int], names: Sequence[str]
) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([batch.column(k) for k in places], [*names])


@contextmanager
def _spill_directory() -> Iterator[Path]:
    """A directory for rows, deleted in the end; those that killed processes left are too."""
    root = Path(tempfile.gettempdir())
    for left in root.glob(f"{_SPILL}*"):
        process = left.name.removeprefix(_SPILL).partition("-")[0]
        if process.isdecimal() and not _is_alive(int(process)):
            shutil.rmtree(left, ignore_errors=True)
    directory = Path(tempfile.mkdtemp(prefix=f"{_SPILL}{os.getpid()}-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _spilled(batches: Sequence[pa.RecordBatch], directory: Path, part: int) -> Path:
    """The file of the rows of a part."""
    file = directory / f"{part}.arrow"
    if batches:
        with pa.ipc.new_file(str(file), batches[0].schema) as out:
            for batch in batches:
                out.write_batch(batch)
    return file


def _spilled_batch(file: Path, number: int) -> pa.RecordBatch:
    with pa.memory_map(str(file)) as mapped_file:
        return pa.ipc.open_file(mapped_file).get_batch(number)


def _unspilled(file: Path) -> Batches:
    with pa.memory_map(str(file)) as mapped_file:
        reader = pa.ipc.open_file(mapped_file)
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)
