"""Fitted recipes, rankers and pipelines of plain values, saved as Spark ML's stages are."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, Protocol

import pyarrow as pa

from spark_auc.core.evaluation.report import AUCReport
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.features.auto_rules import Decision
from spark_auc.features.drift import Drift
from spark_auc.features.embedding import Embedding
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_json import to_json
from spark_auc.pipeline.calibration_fit import CalibrationSettings, calibration_curve
from spark_auc.pipeline.evaluation import evaluated
from spark_auc.pipeline.prior_settings import NamedWeights
from spark_auc.pipeline.ranker_fit import RankerModel
from spark_auc.pipeline.ranker_settings import OUTPUTS, LinearRankerSettings
from spark_auc.pipeline.recipe_ranker import named_weights
from spark_auc.pipeline.score_columns import ScoreColumns
from spark_auc.pipeline.scored_rows import scored_rows
from spark_auc.pipeline.settings import declared
from spark_auc.publication.directory import Directory
from spark_auc.serving.linear_scorer import LinearScorer
from spark_auc.serving.ranker import ServedRanker
from spark_auc.serving.score_curves import Curve, saved
from spark_auc.serving.stored_stage import (
    DAMAGES,
    VERSION,
    StoredStage,
    damaged,
    hash_of,
    seal,
)
from spark_auc.tables.features import Features, PreparedFeatures
from spark_auc.tables.names import free_names
from spark_auc.tables.raw_features import EmbeddedFeatures, RawFeatures
from spark_auc.tables.table import Table
from spark_auc.training.summary import TrainingSummary

# The oldest version of Spark whose Params have the form of the metadata.
_SPARK = "4.1.0"


@dataclass(frozen=True)
class FittedRecipe:
    """A fitted recipe (`RecipeModel`).

    Parameters
    ----------
    recipe
        The map of raw columns.
    drift
        Counts of the rows of its fit; None if they are unknown.
    decisions
        What the fit decided or noticed about columns; not saved.
    """

    recipe: Recipe
    drift: Drift | None = None
    decisions: tuple[Decision, ...] = ()

    def replaced(self, recipe: Recipe, drift: Drift | None) -> FittedRecipe:
        """See `RecipeModel.replaced`."""
        return replace(self, recipe=recipe, drift=drift)

    def input_features(self, table: Table) -> RawFeatures:
        """See `RecipeModel.input_features`."""
        return RawFeatures.of(table, self.recipe)

    def stored(self) -> StoredStage:
        """What is saved of it."""
        kind = "spark_auc.spark.features.recipe_model.FeatureRecipeModel"
        return _stage(kind, {}, {"outputCol": "features"}, recipe_table(self.recipe, self.drift))


def recipe_table(recipe: Recipe, drift: Drift | None) -> pa.Table:
    """A recipe and the counts of the rows of its fit, as they are saved."""
    columns: dict[str, Any] = {"recipe": [to_json(recipe)]}
    return pa.table(columns | ({"drift": [drift.to_bytes()]} if drift else {}))


def drift_in(table: pa.Table | None) -> Drift | None:
    """The saved counts of the rows of a recipe's fit, if they are known."""
    if table is None or "drift" not in table.column_names:
        return None
    return Drift.from_bytes(table["drift"][0].as_py())


@dataclass(frozen=True, eq=False)
class Ranker(RankerModel):
    """A fitted linear ranker of plain values.

    Parameters
    ----------
    scorer
        Weights, threshold and labels.
    summary
        How it was made.
    moments
        The pair moments it was made from, if they were kept.
    given
        Values of its settings, of those that `LinearRankerSettings` declares.
    """

    scorer: LinearScorer
    summary: TrainingSummary
    moments: PairMoments | None = None
    given: Mapping[str, Any] = field(default_factory=dict)

    def values(self) -> dict[str, Any]:
        """Values of all settings by name."""
        return {name: d.setting.default for name, d in _DECLARED.items()} | dict(self.given)

    def with_values(self, **values: Any) -> Ranker:
        """The ranker with other values of some settings."""
        known = {name: value for name, value in values.items() if name in _DECLARED}
        return replace(self, given={**self.given, **known})

    def with_parts(self, scorer: LinearScorer, summary: TrainingSummary) -> Ranker:
        """See `RankerModel.with_parts`."""
        return replace(self, scorer=scorer, summary=summary)

    def stored(self) -> StoredStage:
        """What is saved of it."""
        table, facts = self.scorer.saved()
        defaults = {n: v for n, v in self.values().items() if v is not None and n not in self.given}
        given = {name: value for name, value in self.given.items() if value is not None}
        kind = "spark_auc.spark.estimators.linear_ranker.LinearRankerModel"
        facts = facts | {"summary": self.summary.as_dict()}
        return _stage(kind, given, defaults, table, facts)


