"""Parts of the configuration that jobs share."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator

Label = float | str


class Section(BaseModel):
    """A part of the configuration; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


class SparkSection(Section):
    """The Spark session."""

    remote: str | None = Field(
        None, description="address of a Spark Connect server, or local[N] for one of its own"
    )
    conf: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Spark settings, such as spark.driver.memory"
    )

    def settings(self) -> dict[str, str]:
        """The settings as Spark takes them."""
        return {
            key: str(value).lower() if isinstance(value, bool) else str(value)
            for key, value in self.conf.items()
        }


class Source(Section):
    """Rows to read: a table, or files of any format that Spark knows."""

    table: str | None = Field(None, description="a table of the session's catalog")
    format: str = Field("parquet", description="parquet, csv, libsvm, or any Spark format")
    path: str | None = Field(None, description="file, directory, pattern or published output")
    options: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="the reader's options"
    )

    @model_validator(mode="after")
    def _one_of(self) -> Source:
        if (self.table is None) == (self.path is None and not self.options):
            raise ValueError("give either table, or path (with format and options)")
        return self


class Output(Section):
    """Where a job publishes what it makes."""

    path: str = Field(description="a directory; it appears whole or not at all")
    replace: bool = Field(False, description="replace what was published there before")


class Columns(Section):
    """Names of the columns to train on."""

    features: str | list[str] = Field("features", description="one column, or a list of columns")
    numFeatures: int | None = Field(None, gt=0, description="dimension of index/value columns")
    label: str = "label"
    positiveLabel: Label | None = Field(None, description="needed unless labels are 0/1 or -1/+1")
    weight: str | None = None
    key: str | None = Field(None, description="its rows stay together in folds")
    fold: str | None = Field(None, description="folds of your own, by which a penalty is chosen")
