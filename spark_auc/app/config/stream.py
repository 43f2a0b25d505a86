"""Sections of the configuration for learning from a stream of rows."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from spark_auc.app.config.sections import Location, Section, Setting, store_location


class HalfLife(Section):
    """The number of later rows, or the time, that halves the weight of a row."""

    rows: float | None = Field(None, gt=0, description="number of later rows")
    hours: float | None = Field(
        None, gt=0, description="hours, by the modification times of the files"
    )

    @model_validator(mode="after")
    def _one_of(self) -> HalfLife:
        if (self.rows is None) == (self.hours is None):
            raise ValueError("give either rows or hours")
        return self

    def factor(self, rows: int, hours: float) -> float:
        """Factor for the weights of earlier rows before a batch is added.

        Parameters
        ----------
        rows
            Number of rows of the batch.
        hours
            Time since the previous batch, in hours.
        """
        if self.rows is not None:
            return float(0.5 ** (rows / self.rows))
        assert self.hours is not None
        return float(0.5 ** (hours / self.hours))


class StreamSource(Section):
    """A source of Structured Streaming: Kafka, a table, or any other format of Spark."""

    table: str | None = Field(None, description="name of a table of the session's catalog")
    format: str | None = Field(
        None, description="kafka, delta, rate, or any other streaming format"
    )
    path: Location | None = Field(None, description="path of the source, if its format needs one")
    options: dict[str, Setting] = Field(
        default_factory=dict,
        description="options of the source, such as maxOffsetsPerTrigger for the size of a batch",
        repr=False,
    )
    value: Literal["json", "csv"] | None = Field(
        None,
        description="format of the rows in the column value, as of Kafka; default: the columns of "
        "the source are the rows",
    )
    ddl: str | None = Field(
        None,
        alias="schema",
        description="columns and types, such as label double, age int; needed with value",
    )

    @model_validator(mode="after")
    def _complete(self) -> StreamSource:
        if (self.table is None) == (self.format is None):
            raise ValueError("give either table, or format (with path and options)")
        if self.table is not None and self.path is not None:
            raise ValueError("table without path; leave out path, since a table has its own")
        if self.value is not None and self.ddl is None:
            raise ValueError(
                "value needs schema; add one, such as 'label double, features array<double>'"
            )
        if self.table is not None and self.ddl is not None and self.value is None:
            raise ValueError("table without schema; leave out schema, since a table has its own")
        return self


class StoreSection(Section):
    """A store of moments to which each batch is added, beside those of the job retrain."""

    path: Location = Field(description="directory of the moments, as retrain.store")
    period: str = Field(
        description="column of the dates or times whose day, in UTC, is the period of a row"
    )
    name: str = Field(
        "stream",
        pattern=r"^[A-Za-z0-9_-]{1,40}$",
        description="name of this stream among the streams of the store",
    )
    folds: int = Field(5, ge=2, description="number of folds, as retrain.folds")
    seed: int = Field(0, description="seed of the folds, as retrain.seed")
    segment: str | None = Field(
        None, description="segment column, as retrain.training.segmentCol; default: no segments"
    )
    schemaId: str | None = Field(
        None, description="schema id of the moments, in a store of several segmentations"
    )

    @model_validator(mode="after")
    def _of_segments(self) -> StoreSection:
        if self.schemaId is not None and self.segment is None:
            raise ValueError("schemaId with segment only; leave it out, or add segment")
        return self

    def location(self) -> str:
        """The path of a local store, and the URI of another."""
        return store_location(self.path)


class Stream(Section):
    """A stream of rows to learn from, batch by batch."""

    source: StreamSource | None = Field(
        None, description="source of the rows; default: new files in data.path"
    )
    checkpoint: Location = Field(description="directory of the state that a restart continues from")
    ddl: str | None = Field(
        None, alias="schema", description="columns and types of the files; default: read from them"
    )
    maxFilesPerTrigger: int = Field(100, ge=1, description="largest number of files in a batch")
    trigger: str = Field(
        "availableNow",
        pattern=r"^(availableNow|\d+ (millisecond|second|minute|hour)s?)$",
        description="availableNow to stop after the available rows, or an interval, such as 1 "
        "minute, to keep running",
    )
    halfLife: HalfLife | None = Field(
        None, description="decay of the weight of older rows; default: none"
    )
    store: StoreSection | None = Field(
        None, description="where batches are stored too, for retraining; default: nowhere"
    )
    publishEvery: int = Field(10, ge=1, description="number of batches between published models")
    rejected: Location | None = Field(
        None, description="directory for unusable files; default: a directory in the checkpoint"
    )

    @model_validator(mode="after")
    def _of_files(self) -> Stream:
        """Refuse keys of files beside another source."""
        file_keys = {"ddl": "schema"} | {k: k for k in ("maxFilesPerTrigger", "rejected")}
        keys = [key for field, key in file_keys.items() if field in self.model_fields_set]
        if self.halfLife is not None and self.halfLife.hours is not None:
            keys.append("halfLife.hours")
        if self.source is not None and keys:
            raise ValueError(
                f"{', '.join(keys)} only for files in data.path; set schema and options in source, "
                "or leave the keys out"
            )
        return self
