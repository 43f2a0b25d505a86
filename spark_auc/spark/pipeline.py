"""Raw rows to scores: a recipe, embeddings, a ranker and a calibration as one stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Self

from pyspark.ml import Pipeline
from pyspark.ml.param import Param

from spark_auc.pipeline.pipeline_fit import PipelineFit
from spark_auc.spark.persistence import EstimatorStage, Stage, class_name, stage_class
from spark_auc.spark.pipeline_model import EMBEDDING, RANKER, RECIPE, RankerPipelineModel


class RankerPipeline(PipelineFit, EstimatorStage, Pipeline):  # type: ignore[misc]
    """Trains a ranker on raw rows: a recipe, embeddings and the ranker, fitted in this order.

    Each stage maps and learns the rows inside the tasks that read them, so that no table of
    features is written and no column of features is made. Columns of features that the stages'
    Params name have no effect, except those of the first stage without a recipe. A ranker of rows
    of unit length does not standardise them, unless its standardization is set.

    With growShare 1 of the recipe's trees, see `spark_auc.pipeline.same_rows`.

    Parameters
    ----------
    stages
        A `FeatureRecipe`, a fitted `FeatureRecipeModel` or neither, embeddings such as
        `NystroemEmbedding` (any number), and an estimator of a linear ranker such as
        `MBAClassifier`.

    Raises
    ------
    ConfigError
        The stages are others, or in another order; by ``fit``, pairs is "auto" and there is no
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
        self.recipe, self.embeddings, self._ranker = None, [], None
        if stages is not None:
            self.setStages(stages)

    def setStages(self, value: Sequence[Any]) -> Self:
        """Set the stages; errors as of the class."""
        self._take(value)
        return self

    @property
    def stages(self) -> list[Any]:  # type: ignore[override]
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
        made: dict[Param[str], str] = self.stages[-1].outputs()
        return made

    def pipeline_model(
        self, ranker: Any, recipe: Any, embeddings: Sequence[Any] = ()
    ) -> RankerPipelineModel:
        """See `PipelineFit.pipeline_model`."""
        return RankerPipelineModel(ranker, recipe, embeddings)

    def _parts(self) -> dict[str, Any]:
        recipe: dict[str, Any] = {RECIPE: self.recipe} if self.recipe else {}
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