_DECLARED = declared(LinearRankerSettings)


class SparkRanker(Protocol):
    """A fitted ranker of Spark's, as it is saved."""

    @property
    def moments(self) -> PairMoments | None:
        """The pair moments it was made from, if they were kept."""

    def stored(self) -> StoredStage:
        """What is saved of it."""


def plain_ranker(ranker: Ranker | SparkRanker) -> Ranker:
    """The ranker as plain values."""
    if isinstance(ranker, Ranker):
        return ranker
    plain = PipelineModel.restored(ranker.stored()).ranker
    return replace(plain, moments=ranker.moments)


class SparkEmbedding(Protocol):
    """A fitted embedding of Spark's, as it is saved."""

    @property
    def embedding(self) -> Embedding:
        """The map of rows."""

    def stored(self) -> StoredStage:
        """What is saved of it."""


@dataclass(frozen=True, eq=False)
class FittedEmbedding:
    """A saved embedding.

    Parameters
    ----------
    embedding
        The map of rows.
    stage
        The stage that has it.
    """

    embedding: Embedding
    stage: StoredStage

    @classmethod
    def of(cls, made: FittedEmbedding | SparkEmbedding) -> FittedEmbedding:
        """The embedding as plain values."""
        return made if isinstance(made, FittedEmbedding) else cls(made.embedding, made.stored())

    def input_features(self, table: Table) -> PreparedFeatures:
        """The features of a table's rows, in the columns that inputCol names."""
        size = self.embedding.input_dimension
        return PreparedFeatures.resolve(table, self.stage.params["inputCol"], size)

    def features(self, inner: Features) -> EmbeddedFeatures:
        """The embedding of features; see `EmbeddedFeatures.of`."""
        return EmbeddedFeatures.of(inner, self.embedding)


@dataclass(frozen=True, eq=False)
class Calibration:
    """A saved map from scores to probabilities.

    Parameters
    ----------
    curve
        The map.
    stage
        The stage that has it.
    probabilityCol
        Name of the column of probabilities.
    """

    curve: Curve
    stage: StoredStage
    probabilityCol: str

    @classmethod
    def of(cls, curve: Curve, **given: Any) -> Calibration:
        """A fitted map.

        Parameters
        ----------
        curve
            The map.
        given
            Values of settings, of those that `CalibrationSettings` declares.
        """
        known = {n: d.setting.default for n, d in declared(CalibrationSettings).items()}
        given = {name: value for name, value in given.items() if value is not None}
        defaults = {n: v for n, v in known.items() if v is not None and n not in given}
        kind = "spark_auc.spark.evaluation.calibrate.ScoreCalibrationModel"
        stage = _stage(kind, given, defaults, saved(curve))
        return cls(curve, stage, stage.params["probabilityCol"])


