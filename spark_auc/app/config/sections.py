"""Sections of the configuration that several jobs use."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from spark_auc.publication.directory import Directory
from spark_auc.publication.redaction import redacted_text

Label = int | float | str

# What the key `drift` of a job does.
DRIFT = "count missing and extreme values of raw columns, in a pass of its own"


def _within_64_bits(value: Any) -> Any:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError("an integer of at most 64 bits; put a longer one in quotes")
    return value


def _without_password(path: str) -> str:
    if redacted_text(path) != path:
        # File systems write paths to logs that redaction does not reach.
        raise ValueError(
            "a location without a password or token; set them in options or spark.conf, such as "
            "fs.s3a.secret.key"
        )
    return path


# A path on the driver's machine, or a URI.
Location = Annotated[str, AfterValidator(_without_password)]


def _as_text(value: Any) -> Any:
    # YAML reads 2026-03-17 as a date.
    if isinstance(value, date) or (isinstance(value, int) and not isinstance(value, bool)):
        return str(value)
    return value


# A name that may be a date.
Name = Annotated[str, BeforeValidator(_as_text)]

# The value of a setting of Spark or an option of a reader, which take text.
Setting = Annotated[str | int | float | bool, BeforeValidator(_within_64_bits)]


def store_location(location: str) -> str:
    """The path of a local store of moments, and the URI of another."""
    place = Directory.of(location)
    return place.path if place.local else location


def text_of(setting: str | int | float | bool) -> str:
    """Return the text that Spark takes for a setting."""
    return str(setting).lower() if isinstance(setting, bool) else str(setting)


class Section(BaseModel):
    """A section of the configuration; an unknown key is an error."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        protected_namespaces=(),
        allow_inf_nan=False,
        # The value may be a secret; `load` shows the values of other keys.
        hide_input_in_errors=True,
    )


def sections_of(annotation: Any) -> list[type[Section]]:
    """The sections of a type, of a union of types, or of the items of a list."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [section for part in get_args(annotation) for section in sections_of(part)]


class SparkSection(Section):
    """Settings of the Spark session."""

    remote: str | None = Field(
        None,
        description="address of a Spark Connect server, or local[N] to start one",
    )
    conf: dict[str, Setting] = Field(
        default_factory=dict,
        description="Spark settings by name, such as spark.driver.memory",
        repr=False,
    )

    def settings(self) -> dict[str, str]:
        """Return the settings as text."""
        return {key: text_of(value) for key, value in self.conf.items()}


class Output(Section):
    """The directory to which a job publishes its results."""

    path: Location = Field(description="directory; readers see all files of a run or none")
    replace: bool = Field(False, description="whether to replace the results of an earlier run")


class Columns(Section):
    """Columns of the training rows."""

    features: str | list[str] = Field("features", description="vector column, or list of columns")
    numFeatures: int | None = Field(
        None, gt=0, description="number of features; needed for (indices, values) columns"
    )
    label: str = Field("label", description="column of class labels")
    positiveLabel: Label | None = Field(
        None, description="label of the positive class; needed unless labels are 0/1 or -1/+1"
    )
    weight: str | None = Field(
        None, description="column of row weights; rows of 0 do not train; default: 1"
    )
    key: str | None = Field(
        None,
        description="column of a row key: rows of a key are in one fold, and in one part of a "
        "holdout by key; sampling separates rows of equal features by it",
    )
    fold: str | None = Field(
        None, description="column of fold numbers or names; default: folds by a hash of the rows"
    )
