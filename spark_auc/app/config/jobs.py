"""Configuration: a YAML file with a section per job, validated before Spark starts."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    Field,
    SerializeAsAny,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)

from spark_auc.app.config.features import Embedding, RecipeSection, check_columns, check_one_recipe
from spark_auc.app.config.methods import check_method
from spark_auc.app.config.moments import RowsAndMoments
from spark_auc.app.config.retraining import Retrain
from spark_auc.app.config.scoring import Score
from spark_auc.app.config.sections import DRIFT, Columns, Location, Output, Section, SparkSection
from spark_auc.app.config.sources import Layout, Source
from spark_auc.app.config.split import Split
from spark_auc.app.config.stream import Stream
from spark_auc.app.config.training import (
    estimator_class,
    params_of,
    params_section,
    settings_section,
)
from spark_auc.pipeline.online_settings import AdaDSGSettings
from spark_auc.pipeline.ranker_settings import (
    MBAClassifierSettings,
    MBASelectorSettings,
)

_LEARNER: Literal["MBAClassifier"] = "MBAClassifier"


class Prepare(Section):
    """Raw rows to Parquet of label and features, divided into train and test."""

    input: Annotated[Layout, Field(discriminator="layout")]
    split: Split | None = Field(None, description="no split: all rows are in the part train")
    output: Output


class Training(settings_section("MBAClassifier", MBAClassifierSettings)):  # type: ignore[misc]
    """The Params of MBAClassifier."""


_SELECTS = ("regParams", "elasticNetParams", "numFolds", "selectionRule")
_SINGLE = ("regParam", "elasticNetParam", "numFolds", "selectionRule")


class Select(settings_section("MBASelector", MBASelectorSettings, _SELECTS)):  # type: ignore[misc]
    """Penalties to choose from by held-out folds: the Params of MBASelector."""


class Calibration(Section):
    """Rows that the model is not trained on, by which its scores become probabilities too."""

    data: Source
    method: Literal["platt", "isotonic"] = Field("platt", description="kind of calibration")
    negativeSamplingRate: float = Field(1.0, gt=0, le=1, description="share of negatives kept")
    probabilityCol: str = Field(
        "probability", min_length=1, description="column of probabilities that the model adds"
    )


Embeddings: TypeAlias = list[Embedding]
_EMBEDDINGS = (
    "maps of the features, in order: the public name of an embedding, or package.module.Class of "
    "your own, or one of these with its Params"
)


def _known_learner(learner: str) -> str:
    if learner != _LEARNER:
        params_section("learner", learner)
    return learner


def _params_of_the_learner(
    value: Any, checked: ValidatorFunctionWrapHandler, info: ValidationInfo
) -> Any:
    learner = info.data.get("learner")
    if learner is None:
        return value
    return checked(value) if learner == _LEARNER else params_of("learner", learner, value)


class Train(RowsAndMoments):
    """Rows, stored moments or both to a model directory."""

    columns: Columns = Columns()
    features: RecipeSection | None = Field(
        None, description="raw columns to features; default: columns.features are features"
    )
    embeddings: Embeddings = Field(default_factory=list, description=_EMBEDDINGS)
    method: Literal["linear", "auto"] | None = Field(
        None,
        description="linear: choose among models of the blocks of features (single columns, pairs, "
        "crosses, leaves) and two losses, in place of learner, training and select; auto: among "
        "these and trees, which takes longer",
    )
    budget: float | None = Field(
        None,
        ge=0,
        description="seconds of counted work for the choice by method, about those of one "
        "processor: candidates that it has no room for are left out, on every machine alike; "
        "default: no limit",
    )
    learner: str = Field(
        _LEARNER,
        description="estimator: its public name, or package.module.Class of your own",
    )
    training: SerializeAsAny[Training] = Field(
        default_factory=Training, description="the Params of the learner; here of MBAClassifier"
    )
    select: Select | None = Field(None, description="a grid of penalties to choose from")
    prior: Location | None = Field(
        None,
        description="published model of other rows as the centre of the penalty; reuse its recipe "
        "by features.recipe",
    )
    calibration: Calibration | None = Field(None, description="not given: no probabilities")
    holdout: Split | None = Field(
        None, description="rows of the part test are not trained on, and are evaluated"
    )
    refit: bool = Field(
        True,
        description="publish the model of all rows: after the holdout is measured, its rows train "
        "too, with the recipe and the penalty that were chosen",
    )
    drift: bool = Field(True, description=f"{DRIFT} over the rows of holdout")
    saveMoments: bool = Field(False, description="publish the pair moments with the model")
    output: Output

    @model_validator(mode="before")
    @classmethod
    def _renamed(cls, value: Any) -> Any:
        method = value.get("method") if isinstance(value, dict) else None
        if method not in (None, "linear", "auto"):
            raise ValueError(
                "the key learner in place of method; rename it, or use method: linear or auto"
            )
        return value

    _known = field_validator("learner")(_known_learner)
    _of_the_learner = field_validator("training", mode="wrap")(_params_of_the_learner)

    @field_validator("holdout")
    @classmethod
    def _of_whole_keys(cls, split: Split | None, info: ValidationInfo) -> Split | None:
        """Rows of one key are held out together, as they are in one fold."""
        key = info.data["columns"].key if "columns" in info.data else None
        if split and split.by == "key" and split.column is None and key:
            return split.model_copy(update={"column": key})
        return split

    @model_validator(mode="after")
    def _served(self) -> Train:
        """Keys that the learner cannot serve are refused."""
        if self.learner == _LEARNER:
            return self
        if self.select:
            raise ValueError(f"select with {_LEARNER} alone; leave it out for {self.learner}")
        params = estimator_class("learner", self.learner).SETTINGS
        unused = {
            "saveMoments": self.saveMoments and "keepMoments" not in params,
            "prior": self.prior and "prior" not in params,
            **{
                f"columns.{key}": getattr(self.columns, key) and f"{key}Col" not in params
                for key in ("weight", "key", "fold")
            },
        }
        refused = [key for key, is_refused in unused.items() if is_refused]
        if refused:
            raise ValueError(f"no {', '.join(refused)} with {self.learner}; leave it out")
        return self

    @model_validator(mode="after")
    def _raw_columns(self) -> Train:
        check_columns(self.features, self.columns)
        return self

    @model_validator(mode="after")
    def _by_method(self) -> Train:
        if self.method:
            training = {f"training.{name}" for name in self.training.model_fields_set}
            keys = self.model_fields_set | training
            check_method(self.method, keys, self.features, self.columns)
        return self

    @model_validator(mode="after")
    def _one_penalty(self) -> Train:
        twice = sorted({*_SINGLE} & self.training.model_fields_set) if self.select else []
        if twice:
            raise ValueError(f"give either select, or {', '.join(twice)} in training, not both")
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
    drift: bool = Field(True, description=DRIFT)
    output: Output


class Opauc(Section):
    """Rows, at once or as they arrive, to a model directory in one pass."""

    data: Source | None = Field(None, description="needed unless stream has a source")
    columns: Columns = Columns()
    features: RecipeSection | None = Field(
        None, description="raw columns to features; for a stream a published recipe"
    )
    learner: Literal["MBAClassifier", "OPAUCClassifier", "SOLAMClassifier"] = Field(
        _LEARNER,
        description="MBAClassifier minimises over all pairs; the others take a gradient step for "
        "each row, in order (OPAUCClassifier with parallelism: sequential)",
    )
    training: SerializeAsAny[Training] = Field(description="the Params of the learner")
    prior: Location | None = Field(
        None,
        description="published model with whose weights gradient steps begin; for MBAClassifier "
        "the centre of the penalty",
    )
    drift: bool = Field(True, description=f"{DRIFT}; with features.recipe alone")
    stream: Stream | None = Field(None, description="how --stream learns; a batch leaves it out")
    output: Output

    _of_the_learner = field_validator("training", mode="wrap")(_params_of_the_learner)

    @model_validator(mode="after")
    def _all_pairs(self) -> Opauc:
        if self.learner != _LEARNER:
            return self
        low_rank = self.training.covariance == "lowRank"
        draws = {"estimator", "numPairs", "batchSize", "pairTol"}
        draws |= set() if low_rank else {"seed"}
        draws |= {"numFolds", "selectionRule", "segmentCol", "maxFPR"}
        # Keys draw random sketches, and are of the folds of stored moments.
        has_key = self.columns.key and not (low_rank or (self.stream and self.stream.store))
        given = sorted(draws & self.training.model_fields_set) + ["key"] * bool(has_key)
        given += ["fold"] * bool(self.columns.fold)
        if given or self.training.regParam is None:
            raise ValueError(f"all pairs and a regParam; set it, and leave out {given or 'draws'}")
        kind, stream = self.training.covariance, self.stream
        if kind != "full" and stream is not None and stream.store:
            raise ValueError(
                f"another covariance than {kind!r} for a stream with a store; leave out "
                "training.covariance"
            )
        return self

    @model_validator(mode="after")
    def _one_by_one(self) -> Opauc:
        if self.learner == _LEARNER:
            return self
        stream, columns = self.stream, self.columns
        unused = {
            "training.rounds": stream and self.training.rounds > 1,
            "training.parallelism: distributed": "parallelism" in self.training.model_fields_set
            and self.training.parallelism == "distributed",
            "stream.halfLife": stream and stream.halfLife,
            "columns.key": columns.key and not (stream and stream.store),
            "columns.fold": columns.fold,
            "columns.weight": columns.weight
            and "weightCol" not in estimator_class("learner", self.learner).SETTINGS,
        }
        given = [key for key, is_given in unused.items() if is_given]
        if given:
            raise ValueError(
                f"rows that are learned once, in order, by {self.learner}; leave out "
                f"{', '.join(given)}"
            )
        return self

    @model_validator(mode="after")
    def _raw_columns(self) -> Opauc:
        check_columns(self.features, self.columns)
        check_one_recipe(self.features)
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


class StagesTraining(settings_section("AdaDSGClassifier", AdaDSGSettings)):  # type: ignore[misc]
    """The Params of AdaDSGClassifier."""


class Adadsg(Section):
    """Rows to a model directory in doubling stages."""

    data: Source
    validation: Source = Field(description="rows by whose AUC stages are followed")
    columns: Columns = Columns()
    features: RecipeSection | None = Field(
        None, description="raw columns to features, of the validation rows too"
    )
    embeddings: Embeddings = Field(default_factory=list, description=_EMBEDDINGS)
    training: StagesTraining = StagesTraining()
    stop: Stop | None = Field(Stop(), description="null: no stage is left out")
    checkpoint: Location = Field(description="directory of what the last stage left")
    output: Output

    @model_validator(mode="after")
    def _no_folds(self) -> Adadsg:
        if self.columns.fold:
            raise ValueError("no penalty is chosen on folds; leave out columns.fold")
        check_columns(self.features, self.columns)
        check_one_recipe(self.features)
        return self


class Configuration(Section):
    """A whole configuration file."""

    engine: Literal["local", "spark"] | None = Field(
        None,
        description="local: this process; spark: Spark; default: train, evaluate, score and "
        "retrain read files and tables in this process where it can",
    )
    spark: SparkSection = SparkSection()
    prepare: Prepare | None = None
    train: Train | None = None
    evaluate: Evaluate | None = None
    score: Score | None = None
    opauc: Opauc | None = None
    adadsg: Adadsg | None = None
    retrain: Retrain | None = None
