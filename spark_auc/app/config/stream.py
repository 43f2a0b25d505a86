"""The part of the configuration that says how rows are learned as they arrive."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from spark_auc.app.config.sections import Location, Section, Setting


class HalfLife(Section):
    """After how much the weight of rows is halved."""

    rows: float | None = Field(None, gt=0, description="after so many later rows")
    hours: float | None = Field(None, gt=0, description="by the times of change of the files")

    @model_validator(mode="after")
    def _one_of(self) -> HalfLife:
        if (self.rows is None) == (self.hours is None):
            raise ValueError("give either rows or hours")
        return self


class StreamSource(Section):
    """Any source of Structured Streaming: Kafka, a table, or whatever Spark knows by a name."""

    table: str | None = Field(None, description="a table of the session's catalog")
    format: str | None = Field(None, description="kafka, delta, rate, or any source of Spark's")
    path: Location | None = Field(None, description="where the format needs one")
    options: dict[str, Setting] = Field(
        default_factory=dict,
        description="the source's; among them how much a batch has",
        repr=False,
    )
    value: Literal["json", "csv"] | None = Field(
        None, description="how the column value is written; not given: the source has columns"
    )
    ddl: str | None = Field(
        None, alias="schema", description="of what is in value; else what the source is told"
    )

    @model_validator(mode="after")
    def _complete(self) -> StreamSource:
        if (self.table is None) == (self.format is None):
            raise ValueError("give either table, or format (with path and options)")
        if self.table is not None and self.path is not None:
            raise ValueError("leave out path, for a table has its own")
        if self.value is not None and self.ddl is None:
            raise ValueError("value needs schema, such as 'label double, features array<double>'")
        if self.table is not None and self.ddl is not None and self.value is None:
            raise ValueError("leave out schema, for a table has its own")
        return self


class Stream(Section):
    """How rows are learned as they arrive."""

    source: StreamSource | None = Field(None, description="not given: files in data.path")
    checkpoint: Location = Field(description="directory of the committed state")
    ddl: str | None = Field(None, alias="schema", description="not given: that of files there")
    maxFilesPerTrigger: int = Field(100, ge=1, description="files of a batch")
    trigger: str = Field(
        "availableNow",
        pattern=r"^(availableNow|\d+ (millisecond|second|minute|hour)s?)$",
        description="availableNow, or an interval such as 1 minute",
    )
    halfLife: HalfLife | None = Field(None, description="not given: nothing is forgotten")
    publishEvery: int = Field(10, ge=1, description="batches from one model to the next")
    rejected: Location | None = Field(None, description="not given: in the checkpoint")

    @model_validator(mode="after")
    def _of_files(self) -> Stream:
        """What is said of files is refused where there are none."""
        said = {"ddl": "schema", "maxFilesPerTrigger": "maxFilesPerTrigger", "rejected": "rejected"}
        given = [said[name] for name in said if name in self.model_fields_set]
        if self.halfLife is not None and self.halfLife.hours is not None:
            given.append("halfLife.hours")
        if self.source is not None and given:
            raise ValueError(
                f"{', '.join(given)} only of files in data.path; say it in source (schema, "
                "options) or leave it out"
            )
        return self
