"""Raw rows to scores: a recipe, embeddings, a ranker and a calibration as one stage."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Self

from pyspark.ml import Pipeline
from pyspark.ml.param import Param
from pyspark.sql import DataFrame

from spark_auc.errors import ConfigError, ConvergenceError, ResourceError
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.spark.estimators.ranker import RankerEstimator
from spark_auc.spark.features.embedding import EmbeddingEstimator
from spark_auc.spark.features.recipe import FeatureRecipe
from spark_auc.spark.features.recipe_model import FeatureRecipeModel
from spark_auc.spark.persistence import EstimatorStage, Stage, class_name, stage_class
from spark_auc.spark.pipeline_model import EMBEDDING, RANKER, RECIPE, RankerPipelineModel
from spark_auc.spark.recipe_ranker import (
    check_knots,
    named_by_tokens,
    recipes_for,
    suited,
)
from spark_auc.spark.same_rows import SameRows
from spark_auc.tables.features import Features
from spark_auc.tables.table import Table
from spark_auc.training.knots import KnotSelection

_log = logging.getLogger(__name__)


class RankerPipeline(EstimatorStage, Pipeline):  # type: ignore[misc]
    """Trains a ranker on raw rows: a recipe, embeddings and the ranker, fitted in this order.

    Each stage maps and learns the rows inside the tasks that read them, so that no table of
    features is written and no column of features is made. Columns of features that the stages'
    Params name have no effect, except those of the first stage without a recipe. A ranker of rows
    of unit length does not standardise them, unless its standardization is set.

    With several numKnots the other stages are fitted for each number, on the same folds; rows of
    equal values of the raw columns are in one fold. The number whose chosen penalty has the best
    mean AUC on held-out folds is kept; ``ranker.summary.selection["numKnots"]`` has all. With
    growShare 1 of the recipe's trees, see `spark_auc.spark.same_rows`.

    Parameters
    ----------
    stages
        A `FeatureRecipe`, a fitted `FeatureRecipeModel` or neither, embeddings such as
        `NystroemEmbedding` (any number), and an estimator of a linear ranker such as
        `MBAClassifier`.

    Raises
    ------
    ConfigError
        The stages are others, or in another order; by ``fit``, there are several numKnots and no
        penalty to choose.

    Examples
    --------
    >>> from spark_auc import FeatureRecipe, MBAClassifier, RankerPipeline
    >>> pipeline = RankerPipeline([FeatureRecipe(), MBAClassifier(regParam=0.1)])
    >>> [type(stage).__name__ for stage in pipeline.fit(rows).stages]
    ['FeatureRecipeModel', 'LinearRankerModel']
    """

    def __init__(self, stages: Sequence[Any] | None = None) -> None:
        super().__init__()
        self.recipe: FeatureRecipe | FeatureRecipeModel | None = None
        self.embeddings: list[EmbeddingEstimator] = []
        self._ranker: RankerEstimator | None = None
        if stages is not None:
            self.setStages(stages)

    def setStages(self, value: Sequence[Any]) -> Self:
        """Set the stages; errors as of the class."""
        names = [type(stage).__name__ for stage in value]
        rest = list(value)
        recipes = FeatureRecipe | FeatureRecipeModel
        recipe = rest.pop(0) if isinstance(next(iter(value), None), recipes) else None
        ranker = rest.pop() if rest else None
        if not isinstance(ranker, RankerEstimator) or not all(
            isinstance(stage, EmbeddingEstimator) for stage in rest
        ):
            raise ConfigError(
                f"found stages {names}, expected a FeatureRecipe or none, embeddings, and an "
                "estimator of a linear ranker; change the stages"
            )
        self.recipe, self.embeddings, self._ranker = recipe, rest, ranker
        return self

    @property
    def ranker(self) -> RankerEstimator:
        """The estimator of the ranker."""
        assert self._ranker is not None, "a RankerPipeline has stages"
        return self._ranker

    @property
    def learner(self) -> RankerEstimator:
        """The ranker as it is fitted: for rows of unit length without standardization."""
        return self.ranker if self.embeddings else suited(self.ranker, self.recipe)

    @property
    def stages(  # type: ignore[override]
        self,
    ) -> list[FeatureRecipe | FeatureRecipeModel | EmbeddingEstimator | RankerEstimator]:
        """All stages, in order."""
        return [*([self.recipe] if self.recipe else []), *self.embeddings, self.ranker]

    def getStages(self) -> list[Any]:
        """All stages, in order, as Spark's pipelines have them."""
        return self.stages

    def strings(self) -> Iterator[str]:
        """See `Stage.strings`; those of the stages."""
        return chain(*(stage.strings() for stage in self.stages))

    def outputs(self) -> dict[Param[str], str]:
        """See `Stage.outputs`; those of the ranker."""
        return self.ranker.outputs()

    def check(self) -> None:
        """`ConfigError` where Params of a stage contradict each other, or those of the ranker."""
        for stage in [*self.stages[:-1], self.learner]:
            stage.check()
        if isinstance(self.recipe, FeatureRecipe):
            check_knots(self.recipe, self.learner)
        SameRows.of(self.recipe, self.embeddings, self.ranker)

    def _fit(self, dataset: DataFrame) -> RankerPipelineModel:  # type: ignore[override]
        self.check()
        self.check_outputs(dataset)
        table = SparkTable(dataset)
        if same_rows := SameRows.of(self.recipe, self.embeddings, self.ranker):
            fitted, ranker = same_rows.fitted(table)
            return self.named(table, RankerPipelineModel(ranker, fitted))
        if self.learner is not self.ranker:
            _log.info("standardization is false: the recipe gives rows of unit length")
        recipes = self.recipes(table)
        if len(recipes) > 1:
            model = self._chosen(table, recipes)
        else:
            model = self._fitted(table, next(iter(recipes.values()), None))
        return self.named(table, model)

    def _chosen(
        self, table: Table, recipes: Mapping[int, FeatureRecipeModel]
    ) -> RankerPipelineModel:
        """The pipeline of the recipe whose penalty ranks held-out rows best."""
        selection, best, failure = KnotSelection(), None, None
        for count, recipe in recipes.items():
            try:
                model = self._fitted(table, recipe, by_values=True)
            except (ConvergenceError, ResourceError) as error:
                _log.warning("%d knots are left out: %s", count, error)
                selection.leave_out(count, str(error))
                failure = error
                continue
            if selection.add(count, model.ranker.summary.selection or {}):
                best = model
            _log.info("%s", selection.sentence(-1))
        if best is None:
            assert failure is not None
            raise failure
        chosen = selection.as_dict()
        _log.info("chose %s", selection.sentence(chosen["chosen"]))
        summary = best.ranker.summary
        both = (summary.selection or {}) | {"numKnots": chosen}
        return best.with_ranker(best.ranker.with_summary(replace(summary, selection=both)))

    def _fitted(
        self,
        table: Table,
        recipe: FeatureRecipeModel | None = None,
        by_values: bool = False,
    ) -> RankerPipelineModel:
        """The pipeline of a recipe; see `RawFeatures` for ``by_values``."""
        features: Features | None = None
        if recipe:
            rows = recipe.input_features(table)
            features = rows.for_training(of_fit=recipe is not self.recipe, by_values=by_values)
        embeddings, key = [], self.ranker.values().get("keyCol")
        for stage in self.embeddings:
            features = features or stage.input_features(table)
            embeddings.append(stage.fitted_before(table, features, key))
            features = embeddings[-1].features(features)
        ranker = self.learner.fitted(table, features)
        return RankerPipelineModel(ranker, recipe, embeddings)

    def named(self, table: Table, model: RankerPipelineModel) -> RankerPipelineModel:
        """The pipeline with tokens as names of hashed features, if the recipe asks for them."""
        if not isinstance(self.recipe, FeatureRecipe) or not self.recipe.values()["tokenNames"]:
            return model
        return model.with_ranker(named_by_tokens(table, model.features(table), model.ranker))

    def recipes(self, table: Table) -> dict[int, FeatureRecipeModel]:
        """The recipes by number of knots, fitted to the rows unless the recipe is fitted."""
        return {} if self.recipe is None else recipes_for(self.ranker, table, self.recipe)

    def _parts(self) -> dict[str, Stage]:
        recipe: dict[str, Stage] = {RECIPE: self.recipe} if self.recipe else {}
        embeddings = {f"{EMBEDDING}{k}": e for k, e in enumerate(self.embeddings, 1)}
        return {**recipe, **embeddings, RANKER: self.ranker}

    def _saved(self) -> tuple[None, dict[str, Any]]:
        return None, {"classes": {n: class_name(part) for n, part in self._parts().items()}}

    @classmethod
    def _part(cls, name: str, facts: Mapping[str, Any]) -> type[Stage]:
        return stage_class(facts["classes"][name])

    def _loaded(self, table: Any, facts: dict[str, Any]) -> None:
        # In the order of `_parts`.
        self.setStages(list(facts["parts"].values()))
