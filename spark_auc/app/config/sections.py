"""Parts of the configuration that jobs share."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from spark_auc.app.config.redaction import redacted_text

Label = float | str


def _of_java(value: Any) -> Any:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError("a number of 64 bits; put what has more digits in quotes")
    return value


def _without_password(path: str) -> str:
    if redacted_text(path) != path:
        # File systems print addresses in logs of their own.
        raise ValueError(
            "a location without a password or token; give them in options or spark.conf, such as "
            "fs.s3a.secret.key"
        )
    return path


# A path of this machine or a URI.
Location = Annotated[str, AfterValidator(_without_password)]

# Of Spark or of a reader, which take text.
Setting = Annotated[str | int | float | bool, BeforeValidator(_of_java)]


def text_of(setting: str | int | float | bool) -> str:
    """A setting as Spark takes it."""
    return str(setting).lower() if isinstance(setting, bool) else str(setting)


class Section(BaseModel):
    """A part of the configuration; an unknown key is an error."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        protected_namespaces=(),
        allow_inf_nan=False,
        # A value may be a secret; `load` names the value where it is none.
        hide_input_in_errors=True,
    )


class SparkSection(Section):
    """The Spark session."""

    remote: str | None = Field(
        None, description="address of a Spark Connect server, or local[N] for one of its own"
    )
    conf: dict[str, Setting] = Field(
        default_factory=dict,
        description="Spark settings, such as spark.driver.memory",
        repr=False,
    )

    def settings(self) -> dict[str, str]:
        """The settings as Spark takes them."""
        return {key: text_of(value) for key, value in self.conf.items()}


class Source(Section):
    """Rows to read: a table, or files of any format that Spark knows."""

    table: str | None = Field(None, description="a table of the session's catalog")
    format: str = Field("parquet", description="parquet, csv, libsvm, or any Spark format")
    path: Location | None = Field(None, description="file, directory, pattern or published output")
    options: dict[str, Setting] = Field(
        default_factory=dict, description="the reader's options", repr=False
    )

    @model_validator(mode="after")
    def _one_of(self) -> Source:
        if (self.table is None) == (self.path is None and not self.options):
            raise ValueError("give either table, or path (with format and options)")
        return self


class Output(Section):
    """Where a job publishes what it makes."""

    path: Location = Field(description="a directory; it appears whole or not at all")
    replace: bool = Field(False, description="replace what was published there before")


class Columns(Section):
    """Names of the columns to train on."""

    features: str | list[str] = Field("features", description="one column, or a list of columns")
    numFeatures: int | None = Field(None, gt=0, description="dimension of index/value columns")
    label: str = Field("label", description="label column")
    positiveLabel: Label | None = Field(None, description="needed unless labels are 0/1 or -1/+1")
    weight: str | None = Field(None, description="row weights > 0; not given: 1")
    key: str | None = Field(None, description="its rows stay together in folds")
    fold: str | None = Field(None, description="folds of your own, by which a penalty is chosen")
