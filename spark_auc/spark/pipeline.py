"""Raw rows to scores: a recipe, embeddings, a ranker and a calibration as one stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from pyspark.ml import Estimator, Model
from pyspark.sql import DataFrame

from spark_auc.errors import ConfigError
from spark_auc.features.recipe import Recipe
from spark_auc.spark.data.features import Features
from spark_auc.spark.data.raw_features import RawFeatures
from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
from spark_auc.spark.estimators.ranker import RankerEstimator
from spark_auc.spark.evaluation.calibrate import ScoreCalibrationModel
from spark_auc.spark.features.embedding import EmbeddingEstimator, EmbeddingModel
from spark_auc.spark.features.recipe import FeatureRecipe, FeatureRecipeModel
from spark_auc.spark.features.token_sample import token_names
from spark_auc.spark.persistence import Stage

if TYPE_CHECKING:
    from pyspark.ml._typing import ParamMap

_RECIPE, _EMBEDDING, _RANKER, _CALIBRATION = "recipe", "embedding", "ranker", "calibration"
# Params of a ranker that name columns other than features and label.
_OTHERS = ("weightCol", "keyCol", "foldCol", "orderCol")

Fitted: TypeAlias = FeatureRecipeModel | EmbeddingModel | LinearRankerModel | ScoreCalibrationModel


class RankerPipelineModel(Stage, Model):
    """Adds scores and predictions to raw rows; made by the ``fit`` of a `RankerPipeline`.

    The task that reads a row maps and scores it: no column of features is made.

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
    def stages(self) -> list[Fitted]:
        """All stages, in order."""
        parts: list[Fitted | None] = [self._recipe, *self.embeddings, self._ranker]
        return [part for part in [*parts, self.calibration] if part is not None]

    def calibrated(self, calibration: ScoreCalibrationModel) -> RankerPipelineModel:
        """The pipeline with a calibration."""
        return RankerPipelineModel(self.ranker, self._recipe, self.embeddings, calibration)

    def features(self, dataset: DataFrame) -> Features:
        """The features of a DataFrame's rows.

        Raises
        ------
        ConfigError
            A column is missing.
        DataError
            A column has another type, or the features have another number.
        """
        first = self._recipe or next(iter(self.embeddings), self.ranker)
        features: Features = first.input_features(dataset)
        for embedding in self.embeddings:
            features = embedding.features(features)
        return features

    def _transform(self, dataset: DataFrame) -> DataFrame:
        scored = self.ranker.scored(dataset, self.features(dataset))
        return self.calibration.transform(scored) if self.calibration else scored

    def _parts(self) -> Mapping[str, Stage]:
        embeddings = {f"{_EMBEDDING}{k}": e for k, e in enumerate(self.embeddings, 1)}
        parts: dict[str, Stage | None] = {_RECIPE: self._recipe, **embeddings}
        parts |= {_RANKER: self._ranker, _CALIBRATION: self.calibration}
        return {name: part for name, part in parts.items() if part is not None}

    @classmethod
    def _part(cls, name: str) -> type[Stage]:
        kinds: dict[str, type[Stage]] = {
            _RECIPE: FeatureRecipeModel,
            _EMBEDDING: EmbeddingModel,
            _RANKER: LinearRankerModel,
            _CALIBRATION: ScoreCalibrationModel,
        }
        return kinds[name.rstrip("0123456789")]

    def _loaded(self, table: pa.Table, facts: dict[str, Any]) -> None:
        parts = dict(facts["parts"])
        self._ranker, self._recipe = parts.pop(_RANKER), parts.pop(_RECIPE, None)
        self.calibration = parts.pop(_CALIBRATION, None)
        names = [f"{_EMBEDDING}{k}" for k in range(1, 1 + len(parts))]
        self.embeddings = tuple(parts[name] for name in names)


