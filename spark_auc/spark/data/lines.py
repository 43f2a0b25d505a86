"""Delimited text as rows whose lines tasks split themselves.

`delimited` reads text with Spark's text reader and gives every field a named column. Spark computes
these columns only where they are used. A task that maps raw columns takes the line instead, and
`Lines.split` gives the same columns in a fraction of the time. The kernel is in
`spark_auc.features.lines`.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from io import StringIO
from os import fspath
from threading import Lock
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from spark_auc.core.types import AnyPath
from spark_auc.errors import DataError
from spark_auc.features.lines import split
from spark_auc.features.raw_columns import Text
from spark_auc.spark.data.layouts import LINE, Layout
from spark_auc.spark.data.names import fields_of, quoted
from spark_auc.spark.data.paths import reader_of
from spark_auc.spark.data.resources import task_slots
from spark_auc.tables.arrow_columns import raw_column, shared_text
from spark_auc.tables.text_numbers import numbers

_log = logging.getLogger(__name__)

# Keys of column metadata.
_LINES, _FIELD = "spark_auc_lines", "spark_auc_field"
# A line of a plan, and the steps that keep, drop, order or cache whole rows.
_STEP = re.compile(r"[\s:+*()\d-]*([A-Za-z]+)")
_KEEPING = {
    *("AdaptiveSparkPlan", "Coalesce", "CollectLimit", "ColumnarToRow", "Exchange", "FileScan"),
    *("Filter", "GlobalLimit", "InMemoryRelation", "InMemoryTableScan", "LocalLimit", "Project"),
    *("Sample", "Scan", "Sort", "TakeOrderedAndProject"),
}
_PRINTING = Lock()
# Files that Spark does not read in parts. Those of bzip2 can be split.
_WHOLE = (".gz", ".deflate", ".lz4", ".snappy", ".zst")


def delimited(spark: SparkSession, path: AnyPath, layout: Layout) -> DataFrame:
    """Read delimited text.

    Files may be compressed; Spark reads those of gzip by one task each, which is logged.

    Parameters
    ----------
    spark
        The session.
    path
        A file, directory or glob.
    layout
        Separator, names and types of the fields.

    Returns
    -------
    DataFrame
        ``line``, which tasks split, and the columns of the layout: string, bigint or double, null
        where a field is empty. An action that reads a malformed line raises `LineError`; inside
        `spark_auc.spark.data.line_faults.line_errors` the error names file and line.
    """
    path = fspath(path)
    rows = _lines_of(spark, path, layout)
    _warn_of_whole_files(rows)
    text = F.col("value")
    line = F.struct(text.alias("text"), F.lit(layout.mark).alias("layout"))
    marks = {_LINES: {"layout": json.dumps(asdict(layout)), "path": path}}
    fields = [
        layout.field(text, k).alias(name, metadata={_FIELD: {"layout": layout.mark, "number": k}})
        for k, name in enumerate(layout.names)
    ]
    return rows.select(line.alias(LINE, metadata=marks), *fields)


def _lines_of(spark: SparkSession, path: str, layout: Layout) -> DataFrame:
    rows = reader_of(spark, path).text(path)
    return rows.where(F.col("value") != layout.first_line) if layout.header else rows


def _warn_of_whole_files(rows: DataFrame) -> None:
    files = rows.inputFiles()
    whole = sum(file.endswith(_WHOLE) for file in files)
    if whole:
        _log.warning(
            "found %d compressed files that Spark cannot split (of %d), such as gzip: one task "
            "reads each, and %d tasks can run at once; write more and smaller files, or compress "
            "them by bzip2",
            whole,
            len(files),
            task_slots(rows.sparkSession),
        )


def source_of(df: DataFrame) -> tuple[str, Layout, str] | None:
    """Name of the one column of lines, their layout and path; None without such a column."""
    marked = [field for field in df.schema if _LINES in field.metadata]
    if len(marked) != 1 or df.columns.count(marked[0].name) != 1:
        return None
    marks = marked[0].metadata[_LINES]
    stored = json.loads(marks["layout"])
    names = {key: tuple(stored[key]) for key in ("names", "integers", "floats")}
    return marked[0].name, Layout(**stored | names), marks["path"]


def content_of_lines(df: DataFrame, label: str | None) -> list[Column] | None:
    """The text of lines without their label, in two parts; None if a column is no field of them.

    Spark need not split lines to hash their content.
    """
    source = source_of(df)
    if source is None:
        return None
    column, layout, _ = source
    fields = [field for field in df.schema if field.name != column]
    if any(field_number(field, layout) is None for field in fields):
        return None
    text, separator, names = F.col(quoted(column))["text"], layout.separator, layout.names
    number = next((field_number(f, layout) for f in fields if f.name == label), None)
    if number is None:
        return [text]
    before, after = number, len(names) - 1 - number
    return [F.substring_index(text, separator, n) for n in (before, -after)]


@dataclass(frozen=True)
class Lines:
    """Columns of a DataFrame that tasks split from its lines.

    Parameters
    ----------
    column
        Name of the column of lines.
    layout
        Their layout.
    numbers
        Number of the field of each column.
    """

    column: str
    layout: Layout
    numbers: tuple[int, ...]

    @classmethod
    def of(cls, df: DataFrame, names: Sequence[str]) -> Lines | None:
        """The columns of these names, or None if they are not all fields of the lines.

        A column keeps its mark if it is renamed and if rows are filtered. A column computed from
        others has none, and Spark then computes all columns, which is logged.
        """
        source = source_of(df)
        if source is None:
            return None
        column, layout, _ = source
        fields = [fields_of(df, name) for name in names]
        numbers = [field_number(of[0], layout) if len(of) == 1 else None for of in fields]
        unmarked = [name for name, number in zip(names, numbers, strict=True) if number is None]
        # A union has the marks of its first part, a join those of both sides: their columns may be
        # those of other rows.
        reason = f"columns {unmarked} are not fields of it" if unmarked else ""
        twice = len({*df.columns}) < len(df.columns)
        reason = reason or ("columns have equal names" if twice else "")
        reason = reason or (f"of the steps {steps} to the rows" if (steps := _steps(df)) else "")
        if reason:
            _log.warning(
                "Spark splits the lines of column %r, because %s; tasks take a part of its time",
                column,
                reason,
            )
            return None
        return cls(column, layout, cast(tuple[int, ...], tuple(numbers)))

    def expressions(self) -> list[Column]:
        """The columns that `split` takes, in its order."""
        line = F.col(quoted(self.column))
        return [line[part].alias(part) for part in ("text", "layout")]

    def split(self, arrays: Sequence[pa.Array]) -> list[pa.Array]:
        """The columns of some rows: numbers, and text that shares the bytes of the lines.

        Parameters
        ----------
        arrays
            The columns of `expressions`.

        Raises
        ------
        LineError
            A line is malformed, or has text in a column of numbers.
        DataError
            Rows have another layout, or a column has other values than the lines.
        """
        text, layout = arrays
        foreign = len(layout) - (pc.equal(layout, self.layout.mark).true_count or 0)
        if foreign:
            raise DataError(
                f"found {foreign} rows without a line of this layout in a batch of {len(text)} "
                f"rows, expected rows of one layout with the columns of column {self.column!r}; "
                f"drop column {self.column!r}, so that Spark computes the columns"
            )
        lines = cast(Text, raw_column(self.column, text))
        fields = split(lines, self.layout.separator, len(self.layout.names))
        return [self._array(fields[number], number) for number in self.numbers]

    def _array(self, field: Text, number: int) -> pa.Array:
        name = self.layout.names[number]
        if (kind := self.layout.type_of(name)) == "text":
            valid = field.starts < field.ends
            return shared_text(field if valid.all() else field._replace(validity=valid))
        parsed = numbers(name, field, kind)
        return pa.array(parsed.values, mask=field.starts >= field.ends)


def is_whole_source(df: DataFrame) -> bool:
    """Whether the rows are all lines of the files: Spark's plans of both are the same."""
    source = source_of(df)
    if source is None:
        return False
    column, layout, path = source
    lines = df.select(F.col(quoted(column))["text"].alias("text"))
    whole = _lines_of(df.sparkSession, path, layout).select(F.col("value").alias("text"))
    found, expected = plan_of(lines), plan_of(whole)
    return "FileScan" in found and found == expected


def field_number(field: StructField, layout: Layout) -> int | None:
    """Number of the field of lines that a column is; None if it is none of this layout."""
    mark: dict[str, Any] = field.metadata.get(_FIELD, {})
    return mark["number"] if mark.get("layout") == layout.mark else None


def plan_of(df: DataFrame) -> str:
    """Spark's physical plan, as text without the numbers of columns.

    It is empty if another thread of the user took the output.
    """
    # Spark only prints a plan, and the standard output is that of all threads.
    with _PRINTING, redirect_stdout(StringIO()) as printed:
        df.explain()
    return re.sub(r"#\d+L?", "", printed.getvalue().partition("== Physical Plan ==\n")[2])


def _steps(df: DataFrame) -> list[str]:
    """Steps of Spark's plan other than those after which each row still has its own line."""
    # An empty plan has an unknown step.
    steps = (_STEP.match(line) for line in (plan_of(df) or "?").splitlines() if line.strip())
    return sorted({step[1] if step else "" for step in steps} - _KEEPING)
