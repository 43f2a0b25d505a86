"""The estimators of plain values: recipes, rankers and pipelines on tables of any engine."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.errors import ConvergenceError, ResourceError
from spark_auc.features.auto_rules import Decision
from spark_auc.features.drift import Drift
from spark_auc.features.recipe import Recipe
from spark_auc.pipeline.has_settings import Settled
from spark_auc.pipeline.hinge_fit import HingeFit, RankSVMSettings
from spark_auc.pipeline.method_fit import ADDED, MethodFit
from spark_auc.pipeline.models import (
    FittedEmbedding,
    FittedRecipe,
    PipelineModel,
    Ranker,
    plain_ranker,
)
from spark_auc.pipeline.pair_moments_fit import PairMomentsFit
from spark_auc.pipeline.pipeline_fit import PipelineFit
from spark_auc.pipeline.prior_settings import NamedWeights
from spark_auc.pipeline.ranker_fit import RankerFit
from spark_auc.pipeline.ranker_settings import MBAClassifierSettings, MBASelectorSettings
from spark_auc.pipeline.recipe_estimator import LabelledRecipeSettings, RecipeFit
from spark_auc.pipeline.same_rows import SameRows
from spark_auc.serving.linear_scorer import LinearScorer
from spark_auc.serving.load import load
from spark_auc.tables.table import Table
from spark_auc.training.summary import TrainingSummary

_log = logging.getLogger(__name__)


class RecipeEstimator(RecipeFit, Settled, settings=LabelledRecipeSettings, public="FeatureRecipe"):
    """Fits a recipe; see `spark_auc.FeatureRecipe`."""

    def recipe_model(
        self, recipe: Recipe, drift: Drift | None, decisions: tuple[Decision, ...]
    ) -> FittedRecipe:
        """See `RecipeFit.recipe_model`."""
        return FittedRecipe(recipe, drift, decisions)


class SavedRanker:
    """A saved ranker as a prior (`FittedRanker`).

    Parameters
    ----------
    path
        Where it was saved or published.
    """

    def __init__(self, path: str) -> None:
        self._ranker = load(path)

    def named_weights(self) -> NamedWeights:
        """See `FittedRanker.named_weights`."""
        scorer = self._ranker.scorer
        return NamedWeights(scorer.w, scorer.names, self._ranker.recipe)


class PlainRanker(RankerFit, Settled):
    """Fits a ranker of plain values."""

    def ranker_model(
        self, scorer: LinearScorer, summary: TrainingSummary, moments: PairMoments | None
    ) -> Ranker:
        """See `RankerFit.ranker_model`."""
        return Ranker(scorer, summary, moments).with_values(**self._given)

    def loaded_prior(self, path: str) -> SavedRanker:
        """See `RankerFit.loaded_prior`."""
        return SavedRanker(path)


class MBAEstimator(
    PairMomentsFit, PlainRanker, settings=MBAClassifierSettings, public="MBAClassifier"
):
    """Fits the squared loss of all pairs; see `spark_auc.MBAClassifier`."""


class MBASelectingEstimator(
    PairMomentsFit, PlainRanker, settings=MBASelectorSettings, public="MBASelector"
):
    """Fits the best of a grid of penalties; see `spark_auc.MBASelector`."""


class HingeEstimator(HingeFit, PlainRanker, settings=RankSVMSettings, public="RankSVMClassifier"):
    """Fits the squared hinge of all pairs; see `spark_auc.RankSVMClassifier`."""


class PipelineEstimator(PipelineFit):
    """Fits a recipe and a ranker; see `spark_auc.RankerPipeline`."""

    def __init__(self, stages: Sequence[Any]) -> None:
        self._take(stages)

    def pipeline_model(
        self, ranker: Any, recipe: Any, embeddings: Sequence[Any] = ()
    ) -> PipelineModel:
        """See `PipelineFit.pipeline_model`; stages of Spark's become plain values."""
        made = [FittedEmbedding.of(embedding) for embedding in embeddings]
        return PipelineModel(plain_ranker(ranker), recipe, made)

    def fitted_again(self, model: PipelineModel, table: Table) -> PipelineModel:
        """The model of more rows, with the recipe, the embeddings and the penalty of a fit.

        Trees that grew from all rows of the fit grow again. Where memory does not suffice or a
        solver does not reach its tolerance, the model stays that of the fit, which the log says.

        Parameters
        ----------
        model
            The fit.
        table
            Its rows and others.
        """
        try:
            return self.named(table, self._again(model, table))
        except (ConvergenceError, ResourceError) as error:
            return _kept(model, error)

    def _again(self, model: PipelineModel, table: Table) -> PipelineModel:
        penalty = [model.summary.candidate] if self.learner.selects else []
        if same_rows := SameRows.of(self.recipe, self.embeddings, self.ranker):
            recipe, ranker = same_rows.fitted(table, *penalty)
            return _with(model, ranker, recipe)
        features: Any = None
        if model.fitted_recipe is not None:
            features = model.fitted_recipe.input_features(table).for_training(of_fit=True)
        for embedding in model.embeddings:
            features = embedding.features(features or embedding.input_features(table))
        return _with(model, self.learner.fitted(table, features, *penalty))


class MethodEstimator(MethodFit):
    """Fits the best of several models of a recipe's blocks; see `MethodFit`."""

    HINGE = HingeEstimator

    def __init__(
        self,
        recipe: Any,
        ranker: MBAEstimator | None = None,
        added: Collection[str] = ADDED,
        budget: float | None = None,
    ) -> None:
        prepared = self._prepared(recipe, ranker or MBAEstimator(), added, budget)
        self.pipeline: PipelineEstimator = PipelineEstimator(prepared)

    def fitted_again(self, model: PipelineModel, table: Table) -> PipelineModel:
        """See `PipelineEstimator.fitted_again`; the candidate is that of the fit too."""
        fitted = model.fitted_recipe
        assert fitted is not None, "a choice of methods has a recipe"
        if "methods" not in (model.summary.selection or {}):
            return self.pipeline.fitted_again(model, table)
        features = fitted.input_features(table)
        try:
            recipe, ranker = self.trained_again(table, features, model.summary)
        except (ConvergenceError, ResourceError) as error:
            return _kept(model, error)
        made = _with(model, ranker, fitted.replaced(recipe, fitted.drift))
        return self.pipeline.named(table, made)


def _kept(model: PipelineModel, error: Exception) -> PipelineModel:
    _log.warning("the rows that were held out do not train: %s", error)
    return model


def _with(model: PipelineModel, ranker: Any, recipe: Any = None) -> PipelineModel:
    """A model with the ranker of other rows, which keeps how its penalty was chosen."""
    plain = plain_ranker(ranker)
    kept = replace(plain.summary, selection=model.summary.selection)
    return replace(
        model, ranker=plain.with_summary(kept), fitted_recipe=recipe or model.fitted_recipe
    )