class RankerPipeline(Estimator[RankerPipelineModel]):
    """Trains a ranker on raw rows: a recipe, embeddings and the ranker, fitted in this order.

    Each stage maps and learns the rows inside the tasks that read them, so that no table of
    features is written and no column of features is made. Columns of features that the stages'
    Params name have no effect, except those of the first stage without a recipe.

    Parameters
    ----------
    stages
        A `FeatureRecipe`, a fitted `FeatureRecipeModel` or neither, embeddings such as
        `NystroemEmbedding` (any number), and an estimator of a linear ranker such as
        `MBAClassifier`.

    Raises
    ------
    ConfigError
        The stages are others, or in another order.

    Examples
    --------
    >>> from spark_auc import FeatureRecipe, MBAClassifier, RankerPipeline
    >>> pipeline = RankerPipeline([FeatureRecipe(), MBAClassifier(regParam=0.1)])
    >>> [type(stage).__name__ for stage in pipeline.fit(rows).stages]
    ['FeatureRecipeModel', 'LinearRankerModel']
    """

    def __init__(self, stages: Sequence[Any]) -> None:
        super().__init__()
        names = [type(stage).__name__ for stage in stages]
        rest = list(stages)
        recipes = FeatureRecipe | FeatureRecipeModel
        recipe = rest.pop(0) if isinstance(next(iter(stages), None), recipes) else None
        ranker = rest.pop() if rest else None
        if not isinstance(ranker, RankerEstimator) or not all(
            isinstance(stage, EmbeddingEstimator) for stage in rest
        ):
            raise ConfigError(
                f"found stages {names}, expected a FeatureRecipe or none, embeddings, and an "
                "estimator of a linear ranker; change the stages"
            )
        self.recipe: FeatureRecipe | FeatureRecipeModel | None = recipe
        self.embeddings: list[EmbeddingEstimator] = rest
        self.ranker: RankerEstimator = ranker

    @property
    def stages(
        self,
    ) -> list[FeatureRecipe | FeatureRecipeModel | EmbeddingEstimator | RankerEstimator]:
        """All stages, in order."""
        return [*([self.recipe] if self.recipe else []), *self.embeddings, self.ranker]

    def copy(self, extra: ParamMap | None = None) -> RankerPipeline:
        """A pipeline of copies of the stages, with other values of their Params."""
        return RankerPipeline([stage.copy(extra) for stage in self.stages])

    def _fit(self, dataset: DataFrame) -> RankerPipelineModel:
        for stage in self.stages:
            stage.check()
        features: Features | None = None
        recipe = self.fitted_recipe(dataset)
        if recipe:
            features = recipe.input_features(dataset)
        embeddings = []
        for stage in self.embeddings:
            features = features or stage.input_features(dataset)
            made = stage.fitted(dataset, features)
            features = made.features(features)
            embeddings.append(made)
        ranker = self.ranker.fitted(dataset, features)
        if isinstance(self.recipe, FeatureRecipe) and isinstance(features, RawFeatures):
            ranker = self._named(dataset, features, ranker)
        return RankerPipelineModel(ranker, recipe, embeddings)

    def _named(
        self, dataset: DataFrame, features: RawFeatures, ranker: LinearRankerModel
    ) -> LinearRankerModel:
        """The ranker with tokens as names of hashed features, if the recipe asks for them."""
        assert self.recipe is not None
        if not self.recipe.values()["tokenNames"]:
            return ranker
        names = [weight.feature for weight in ranker.summary.largest_weights]
        rows = sum(ranker.summary.rows.values())
        return ranker.renamed(token_names(dataset, features, names, rows))

    def fitted_recipe(self, dataset: DataFrame) -> FeatureRecipeModel | None:
        """The recipe, fitted to the rows of a DataFrame unless it is fitted."""
        if not isinstance(self.recipe, FeatureRecipe):
            return self.recipe
        values = self.ranker.values()
        label = values["labelCol"], values["positiveLabel"]
        others = [values[name] for name in _OTHERS if values.get(name)]
        return self.recipe.fitted(dataset, label, others)
