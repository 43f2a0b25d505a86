"""Saving and loading through Spark, on any file system that Spark reaches, classic and Connect.

`spark_auc.serving.stored_stage` has the format. Spark ML's own writer clears the target through the
JVM, which Connect cannot; here each directory is overwritten by itself. The metadata has a hash of
the table, so that a half-replaced pair is refused, and a hash of itself. ``load`` always makes the
class that it is called on: no class name in the metadata is imported, and only Params of that class
are set.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from os import fspath
from typing import Any, ClassVar, Generic, Self, TypeVar

import pyarrow as pa
from pyspark.ml.param import Param
from pyspark.ml.util import (
    DefaultParamsReader,
    DefaultParamsWriter,
    MLReadable,
    MLReader,
    MLWritable,
    MLWriter,
)
from pyspark.sql import DataFrame

import spark_auc
from spark_auc.core.types import AnyPath
from spark_auc.errors import ConfigError, ModelFormatError
from spark_auc.serving.stored_stage import (
    DAMAGES,
    VERSION,
    StoredStage,
    check_seal,
    check_version,
    checked_table,
    damaged,
    hash_of,
    seal,
)
from spark_auc.spark.data.failures import SPARK_FAILURES, first_line
from spark_auc.spark.data.names import check_new
from spark_auc.spark.data.nested import with_fields, without_fields
from spark_auc.spark.data.paths import literal_reader
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.spark.params import Configured
from spark_auc.tables.names import free_names
from spark_auc.tables.table import Table

T = TypeVar("T", bound="Stage")


class Stage(Configured, MLReadable[Any], MLWritable):
    """A configured stage of Spark ML that can be saved and loaded."""

    # The Params that name the columns which the stage, or its model, adds.
    OUTPUTS: ClassVar[Sequence[str]] = ()

    def outputs(self) -> dict[Param[str], str]:
        """Names of the columns that the stage, or its model, adds, by their Params."""
        values = self.values()
        return {self.getParam(name): values[name] for name in self.OUTPUTS}

    def check_outputs(self, dataset: DataFrame) -> None:
        """`ConfigError` if rows have columns of the names of `outputs` already."""
        check_new(dataset, {param.name: name for param, name in self.outputs().items()})

    def beside(self, dataset: DataFrame) -> Self:
        """A copy of the stage that adds columns of names which the rows do not have."""
        return self.copy(free_names(dataset.columns, self.outputs()))

    def strings(self) -> Iterator[str]:
        """All strings among the values of the Params; those that name columns are read."""
        for value in self.values().values():
            yield from (item for item in _flat(value) if isinstance(item, str))

    def write(self) -> StageWriter:
        """A writer; ``write().overwrite().save(path)`` replaces."""
        return StageWriter(self)

    @classmethod
    def read(cls) -> StageReader[Any]:
        """A reader."""
        return StageReader(cls)

    def _saved(self) -> tuple[pa.Table | None, dict[str, Any]]:
        """The table to save, if any, and further values for the metadata, as JSON takes them."""
        return None, {}

    def _parts(self) -> Mapping[str, Stage]:
        """Stages that are saved with this one, by the name of their directory."""
        return {}

    @classmethod
    def _part(cls, name: str, facts: Mapping[str, Any]) -> type[Stage]:
        """The class of a part, by the facts of `_saved`; `KeyError` if no part has the name."""
        raise KeyError(name)


class EstimatorStage(Stage):
    """A stage that is fitted; its Params may name fields of structs, as ``user.age``."""

    def fit(self, dataset: DataFrame, params: Any = None) -> Any:
        """Fit the stage to rows, or one for each map of Params in a list; see Spark's Estimator."""
        if isinstance(params, dict) and params:
            return self.copy(params).fit(dataset)
        return super().fit(with_fields(dataset, self.strings()), params)  # type: ignore[misc]

    def fitted(self, table: Table, *others: Any) -> Any:
        """The model of the rows of a table."""
        raise NotImplementedError

    def _fit(self, dataset: DataFrame) -> Any:
        # What no rows can make right comes first.
        self.check()
        self.check_outputs(dataset)
        return self.fitted(SparkTable(dataset))


class ModelStage(Stage):
    """A stage that adds columns; its Params may name fields of structs, as ``user.age``."""

    def stored(self) -> StoredStage:
        """What is saved of it."""
        return self.write().stored()

    def transform(self, dataset: DataFrame, params: Any = None) -> DataFrame:
        """Add the stage's columns to rows; see Spark's Transformer."""
        if params:
            return self.copy(params).transform(dataset)
        read = with_fields(dataset, self.strings())
        result = super().transform(read)  # type: ignore[misc]
        return without_fields(result, dataset, read)


def class_name(stage: Stage) -> str:
    """The name of a stage's class with its module, as `stage_class` takes it."""
    return f"{type(stage).__module__}.{type(stage).__name__}"


def stage_class(name: str) -> type[Stage]:
    """The class of a saved stage: a public one, or one that this process has imported.

    No module is imported because metadata name it.

    Parameters
    ----------
    name
        Its name with its module.

    Raises
    ------
    ConfigError
        There is no such class.
    """
    kinds, left = dict[str, type[Stage]](), [Stage]
    while left:
        kind = left.pop()
        kinds[f"{kind.__module__}.{kind.__name__}"] = kind
        left += kind.__subclasses__()
    module, _, last = name.rpartition(".")
    if name not in kinds and module.startswith("spark_auc.") and last in spark_auc.__all__:
        kinds[name] = getattr(spark_auc, last)
    if name not in kinds:
        raise ConfigError(
            f"found a saved stage of the class {name[:200]!a}, expected a public class of "
            "spark_auc or one that is imported; import its module before you load the stage"
        )
    return kinds[name]


