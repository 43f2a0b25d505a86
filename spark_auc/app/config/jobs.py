"""Configuration: a YAML file with a section per job, validated before Spark starts."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, model_validator

from spark_auc.app.config.sections import Columns, Location, Output, Section, Source, SparkSection
from spark_auc.app.config.stream import Stream


class CriteoInput(Section):
    """Criteo's raw click logs."""

    layout: Literal["criteo"]
    path: Location = Field(description="file, directory or pattern")
    dimension: int = Field(gt=0, description="hashed dimension")


class AvazuInput(Section):
    """Avazu's raw click logs."""

    layout: Literal["avazu"]
    path: Location = Field(description="file, directory or pattern")
    dimension: int = Field(gt=0, description="hashed dimension")


class LibsvmInput(Section):
    """LIBSVM text."""

    layout: Literal["libsvm"]
    path: Location = Field(description="file, directory or pattern")
    dimension: int | None = Field(None, gt=0, description="found by an extra pass where not given")


class PlainInput(Section):
    """Named columns of any source."""

    layout: Literal["plain"]
    source: Source
    label: str = Field(description="label column; its values are kept")
    numeric: list[str] = Field(default_factory=list, description="columns of numbers or booleans")
    categorical: list[str] = Field(default_factory=list, description="columns to hash")
    dimension: int = Field(2**18, gt=0, description="hashed dimension of the categoricals")


class SyntheticInput(Section):
    """Click data with planted weights."""

    layout: Literal["synthetic"]
    rows: int = Field(gt=0, description="number of rows")
    dimension: int = Field(gt=0, description="hashed dimension")
    positiveRate: float = Field(0.05, gt=0, lt=1, description="share of positive rows")
    ceiling: float = Field(0.8, ge=0.51, le=0.99, description="best AUC that a model can reach")
    seed: int = Field(0, description="seed of rows and weights")


class Split(Section):
    """How rows are divided into the parts train and test."""

    by: Literal["key", "position", "time"] = Field(description="what decides a row's part")
    train: int | float = Field(0.8, gt=0, description="share, or number of first rows (position)")
    column: str | None = Field(None, description="key or time column")
    before: datetime | None = Field(None, description="moment before which rows train (time)")
    seed: int = Field(0, description="seed of the hash (key)")

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

    regParam: float | None = Field(None, ge=0, description="not given: chosen on held-out folds")
    elasticNetParam: float = Field(0.0, ge=0, le=1)
    estimator: Literal["exact", "paired", "complete"] = Field("exact", description="which pairs")
    numPairs: int | Literal["auto"] = Field("auto", description="draws of each class")
    batchSize: int = Field(1024, ge=1, description="draws of a round")
    pairTol: float = Field(1e-3, gt=0, description="what numPairs: auto may cost the objective")
    seed: int = 0
    standardization: bool = True
    tol: float = Field(1e-6, gt=0)
    maxIter: int = Field(1000, ge=1)
    whenNotConverged: Literal["raise", "warn"] = "raise"


class Select(Section):
    """Penalties to choose from by held-out folds: the Params of MBASelector."""

    regParams: list[float] | None = Field(None, min_length=1, description="not given: 25 values")
    elasticNetParams: list[float] = Field(default_factory=lambda: [0.0], min_length=1)
    numFolds: int = Field(5, ge=2)
    selectionRule: Literal["best", "oneStandardError"] = "best"


class Calibration(Section):
    """Rows that the model is not trained on, by which its scores become probabilities too."""

    data: Source
    method: Literal["platt", "isotonic"] = Field("platt", description="kind of calibration")
    negativeSamplingRate: float = Field(1.0, gt=0, le=1, description="share of negatives kept")


class Train(Section):
    """Rows to a model directory."""

    data: Source
    columns: Columns = Columns()
    training: Training = Training()
    select: Select | None = Field(None, description="a grid of penalties to choose from")
    calibration: Calibration | None = Field(None, description="not given: no probabilities")
    saveMoments: bool = Field(False, description="publish the pair moments with the model")
    output: Output

    @model_validator(mode="after")
    def _one_penalty(self) -> Train:
        if self.select and {"regParam", "elasticNetParam"} & self.training.model_fields_set:
            raise ValueError(
                "give either select, or regParam and elasticNetParam in training, not both"
            )
        return self

    @model_validator(mode="after")
    def _one_kind_of_folds(self) -> Train:
        if self.columns.fold and self.select and "numFolds" in self.select.model_fields_set:
            raise ValueError("give either columns.fold or select.numFolds, not both")
        return self


