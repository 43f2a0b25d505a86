"""Fitted recipes, rankers and pipelines of plain values, saved as Spark ML's stages are."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa

from spark_auc.core.evaluation.report import AUCReport
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.products import settled_scores
from spark_auc.core.types import Float
from spark_auc.features.drift import Drift
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_json import to_json
from spark_auc.pipeline.evaluation import evaluated
from spark_auc.pipeline.prior_settings import NamedWeights
from spark_auc.pipeline.ranker_settings import LinearRankerSettings
from spark_auc.pipeline.recipe_ranker import named_weights
from spark_auc.pipeline.score_columns import ScoreColumns
from spark_auc.pipeline.settings import declared
from spark_auc.publication.directory import Directory
from spark_auc.serving.linear_scorer import LinearScorer, SegmentScorer
from spark_auc.serving.ranker import ServedRanker
from spark_auc.serving.stored_stage import VERSION, StoredStage, hash_of, seal
from spark_auc.tables.features import Features, PreparedFeatures
from spark_auc.tables.raw_features import RawFeatures
from spark_auc.tables.segments import SegmentColumn
from spark_auc.tables.table import Batches, Table, field_of
from spark_auc.training.segments import SegmentRankers
from spark_auc.training.summary import TrainingSummary

# The oldest version of Spark whose Params have the form of the metadata.
_SPARK = "4.1.0"
_SCORE = "rawPrediction"


@dataclass(frozen=True)
class FittedRecipe:
    """A fitted recipe (`RecipeModel`).

    Parameters
    ----------
    recipe
        The map of raw columns.
    drift
        Counts of the rows of its fit; None if they are unknown.
    """

    recipe: Recipe
    drift: Drift | None = None

    def replaced(self, recipe: Recipe, drift: Drift | None) -> FittedRecipe:
        """See `RecipeModel.replaced`."""
        return FittedRecipe(recipe, drift)

    def input_features(self, table: Table) -> RawFeatures:
        """See `RecipeModel.input_features`."""
        return RawFeatures.of(table, self.recipe)

    def stored(self) -> StoredStage:
        """What is saved of it."""
        columns: dict[str, Any] = {"recipe": [to_json(self.recipe)]}
        if self.drift:
            columns["drift"] = [self.drift.to_bytes()]
        kind = "spark_auc.spark.features.recipe_model.FeatureRecipeModel"
        return _stage(kind, {}, {"outputCol": "features"}, pa.table(columns))


@dataclass(frozen=True, eq=False)
class Ranker:
    """A fitted linear ranker (`RankerModel`).

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

    @property
    def numFeatures(self) -> int:
        """Number of features, as Spark ML's models name it."""
        return int(self.scorer.w.size)

    def getThreshold(self) -> float:
        """Scores at or above it are predicted positive."""
        return self.scorer.threshold

    def with_values(self, **values: Any) -> Ranker:
        """The ranker with other values of some settings."""
        known = {name: value for name, value in values.items() if name in _DECLARED}
        return replace(self, given={**self.given, **known})

    def with_summary(self, summary: TrainingSummary) -> Ranker:
        """See `RankerModel.with_summary`."""
        return replace(self, summary=summary)

    def renamed(self, names: Mapping[str, str]) -> Ranker:
        """See `RankerModel.renamed`."""
        return self.with_summary(self.summary.renamed(names))

    def with_segments(self, column: str, made: SegmentRankers) -> Ranker:
        """See `RankerModel.with_segments`."""
        summary = replace(self.summary, segments={"column": column, **made.selection})
        scorer = self.scorer
        if made.weights is not None:
            segments = SegmentScorer(column, made.weights)
            scorer = replace(scorer, segments=segments, threshold=made.threshold)
        return replace(self, summary=summary, scorer=scorer)

    def named_weights(self) -> NamedWeights:
        """Weights of raw features, and their names; with segments, of the ranker of all rows."""
        return NamedWeights(self.scorer.w, self.scorer.names)

    def stored(self) -> StoredStage:
        """What is saved of it."""
        table, facts = self.scorer.saved()
        defaults = {n: v for n, v in self.values().items() if v is not None and n not in self.given}
        given = {name: value for name, value in self.given.items() if value is not None}
        kind = "spark_auc.spark.estimators.linear_ranker.LinearRankerModel"
        facts = facts | {"summary": self.summary.as_dict()}
        return _stage(kind, given, defaults, table, facts)


_DECLARED = declared(LinearRankerSettings)


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
    """

    ranker: Ranker
    fitted_recipe: FittedRecipe | None = None
    embeddings: Sequence[Any] = ()

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
        else:
            size = None if self.embeddings else self.ranker.scorer.w.size
            columns = self.ranker.values()["featuresCol"]
            features = PreparedFeatures.resolve(table, columns, size)
        for embedding in self.embeddings:
            features = embedding.features(features)
        return features

    def scored(self, table: Table, keep: Sequence[str] = ()) -> Table:
        """The scores of rows, and some of their columns.

        Parameters
        ----------
        table
            The rows.
        keep
            Names of columns that stay beside the column of scores, ``rawPrediction``.
        """
        features, scorer = self.features(table), self.ranker.scorer
        width, segments = len(features.columns), scorer.segments
        names, segment = [*features.columns], None
        if segments is not None:
            segment = SegmentColumn(segments.column, segments.weights.values)
            segment.check(table)
            names.append(field_of(table, segments.column).name)
        count = len(names)
        selected = table.select([*names, *keep])
        score = pa.field(self.ranker.values()["rawPredictionCol"], pa.float64())
        schema = pa.schema([score, *list(selected.schema)[count:]])

        def scores(batch: pa.RecordBatch) -> Float:
            X = features.decode(batch.columns[:width])
            if segments is None or segment is None:
                return settled_scores(X, scorer.w)
            return np.asarray(segments.weights.scores(X, segment.numbers(batch.column(width))))

        def run(batches: Batches) -> Batches:
            for batch in batches:
                arrays = [pa.array(scores(batch)), *batch.columns[count:]]
                yield pa.RecordBatch.from_arrays(arrays, schema.names)

        return selected.map(run, schema)

    def evaluate(self, table: Table, **measures: Any) -> AUCReport:
        """Score labelled rows, and measure the scores; see `spark_auc.evaluate`."""
        values, group = self.ranker.values(), measures.get("groupCol")
        label, weight = values["labelCol"], values["weightCol"]
        columns = ScoreColumns(
            values["rawPredictionCol"], label, self.ranker.scorer.positive, weight
        )
        keep = [name for name in (label, weight, group) if name]
        return evaluated(self.scored(table, list(dict.fromkeys(keep))), columns, **measures)

    def stored(self) -> StoredStage:
        """What is saved of it."""
        parts = {"ranker": self.ranker.stored()}
        if self.fitted_recipe is not None:
            parts = {"recipe": self.fitted_recipe.stored(), **parts}
        kind = "spark_auc.spark.pipeline_model.RankerPipelineModel"
        uids = {name: part.metadata["uid"] for name, part in parts.items()}
        return _stage(kind, {}, {}, None, {"parts": uids}, parts)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model, for `spark_auc.load` and ``RankerPipelineModel.load`` to read."""
        self.stored().write(Directory.of(str(path)))

    def served(self) -> ServedRanker:
        """The ranker of single rows, pandas and Arrow tables."""
        return ServedRanker.of(self.stored())


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
