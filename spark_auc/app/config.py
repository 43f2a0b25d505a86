"""Configuration: a YAML file with a section per job, validated before Spark starts."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from spark_auc.errors import ConfigError

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


class CriteoInput(Section):
    """Criteo's raw click logs."""

    layout: Literal["criteo"]
    path: str = Field(description="file, directory or pattern")
    dimension: int = Field(gt=0, description="hashed dimension")


class AvazuInput(Section):
    """Avazu's raw click logs."""

    layout: Literal["avazu"]
    path: str = Field(description="file, directory or pattern")
    dimension: int = Field(gt=0, description="hashed dimension")


class LibsvmInput(Section):
    """LIBSVM text."""

    layout: Literal["libsvm"]
    path: str = Field(description="file, directory or pattern")
    dimension: int | None = Field(None, gt=0, description="found by an extra pass where not given")


class PlainInput(Section):
    """Named columns of any source."""

    layout: Literal["plain"]
    source: Source
    label: str
    numeric: list[str] = Field(default_factory=list)
    categorical: list[str] = Field(default_factory=list)
    dimension: int = Field(2**18, gt=0, description="hashed dimension of the categoricals")


class SyntheticInput(Section):
    """Click data with planted weights."""

    layout: Literal["synthetic"]
    rows: int = Field(gt=0)
    dimension: int = Field(gt=0)
    positiveRate: float = Field(0.05, gt=0, lt=1)
    ceiling: float = Field(0.8, ge=0.51, le=0.99, description="best AUC that a model can reach")
    seed: int = 0


class Split(Section):
    """How rows are divided into the parts train and test."""

    by: Literal["key", "position", "time"]
    train: int | float = Field(0.8, gt=0, description="share, or number of first rows (position)")
    column: str | None = Field(None, description="key or time column")
    before: datetime | None = Field(None, description="moment before which rows train (time)")
    seed: int = 0

    @model_validator(mode="after")
    def _complete(self) -> Split:
        if self.by == "time" and not (self.column and self.before):
            raise ValueError("a split by time needs column and before")
        if self.by == "key" and not 0 < self.train < 1:
            raise ValueError("a split by key needs train between 0 and 1")
        return self


class Prepare(Section):
    """Raw rows to Parquet of label and features, divided into train and test."""

    input: Annotated[
        CriteoInput | AvazuInput | LibsvmInput | PlainInput | SyntheticInput,
        Field(discriminator="layout"),
    ]
    split: Split | None = Field(None, description="no split: all rows are in the part train")
    output: Output


class Training(Section):
    """The Params of MBAClassifier."""

    regParam: float = Field(0.1, ge=0)
    elasticNetParam: float = Field(0.0, ge=0, le=1)
    standardization: bool = True
    tol: float = Field(1e-6, gt=0)
    maxIter: int = Field(1000, ge=1)
    whenNotConverged: Literal["raise", "warn"] = "raise"


class Train(Section):
    """Rows to a model directory."""

    data: Source
    columns: Columns = Columns()
    training: Training = Training()
    saveMoments: bool = Field(False, description="publish the pair moments with the model")
    output: Output


class Evaluate(Section):
    """A model and rows to AUC, ROC curve and report."""

    model: str = Field(description="directory that the train job published")
    data: Source
    output: Output


class Score(Section):
    """A model and rows to Parquet of scores and predictions."""

    model: str = Field(description="directory that the train job published")
    data: Source
    keep: list[str] = Field(default_factory=list, description="columns to keep with the scores")
    output: Output


class File(Section):
    """A whole configuration file."""

    spark: SparkSection = SparkSection()
    prepare: Prepare | None = None
    train: Train | None = None
    evaluate: Evaluate | None = None
    score: Score | None = None


def load(path: str, overrides: Sequence[str] = ()) -> File:
    """Read and validate a file with ``dotted.key=value`` overrides (values in YAML).

    Raises
    ------
    ConfigError
        The file is missing or no YAML, a key is unknown (the nearest known one is named), or a
        value cannot serve.
    """
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}
    except OSError as error:
        raise ConfigError(
            f"found no readable file {path!r} ({error.strerror}), expected a YAML configuration; "
            "check --config"
        ) from None
    except yaml.YAMLError as error:
        raise ConfigError(
            f"found text that is no YAML in {path!r}: {' '.join(str(error).split())}; repair it"
        ) from None
    if not isinstance(content, dict):
        raise ConfigError(f"found {type(content).__name__} in {path!r}, expected sections of keys")
    for override in overrides:
        _override(content, override)
    try:
        return File.model_validate(content)
    except ValidationError as error:
        raise ConfigError("; ".join(_explained(e) for e in error.errors())) from None


def _override(content: dict[str, Any], override: str) -> None:
    dotted, given, text = override.partition("=")
    *parents, last = dotted.split(".")
    if not given or not all([*parents, last]):
        raise ConfigError(
            f"found the argument {override!r}, expected dotted.key=value; "
            "write for example train.training.regParam=0.01"
        )
    here = content
    if parents[:2] == ["spark", "conf"]:
        parents, last = parents[:2], ".".join([*parents[2:], last])
    for name in parents:
        here = here.setdefault(name, {})
        if not isinstance(here, dict):
            raise ConfigError(f"found {name!r} in {override!r} to be a value, expected a section")
    here[last] = _number(yaml.safe_load(text))


def _number(value: Any) -> Any:
    # YAML 1.1 takes 1e-4, without a point, for text.
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _explained(error: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        known = _known_keys(error["loc"][:-1])
        near = difflib.get_close_matches(str(error["loc"][-1]), known, 1)
        remedy = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(known)}"
        return f"found the unknown key {where!r}; {remedy}"
    if error["type"] == "missing":
        return f"found no {where!r}, expected it; add it"
    message = error["msg"].removeprefix("Value error, ")
    return f"found {error['input']!r} at {where!r}; expected: {message}"


def _known_keys(location: Sequence[str | int]) -> list[str]:
    """The keys of the section at a location of the schema."""
    schema = File.model_json_schema()
    here: Mapping[str, Any] = schema
    for part in location:
        options = [_resolved(o, schema) for o in here.get("anyOf", here.get("oneOf", [here]))]
        tagged = [o for o in options if _layout(o) == part]
        if tagged:
            here = tagged[0]
            continue
        owner = next((o for o in options if part in o.get("properties", {})), None)
        if owner is None:
            return []
        here = _resolved(owner["properties"][part], schema)
    options = [_resolved(o, schema) for o in here.get("anyOf", here.get("oneOf", [here]))]
    return sorted({key for option in options for key in option.get("properties", {})})


def _resolved(node: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    name = node.get("$ref", "").rsplit("/", 1)[-1]
    found: Mapping[str, Any] = schema["$defs"][name] if name else node
    return found


def _layout(node: Mapping[str, Any]) -> str | None:
    tag: str | None = node.get("properties", {}).get("layout", {}).get("const")
    return tag