class Measures(Section):
    """The arguments of spark_auc.evaluate."""

    groupCol: str | None = Field(None, description="column by whose values to measure AUC too")
    level: float = Field(0.95, gt=0, lt=1, description="confidence level")
    exact: bool = Field(True, description="false: measure a histogram, with bounds on AUC")
    maxBins: int = Field(1 << 16, ge=2, description="most bins of the histogram")
    maxFPR: float = Field(0.1, gt=0, le=1, description="greatest rate of the partial AUC")
    costRatio: float = Field(1.0, gt=0, description="cost of a false negative in false positives")
    fprBudget: float = Field(0.01, ge=0, le=1, description="greatest false positive rate")


class Evaluate(Section):
    """A model and rows to AUC and a report."""

    model: Location = Field(description="directory that the train job published")
    data: Source
    measures: Measures = Measures()
    output: Output


class Score(Section):
    """A model and rows to Parquet of scores and predictions."""

    model: Location = Field(description="directory that the train job published")
    data: Source
    keep: list[str] = Field(default_factory=list, description="columns to keep with the scores")
    output: Output


class Opauc(Section):
    """Rows, at once or as they arrive, to a model directory in one pass."""

    data: Source | None = Field(None, description="needed unless stream has a source")
    columns: Columns = Columns()
    training: Training
    stream: Stream | None = Field(None, description="how --stream learns; a batch leaves it out")
    output: Output

    @model_validator(mode="after")
    def _all_pairs(self) -> Opauc:
        draws = {"estimator", "numPairs", "batchSize", "pairTol", "seed"}
        given = sorted(draws & self.training.model_fields_set) + ["key"] * bool(self.columns.key)
        given += ["fold"] * bool(self.columns.fold)
        if given or self.training.regParam is None:
            raise ValueError(f"all pairs and a regParam; set it, and leave out {given or 'draws'}")
        return self

    @model_validator(mode="after")
    def _some_rows(self) -> Opauc:
        if self.data is None and (self.stream is None or self.stream.source is None):
            raise ValueError("data, or a stream that has a source; add one")
        return self


class Stop(Section):
    """When further stages are not worth their time."""

    within: float = Field(0.1, gt=0, description="move of AUC, in half widths of its interval")
    stages: int = Field(2, ge=1, description="stages in a row that move it by less")


class StagesTraining(Section):
    """The Params of AdaDSGClassifier."""

    stepSize: float | None = Field(None, gt=0)
    penalty: float | None = Field(None, ge=0)
    firstStage: int = Field(256, ge=1)
    stages: int | None = Field(None, ge=1)
    blockSize: int = Field(65_536, ge=1)
    standardization: bool = True
    parallelism: Literal["sequential", "distributed"] = "sequential"
    orderCol: str | None = None
    seed: int = Field(0, ge=0)


class Adadsg(Section):
    """Rows to a model directory in doubling stages."""

    data: Source
    validation: Source = Field(description="rows by whose AUC stages are followed")
    columns: Columns = Columns()
    training: StagesTraining = StagesTraining()
    stop: Stop | None = Field(Stop(), description="null: no stage is left out")
    checkpoint: Location = Field(description="directory of what the last stage left")
    output: Output

    @model_validator(mode="after")
    def _no_folds(self) -> Adadsg:
        if self.columns.fold:
            raise ValueError("no penalty is chosen on folds; leave out columns.fold")
        return self


class Configuration(Section):
    """A whole configuration file."""

    spark: SparkSection = SparkSection()
    prepare: Prepare | None = None
    train: Train | None = None
    evaluate: Evaluate | None = None
    score: Score | None = None
    opauc: Opauc | None = None
    adadsg: Adadsg | None = None
