"""Raw rows to scores: a fitted recipe, embeddings, a ranker and a calibration as one stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.ml import Model
from pyspark.ml.param import Param
from pyspark.sql import DataFrame

from spark_auc.core import html
from spark_auc.core.evaluation.report import AUCReport
from spark_auc.features.recipe import Recipe
from spark_auc.pipeline.prior_settings import NamedWeights
from spark_auc.pipeline.recipe_ranker import named_weights
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
from spark_auc.spark.evaluation.calibrate import ScoreCalibrationModel
from spark_auc.spark.features.embedding import EmbeddingModel
from spark_auc.spark.features.recipe_model import FeatureRecipeModel
from spark_auc.spark.persistence import ModelStage, Stage
from spark_auc.tables.features import Features
from spark_auc.tables.table import Table

RECIPE, EMBEDDING, RANKER, CALIBRATION = "recipe", "embedding", "ranker", "calibration"

Fitted: TypeAlias = FeatureRecipeModel | EmbeddingModel | LinearRankerModel | ScoreCalibrationModel


class RankerPipelineModel(ModelStage, Model):
    """Adds scores and predictions to raw rows; made by the ``fit`` of a `RankerPipeline`.

    The task that reads a row maps and scores it: no column of features is made. Params are those of
    the stages, such as ``model.ranker.setThreshold``; rawPredictionCol, handleInvalid and
    vectorOutput of the ranker hold for the calibration too.

    Parameters
    ----------
    ranker
        The ranker.
    recipe
        The map of raw columns. Default: the ranker or the first embedding takes the columns that
        its Params name.
    embeddings
        The maps between the recipe and the ranker, in order.
    calibration
        The map of scores to probabilities. Default: none.

    Examples
    --------
    >>> from spark_auc import FeatureRecipe, MBAClassifier, RankerPipeline
    >>> pipeline = RankerPipeline([FeatureRecipe(), MBAClassifier(regParam=0.1)])
    >>> model = pipeline.fit(rows)
    >>> model.transform(rows).select("rawPrediction", "prediction").columns
    ['rawPrediction', 'prediction']
    """

    def __init__(
        self,
        ranker: LinearRankerModel | None = None,
        recipe: FeatureRecipeModel | None = None,
        embeddings: Sequence[EmbeddingModel] = (),
        calibration: ScoreCalibrationModel | None = None,
    ) -> None:
        super().__init__()
        self._ranker = ranker
        self._recipe = recipe
        self.embeddings = tuple(embeddings)
        self.calibration = calibration

    @property
    def ranker(self) -> LinearRankerModel:
        """The ranker."""
        assert self._ranker is not None, "a RankerPipelineModel is made by fit() or load()"
        return self._ranker

    @property
    def recipe(self) -> Recipe | None:
        """The map of raw columns, if there is one."""
        return self._recipe.recipe if self._recipe else None

    @property
    def fitted_recipe(self) -> FeatureRecipeModel | None:
        """The recipe as a stage, with counts of the rows of its fit."""
        return self._recipe

    @property
    def stages(self) -> list[Fitted]:
        """All stages, in order."""
        parts: list[Fitted | None] = [self._recipe, *self.embeddings, self._ranker]
        return [part for part in [*parts, self.calibration] if part is not None]

    def _repr_html_(self) -> str:
        maps = [part._repr_html_() for part in (self._recipe, self.calibration) if part]
        kinds = " > ".join(type(stage).__name__ for stage in self.stages)
        return html.page(kinds, self.ranker._repr_html_(), *maps)

    def named_weights(self) -> NamedWeights:
        """See `spark_auc.pipeline.recipe_ranker.named_weights`."""
        return named_weights(self.ranker, self.recipe, len(self.embeddings))

    def calibrated(self, calibration: ScoreCalibrationModel) -> RankerPipelineModel:
        """The pipeline with a calibration."""
        return RankerPipelineModel(self.ranker, self._recipe, self.embeddings, calibration)

    def with_ranker(self, ranker: LinearRankerModel) -> RankerPipelineModel:
        """The pipeline with another ranker of the same features."""
        return RankerPipelineModel(ranker, self._recipe, self.embeddings, self.calibration)

    def features(self, table: Table) -> Features:
        """The features of a table's rows; see `PipelineModel.features`, also for the errors."""
        first = self._recipe or next(iter(self.embeddings), self.ranker)
        features: Features = first.input_features(table)
        for embedding in self.embeddings:
            features = embedding.features(features)
        return features

    def copy(self, extra: dict[Any, Any] | None = None) -> RankerPipelineModel:
        """A pipeline of copies of the stages, with other values of their Params."""
        made = RankerPipelineModel()
        made._resetUid(self.uid)
        made._assemble({name: part.copy(extra) for name, part in self._parts().items()})
        return made

    def evaluate(self, dataset: DataFrame, **measures: Any) -> AUCReport:
        """Score labelled rows, and measure the scores; see `LinearRankerModel.evaluate`."""
        model = self.beside(dataset)
        return model.ranker.measured(model.transform(dataset), **measures)

    def outputs(self) -> dict[Param[str], str]:
        """See `Stage.outputs`; those of the ranker and of the calibration."""
        return self.ranker.outputs() | (self.calibration.outputs() if self.calibration else {})

    def _transform(self, dataset: DataFrame) -> DataFrame:
        self.check_outputs(dataset)
        scored = self.ranker.scored(dataset, self.features(SparkTable(dataset)))
        if self.calibration is None:
            return scored
        of_ranker = {
            self.calibration.handleInvalid: self.ranker.getHandleInvalid(),
            self.calibration.rawPredictionCol: self.ranker.getRawPredictionCol(),
        }
        if self.ranker.getVectorOutput():
            of_ranker[self.calibration.vectorOutput] = True
        return self.calibration.transform(scored, of_ranker)

    def strings(self) -> Iterator[str]:
        """See `Stage.strings`; with those of the stages."""
        for stage in self.stages:
            yield from stage.strings()

    def _parts(self) -> Mapping[str, Stage]:
        embeddings = {f"{EMBEDDING}{k}": e for k, e in enumerate(self.embeddings, 1)}
        parts: dict[str, Stage | None] = {RECIPE: self._recipe, **embeddings}
        parts |= {RANKER: self._ranker, CALIBRATION: self.calibration}
        return {name: part for name, part in parts.items() if part is not None}

    @classmethod
    def _part(cls, name: str, facts: Mapping[str, Any]) -> type[Stage]:
        kinds: dict[str, type[Stage]] = {
            RECIPE: FeatureRecipeModel,
            EMBEDDING: EmbeddingModel,
            RANKER: LinearRankerModel,
            CALIBRATION: ScoreCalibrationModel,
        }
        return kinds[name.rstrip("0123456789")]

    def _loaded(self, table: pa.Table, facts: dict[str, Any]) -> None:
        self._assemble(dict(facts["parts"]))

    def _assemble(self, parts: dict[str, Any]) -> None:
        """Take the stages of these names; `KeyError` if there is no ranker."""
        self._ranker, self._recipe = parts.pop(RANKER), parts.pop(RECIPE, None)
        self.calibration = parts.pop(CALIBRATION, None)
        self.embeddings = tuple(parts[f"{EMBEDDING}{k}"] for k in range(1, 1 + len(parts)))