@dataclass(frozen=True, eq=False)
class PipelineModel:
    """A fitted recipe, embeddings and a ranker of the rows that they make.

    Parameters
    ----------
    ranker
        The ranker.
    fitted_recipe
        The recipe; None for features of columns.
    embeddings
        The embeddings, in order.
    calibration
        The map of scores to probabilities. Default: none.
    """

    ranker: Ranker
    fitted_recipe: FittedRecipe | None = None
    embeddings: Sequence[FittedEmbedding] = ()
    calibration: Calibration | None = None

    @classmethod
    def restored(cls, stage: StoredStage) -> PipelineModel:
        """The model that a stage was saved of.

        Raises
        ------
        ModelFormatError
            The stage is of another class, or its content is invalid.
        """
        served, parts = ServedRanker.of(stage), stage.parts or {"ranker": stage}
        ranker, recipe, curve = parts["ranker"], served.recipe, served.curve
        try:
            summary = TrainingSummary.from_dict(ranker.facts["summary"])
            given = {n: v for n, v in ranker.params.items() if _is_given(n, v)}
            fitted = (
                None if recipe is None else FittedRecipe(recipe, drift_in(parts["recipe"].table))
            )
        except (*DAMAGES, pa.ArrowException) as failure:
            raise damaged(stage.uri, "a saved ranker", failure) from None
        embeddings = [
            FittedEmbedding(made, parts[f"embedding{k}"])
            for k, made in enumerate(served.embeddings, 1)
        ]
        calibration = None
        if curve is not None:
            part = parts["calibration"]
            calibration = Calibration(curve, part, part.params["probabilityCol"])
        return cls(Ranker(served.scorer, summary, None, given), fitted, embeddings, calibration)

    @property
    def recipe(self) -> Recipe | None:
        """The map of raw columns, if there is one."""
        return None if self.fitted_recipe is None else self.fitted_recipe.recipe

    @property
    def summary(self) -> TrainingSummary:
        """How the ranker was made."""
        return self.ranker.summary

    def with_ranker(self, ranker: Ranker) -> PipelineModel:
        """The pipeline with another ranker of the same features."""
        return replace(self, ranker=ranker)

    def calibrated(
        self, table: Table, method: str, negative_sampling_rate: float, probability: str
    ) -> PipelineModel:
        """The model with a map of its scores to probabilities.

        Parameters
        ----------
        table
            Labelled rows that the ranker was not trained on.
        method, negative_sampling_rate
            See `calibration_curve`, also for the errors.
        probability
            Name of the column of probabilities.
        """
        uncalibrated = replace(self, calibration=None).beside(table)
        columns = uncalibrated.score_columns()
        scored = uncalibrated.scored(table, only=self.measured_columns())
        curve = calibration_curve(scored, columns, method, negative_sampling_rate)
        calibration = Calibration.of(
            curve,
            rawPredictionCol=self.ranker.values()["rawPredictionCol"],
            labelCol=columns.label,
            positiveLabel=columns.positive,
            weightCol=columns.weight,
            method=method,
            negativeSamplingRate=negative_sampling_rate,
            probabilityCol=probability,
        )
        return replace(self, calibration=calibration)

    def named_weights(self) -> NamedWeights:
        """See `spark_auc.pipeline.recipe_ranker.named_weights`."""
        return named_weights(self.ranker, self.recipe, len(self.embeddings))

    def features(self, table: Table) -> Features:
        """The features of a table's rows.

        Raises
        ------
        ConfigError
            A column is missing.
        DataError
            A column has another type.
        """
        if self.fitted_recipe is not None:
            features: Features = self.fitted_recipe.input_features(table)
        elif self.embeddings:
            features = self.embeddings[0].input_features(table)
        else:
            columns, size = self.ranker.values()["featuresCol"], self.ranker.numFeatures
            features = PreparedFeatures.resolve(table, columns, size)
        for embedding in self.embeddings:
            features = embedding.features(features)
        return features

    def names(self) -> list[str]:
        """Names of columns that the model may read."""
        values, segments = self.ranker.values(), self.ranker.segments
        found = [values["labelCol"], values["weightCol"], segments and segments.column]
        if self.recipe is not None:
            found += [column.name for column in self.recipe.inputs]
        else:
            first = self.embeddings[0].stage.params["inputCol"] if self.embeddings else None
            columns = first or values["featuresCol"]
            found += [columns] if isinstance(columns, str) else columns
        return [name for name in found if name]

    def outputs(self) -> dict[str, str]:
        """Names of the columns that `scored` adds, by the settings that name them."""
        values = self.ranker.values()
        names = {name: values[name] for name in OUTPUTS}
        if self.calibration is not None:
            names["probabilityCol"] = self.calibration.probabilityCol
        return names

    def with_outputs(self, names: Mapping[str, str | None]) -> PipelineModel:
        """The model with other names of the columns of `outputs`; None leaves a name."""
        given = {name: text for name, text in names.items() if text is not None}
        name, calibration = given.pop("probabilityCol", None), self.calibration
        if calibration is not None and name is not None:
            calibration = replace(calibration, probabilityCol=name)
        return replace(self, ranker=self.ranker.with_values(**given), calibration=calibration)

    def beside(self, table: Table) -> PipelineModel:
        """The model whose new columns have names that the rows do not have."""
        return self.with_outputs(free_names(table.schema.names, self.outputs()))

    def scored(
        self,
        table: Table,
        contributions: tuple[str, int] | None = None,
        only: Sequence[str] | None = None,
    ) -> Table:
        """The rows with columns of scores, predictions and, of a calibrated model, probabilities.

        Parameters
        ----------
        table
            The rows.
        contributions, only
            See `scored_rows`, also for the errors.
        """
        made = self.calibration
        return scored_rows(
            table,
            self.ranker.scorer,
            self.features(table),
            self.ranker.values(),
            threshold=self.ranker.getThreshold(),
            calibration=None if made is None else (made.probabilityCol, made.curve),
            contributions=contributions,
            only=only,
        )

    def evaluate(self, table: Table, **measures: Any) -> AUCReport:
        """Score labelled rows, and measure the scores; see `spark_auc.evaluate`."""
        model = self.beside(table)
        names = model.measured_columns(measures.get("groupCol"))
        return model.measured(model.scored(table, only=names), **measures)

    def measured_columns(self, group: str | None = None) -> list[str]:
        """Names of the columns of labels, weights and groups."""
        values = self.ranker.values()
        return [name for name in (values["labelCol"], values["weightCol"], group) if name]

    def measured(self, scored: Table, column: str | None = None, **measures: Any) -> AUCReport:
        """The evaluation of rows that have this model's scores; see `spark_auc.evaluate`.

        Parameters
        ----------
        scored
            The rows.
        column
            Name of the column of scores. Default: that of the ranker.
        measures
            Arguments of `evaluated`.
        """
        return evaluated(scored, self.score_columns(column), **measures)

    def score_columns(self, column: str | None = None) -> ScoreColumns:
        """The columns of scored rows; ``column`` has the scores, by default those of the ranker."""
        values = self.ranker.values()
        score = column or values["rawPredictionCol"]
        scorer = self.ranker.scorer
        return ScoreColumns(
            score, values["labelCol"], scorer.positive, values["weightCol"], scorer.negative
        )

    def stored(self) -> StoredStage:
        """What is saved of it."""
        parts = dict[str, StoredStage]()
        if self.fitted_recipe is not None:
            parts["recipe"] = self.fitted_recipe.stored()
        parts |= {f"embedding{k}": made.stage for k, made in enumerate(self.embeddings, 1)}
        parts["ranker"] = self.ranker.stored()
        if self.calibration is not None:
            parts["calibration"] = self.calibration.stage
        kind = "spark_auc.spark.pipeline_model.RankerPipelineModel"
        uids = {name: part.metadata["uid"] for name, part in parts.items()}
        return _stage(kind, {}, {}, None, {"parts": uids}, parts)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model, for `spark_auc.load` and ``RankerPipelineModel.load`` to read."""
        self.stored().write(Directory.of(str(path)))

    def served(self) -> ServedRanker:
        """The ranker of single rows, pandas and Arrow tables."""
        return ServedRanker.of(self.stored())


def _is_given(name: str, value: Any) -> bool:
    """Whether a saved value is that of a setting of rankers, and not its default."""
    return name in _DECLARED and value != _DECLARED[name].setting.default


def _stage(
    kind: str,
    given: Mapping[str, Any],
    defaults: Mapping[str, Any],
    table: pa.Table | None,
    facts: Mapping[str, Any] | None = None,
    parts: Mapping[str, StoredStage] | None = None,
) -> StoredStage:
    """A stage as it is saved: its class, values of its settings, table, facts and parts."""
    uid = f"{kind.rpartition('.')[2]}_{secrets.token_hex(6)}"
    noted = {"version": VERSION, **(facts or {})}
    if table is not None:
        noted["hash"] = hash_of(table)
    metadata: dict[str, Any] = {
        "class": kind,
        "timestamp": 0,
        "sparkVersion": _SPARK,
        "uid": uid,
        "paramMap": dict(given),
        "defaultParamMap": dict(defaults),
        "spark_auc": noted,
    }
    # As it is read again: numbers and keys of JSON.
    metadata = json.loads(json.dumps(metadata))
    metadata["spark_auc"]["metadata"] = seal(metadata)
    return StoredStage(uid, metadata, table, parts or {})