def _flat(value: Any) -> Iterator[Any]:
    """A value, or the values of nested lists."""
    if isinstance(value, list):
        for item in value:
            yield from _flat(item)
    else:
        yield value


class StageWriter(MLWriter):
    """Writes an instance's Params, the table and facts that ``_saved()`` gives, and its parts."""

    def __init__(self, instance: Any) -> None:
        super().__init__()
        self.instance = instance

    def _handleOverwrite(self, path: str) -> None:
        pass

    def saveImpl(self, path: AnyPath) -> None:
        """Write to ``path``."""
        self._write(self.stored(), fspath(path))

    def stored(self) -> StoredStage:
        """What is written."""
        table, facts = self.instance._saved()
        parts = {name: part.write().stored() for name, part in self.instance._parts().items()}
        if parts:
            uids = {name: part.metadata["uid"] for name, part in parts.items()}
            facts = facts | {"parts": uids}
        if table is not None:
            facts = facts | {"hash": hash_of(table)}
        noted = DefaultParamsWriter._get_metadata_to_save(
            self.instance, self.sparkSession, {"spark_auc": {"version": VERSION, **facts}}
        )
        metadata = json.loads(noted)
        metadata["spark_auc"]["metadata"] = seal(metadata)
        return StoredStage(self.instance.uid, metadata, table, parts)

    def _write(self, stored: StoredStage, path: str) -> None:
        spark, mode = self.sparkSession, "overwrite" if self.shouldOverwrite else "error"
        for name, part in stored.parts.items():
            self._write(part, f"{path}/{name}")
        if stored.table is not None:
            frame = spark.createDataFrame(stored.table).coalesce(1)
            frame.write.mode(mode).parquet(f"{path}/data")
        frame = spark.createDataFrame([(stored.text(),)], "value string").coalesce(1)
        frame.write.mode(mode).text(f"{path}/metadata")


class StageReader(MLReader[Any], Generic[T]):
    """Reads what `StageWriter` wrote; ``_loaded()`` takes the table and the further values.

    Parameters
    ----------
    kind
        The class of the stage.
    """

    def __init__(self, kind: type[T]) -> None:
        super().__init__()
        self.kind = kind

    def load(self, path: AnyPath) -> T:
        """Read from ``path``, which is no pattern.

        Raises
        ------
        ConfigError
            The path cannot be read.
        ModelFormatError
            The stage is of another class or version, truncated, or changed.
        """
        path, expected = fspath(path), f"a saved {self.kind.__name__}"
        try:
            metadata: dict[str, Any] = self._metadata(path)
            facts: dict[str, Any] = metadata["spark_auc"]
            check_version(path, metadata["class"], facts["version"], expected, self.kind.__name__)
        except SPARK_FAILURES as failure:
            raise ConfigError(
                f"found nothing that can be read at {path!r} ({first_line(failure)}), expected "
                f"{expected}; check the path"
            ) from None
        except DAMAGES as failure:
            raise damaged(path, expected, failure) from None
        instance: Any = self.kind()
        try:
            check_seal(metadata)
            facts.pop("metadata")
            instance._resetUid(metadata["uid"])
            for name in self.kind.ABSENT:
                metadata["defaultParamMap"].pop(name, None)
            unknown = {*metadata["paramMap"], *metadata["defaultParamMap"]} - {
                param.name for param in instance.params
            }
            if unknown:
                name = min(unknown)
                reason = self.kind.ABSENT.get(name, "save it again without")
                raise ValueError(f"there is no Param {name[:60]!a}: {reason}")
            DefaultParamsReader.getAndSetParams(instance, metadata)
        except (*DAMAGES, AssertionError, ConfigError) as failure:
            raise damaged(path, expected, failure) from None
        parts = dict[str, Stage]()
        try:
            for name, uid in facts.get("parts", {}).items():
                parts[name] = StageReader(self.kind._part(name, facts)).load(f"{path}/{name}")
                if parts[name].uid != uid:
                    raise ValueError(f"its {name} was not saved with it")
            table = self._table(path, facts["hash"]) if "hash" in facts else None
            if table is not None or parts:
                instance._loaded(table, facts | {"parts": parts})
        except (*DAMAGES, pa.ArrowException) as failure:
            raise damaged(path, expected, failure) from None
        return instance  # type: ignore[no-any-return]

    def _metadata(self, path: str) -> dict[str, Any]:
        place = f"{path}/metadata"
        text = literal_reader(self.sparkSession, place).text(place).head()
        return dict(json.loads(text[0] if text else ""))

    def _table(self, path: str, hashed: str) -> pa.Table:
        """The table that was saved with the metadata."""
        try:
            place = f"{path}/data"
            table = literal_reader(self.sparkSession, place).parquet(place).toArrow()
        except SPARK_FAILURES as failure:
            raise ModelFormatError(
                f"found no readable weights at {path!r}/data ({first_line(failure)}), "
                "expected those saved with the metadata; restore the files or save it again"
            ) from None
        return checked_table(f"{path}/data", table, hashed)
