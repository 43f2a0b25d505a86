"""Where rows come from: the source of a job, and the layouts of raw rows of the job ``prepare``.

A layout of raw rows is one class here, with a reader in `spark_auc.spark.data`, and a part of
`Layout`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, Field, model_validator

from spark_auc.app.config.file_columns import check_columns
from spark_auc.app.config.sections import Location, Section, Setting, text_of
from spark_auc.errors import ConfigError
from spark_auc.features.readings import FORMATS, Reading
from spark_auc.publication.redaction import redacted_text
from spark_auc.publication.versions import resolve
from spark_auc.storage.file_systems import is_local, is_pattern
from spark_auc.tables.layouts import Layout as TextLayout
from spark_auc.tables.layouts import layout_of
from spark_auc.tables.missing import complete
from spark_auc.tables.names import differ_in_case
from spark_auc.tables.table import Table, fields_by_name
from spark_auc.tables.text_types import inferred, typed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T", bound=Table)

_LAKES = ("delta", "iceberg")
# Options of readers by which both engines read the same rows.
_FAILS = {"mode": "FAILFAST"}
_ALIKE = {
    "csv": _FAILS | {"header": "true", "escape": '"', "enforceSchema": "true"},
    "json": _FAILS,
    "parquet": {},
}
# Options by which blanks around fields are no part of them.
_TRIMS = ("ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace")


def _known_format(form: str) -> str:
    if form not in FORMATS:
        raise ValueError(f"give one of {', '.join(FORMATS)}")
    return form


# A format of text; see `spark_auc.features.readings.FORMATS`.
TextFormat: TypeAlias = Annotated[str, AfterValidator(_known_format)]


def check_path(path: str | None) -> None:
    """`ConfigError` if a local path does not exist and is no pattern."""
    if path is None or not is_local(path):
        return
    local_path = resolve(path).removeprefix("file://")
    if not os.path.exists(local_path) and not is_pattern(path):
        parent = os.path.dirname(os.path.abspath(local_path))
        hint = "its directory exists" if os.path.isdir(parent) else f"no directory {parent!r}"
        raise ConfigError(
            f"found nothing at {path!r} ({hint}), expected a file, a directory or a published "
            "output; check the path"
        )


class Source(Section):
    """Rows to read: a table, or files of any format that Spark reads."""

    table: str | None = Field(None, description="name of a table of the session's catalog")
    format: str = Field(
        "parquet",
        description="format of the files: parquet, csv, json (an object on each line), libsvm, "
        "delta, or any other of Spark; criteo, avazu or delimited for text without quotes of given "
        "columns; iceberg for a table of a catalog that options describe",
    )
    path: Location | None = Field(
        None,
        description="file, directory, output directory of a job, or a glob pattern that is no path",
    )
    options: dict[str, Setting] = Field(
        default_factory=dict,
        description="options of the reader of the format, such as header; of delimited: separator, "
        "columns (label integer, price float, city text) and header",
        repr=False,
    )
    where: str | None = Field(
        None, description="SQL condition of the rows to keep, such as day < '2024-02-01'"
    )
    select: list[str] | None = Field(
        None,
        min_length=1,
        description="columns to keep, by name, or SQL expressions such as log(price) as price",
    )

    types: Literal["auto"] | dict[str, TextFormat] | None = Field(
        None,
        description="types of columns of text, by name: integer, float, amount ($1,234.50 or 12%), "
        "decimalComma (1.234,50), band (10-49, <10 or [70-80)), duration (2 months), boolean, "
        "date, time or zoned (2024-03-08 10:11), yearFirst, "
        "monthFirst, dayFirst (8/3/2014) or monthNamed (8-Mar-14), digits (20140308), seconds or "
        "milliseconds since 1970, also of columns of integers; code for text such as 007; auto: "
        "the types that the values fit, by a pass of its own; default: text, as the files have it",
    )

    missingWords: dict[str, list[str]] = Field(
        default_factory=dict,
        description="words that stand for no value in a column of types, by its name, beside those "
        "of every column, such as NA",
    )

    dropMissing: list[str] = Field(
        default_factory=list,
        description="columns, such as the label; rows in which one of them is missing are left out",
    )

    @model_validator(mode="after")
    def _one_of(self) -> Source:
        if self.format == "iceberg" and self.table is not None and self.path is None:
            return self
        if (self.table is None) == (self.path is None and not self.options):
            raise ValueError("give either table, or path (with format and options)")
        return self

    @property
    def through_arrow(self) -> bool:
        """Whether both engines read the files through Arrow, and so the same values."""
        if self.format not in _ALIKE:
            return self.layout is not None
        given = {name: text_of(value) for name, value in self.options.items()}
        if self.format == "csv":
            separator, trims = given.pop("sep", ","), [given.pop(n, "false") for n in _TRIMS]
            if "header" not in given or len(separator) != 1 or trims[0] != trims[1]:
                return False
        return given.items() <= _ALIKE[self.format].items()

    @property
    def layout(self) -> TextLayout | None:
        """The layout of text without quotes; see `layout_of`, also for the errors."""
        return layout_of(self.format, {key: text_of(v) for key, v in self.options.items()})

    @property
    def trimmed(self) -> bool:
        """Whether blanks around the fields of text are no part of them."""
        return all(text_of(self.options.get(name, "")) == "true" for name in _TRIMS)

    def check(self, *columns: str | None, new: Mapping[str, str | None] | None = None) -> None:
        """Check the path, and the columns of a local file, before Spark starts.

        Parameters
        ----------
        columns
            Names of columns; None for a column that is not used.
        new
            Names of columns that the job adds to the rows, by the keys that name them.

        Raises
        ------
        ConfigError
            A local path without a pattern does not exist, or the file lacks a column, or has a new
            one already.
        """
        check_path(self.path)
        if self.path and self.select is None:
            given = [*columns, *self.dropMissing]
            check_columns(self.path, self.format, self.options, given, new)

    @contextmanager
    def read(self, spark: SparkSession, names: Collection[str] | None = ()) -> Iterator[DataFrame]:
        """Read the rows; of a published output, those of its current version.

        Parameters
        ----------
        spark
            The session.
        names
            Paths of fields that become columns; see `spark_auc.spark.data.nested.with_fields`.

        Raises
        ------
        ConfigError
            ``where`` or ``select`` is no expression of the rows' columns.
        DataError
            An action inside the block reads a corrupt file.
        """
        from spark_auc.spark.data.names import told_apart

        with self._rows(spark) as rows, ExitStack() as stack:
            if differ_in_case(rows.columns):
                stack.enter_context(told_apart(spark))
            yield self._selected(rows, names)

    @contextmanager
    def _rows(self, spark: SparkSession) -> Iterator[DataFrame]:
        """All rows and columns."""
        from pyspark.errors import AnalysisException

        from spark_auc.spark.data.arrow_files import arrow_rows, layout_rows
        from spark_auc.spark.data.failures import translated
        from spark_auc.spark.data.libsvm import libsvm
        from spark_auc.spark.data.names import told_apart
        from spark_auc.spark.data.paths import reader_of
        from spark_auc.spark.data.strict import whole_rows

        options = {key: text_of(value) for key, value in self.options.items()}
        path = resolve(self.path) if self.path else None
        if self.format == "libsvm" and path:
            dimension = int(options["numFeatures"]) if "numFeatures" in options else None
            with translated():
                yield libsvm(spark, path, dimension)
            return
        if self.path and (layout := self.layout):
            with translated():
                yield layout_rows(spark, self.path, layout)
            return
        place = self.table if self.format == "iceberg" else path
        if self.format in _LAKES and place:
            from spark_auc.spark.data.lakes import lake

            rows = lake(spark, self.format, place, options)
            if rows is not None:
                with translated():
                    yield rows
                return
        with translated():
            if self.table is not None:
                yield spark.read.table(self.table)
                return
            if self.path and self.through_arrow:
                separator = options.get("sep", ",") if self.format == "csv" else None
                json = self.format == "json"
                rows = arrow_rows(spark, self.path, separator, trimmed=self.trimmed, json=json)
                if rows is not None:
                    yield rows
                    return
            reader = reader_of(spark, path) if path else spark.read
            strict = whole_rows(self.format, options)
            reader = reader.format(self.format).options(**strict)
            try:
                rows = reader.load(path)
                # Spark Connect analyses a plan when its schema is read.
                _ = rows.schema
            except AnalysisException as failure:
                if failure.getCondition() != "COLUMN_ALREADY_EXISTS":
                    raise
                with told_apart(spark):
                    rows = reader.load(path)
                    _ = rows.schema
            yield rows

    def _selected(self, rows: DataFrame, paths: Collection[str] | None) -> DataFrame:
        """The rows and columns that ``where`` and ``select`` name, and fields, with their types."""
        from spark_auc.spark.data import names as of_spark
        from spark_auc.spark.data.nested import with_fields
        from spark_auc.spark.data.spark_table import SparkTable

        if self.where is not None:
            rows = self._analysed(rows, "where", self.where, rows.where)
        if self.select is not None:
            names = [
                of_spark.quoted(item) if of_spark.fields_of(rows, item) else item
                for item in self.select
            ]
            rows = self._analysed(
                rows, "select", ", ".join(names), lambda _: rows.selectExpr(*names)
            )
        return self.typed(SparkTable(with_fields(rows, paths))).filtered()

    def readings(self) -> list[Reading]:
        """How columns of text are read, as `types` says."""
        types, words = (self.types if isinstance(self.types, dict) else {}), self.missingWords
        return [Reading(name, form, tuple(words.get(name, ()))) for name, form in types.items()]

    def typed(self, table: T) -> T:
        """The rows without missing values of `dropMissing`, with the types of columns of text."""
        if self.types == "auto":
            readings = [found.reading for found in inferred(table).values()]
        else:
            readings = self.readings()
        if self.select is not None:
            lookup = fields_by_name(table)
            readings = [reading for reading in readings if lookup(reading.name)]
        table = typed(table, readings)
        return complete(table, self.dropMissing)

    def _analysed(
        self, rows: DataFrame, key: str, expression: str, applied: Callable[[str], DataFrame]
    ) -> DataFrame:
        """Rows with an expression applied; `ConfigError` if Spark cannot analyse it."""
        from pyspark.errors import AnalysisException, ParseException

        from spark_auc.spark.data.failures import first_line

        try:
            changed = applied(expression)
            # Spark Connect analyses a plan when its schema is read.
            _ = changed.schema
        except (AnalysisException, ParseException) as failure:
            message = (
                f"found {key} {expression!r} ({first_line(failure)}), expected SQL of the columns "
                f"{', '.join(rows.columns)}; correct {key} of the source"
            )
            raise ConfigError(redacted_text(message)) from None
        return changed


class RawRows(Section):
    """Raw rows of a layout."""

    def check(self) -> None:
        """`ConfigError` if a local path without a pattern does not exist."""

    def read(self, spark: SparkSession) -> AbstractContextManager[DataFrame]:
        """Read rows of label and features; an action inside the block may raise `DataError`."""
        raise NotImplementedError

    def facts(self) -> dict[str, Any]:
        """Known facts about the rows, for the result of the job."""
        return {}


class ClickLogsInput(RawRows):
    """Raw click logs of Criteo or Avazu."""

    layout: Literal["criteo", "avazu"]
    path: Location = Field(description="file, directory or pattern")
    dimension: int = Field(gt=0, description="hashed dimension")

    def check(self) -> None:
        """See `RawRows.check`."""
        check_path(self.path)

    @contextmanager
    def read(self, spark: SparkSession) -> Iterator[DataFrame]:
        """See `RawRows.read`."""
        from spark_auc.spark.data.failures import translated
        from spark_auc.spark.data.raw import avazu, criteo

        reader = {"criteo": criteo, "avazu": avazu}[self.layout]
        with translated():
            yield reader(spark, self.path, self.dimension)


class LibsvmInput(RawRows):
    """LIBSVM text."""

    layout: Literal["libsvm"]
    path: Location = Field(description="file, directory or pattern")
    dimension: int | None = Field(None, gt=0, description="found by an extra pass where not given")

    def check(self) -> None:
        """See `RawRows.check`."""
        check_path(self.path)

    @contextmanager
    def read(self, spark: SparkSession) -> Iterator[DataFrame]:
        """See `RawRows.read`."""
        from spark_auc.spark.data.failures import translated
        from spark_auc.spark.data.libsvm import libsvm

        with translated():
            yield libsvm(spark, self.path, self.dimension)


class PlainInput(RawRows):
    """Named columns of any source."""

    layout: Literal["plain"]
    source: Source
    label: str = Field(description="label column; its values are kept")
    numeric: list[str] = Field(default_factory=list, description="columns of numbers or booleans")
    categorical: list[str] = Field(default_factory=list, description="columns to hash")
    dimension: int = Field(2**18, gt=0, description="hashed dimension of the categoricals")

    def check(self) -> None:
        """See `RawRows.check`."""
        self.source.check()

    @contextmanager
    def read(self, spark: SparkSession) -> Iterator[DataFrame]:
        """See `RawRows.read`."""
        from spark_auc.spark.data.table import plain

        with self.source.read(spark) as rows:
            yield plain(rows, self.label, self.numeric, self.categorical, self.dimension)


class SyntheticInput(RawRows):
    """Click data with planted weights."""

    layout: Literal["synthetic"]
    rows: int = Field(gt=0, description="number of rows")
    dimension: int = Field(gt=0, description="hashed dimension")
    positiveRate: float = Field(0.05, gt=0, lt=1, description="share of positive rows")
    ceiling: float = Field(0.8, ge=0.51, le=0.99, description="best AUC that a model can reach")
    seed: int = Field(0, description="seed of rows and weights")

    @contextmanager
    def read(self, spark: SparkSession) -> Iterator[DataFrame]:
        """See `RawRows.read`."""
        from spark_auc.spark.data.failures import translated
        from spark_auc.spark.data.synthetic import click_data

        with translated():
            yield click_data(
                spark, self.rows, self.dimension, self.positiveRate, self.ceiling, self.seed
            )

    def facts(self) -> dict[str, Any]:
        """See `RawRows.facts`."""
        from spark_auc.spark.data.synthetic import best_auc

        return {"bestAUC": best_auc(self.dimension, self.positiveRate, self.ceiling, self.seed)}


# The layouts of raw rows, by their key ``layout``.
Layout: TypeAlias = ClickLogsInput | LibsvmInput | PlainInput | SyntheticInput
